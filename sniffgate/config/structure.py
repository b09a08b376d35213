"""From TOML's values to the schema's classes, with every complaint about a table at once.

cattrs builds the classes: it renames the keys, applies each key's reader and gathers all errors of a table. It coerces
nothing here, because every key has a strict reader of its own and an unknown key is an error.
"""

from collections.abc import Iterator
from typing import Any

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from .keys import GLOBAL, LISTENERS, NODES, POOLS, TABLES, Key, PoolTable, Table
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
            try:
                found[header].append(_CONVERTER.structure(raw, table.kind))
            except cattrs.ClassValidationError as error:
                complaints += _explained(error, table, path)
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


def _explained(error: cattrs.ClassValidationError, table: Table, path: Path) -> Iterator[Complaint]:
    names = {key.attribute: key.name for key in table.keys}
    for cause in error.exceptions:
        if isinstance(cause, cattrs.ForbiddenExtraKeysError):
            for key in cause.extra_fields:
                yield Complaint((*path, key), _unknown(key, table))
            continue
        notes = [note for note in getattr(cause, "__notes__", ()) if isinstance(note, cattrs.AttributeValidationNote)]
        name = names[notes[0].name]
        if isinstance(cause, KeyError):
            yield Complaint((*path, name), f"is missing: every {table.title} needs one")
        else:
            yield Complaint((*path, name), str(cause))


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


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    for table in TABLES.values():
        overrides: dict[str, Any] = {key.attribute: _override(key) for key in table.keys}
        converter.register_structure_hook(
            table.kind,
            make_dict_structure_fn(
                table.kind,
                converter,
                _cattrs_forbid_extra_keys=True,
                _cattrs_detailed_validation=True,
                **overrides,
            ),
        )
    return converter


def _override(key: Key) -> Any:  # cattrs keeps the type's name to itself
    return override(rename=key.name, struct_hook=lambda value, _: key.reader.read(value))


_CONVERTER = _converter()
