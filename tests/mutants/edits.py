"""Small faults that can be put into any module, found in its syntax tree: a comparison turned, a bound moved by one.

Words are left alone (messages, docstrings, names), and so are imports, annotations, decorators and type aliases. What
is left is what decides.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from types import EllipsisType

import attrs

SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitXor: (ast.BitOr,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
ENUMS: dict[str, tuple[str, ...]] = {
    "Verdict": ("UNKNOWN", "HEALTHY", "UNHEALTHY", "PROBATION"),
    "Cause": ("START", "PROBES", "TRAFFIC", "TIME"),
    "Mark": ("UP", "DOWN"),
    "RouteMode": ("NORMAL", "FAIL_OPEN", "CLOSED"),
    "SwitchReason": ("START", "FAILOVER", "FAILBACK", "REJOIN", "FAIL_OPEN", "RECOVERY", "OPERATOR", "RELOAD"),
    "FailureKind": ("REFUSED", "UNREACHABLE", "TIMEOUT", "RESET"),
    "LeaseKind": ("STANDBY", "ACTIVE", "RETIRING"),
    "Strategy": ("PRIORITY", "ROUND_ROBIN", "WEIGHTED"),
    "Failback": ("AUTO", "MANUAL"),
    "Transport": ("TCP", "UDP"),
}
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


@attrs.frozen
class _Change:
    """What stands in the place of a node; `left_out` is the part of it that is gone, where that is the whole change."""

    new: ast.AST
    kind: str
    left_out: ast.AST | None = None


_Variant = tuple[_Place, ast.AST, _Change, str]


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
            for change in _changes(node, parent, field, value, index):
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


def _changes(node: ast.AST, parent: ast.AST, field: str, siblings: object, index: int) -> Iterator[_Change]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp():
            yield from _conjunctions(node)
        case ast.BinOp() | ast.AugAssign():
            for op in SWAPS.get(type(node.op), ()):
                yield _Change(_with(node, op=op()), "operator")
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield _Change(node.operand, "sign")
        case ast.Constant():
            yield from _constants(node)
        case ast.Attribute(value=ast.Name(id=name), attr=member) if member in ENUMS.get(name, ()):
            members = ENUMS[name]
            yield _Change(_with(node, attr=members[(members.index(member) + 1) % len(members)]), "member")
        case ast.Call():
            yield from _calls(node)
        case ast.MatchOr():
            for at in range(len(node.patterns)):
                others = [each for other, each in enumerate(node.patterns) if other != at]
                new = _with(node, patterns=others) if len(others) > 1 else others[0]
                yield _Change(new, "alternative", node.patterns[at])
        case ast.comprehension():
            for at in range(len(node.ifs)):
                rest = [each for other, each in enumerate(node.ifs) if other != at]
                yield _Change(_with(node, ifs=rest), "filter", node.ifs[at])
        case _:
            pass
    if field in ("test", "guard") and not isinstance(node, ast.Compare | ast.UnaryOp) and isinstance(node, ast.expr):
        yield _Change(ast.UnaryOp(op=ast.Not(), operand=node), "negation")
    if isinstance(node, ast.stmt) and isinstance(siblings, list):
        yield from _deletions(node, parent, siblings, index)


def _comparisons(node: ast.Compare) -> Iterator[_Change]:
    for at, op in enumerate(node.ops):
        for other in SWAPS[type(op)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield _Change(_with(node, ops=ops), "comparison")


def _conjunctions(node: ast.BoolOp) -> Iterator[_Change]:
    for op in SWAPS[type(node.op)]:
        yield _Change(_with(node, op=op()), "conjunction")
    for at in range(len(node.values)):
        rest = [each for other, each in enumerate(node.values) if other != at]
        yield _Change(_with(node, values=rest) if len(rest) > 1 else rest[0], "condition")


def _constants(node: ast.Constant) -> Iterator[_Change]:
    value = node.value
    match value:
        case bool():
            yield _Change(ast.Constant(not value), "constant")
        case int() | float():
            yield _Change(ast.Constant(value + 1), "constant")
            if value >= 1:
                yield _Change(ast.Constant(value - 1), "constant")
        case "inf":
            yield _Change(ast.Constant("-inf"), "constant")
        case _:
            pass


def _calls(node: ast.Call) -> Iterator[_Change]:
    match node.func:
        case ast.Name(id=name) if name in NAMES:
            yield _Change(_with(node, func=ast.Name(id=NAMES[name], ctx=ast.Load())), "call")
        case ast.Name(id="sorted"):
            yield _Change(_with(node, func=ast.Name(id="list", ctx=ast.Load()), keywords=[]), "call")
        case _:
            pass
    called = ast.unparse(node.func)
    if called == "attrs.evolve" or called.rpartition(".")[2].lstrip("_")[:1].isupper():
        for at, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                rest = [*node.keywords[:at], *node.keywords[at + 1 :]]
                yield _Change(_with(node, keywords=rest), "keyword", keyword)


def _deletions(node: ast.stmt, parent: ast.AST, siblings: list[ast.stmt], index: int) -> Iterator[_Change]:
    match node:
        case ast.Return() | ast.Raise() if isinstance(parent, ast.FunctionDef) and index == len(siblings) - 1:
            if node.value is not None if isinstance(node, ast.Return) else True:
                yield _Change(ast.Pass(), "statement", node)
        case ast.Expr() | ast.AugAssign() | ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            yield _Change(ast.Pass(), "statement", node)
        case ast.Assign(targets=[ast.Name(id=name)]) if _is_known(name, parent, siblings[:index]):
            yield _Change(ast.Pass(), "statement", node)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield _Change(ast.Pass(), "statement", node)
        case ast.If() if not node.orelse:
            yield _Change(ast.Pass(), "statement", node)
        case _:
            pass


def _is_known(name: str, parent: ast.AST, before: list[ast.stmt]) -> bool:
    """Whether a name has a value already, so that leaving out its assignment is no plain crash."""
    if not isinstance(parent, ast.FunctionDef):
        return not isinstance(parent, ast.Module | ast.ClassDef)  # inside a block: perhaps
    parameters = [*parent.args.args, *parent.args.kwonlyargs]
    assigned = [each.id for stmt in before for each in ast.walk(stmt) if isinstance(each, ast.Name) and _stores(each)]
    return name in assigned or any(name == each.arg for each in parameters)


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
