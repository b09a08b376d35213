"""From TOML's values to the schema's classes, with every complaint about a table at once.

Nothing is coerced: every key has a strict reader of its own, and an unknown key is an error. A walk over the list of
keys is all it takes; a library for it would cost a start more than the reading does.
"""

from collections.abc import Iterator
from typing import Any

import attrs

from .keys import GLOBAL, LISTENERS, NODES, POOLS, TABLES, PoolTable, Table
from .locate import Path
from .schema import GlobalConfig, ListenerConfig, NodeConfig
from .values import nearest, show


@attrs.frozen
class Complaint:
    """Something wrong, or merely odd, with the value at `path`. `first` is another path that the sentence refers to."""

    path: Path
    message: str
    first: Path | None = None


@attrs.frozen
class Tables:
    """What the file's tables say, each kind as far as it could be read."""

    globals: GlobalConfig
    listeners: tuple[ListenerConfig, ...]
    pools: tuple[PoolTable, ...]
    nodes: tuple[NodeConfig, ...]


def read_tables(document: dict[str, object]) -> tuple[Tables, list[Complaint]]:
    """Reads every table; with complaints, the tables that caused them are missing from the result."""
    complaints = [Complaint((key,), _unknown(key, None)) for key in document if key not in TABLES]
    found: dict[str, list[Any]] = {}
    for header, table in TABLES.items():
        found[header] = []
        for path, raw in rows(document, table, complaints):
            values, wrong = _read_row(raw, table, path)
            complaints += wrong
            if not wrong:
                found[header].append(table.kind(**values))
    globals_ = found[GLOBAL.header]
    return (
        Tables(
            globals_[0] if globals_ else GlobalConfig(),
            tuple(found[LISTENERS.header]),
            tuple(found[POOLS.header]),
            tuple(found[NODES.header]),
        ),
        complaints,
    )


def rows(
    document: dict[str, object], table: Table, complaints: list[Complaint] | None = None
) -> Iterator[tuple[Path, dict[str, object]]]:
    """The raw tables of one kind, with their paths; what is no table goes to `complaints`."""
    if table.header not in document:
        return
    value = document[table.header]
    if table.is_array and not isinstance(value, list):
        wrong = f"must be an array of tables, not {show(value)}: write {table.title}"
        value = []
    elif not table.is_array and not isinstance(value, dict):
        wrong = f"must be a table, not {show(value)}: write {table.title}"
        value = []
    else:
        wrong = ""
    if wrong and complaints is not None:
        complaints.append(Complaint((table.header,), wrong))
    if isinstance(value, dict):
        yield (table.header,), value
        return
    for index, row in enumerate(value):  # type: ignore[var-annotated, arg-type]  # a list by now
        path: Path = (table.header, index)
        if isinstance(row, dict):
            yield path, row
        elif complaints is not None:
            complaints.append(Complaint(path, f"must be a table, not {show(row)}"))


def _read_row(raw: dict[str, object], table: Table, path: Path) -> tuple[dict[str, Any], list[Complaint]]:
    """What the keys of one table say, by attribute, and everything that is wrong with them."""
    values: dict[str, Any] = {}
    wrong: list[Complaint] = []
    for key in table.keys:
        if key.name not in raw:
            if key.attribute in table.required:
                wrong.append(Complaint((*path, key.name), f"is missing: every {table.title} needs one"))
            continue
        try:
            values[key.attribute] = key.reader.read(raw[key.name])
        except ValueError as error:
            wrong.append(Complaint((*path, key.name), str(error)))
    wrong += [Complaint((*path, name), _unknown(name, table)) for name in raw if name not in table.names]
    return values, wrong


def _unknown(key: str, table: Table | None) -> str:
    """`unknown key`, with the key that was most likely meant, or the table that it belongs in."""
    shown = show(key)
    others = [other for other in TABLES.values() if other is not table]
    homes = [other.title for other in others if any(known.name == key for known in other.keys)]
    if homes:
        return f"unknown key {shown} here; it belongs in {' or '.join(homes)}"
    near = nearest(key, [known.name for known in table.keys] if table else TABLES)
    if near is not None:
        return f"unknown key {shown}; did you mean {near!r}?"
    elsewhere = {known.name: other.title for other in reversed(others) for known in other.keys}
    near = nearest(key, elsewhere)
    if near is not None:
        return f"unknown key {shown} here; did you mean {near!r} of {elsewhere[near]}?"
    return f"unknown key {shown}"
