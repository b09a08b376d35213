"""A file to spoil, and the short way to what is wrong with a text."""

import pytest

from sniffgate.config.load import load_text
from sniffgate.config.schema import Config
from sniffgate.errors import ConfigError

GOOD = """\
[global]
log_level = "info"

[[listeners]]
name = "web"
protocol = "tcp"
listen = "127.0.0.1:8080"

[[pools]]
name = "default"

[[nodes]]
name = "node-a"
tcp = "10.0.0.11:8080"
udp = "10.0.0.11:8080"
"""

HEADERS = {"global": "[global]", "listeners": "[[listeners]]", "pools": "[[pools]]", "nodes": "[[nodes]]"}


def with_line(table: str, line: str) -> str:
    """GOOD with one more line at the head of a table; a line of that key which stands there already goes."""
    key = line.partition(" ")[0]
    before, header, after = GOOD.partition(HEADERS[table] + "\n")
    block, blank, rest = after.partition("\n\n")
    kept = [old for old in block.split("\n") if old.partition(" ")[0] != key]
    return before + header + "\n".join([line, *kept]) + blank + rest


def load(text: str | bytes) -> Config:
    """The configuration, without warnings."""
    config = load_text(text, file="f.toml")
    assert () == config.warnings
    return config


def complaints(text: str | bytes) -> list[str]:
    """Every fault of `text`, as the operator sees it."""
    with pytest.raises(ConfigError) as caught:
        load_text(text, file="f.toml")
    return [str(fault) for fault in caught.value.faults]


def complaint(text: str | bytes) -> str:
    """The only fault of `text`."""
    (only,) = complaints(text)
    return only
