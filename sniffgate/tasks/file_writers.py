"""Whether somebody is writing a file: asked of the kernel, which grants no read lease on a file open for writing.

The size and the times of a file that is written in place stand still whenever its writer pauses, and what is there by
then may well be valid. Only the kernel knows that the writer is not done.
"""

import errno
import os
import signal
import stat

try:
    import fcntl
except ImportError:  # a system without file control
    _CAN_ASK = False
else:
    _CAN_ASK = hasattr(fcntl, "F_SETLEASE") and hasattr(fcntl, "F_SETSIG")


def is_being_written(path: str) -> bool:
    """Whether a process has the regular file at `path` open for writing. Never raises and never waits.

    False too where that cannot be known: another system than Linux, a network disk without leases, a file of another
    user when we are not root (EACCES).
    """
    if not _CAN_ASK:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and _lease_is_refused(descriptor)
    finally:
        os.close(descriptor)


def _lease_is_refused(descriptor: int) -> bool:
    try:
        # whoever opens the file while the lease is held makes the kernel signal us: SIGIO, which would end the process,
        # unless another one is chosen; SIGURG is ignored by default
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)  # closing would do it too; the opener waits for it
    return False
