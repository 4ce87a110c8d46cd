"""Turns pydantic's errors about a configuration into lines that a person can act on.

A line says where the mistake is, what was expected and what was found. The errors of the branches
of a union become one line.
"""

from __future__ import annotations

import inspect
import reprlib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union

from pydantic import BaseModel, ValidationError

from framework import registry

_WANTED: dict[str, str] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a section (keys and values)",
    "mapping_type": "a section (keys and values)",
    "model_type": "a section (keys and values)",
    "literal_error": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_pattern_mismatch": "a text like {pattern}",
}


def lines(model: type[BaseModel], error: ValidationError, where: str) -> list[str]:
    """Return a line for each mistake.

    Parameters
    ----------
    model : type
        The pydantic model that the configuration was checked against.
    error : pydantic.ValidationError
    where : str
        The file, and the section in it (``file: section``).
    """
    by_place: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for detail in error.errors():
        by_place.setdefault(_place(detail), []).append(detail)
    deepest = [
        place
        for place in by_place
        # a branch of the union got further in: the others do not matter
        if not any(other[: len(place)] == place and other != place for other in by_place)
    ]
    return [_line(model, by_place[place], place, where) for place in deepest]


def shown(value: Any) -> str:
    """Return a value as it is written in a sentence."""
    return "nothing" if value is None else reprlib.repr(value)


def _place(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that lead to a mistake, without the steps that name a union's branch."""
    branches = {"int", "str", "float", "bool", "constrained-int", "constrained-float"}
    steps = [str(step) for step in detail["loc"]]
    return tuple(step for step in steps if "[" not in step and step not in branches)


def _line(
    model: type[BaseModel], details: Sequence[Mapping[str, Any]], place: tuple[str, ...], where: str
) -> str:
    key = ".".join(place)
    start = f"{where}{'.' if ': ' in where else ': '}{key}" if key else where
    kind = details[0]["type"]
    if kind == "extra_forbidden":
        models = _models_at(model, place[:-1])
        known = list(dict.fromkeys(name for found in models for name in found.model_fields))
        for found in models:
            if place[-1] in getattr(found, "renamed", {}):
                new = found.renamed[place[-1]]
                option = new.startswith("--")
                return f"{start}: is now " + (f"the option {new}" if option else f"called {new!r}")
        listed = f"one of {', '.join(known)}" if known else "no key"
        hint = registry.nearest(place[-1], known)
        return f"{start}: unknown key; expected {listed}; found {place[-1]!r}{hint}"
    if kind == "missing":
        return f"{start}: expected a value, found nothing"
    if kind == "value_error":  # a sentence of ours
        return f"{start}: {details[0]['ctx']['error']}"
    *others, last = dict.fromkeys(_wanted(detail) for detail in details)
    wanted = " or ".join([*(text.replace(" or ", ", ") for text in others), last])
    return f"{start}: expected {wanted}, found {shown(details[0]['input'])}"


def _wanted(detail: Mapping[str, Any]) -> str:
    if detail["type"] in _WANTED:
        context = detail.get("ctx", {}).items()
        whole = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in context}
        return _WANTED[detail["type"]].format(**whole)
    return str(detail["msg"]).removeprefix("Input should be ")


def _models_at(model: Any, location: Sequence[str]) -> list[Any]:
    """Return the models that may stand at a place of a model, through unions and lists."""
    level = [model]
    for step in location:
        below: list[Any] = []
        for candidate in level:
            if step.isdigit():
                below.append(candidate)
            elif step in candidate.model_fields:
                below += _models_in(candidate.model_fields[step].annotation)
        level = below
    return level


def _models_in(annotation: Any) -> list[Any]:
    """Return the models that an annotation mentions."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (Union, types.UnionType, list, Annotated):
        return [m for argument in typing.get_args(annotation) for m in _models_in(argument)]
    return []
