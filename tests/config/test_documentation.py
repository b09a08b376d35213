import json
import pathlib
import re

import pytest

from sniffgate.config.keys import TABLES, Key, Table, inherits
from sniffgate.config.load import load_text
from sniffgate.errors import ConfigError

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def default_of(table: Table, key: Key) -> str:
    if inherits(table, key):
        return "as in `[global]`"
    default = table.default(key)
    return key.lack if default is None else f"`{json.dumps(default)}`"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_every_key_is_documented_with_unit_default_range_and_meaning(table: Table) -> None:
    """The page is held to the list that the reader uses; a key that is gone may not stay there."""
    chapter = PAGE.partition(f"\n## `{table.title}`\n")[2].partition("\n## ")[0]
    rows = [line for line in chapter.splitlines() if line.startswith("| `")]

    assert rows == [
        f"| `{key.name}` | {key.unit} | {default_of(table, key)} | {key.reader.range} | {key.meaning} |"
        for key in table.keys
    ]


def test_the_page_s_complaints_are_the_real_ones() -> None:
    """A reader who compares should find the same words."""
    chapter = PAGE.partition("\n## Complaints\n")[2]
    broken, told = re.findall(r"```(?:toml|text)\n(.*?)```", chapter, re.DOTALL)
    with pytest.raises(ConfigError) as caught:
        load_text(broken, file="sniffgate.toml")

    assert told == f"{caught.value}\n"


def test_the_page_s_first_configuration_loads() -> None:
    """It is there to be copied."""
    (first, *_) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)

    assert () == load_text(first, file="first.toml").warnings
