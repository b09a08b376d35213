"""A node for crowds: one thread, any number of connections, each echoed and ended when its client ends.

python crowd.py: prints its port. Dies with its parent.
"""

import contextlib
import ctypes
import resource
import selectors
import signal
import socket


def main() -> None:
    """Serves until killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    watched = selectors.DefaultSelector()
    watched.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is listener:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        conn, _ = listener.accept()
                        conn.setblocking(False)
                        watched.register(conn, selectors.EVENT_READ)
            else:
                try:
                    chunk = sock.recv(65536)
                    if chunk:
                        sock.sendall(chunk)
                        continue
                except OSError:
                    pass
                watched.unregister(sock)
                sock.close()


if __name__ == "__main__":
    main()
