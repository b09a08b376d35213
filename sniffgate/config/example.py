"""The commented example that `sniffgate init` prints: every key, written from the same list that the reader uses."""

import textwrap

from .keys import GLOBAL, LISTENERS, NODES, POOLS, Key, Table, inherits

_HEAD = """\
sniffgate: one address in front of several nodes; when the active node fails, traffic moves to the next.

Every key is here. A line that begins with "# " and a key holds the default: to change it, take the "# " away.
A time is a number of milliseconds or a string such as "200ms", "1.5s", "1m30s".
Check a file with: sniffgate check FILE. A running gateway takes changes of its file by itself, and on SIGHUP."""

# the tables of the example: what each says for itself, its other keys being shown with their defaults
_TABLES: tuple[tuple[Table, dict[str, object], str], ...] = (
    (GLOBAL, {"admin_listen": "127.0.0.1:9100"}, "For the whole gateway."),
    (
        LISTENERS,
        {"name": "web", "protocol": "tcp", "listen": "0.0.0.0:8080"},
        "A public address. Repeat the table for each; TCP and UDP are two listeners, on one port if you like.",
    ),
    (
        POOLS,
        {"name": "default"},
        "A set of nodes with its own way to fail over. Needed only where a pool differs from [global], or has a name.",
    ),
    (NODES, {"name": "node-a", "priority": 100, "tcp": "10.0.0.11:8080"}, "A backend. Repeat the table for each."),
)
_STANDBY: dict[str, object] = {"name": "node-b", "priority": 50, "tcp": "10.0.0.12:8080"}


def example() -> str:
    """A configuration that loads as it is, with each key's meaning, range, unit and default beside it."""
    import tomlkit  # only `init` and the documentation write TOML

    document = tomlkit.document()
    for line in _HEAD.splitlines():
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    for table, live, meaning in _TABLES:
        document.add(tomlkit.nl())
        written = tomlkit.table()
        for line in textwrap.wrap(meaning, 114):
            written.add(tomlkit.comment(line))
        for key in table.keys:
            written.add(tomlkit.nl())
            for line in textwrap.wrap(_explained(table, key), 114):
                written.add(tomlkit.comment(line))
            if key.name in live:
                written.add(key.name, tomlkit.item(live[key.name]))
            else:
                written.add(tomlkit.comment(f"{key.name} = {tomlkit.item(shown_value(table, key)).as_string()}"))
        if not table.is_array:
            document.add(table.header, written)
            continue
        rows = tomlkit.aot()
        rows.append(written)
        if table is NODES:
            rows.append(tomlkit.item(_STANDBY))
        document.add(table.header, rows)
    return tomlkit.dumps(document)


def shown_value(table: Table, key: Key) -> object:
    """What the example shows for a key: its default, the one that it takes from `[global]`, or a sample."""
    if inherits(table, key):
        return shown_value(GLOBAL, key)
    default = table.default(key)
    return key.sample if default is None else default


def _explained(table: Table, key: Key) -> str:
    if inherits(table, key):
        return f"{key.meaning} (as in [global] unless said here)"
    lack = key.lack if key.lack in ("", "required") else f"default: {key.lack}"
    notes = [key.unit, key.reader.range.replace("`", ""), lack]
    return f"{key.meaning} ({'; '.join(note for note in notes if note)})"
