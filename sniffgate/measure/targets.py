"""What is measured: sniffgate, the way without a gateway, and the gateways to compare with, on the same nodes."""

import contextlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import attrs

from .. import __version__
from .processes import START_WITHIN, Child, RoundFailed, script

HOST = "127.0.0.1"
DIRECT = "direct"
SNIFFGATE = "sniffgate"
MAX_CONNECTIONS = 6000  # that a peer is configured for, if the limit of open files allows
BELOW_EPHEMERAL = range(20_000, 32_000)  # Linux takes the ports of outgoing connections from above
STEP = 0.0005  # seconds between two tries to reach a gateway that starts


@attrs.frozen
class Ports:
    """Where clients reach the three nodes, on 127.0.0.1; `udp` is None where UDP is not forwarded."""

    echo: int
    sink: int
    udp: int | None


class Kind(Protocol):
    """A gateway that can be started."""

    name: str
    version: str | None
    absent: str | None  # why it cannot be measured
    forwards_udp: bool

    def command(self, folder: Path, ports: Ports, nodes: Ports, control: int) -> list[str]:
        """Writes its configuration into `folder`; the command that starts it there, in the foreground."""
        ...


@attrs.frozen
class Target:
    """One way to the nodes, open to clients; `child` is None for the direct one."""

    name: str
    ports: Ports
    child: Child | None = None
    control: int = 0
    folder: Path | None = None
    kind: Kind | None = None


class Sniffgate:
    """This gateway, in the state in which it is installed and with its defaults."""

    name = SNIFFGATE
    version: str | None = __version__
    absent: str | None = None
    forwards_udp = True

    def command(self, folder: Path, ports: Ports, nodes: Ports, control: int) -> list[str]:
        """See `Kind`."""
        (folder / "sniffgate.toml").write_text(configuration(ports, nodes, control))
        return [sys.executable, "-m", "sniffgate", "run", "-c", "sniffgate.toml"]


def configuration(ports: Ports, nodes: Ports, control: int, spare: Iterable[int] = ()) -> str:
    """A configuration for sniffgate; `spare` are priorities of nodes that serve nobody, one each."""
    text = [f'[global]\nadmin_listen = "{HOST}:{control}"\nconfig_poll_interval_ms = 60000\n']
    for pool, protocol in (("echo", "tcp"), ("sink", "tcp"), ("udp", "udp")):
        listen, node = getattr(ports, pool), getattr(nodes, pool)
        text.append(
            f'[[pools]]\nname = "{pool}"\n'
            f'[[listeners]]\nname = "{pool}"\npool = "{pool}"\nprotocol = "{protocol}"\nlisten = "{HOST}:{listen}"\n'
            f'[[nodes]]\nname = "{pool}"\npool = "{pool}"\n{protocol} = "{HOST}:{node}"\n'
        )
    for number, priority in enumerate(spare):
        text.append(
            f'[[nodes]]\nname = "spare-{number}"\npool = "echo"\nprobe = "none"\npriority = {priority}\n'
            f'tcp = "{HOST}:{nodes.echo}"\n'
        )
    return "".join(text)


class HAProxy:
    """HAProxy with one thread, splicing in both directions."""

    name = "haproxy"
    forwards_udp = False

    def __init__(self) -> None:
        self.version = version_of(["haproxy", "-v"], r"version (\S+)")
        self.absent = None if self.version else "haproxy is not installed"

    def command(self, folder: Path, ports: Ports, nodes: Ports, control: int) -> list[str]:
        """See `Kind`."""
        doors = "".join(
            f"listen {name}\n  bind {HOST}:{listen}\n  server node {HOST}:{node} check inter 1000\n"
            for name, listen, node in (("echo", ports.echo, nodes.echo), ("sink", ports.sink, nodes.sink))
        )
        (folder / "haproxy.cfg").write_text(
            f"global\n  nbthread 1\n  maxconn {most_connections()}\n"
            "defaults\n  mode tcp\n  option splice-request\n  option splice-response\n"
            f"  timeout connect 5s\n  timeout client 5m\n  timeout server 5m\n{doors}"
        )
        return ["haproxy", "-db", "-f", "haproxy.cfg"]


