"""The program on a terminal, for tests of what people see."""

import os
import pty
import subprocess

from tests.cli.process import COMMAND, SOON


def shown_on_terminal(*arguments: str) -> tuple[int, str]:
    """Runs the program to its end on a terminal; its exit status and what it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # how a terminal's end of file looks
        pass
    finally:
        os.close(ours)
    return process.wait(SOON), shown.decode()
