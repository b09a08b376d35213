"""What small faults there are: the changes that can be made to one node of a syntax tree."""

import ast
import copy
from collections.abc import Iterator

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


@attrs.frozen
class Change:
    """What stands in the place of a node; `left_out` is the part of it that is gone, where that is the whole change."""

    new: ast.AST
    kind: str
    left_out: ast.AST | None = None


def changes_of(node: ast.AST, parent: ast.AST, field: str, siblings: object, index: int) -> Iterator[Change]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp():
            yield from _conjunctions(node)
        case ast.BinOp() | ast.AugAssign():
            for op in SWAPS.get(type(node.op), ()):
                yield Change(_with(node, op=op()), "operator")
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield Change(node.operand, "sign")
        case ast.Constant():
            yield from _constants(node)
        case ast.Attribute(value=ast.Name(id=name), attr=member) if member in ENUMS.get(name, ()):
            members = ENUMS[name]
            yield Change(_with(node, attr=members[(members.index(member) + 1) % len(members)]), "member")
        case ast.Call():
            yield from _calls(node)
        case ast.MatchOr():
            for at in range(len(node.patterns)):
                others = [each for other, each in enumerate(node.patterns) if other != at]
                new = _with(node, patterns=others) if len(others) > 1 else others[0]
                yield Change(new, "alternative", node.patterns[at])
        case ast.comprehension():
            for at in range(len(node.ifs)):
                rest = [each for other, each in enumerate(node.ifs) if other != at]
                yield Change(_with(node, ifs=rest), "filter", node.ifs[at])
        case _:
            pass
    if field in ("test", "guard") and not isinstance(node, ast.Compare | ast.UnaryOp) and isinstance(node, ast.expr):
        yield Change(ast.UnaryOp(op=ast.Not(), operand=node), "negation")
    if isinstance(node, ast.stmt) and isinstance(siblings, list):
        yield from _deletions(node, parent, siblings, index)


def _comparisons(node: ast.Compare) -> Iterator[Change]:
    for at, op in enumerate(node.ops):
        for other in SWAPS[type(op)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield Change(_with(node, ops=ops), "comparison")


def _conjunctions(node: ast.BoolOp) -> Iterator[Change]:
    for op in SWAPS[type(node.op)]:
        yield Change(_with(node, op=op()), "conjunction")
    for at in range(len(node.values)):
        rest = [each for other, each in enumerate(node.values) if other != at]
        yield Change(_with(node, values=rest) if len(rest) > 1 else rest[0], "condition")


def _constants(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    match value:
        case bool():
            yield Change(ast.Constant(not value), "constant")
        case int() | float():
            yield Change(ast.Constant(value + 1), "constant")
            if value >= 1:
                yield Change(ast.Constant(value - 1), "constant")
        case "inf":
            yield Change(ast.Constant("-inf"), "constant")
        case _:
            pass


def _calls(node: ast.Call) -> Iterator[Change]:
    match node.func:
        case ast.Name(id=name) if name in NAMES:
            yield Change(_with(node, func=ast.Name(id=NAMES[name], ctx=ast.Load())), "call")
        case ast.Name(id="sorted"):
            yield Change(_with(node, func=ast.Name(id="list", ctx=ast.Load()), keywords=[]), "call")
        case _:
            pass
    called = ast.unparse(node.func)
    if called == "attrs.evolve" or called.rpartition(".")[2].lstrip("_")[:1].isupper():
        for at, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                rest = [*node.keywords[:at], *node.keywords[at + 1 :]]
                yield Change(_with(node, keywords=rest), "keyword", keyword)


def _deletions(node: ast.stmt, parent: ast.AST, siblings: list[ast.stmt], index: int) -> Iterator[Change]:
    match node:
        case ast.Return() | ast.Raise() if isinstance(parent, ast.FunctionDef) and index == len(siblings) - 1:
            if node.value is not None if isinstance(node, ast.Return) else True:
                yield Change(ast.Pass(), "statement", node)
        case ast.Expr() | ast.AugAssign() | ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            yield Change(ast.Pass(), "statement", node)
        case ast.Assign(targets=[ast.Name(id=name)]) if _is_known(name, parent, siblings[:index]):
            yield Change(ast.Pass(), "statement", node)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield Change(ast.Pass(), "statement", node)
        case ast.If() if not node.orelse:
            yield Change(ast.Pass(), "statement", node)
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
