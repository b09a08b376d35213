"""Reads a configuration file: strictly, whole, and with all its faults at once."""

import os
from collections.abc import Iterable

import attrs

from ..errors import ConfigError, Fault
from .keys import PoolTable
from .locate import Lines, Path, spelled
from .rules import cautions, check_together
from .schema import Config, GlobalConfig, PoolConfig, pool_from
from .source import decode, parse, read_file
from .structure import Complaint, read_tables

__all__ = ["fault_at", "load_file", "load_text", "read_file"]


def load_file(path: str | os.PathLike[str]) -> Config:
    """The configuration in the file at `path`. Raises ConfigError with everything that is wrong with it."""
    return load_text(read_file(path), file=os.fspath(path))


def load_text(text: str | bytes, *, file: str) -> Config:
    """The configuration that `text` is; `file` names it in complaints.

    Raises ConfigError, and nothing else, with every fault in the file's order. What is allowed but probably not
    meant is in the result's `warnings`, one line each.
    """
    text = decode(text, file)
    document = parse(text, file)
    tables, complaints = read_tables(document)
    complaints += check_together(document)
    if complaints:
        raise ConfigError(*_located(complaints, text, file))
    config = Config(
        globals=tables.globals,
        listeners=tables.listeners,
        pools=tuple(_filled(pool, tables.globals) for pool in tables.pools),
        nodes=tables.nodes,
    )
    odd = list(cautions(document, config))
    if not odd:
        return config
    return attrs.evolve(config, warnings=tuple(map(str, _located(odd, text, file))))


def fault_at(file: str, path: Path, message: str) -> Fault:
    """A fault that shows only after loading, at the line where `file` has the key `path` (0: it cannot be told).

    The file is read again for it: no good start pays for lines that only complaints need.
    """
    try:
        line = Lines(decode(read_file(file, regular=True), file)).of(path)
    except ConfigError:
        line = 0
    return Fault(file, line, spelled(path), message)


def _filled(table: PoolTable, globals_: GlobalConfig) -> PoolConfig:
    said = attrs.asdict(table, recurse=False, filter=lambda field, value: field.name != "name" and value is not None)
    return pool_from(globals_, table.name, **said)


def _located(complaints: Iterable[Complaint], text: str, file: str) -> list[Fault]:
    """The complaints as faults, in the file's order; the text is only walked when there are any."""
    lines = Lines(text)
    faults = [Fault(file, lines.of(one.path), spelled(one.path), _sentence(one, lines)) for one in complaints]
    return sorted(faults, key=lambda fault: fault.line)


def _sentence(complaint: Complaint, lines: Lines) -> str:
    if complaint.first is None:
        return complaint.message
    return f"{complaint.message} (first on line {lines.of(complaint.first)})"
