import re
import tomllib

import pytest

from sniffgate.config.example import example, shown_value
from sniffgate.config.keys import TABLES, Table
from sniffgate.config.schema import Strategy
from tests.config.sample import load

COMMENTED = re.compile(r"^# (?=[a-z_]+ = )", re.MULTILINE)


def test_the_example_loads_without_a_warning() -> None:
    """It is what people start from."""
    config = load(example())

    assert ["node-a", "node-b"] == [node.name for node in config.nodes]
    assert Strategy.PRIORITY is config.pool("default").strategy


def test_the_example_loads_with_every_comment_taken_away() -> None:
    """Each commented line is a real one."""
    text = COMMENTED.sub("", example())

    assert 2 == len(load(text).nodes)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_every_key_stands_in_the_example_with_its_default(table: Table) -> None:
    """An example that lacks a key, or shows another default, is documentation that lies."""
    live = tomllib.loads(example())[table.header]
    every = tomllib.loads(COMMENTED.sub("", example()))[table.header]
    if table.is_array:
        live, every = live[0], every[0]

    assert [key.name for key in table.keys] == list(every)
    for key in table.keys:
        if key.name not in live:
            assert shown_value(table, key) == every[key.name]
            default = table.default(key)
            assert default is None or default == every[key.name]


def test_the_example_fits_a_terminal() -> None:
    """Comments are wrapped."""
    assert 118 >= max(map(len, example().splitlines()))
