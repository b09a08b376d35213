"""What a figure depends on besides the program: the machine, the kernel, the versions, the load."""

import os
import platform
import subprocess
from pathlib import Path

from .. import __version__


def describe_host() -> dict[str, object]:
    """This machine and what runs on it."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "system": platform.system(),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sniffgate": __version__,
        "commit": commit(Path(__file__).parent),
    }


def load_average() -> float:
    """Of the last minute: how many processes wanted a processor, on average."""
    return round(os.getloadavg()[0], 2)


def commit(folder: Path) -> str | None:
    """The commit that a folder is checked out from, with `+` if files in it were changed; None outside a repository.

    What lies beside it does not count: a report that is made anew does not make the program another one.
    """
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return head.strip() + ("+" if changes else "")


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
