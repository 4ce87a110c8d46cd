"""The search space of a sweep: the values of each key, and the conditions on which it is tried.

A key with ``when`` is only tried if other keys have certain values, such as the parameters of a
search if ``algorithm.kind`` names that search. If a kind differs from that in the file, its section
has the defaults of the kind, except for the keys in the search space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from framework.errors import InputError
from framework.experiment.config import (
    RunConfig,
    changed,
    check,
    flatten,
    noting,
)
from framework.registry import nearest
from framework.settings import Section

Value = bool | int | float | str | None

_KIND = ".kind"
_VARIABLE = {"problem", "objectives", "constraints", "algorithm", "budget"}


class Dimension(Section):
    """One key's values: ``{low: 0.01, high: 0.3, log: true}`` or ``{choices: [100, 300]}``.

    ``whole: true`` allows only whole numbers even if the configuration would accept others.
    ``when: {algorithm.kind: emsco}``, or a list of values there, says when the key is tried.
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    whole: bool = False
    choices: list[Value] | None = Field(default=None, min_length=1)
    when: dict[str, list[Value]] = Field(default_factory=dict)

    @field_validator("when", mode="before")
    @classmethod
    def _lists(cls, when: Any) -> Any:
        if not isinstance(when, dict):
            return when
        return {key: v if isinstance(v, list) else [v] for key, v in when.items()}

    @model_validator(mode="after")
    def _one_form(self) -> Dimension:
        ends = [self.low, self.high]
        if self.choices is not None:
            if ends != [None, None] or self.log or self.whole:
                raise ValueError("expected low and high, or choices alone; found both")
            if len(set(map(repr, self.choices))) < len(self.choices):
                raise ValueError(f"expected each choice once, found {self.choices}")
            if len(self.choices) < 2 and not self.when:
                raise ValueError(f"expected at least 2 choices, found {self.choices}")
        elif self.low is None or self.high is None:
            missing = "both" if ends == [None, None] else "high" if self.high is None else "low"
            raise ValueError(f"expected low and high, or choices; found no value for {missing}")
        elif self.low >= self.high:
            raise ValueError(f"expected low below high, found {self.low:g} and {self.high:g}")
        elif self.log and self.low <= 0:
            raise ValueError(f"expected low above 0 where log is true, found {self.low:g}")
        elif self.whole and not self.has_whole_ends:
            raise ValueError(f"expected whole ends, found {self.low:g} and {self.high:g}")
        return self

    @property
    def has_whole_ends(self) -> bool:
        """Whether both ends of a range are whole numbers."""
        return all(end is not None and end.is_integer() for end in (self.low, self.high))

    def contains(self, value: Any) -> bool:
        """Return whether a value can be drawn."""
        if self.choices is not None:
            return value in self.choices
        assert self.low is not None
        assert self.high is not None
        if not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        return not self.whole or value == int(value)

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Return whether the key is tried, given the values of the keys before it."""
        return all(key in params and params[key] in values for key, values in self.when.items())

    def tested(self) -> dict[str, Value]:
        """Return the values that the configuration has to accept, by their names in messages."""
        if self.choices is not None:
            return {f"choices.{i}": choice for i, choice in enumerate(self.choices)}
        if self.whole and self.low is not None and self.high is not None:
            return {"low": int(self.low), "high": int(self.high)}
        return {"low": self.low, "high": self.high}


def dimensions(
    search_space: Mapping[str, Mapping[str, Any]], config: RunConfig, path: Path
) -> dict[str, Dimension]:
    """Return a search space, checked against the configuration.

    A key comes after those that its ``when`` names. Dimensions are ``whole`` where they are called
    so, or where the configuration has only whole numbers.

    Parameters
    ----------
    search_space : mapping
        The section as it was read, by dotted key.
    config : RunConfig
    path : pathlib.Path
        The file, for messages.

    Raises
    ------
    InputError
        One line per error.
    """
    where = f"{path}: sweep.search_space"
    messages: list[str] = []
    read: dict[str, Dimension] = {}
    for key, raw in search_space.items():
        with noting(messages):
            read[key] = check(Dimension, raw, f"{where}.{key}")
    if messages:
        raise InputError("\n".join(messages))
    space = _ordered(read, where)
    checker = _Checker(space, config, path)
    for key in space:
        with noting(messages):
            checker.check(key)
    if messages:
        raise InputError("\n".join(dict.fromkeys(messages)))
    return {k: d.model_copy(update={"whole": checker.is_whole(k)}) for k, d in space.items()}


def _ordered(read: Mapping[str, Dimension], where: str) -> dict[str, Dimension]:
    """Return the dimensions sorted so that each comes after those that its ``when`` names."""
    for key, dimension in read.items():
        for parent, values in dimension.when.items():
            choices = read[parent].choices if parent in read else None
            if choices is None:
                raise InputError(
                    f"{where}.{key}.when: expected a key of the search space that has choices, "
                    f"found {parent!r}{nearest(parent, read)}"
                )
            unknown = [value for value in values if value not in choices]
            if unknown or not values:
                raise InputError(
                    f"{where}.{key}.when.{parent}: expected one of the choices "
                    f"{', '.join(map(str, choices))}; found {(unknown or values)!r}"
                )
    space: dict[str, Dimension] = {}
    while len(space) < len(read):
        ready = [k for k, d in read.items() if k not in space and d.when.keys() <= space.keys()]
        if not ready:
            waiting = ", ".join(key for key in read if key not in space)
            raise InputError(f"{where}: expected conditions without a circle, found {waiting}")
        space[ready[0]] = read[ready[0]]
    return space


def variable_values(config: RunConfig) -> dict[str, Any]:
    """Return the values of all dotted keys that a sweep may vary, those of items of lists too."""
    flat = flatten(config.model_dump(mode="json", include=_VARIABLE))
    lists = [(key, items) for key, items in flat.items() if isinstance(items, list)]
    return flat | {f"{key}.{i}": x for key, items in lists for i, x in enumerate(items)}


class _Checker:
    """Checks that a configuration accepts the values of a search space.

    A *world* is a combination of values of the keys that decide what another key may be: the kind
    of its section, and the keys in its ``when``.
    """

    def __init__(self, space: Mapping[str, Dimension], config: RunConfig, path: Path) -> None:
        self._space, self._config, self._path = space, config, path
        self._known = variable_values(config)

    def check(self, key: str) -> None:
        """Check each choice, or both ends of a range, in every world in which the key is tried."""
        where = f"{self._path}: sweep.search_space"
        worlds = list(self._worlds(key))
        if not worlds:
            raise InputError(f"{where}.{key}.when: expected what can be, found what never holds")
        if (worlds == [{}] and key not in self._known) or key.split(".")[0] not in _VARIABLE:
            raise InputError(
                f"{where}: unknown key; expected a dotted key of the configuration, found "
                f"{key!r}{nearest(key, self._known)}"
            )
        for world in worlds:
            for name, value in self._space[key].tested().items():
                reason = self._refused(world, key, value)
                if reason:
                    beside = ", ".join(f"{k} {v}" for k, v in world.items())
                    hint = "" if self._space[key].when or not world else "; give it a `when`"
                    raise InputError(
                        f"{where}.{key}.{name}: {f'beside {beside}: ' if beside else ''}{reason}"
                        f"{hint}"
                    )

    def is_whole(self, key: str) -> bool:
        """Return whether a key has only whole numbers, by ``whole`` or since others are refused."""
        dimension = self._space[key]
        if dimension.low is None or not dimension.has_whole_ends:
            return False
        half = dimension.low + 0.5
        return dimension.whole or any(self._refused(w, key, half) for w in self._worlds(key))

    def _refused(self, world: Mapping[str, Any], key: str, value: Any) -> str:
        """Return why the configuration refuses a value; empty if it accepts it."""
        params = {**world, key: value}
        for other, dimension in self._space.items():  # a kind may need keys without defaults
            below = any(_is_below(other, kind) for kind in params if kind.endswith(_KIND))
            if other not in params and (below or dimension.when) and dimension.holds(params):
                params[other] = next(iter(dimension.tested().values()))
        try:
            changed(self._config, params, self._path)
        except InputError as error:
            lines = [line.removeprefix(f"{self._path}: ") for line in str(error).splitlines()]
            others = {other for other in params if other != key}  # reported when they are checked
            reasons = [line for line in lines if line.partition(": ")[0] not in others]
            return reasons[0].removeprefix(f"{key}: ") if reasons else ""
        return ""

    def _worlds(self, key: str) -> Iterator[dict[str, Any]]:
        """Return the worlds in which ``key`` is tried."""
        deciding: set[str] = set()
        waiting = [key]
        while waiting:
            child = waiting.pop()
            kinds = {k for k in self._space if k.endswith(_KIND) and _is_below(child, k)}
            further = (kinds | self._space[child].when.keys()) - deciding
            deciding |= further
            waiting += further
        worlds: list[dict[str, Any]] = [{}]
        for parent in (k for k in self._space if k in deciding):
            dimension = self._space[parent]
            worlds = [
                world | {parent: choice} if dimension.holds(world) else world
                for world in worlds
                for choice in (dimension.choices or [] if dimension.holds(world) else [None])
            ]
        return (world for world in worlds if self._space[key].holds(world))


def _is_below(key: str, kind: str) -> bool:
    """Return whether a key is in the section to which the key ``kind`` belongs."""
    return key != kind and key.startswith(kind.removesuffix("kind"))
