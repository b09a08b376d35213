"""The command line. One small module per command, imported when it is asked for.

`main` is the program's entry. Signals come first: the imports that follow take a tenth of a second or two, in which a
SIGTERM would otherwise kill the process with an error status, and as PID 1 be ignored by the kernel.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

BEGAN = time.perf_counter()  # seconds; the interpreter itself had ten milliseconds or so before
OTHER_ERRANDS = ("--check", "--cmd", "--gen-config", "--help", "--version")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status: 0 ok, 1 failed, 2 usage, 3 cannot bind, 70 internal error."""
    if arguments is None:
        arguments = sys.argv[1:]
    try:
        if starts_gateway(arguments):
            _end_quietly_when_asked()
            gc.disable()  # what is imported stays, and walking it now and then costs an eighth of the time
        path = file_to_run(arguments)
        if path is not None:
            return _run_file(path)
        from .group import run_program

        return run_program(arguments)
    except KeyboardInterrupt:
        return 130


def starts_gateway(arguments: Sequence[str]) -> bool:
    """Whether these arguments ask for a gateway, as far as can be told before they are parsed."""
    first = arguments[0] if arguments else ""
    return first == "run" or (first.startswith("-") and not any(each.startswith(OTHER_ERRANDS) for each in arguments))


def file_to_run(arguments: Sequence[str]) -> str | None:
    """The file, where all that is asked for is to run it: what unit files say, and no more than click would make of it.

    A start need not import click for that, which takes a fifteenth of it.
    """
    match arguments:
        case ["run", "-c" | "--config", path] | ["-c" | "--config", path] if path and not path.startswith("-"):
            return path
        case _:
            return None


def _run_file(path: str) -> int:
    from .outcome import status_of

    def run() -> int:
        from .process import run_process

        return run_process(path)

    return status_of(run)


def _end_quietly_when_asked() -> None:
    """Until the gateway listens to signals itself: SIGTERM and SIGINT end the process, SIGHUP finds nothing to reload.

    Nothing has been opened by then that would have to be closed, and nothing is left behind.
    """
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGHUP, _go_on)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)  # an exception would have to find its way through half-imported modules


def _go_on(_number: int, _frame: FrameType | None) -> None:
    pass
