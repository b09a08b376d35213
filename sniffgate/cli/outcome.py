"""How a command ends: with an exit status and at most one sentence. Whatever it ends with, no traceback is shown."""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable

INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h


def status_of(command: Callable[[], object]) -> int:
    """Runs a command and returns the exit status: what it returns if that is a number, else 0."""
    try:
        outcome = command()
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except OSError as error:
        _forget_stdout()
        return _say(1, str(error))
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            return INTERRUPTED
        return _say_bug(group)
    except Exception as error:
        return _say_bug(error)
    return outcome if isinstance(outcome, int) else 0


def _forget_stdout() -> None:
    """Lets the interpreter's last flush of a stdout that nobody takes go nowhere, instead of complaining."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(status: int, sentence: str) -> int:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"Error: {sentence}", file=sys.stderr, flush=True)
    return status


def _say_bug(error: BaseException) -> int:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return _say(INTERNAL_ERROR, f"internal error: {type(error).__name__}: {error}{where}")
