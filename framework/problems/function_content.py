"""What a Python function is made of, to notice that it is another one than before."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from types import CodeType, FunctionType, MethodType
from typing import Any


def content_of(value: Any, around: tuple[Any, ...] = ()) -> Any:
    """Return texts that are the same in each process, and others for another function.

    Of a function they are its source, its defaults, the values that it captures, and the functions
    and classes of its module that it names; of another callable, the source of its class and its
    attributes. Global variables with data are not in them: a function may count its calls there.

    Parameters
    ----------
    value : callable, or a value that one captures
    around : tuple
        The values whose content this is a part of.
    """
    if any(value is outer for outer in around):
        return "itself"
    within = partial(content_of, around=(*around, value))
    if isinstance(value, partial):
        return "partial", within(value.func), within(value.args), within(value.keywords)
    if isinstance(value, MethodType):
        return "method", within(value.__func__), within(value.__self__)
    if isinstance(value, FunctionType):
        captured: list[Any] = []
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # nothing is in it yet
                captured.append(cell.cell_contents)
        defaults = value.__defaults__, value.__kwdefaults__
        return _source(value), within(defaults), within(captured), within(_helpers(value))
    if isinstance(value, type):
        return [_source(each) for each in value.__mro__ if each.__module__ == value.__module__]
    parts = value.items() if isinstance(value, Mapping) else value
    if isinstance(value, tuple | list | Mapping) and any(map(_may_have_code, parts)):
        return [within(part) for part in parts]
    wrapped = getattr(value, "__wrapped__", None)
    if isinstance(wrapped, FunctionType) and wrapped.__module__ != type(value).__module__:
        return "wrapped", within(wrapped)  # with a cache or compiled code, which come and go
    if callable(value) and hasattr(value, "__dict__"):
        return within(type(value)), within(vars(value))
    import joblib

    try:
        return joblib.hash(value)
    except Exception:  # pickle raises what it likes: of a lock, say
        return type(value).__qualname__


def _may_have_code(value: Any) -> bool:
    return callable(value) or isinstance(value, tuple | list | Mapping)


def _helpers(function: FunctionType) -> list[Any]:
    """Return the functions and classes of a function's module that it names, in that order."""
    of_module = (function.__globals__.get(name) for name in _names(function.__code__))
    return [
        helper
        for helper in of_module
        if isinstance(helper, FunctionType | type) and helper.__module__ == function.__module__
    ]


def _names(code: CodeType) -> list[str]:
    """Return the names that code and the code within it read."""
    within = [_names(of) for of in code.co_consts if isinstance(of, CodeType)]
    return [*code.co_names, *chain.from_iterable(within)]


def _source(holder: FunctionType | type) -> str:
    """Return the source of a function or class, or its byte code where there is none.

    Of a lambda both, as there may be several on a line.
    """
    functions = vars(holder).values() if isinstance(holder, type) else [holder]
    codes = [_compiled(of.__code__) for of in functions if isinstance(of, FunctionType)]
    try:
        text = textwrap.dedent(inspect.getsource(holder))
    except (TypeError, OSError):  # of a class in a notebook
        return f"{holder.__qualname__} {codes}"
    return f"{text} {codes}" if holder.__name__ == "<lambda>" else text


def _compiled(value: Any) -> Any:
    """Return byte code, or a constant in it, without addresses and hashes."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, [_compiled(of) for of in value.co_consts]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
