"""Putting an edit into a module that is imported already: the code of the functions that it changes is exchanged.

So the tests that use the module need not be imported and collected anew for each of thousands of edits. What is not in
the code of a function (a default, a constant of a class) cannot be exchanged, and what has run on import has run.
"""

import dis
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType


def put_into(module: ModuleType, original: CodeType, edited: CodeType) -> bool:
    """Makes `module`, compiled from `original`, do as `edited` says; False, and nothing done, where that cannot be."""
    if _skeleton(original) != _skeleton(edited):
        return False
    before = dict(_functions_in(original))
    changed = {name: code for name, code in _functions_in(edited) if code != before[name]}
    functions = [each for each in _functions_of(module) if each.__code__.co_qualname in changed]
    if {each.__code__.co_qualname for each in functions} != changed.keys():
        return False
    if changed.keys() & _used_on_import(original):
        return False
    for function in functions:
        function.__code__ = changed[function.__code__.co_qualname]
    return True


def _skeleton(code: CodeType) -> list[CodeType]:
    """The code of the module and of its classes, without that of their functions."""
    found = [code.replace(co_consts=tuple(each for each in code.co_consts if not isinstance(each, CodeType)))]
    for each in code.co_consts:
        if isinstance(each, CodeType) and not _is_function(each):
            found += _skeleton(each)
    return found


def _used_on_import(code: CodeType) -> set[str]:
    """The module's functions that its own body may call, or hand to one that it calls."""
    functions = dict(_functions_in(code))
    used: set[str] = set()
    coming = _loaded_by(code) & functions.keys()
    while coming:
        used |= coming
        coming = {name for each in coming for name in functions[each].co_names if name in functions} - used
    return used


def _loaded_by(code: CodeType) -> set[str]:
    """The names that the bodies of a module and of its classes read."""
    loaded = {str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    for each in code.co_consts:
        if isinstance(each, CodeType) and not _is_function(each):
            loaded |= _loaded_by(each)
    return loaded


def _functions_in(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if _is_function(each):
                yield each.co_qualname, each
            else:
                yield from _functions_in(each)


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)  # the body of a class is not


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for each in vars(value).values() if isinstance(value, type) else (value,):
            inner = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            function = inspect.unwrap(inner) if callable(inner) else inner
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function
