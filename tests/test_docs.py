"""The manual is held to the code: links lead somewhere, configurations load, examples run, named tests exist."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import trio

import sniffgate
from sniffgate.config.keys import TABLES
from sniffgate.config.load import load_text
from tests.test_imports import LAW

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    [*(page for page in DOCS.rglob("*.md") if "_build" not in page.parts), *ROOT.glob("*.md")],
    key=lambda page: page.relative_to(ROOT).as_posix(),
)
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
MARKED = re.compile(r"^<!-- test: (\w+) -->\n+```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
DEMO = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/sniffgate demo"
TESTS = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox -s tests"
NO_KEYS = {"wall_ms", "within_ms", "at_ms", "now_ms"}  # of the event log, the flow log and the control port


def title(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def marked(mark: str, pages: list[Path]) -> Iterator[tuple[str, str]]:
    """Name and text of each block of code that is marked with `<!-- test: mark -->`."""
    for page in pages:
        text = page.read_text()
        for found in MARKED.finditer(text):
            if found[1] == mark:
                yield f"{title(page)}:{text.count(chr(10), 0, found.start()) + 1}", found[3]


def blocks(mark: str) -> list[object]:
    """The marked blocks as parameters of a test."""
    return [pytest.param(name, text, id=name) for name, text in marked(mark, PAGES)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Where links into the page may lead: its headings, spelt as GitHub and the manual spell them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def is_good_link(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


@cache
def test_names(path: Path) -> frozenset[str]:
    """The test functions of a module, methods included."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions))


test_names.__test__ = False  # type: ignore[attr-defined]  # its name is only about tests


def is_test(path: str, name: str) -> bool:
    return name.startswith("test_") and (ROOT / path).exists() and name in test_names(ROOT / path)


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """A manual is read by following its links."""
    links = [link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]

    assert [] == [link for link in links if not is_good_link(page, link)]


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_named_test_exists(page: Path) -> None:
    """A test that was renamed proves nothing to who looks for it."""
    assert [] == [f"{path}::{name}" for path, name in NAMED_TEST.findall(page.read_text()) if not is_test(path, name)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "control.md"], ids=title)
def test_every_named_setting_exists(page: Path) -> None:
    """Settings are renamed more easily than the sentences about them."""
    known = {key.name for table in TABLES.values() for key in table.keys} | NO_KEYS

    assert set() == set(re.findall(r"`([a-z_]+_ms)`", prose(page))) - known


@pytest.mark.parametrize(("name", "text"), blocks("config"))
def test_every_whole_configuration_loads_without_a_warning(name: str, text: str) -> None:
    """They are there to be copied."""
    assert () == load_text(text, file=name).warnings


@pytest.mark.realnet
@pytest.mark.parametrize(("name", "text"), blocks("run"))
async def test_every_example_runs(name: str, text: str) -> None:
    """Readers paste examples; a test in one is run as pytest would run it."""
    namespace: dict[str, object] = {"__name__": "example"}
    exec(compile(text, name, "exec"), namespace)
    examples = [
        each for key, each in namespace.items() if key.startswith("test_") and inspect.iscoroutinefunction(each)
    ]

    assert examples
    for example in examples:
        with trio.fail_after(20):
            await example()


def test_the_cases_of_the_field_are_numbered_without_a_gap() -> None:
    """Whoever looks for a case by its number must find it."""
    rows = re.findall(r"^\| (F\d+) \|", (DOCS / "field-cases.md").read_text(), re.MULTILINE)

    assert [f"F{number:02}" for number in range(1, len(rows) + 1)] == rows


def test_the_import_law_is_the_one_that_is_enforced() -> None:
    """The table of the architecture page and the table of the test are one."""
    page = (DOCS / "architecture.md").read_text()
    chapter = page.partition("\n## Who may import whom\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", chapter, re.MULTILINE)

    assert {part: set(re.findall(r"`([\w.]+)`", allowed)) for part, allowed in rows} == LAW


def test_every_module_of_the_rules_and_the_tasks_is_on_the_architecture_page() -> None:
    """The page says where each thing lives; a module without a line there has no place."""
    page = (DOCS / "architecture.md").read_text()
    modules = [
        f"{part}/{path.name}" for part in ("state", "tasks") for path in (ROOT / "sniffgate" / part).glob("*.py")
    ]

    assert [] == [module for module in sorted(modules) if f"`{module}`" not in page and "__init__" not in module]


def test_settings_that_are_said_to_be_unused_are_unused() -> None:
    """A page that goes on warning of what works by now is as wrong as one that keeps silent."""
    chapter = (DOCS / "failover.md").read_text().partition("\n## Settings that are read and not used yet\n")[2]
    said = set(re.findall(r"^\* `(\w+)`", chapter, re.MULTILINE))
    tasks = [path for path in (ROOT / "sniffgate" / "tasks").glob("*.py") if path.name != "tripwire.py"]
    words = {word for path in tasks for word in re.findall(r"\.(\w+)", path.read_text())}  # attributes and imports

    assert {key for key in ("hedge_delay_ms", "tripwire") if key.removesuffix("_ms") not in words} == said


def test_the_relay_that_is_said_to_be_in_use_is_the_one() -> None:
    """The decision was taken before it was carried out."""
    page = (DOCS / "decisions" / "relay-engine.md").read_text()

    assert ("EngineRelay" in (ROOT / "sniffgate" / "app.py").read_text()) == ("**Status.**" not in page)


def test_the_front_page_has_the_two_commands() -> None:
    """One shows what it does, the other that it does it."""
    page = (ROOT / "README.md").read_text()

    assert [True, True] == [command in page.splitlines() for command in (DEMO, TESTS)]


def test_the_change_log_knows_this_version() -> None:
    """A release without an entry is a riddle."""
    assert f"\n## [{sniffgate.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
