"""The import law: who may import whom, checked on every direct import."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sniffgate"
FOUNDATION = {"errors", "address"}
VERSION = "__version__"  # of the package itself, anybody's to tell
LAW = {
    "errors": set[str](),
    "address": {"errors"},
    "config": FOUNDATION,
    "state": {*FOUNDATION, "config.schema"},
    "net": FOUNDATION,
    "tasks": {*FOUNDATION, "state", "net.ports", "net.relay", "net.shortcut", "config"},
    "control": {*FOUNDATION, "tasks", "state", "config", "net.ports", "net.relay"},
    "app": {*FOUNDATION, "config", "state", "net", "tasks", "control"},
    "testing": {*FOUNDATION, "config", "state", "net", "tasks", "control", "app"},
    "simulation": {*FOUNDATION, "config", "state", "net", "tasks", "testing"},
    "measure": {*FOUNDATION, "config", "state", "net", "tasks", "control", "app", "testing"},
    "cli": {*FOUNDATION, "config", "state", "net", "tasks", "control", "app", "testing", "simulation", "measure"},
}
IMPURE = {"trio", "socket", "time", "random", "logging", "threading", "os", "datetime"}


def part_of(module: str) -> str:
    """The part of the package that a dotted module belongs to: `state.health` is of `state`."""
    return module.split(".")[0]


def modules() -> list[Path]:
    """Every module below a part; the package's own `__init__` and `__main__` only lead to them."""
    found = PACKAGE.rglob("*.py")
    return sorted(path for path in found if path.relative_to(PACKAGE).name not in ("__init__.py", "__main__.py"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names of what `path` imports: relative to the package for its own modules, top names for others."""
    module = path.relative_to(PACKAGE).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield f"/{alias.name.split('.')[0]}" if not alias.name.startswith("sniffgate") else alias.name[11:]
            case ast.ImportFrom(level=0, module=str(name)):
                yield f"/{name.split('.')[0]}" if not name.startswith("sniffgate") else name[11:]
            case ast.ImportFrom(level=level, module=name):
                base = module[:-level] if level else module
                yield from (
                    [".".join([*base, name])] if name else [".".join([*base, alias.name]) for alias in node.names]
                )
            case _:
                pass


def is_allowed(part: str, imported: str) -> bool:
    """Whether a module of `part` may import `imported`, a dotted name inside the package."""
    allowed = LAW[part]
    return part_of(imported) == part or any(imported == each or imported.startswith(each + ".") for each in allowed)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_stands_below_it(path: Path) -> None:
    """The layers are what lets each of them be read, tested and replaced alone."""
    part = part_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    inside = [name for name in imports(path) if not name.startswith("/")]

    assert [] == [name for name in inside if name not in ("", VERSION) and not is_allowed(part, name)]


@pytest.mark.parametrize("path", sorted((PACKAGE / "state").glob("*.py")), ids=lambda path: path.name)
def test_the_rules_touch_no_clock_no_network_and_no_dice(path: Path) -> None:
    """The same events must always give the same states, or a history cannot be replayed."""
    assert set() == {name[1:] for name in imports(path) if name.startswith("/")} & IMPURE


def test_the_law_sees_a_forbidden_arrow(tmp_path: Path) -> None:
    """A test that cannot fail is a defect."""
    assert not is_allowed("state", "config.load")
    assert not is_allowed("net", "tasks.hub")
    assert not is_allowed("tasks", "net.sockets")
    assert is_allowed("tasks", "net.ports")
