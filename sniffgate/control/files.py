"""The files that a configuration names: whether they can be used here, and where the configuration says so."""

import os

from ..config.load import fault_at
from ..config.schema import Config
from ..errors import ConfigError, Fault
from .token import read_token


def token_faults(config: Config, file: str) -> list[Fault]:
    """What is wrong with `admin_token_file`, at its line of the configuration `file`; none without a control port."""
    path = config.globals.admin_token_file
    if not (config.globals.admin_listen and path):
        return []
    try:
        read_token(path)
    except ConfigError as error:
        return [fault_at(file, ("global", "admin_token_file"), str(error))]
    return []


def event_log_faults(config: Config, file: str) -> list[Fault]:
    """One fault when the directory of `event_log` does not exist: a full disk passes, a wrong path does not."""
    path = config.globals.event_log
    directory = os.path.dirname(os.path.abspath(path))
    if not path or os.path.isdir(directory):
        return []
    return [fault_at(file, ("global", "event_log"), f"there is no directory {directory}")]


def is_for_us(path: str) -> bool:
    """Whether the token file is one that this user can judge: there, readable, and root's or the user's own."""
    try:
        return os.access(path, os.R_OK) and os.stat(path).st_uid in (0, os.geteuid())
    except (OSError, ValueError):
        return False