class Nginx:
    """The stream module of nginx with one worker."""

    name = "nginx"
    forwards_udp = True

    def __init__(self) -> None:
        self.version = version_of(["nginx", "-v"], r"nginx/(\S+)")
        self.module: str | None = None
        self.absent = self._find_stream() if self.version else "nginx is not installed"

    def _find_stream(self) -> str | None:
        built = version_of(["nginx", "-V"], r"configure arguments: (.*)") or ""
        if "--with-stream=dynamic" in built:
            folder = re.search(r"--modules-path=(\S+)", built)
            module = Path(folder[1] if folder else "/usr/lib/nginx/modules") / "ngx_stream_module.so"
            if not module.exists():
                return "nginx is installed without its stream module"
            self.module = str(module)
            return None
        return None if "--with-stream" in built.split() else "nginx is built without its stream module"

    def command(self, folder: Path, ports: Ports, nodes: Ports, control: int) -> list[str]:
        """See `Kind`."""
        doors = ""
        for listen, node, kind in (
            (ports.echo, nodes.echo, ""),
            (ports.sink, nodes.sink, ""),
            (ports.udp, nodes.udp, " udp"),
        ):
            backlog = "" if kind else " backlog=4096"
            doors += f"server {{ listen {HOST}:{listen}{kind}{backlog}; proxy_pass {HOST}:{node}; }}\n"
        (folder / "nginx.conf").write_text(
            (f"load_module {self.module};\n" if self.module else "")
            + "daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;\n"
            + f"worker_rlimit_nofile {2 * most_connections() + 400};\n"
            + f"events {{ worker_connections {2 * most_connections() + 200}; }}\n"
            # without half-close the client's end of a bulk flow would end the connection before the node's answer
            + f"stream {{ proxy_half_close on; proxy_timeout 5m;\n{doors}}}\n"
        )
        return ["nginx", "-p", f"{folder}/", "-c", "nginx.conf", "-e", "stderr"]


def version_of(command: list[str], pattern: str) -> str | None:
    """What a program says of itself; None when it is not installed."""
    if shutil.which(command[0]) is None:
        return None
    said = subprocess.run(command, capture_output=True, text=True, timeout=START_WITHIN, check=False)
    found = re.search(pattern, said.stdout + said.stderr)
    return found[1] if found else "unknown"


def most_connections() -> int:
    """How many connections any gateway can hold at once under the limit of open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, (hard - 500) * 2 // 5)  # HAProxy keeps pipes for a quarter of them as well


def free_ports(count: int) -> list[int]:
    """Ports that nothing serves now, over TCP or UDP."""
    found: list[int] = []
    start = time.monotonic_ns() // 1000 % len(BELOW_EPHEMERAL)
    for offset in range(len(BELOW_EPHEMERAL)):
        port = BELOW_EPHEMERAL[(start + offset) % len(BELOW_EPHEMERAL)]
        try:
            with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
                tcp.bind((HOST, port))
                udp.bind((HOST, port))
        except OSError:
            continue
        found.append(port)
        if len(found) == count:
            return found
    raise RoundFailed("no free ports")


@contextlib.contextmanager
def open_nodes() -> Iterator[tuple[Ports, Child]]:
    """The three nodes as processes, and which of them takes bulk."""
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(script("node.py", kind)) for kind in ("echo", "sink", "udp")]
        yield Ports(*[int(child.next_line(START_WITHIN)) for child in children]), children[1]


def start(kind: Kind, nodes: Ports, folder: Path) -> tuple[Target, float]:
    """Starts a gateway; the target, and the seconds until the first client of it had an answer from a node.

    Errors: `RoundFailed` when it does not serve.
    """
    folder.mkdir(parents=True)
    echo, sink, udp, control = free_ports(4)
    ports = Ports(echo, sink, udp if kind.forwards_udp else None)
    command = kind.command(folder, ports, nodes, control)
    began = time.perf_counter()
    child = Child(command, folder=folder)
    try:
        while not _answers(ports.echo):
            if child.process.poll() is not None or time.perf_counter() > began + START_WITHIN:
                said = (folder / "stderr.log").read_text(errors="replace").strip().splitlines()
                raise RoundFailed(f"{kind.name} does not serve: {said[-1] if said else 'it says nothing'}")
            time.sleep(STEP)
        took = time.perf_counter() - began
    except BaseException:
        child.end()
        raise
    return Target(kind.name, ports, child, control, folder, kind), took


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as conn:
            conn.sendall(b"x")
            return conn.recv(1) == b"x"
    except OSError:
        return False
