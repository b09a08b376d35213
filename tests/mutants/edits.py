"""Small faults that can be put into any module, found in its syntax tree: a comparison turned, a bound moved by one.

Words are left alone (messages, docstrings, names), and so are imports, annotations, decorators and type aliases. What
is left is what decides.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from types import EllipsisType

import attrs

from tests.mutants.changes import Change, changes_of

NOTHING = ""  # what stands in the place of what is left out
LONGEST = 160  # characters of source that name an edit
_LEFT_ALONE = (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.arg)
_SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "bases"})


@attrs.frozen(kw_only=True)
class Edit:
    """One fault of a module. `where`, `old`, `new` and `nth` name it across edits of other lines; `number` does not."""

    number: int
    line: int
    where: str  # class and function, "" at the top
    kind: str
    old: str
    new: str
    nth: int = 0  # among those of the same words

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from the others of its module."""
        return self.where, self.old, self.new, self.nth


@attrs.frozen
class _Place:
    """Where a node hangs: in `parent.field`, at `index` where that is a list."""

    parent: ast.AST
    field: str
    index: int | None

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


_Variant = tuple[_Place, ast.AST, Change, str]


def edits_of(source: str) -> list[Edit]:
    """Every edit of a module, numbered in the order of its text."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for number, (_, node, change, where) in enumerate(_variants(ast.parse(source))):
        left_out = change.left_out
        old, new = (_words(node), _words(change.new)) if left_out is None else (_words(left_out), NOTHING)
        line = getattr(left_out or node, "lineno", getattr(node, "lineno", 0))
        nth = seen[where, old, new]
        seen[where, old, new] += 1
        found.append(Edit(number=number, line=line, where=where, kind=change.kind, old=old, new=new, nth=nth))
    return found


def edited(source: str, number: int) -> ast.Module:
    """The module with that one edit made, ready to be compiled."""
    tree = ast.parse(source)
    for at, (place, _, change, _) in enumerate(_variants(tree)):
        if at == number:
            place.put(change.new)
            return ast.fix_missing_locations(tree)
    raise IndexError(f"there is no edit {number}")


def _words(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _variants(tree: ast.Module) -> Iterator[_Variant]:
    yield from _walk(tree, "")


def _walk(parent: ast.AST, where: str) -> Iterator[_Variant]:
    for field, value in ast.iter_fields(parent):
        if field in _SKIPPED_FIELDS:
            continue
        nodes = value if isinstance(value, list) else [value]
        for index, node in enumerate(nodes):
            if not isinstance(node, ast.AST) or isinstance(node, _LEFT_ALONE) or _is_words(node):
                continue
            place = _Place(parent, field, index if isinstance(value, list) else None)
            for change in changes_of(node, parent, field, value, index):
                yield place, node, change, where
            named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            inner = f"{where}.{node.name}".lstrip(".") if named else where  # type: ignore[attr-defined]
            yield from _walk(node, inner)


def _is_words(node: ast.AST) -> bool:
    """A docstring, an alias of types, or what is never run."""
    match node:
        case ast.Expr(value=ast.Constant(value=str() | EllipsisType()) | ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case ast.Assign(value=ast.BinOp(op=ast.BitOr()) | ast.Subscript(), targets=[ast.Name(id=name)]):
            return name.lstrip("_")[:1].isupper() and not name.isupper()
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case _:
            return False
