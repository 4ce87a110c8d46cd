"""What a sweep varies and what it wants: section ``sweep`` of an experiment's file, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from framework.errors import InputError
from framework.experiment.config import (
    RunConfig,
    check,
    check_config,
    flatten,
    noting,
    override,
    put,
    read_yaml,
)
from framework.plain_files import check_sizes
from framework.registry import nearest
from framework.roles import Sense
from framework.settings import Section
from framework.uris import without_password
from tracking.mlflow_log.store import absolute_uri

Value = bool | int | float | str | None

_VARIABLE = {"problem", "objectives", "constraints", "algorithm", "budget"}


class Direction(Section):
    """``{metric: hypervolume, sense: max}``; for the names see :mod:`tracking.sweep.values`."""

    metric: str
    sense: Sense


class Dimension(Section):
    """One key's values: ``{low: 0.01, high: 0.3, log: true}`` or ``{choices: [100, 300]}``."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: list[Value] | None = Field(default=None, min_length=2)

    @model_validator(mode="after")
    def _one_form(self) -> Dimension:
        ends = [self.low, self.high]
        if self.choices is not None:
            if ends != [None, None] or self.log:
                raise ValueError("expected low and high, or choices alone; found both")
            if len(set(map(repr, self.choices))) < len(self.choices):
                raise ValueError(f"expected each choice once, found {self.choices}")
        elif self.low is None or self.high is None:
            missing = "both" if ends == [None, None] else "high" if self.high is None else "low"
            raise ValueError(f"expected low and high, or choices; found no value for {missing}")
        elif self.low >= self.high:
            raise ValueError(f"expected low below high, found {self.low:g} and {self.high:g}")
        elif self.log and self.low <= 0:
            raise ValueError(f"expected low above 0 where log is true, found {self.low:g}")
        return self

    def contains(self, value: Any) -> bool:
        """Tell whether a value can be drawn."""
        if self.choices is not None:
            return value in self.choices
        assert self.low is not None
        assert self.high is not None
        return isinstance(value, int | float) and self.low <= value <= self.high


class SweepConfig(Section):
    """Section ``sweep``.

    search_space : by dotted key of the configuration, the values to try.
    directions : what the trials are to maximise or minimise.
    trials : how many, failed ones included.
    batch : trials that are asked for together, and told together. The study depends on it, not
        on the number of workers; more workers than this are idle.
    asynchronous : tell each trial as soon as it ends and ask for another, ``batch`` being under
        way: nobody waits, but the study depends on who was faster.
    repeats : runs a trial, with other seeds, whose values are averaged.
    storage : URL of Optuna's database; ``optuna.db`` in the sweep's directory by default. A
        password in it is the name of a variable of the environment, ``${NAME}``.
    reference : a ``front.csv``, for ``share_of_reference``.
    seed : of the sampler; the runs have the configuration's.
    """

    search_space: dict[str, dict[str, Any]] = Field(min_length=1)
    directions: list[Direction] = Field(min_length=1)
    trials: int = Field(default=50, ge=1)
    batch: int = Field(default=4, ge=1)
    asynchronous: bool = False
    repeats: int = Field(default=1, ge=1)
    sampler: Literal["tpe", "random", "nsga2", "qmc", "grid"] = "tpe"
    storage: str | None = None
    reference: str | None = None
    seed: int = Field(default=0, ge=0, lt=2**32)

    @field_validator("storage")
    @classmethod
    def _no_password(cls, storage: str | None) -> str | None:
        return storage if storage is None else without_password(storage)

    @field_validator("directions")
    @classmethod
    def _each_once(cls, directions: list[Direction]) -> list[Direction]:
        names = [direction.metric for direction in directions]
        if len(set(names)) < len(names):
            raise ValueError(f"expected each metric once, found {', '.join(names)}")
        return directions


class SweepPlan(NamedTuple):
    """A checked sweep.

    Attributes
    ----------
    config : RunConfig
        What every trial starts from.
    sweep : SweepConfig
    space : mapping of str to Dimension
        By dotted key.
    whole : frozenset of str
        The keys whose values are whole numbers.
    path : pathlib.Path
        Where it was read, for messages.
    """

    config: RunConfig
    sweep: SweepConfig
    space: Mapping[str, Dimension]
    whole: frozenset[str]
    path: Path

    def config_with(self, params: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a trial.

        Raises
        ------
        InputError
            The values do not go together.
        """
        return check_config(_changed(self.config, params), self.path)

    def draft_with(self, params: Mapping[str, Any]) -> RunConfig:
        """Return the same, unchecked: to show what could not be run."""
        return RunConfig.model_validate(_changed(self.config, params))

    def configured(self) -> dict[str, Any]:
        """Return the values that the configuration itself has for what is varied."""
        flat = flatten(self.config.model_dump(mode="json"))
        return {key: flat[key] for key in self.space}

    def identity(self) -> dict[str, Any]:
        """Return, flat, the keys that decide which trials there are and what they are worth."""
        own = self.sweep.model_dump(mode="json", exclude={"trials", "storage"})
        budget = self.config.budget.model_dump(mode="json")
        return self.config.identity() | flatten({"sweep": own, "budget": budget})


def load_plan(path: Path, overrides: Sequence[str] = (), **top_level: Any) -> SweepPlan:
    """Read and check a file of an experiment with a section ``sweep``.

    Parameters
    ----------
    path : pathlib.Path
    overrides : sequence of 'dotted.key=value'
    **top_level
        ``workers``, and ``trials`` of the sweep; None is ignored.

    Raises
    ------
    InputError
        Whatever is wrong with it, a line a mistake.
    """
    return check_plan(read_yaml(path), path, overrides, **top_level)


def check_plan(
    raw: dict[str, Any],
    path: Path,
    overrides: Sequence[str] = (),
    *,
    workers: str | int | None = None,
    trials: int | None = None,
) -> SweepPlan:
    """Check what was read; see :func:`load_plan`."""
    for text in overrides:
        override(raw, text)
    own = raw.pop("sweep", None)
    if not isinstance(own, dict):
        raise InputError(f"{path}: sweep: expected a section (keys and values), found {own!r}")
    own |= {} if trials is None else {"trials": trials}
    raw |= {} if workers is None else {"workers": workers}
    found: list[str] = []
    with noting(found):
        config = check_config(raw, path)
        if config.repeats != 1:
            raise InputError(
                f"{path}: repeats: expected 1 in a sweep (sweep.repeats averages over seeds), "
                f"found {config.repeats}"
            )
    with noting(found):
        check_sizes(own, f"{path}: sweep")
        sweep = check(SweepConfig, own, f"{path}: sweep")
    if found:
        raise InputError("\n".join(found))
    space, whole = _dimensions(sweep, config, path)
    if sweep.sampler == "grid":
        _check_grid(sweep, space, f"{path}: sweep")
    return SweepPlan(config, _placed(sweep, path), space, whole, path)


def _dimensions(
    sweep: SweepConfig, config: RunConfig, path: Path
) -> tuple[dict[str, Dimension], frozenset[str]]:
    """Check the search space against the configuration; return it and the keys of integers."""
    known = flatten(config.model_dump(mode="json", include=_VARIABLE))
    found: list[str] = []
    space: dict[str, Dimension] = {}
    whole: set[str] = set()
    for key, raw in sweep.search_space.items():
        where = f"{path}: sweep.search_space"
        with noting(found):
            if key not in known:
                raise InputError(
                    f"{where}: unknown key; expected a dotted key of the configuration, found "
                    f"{key!r}{nearest(key, known)}"
                )
            space[key] = check(Dimension, raw, f"{where}.{key}")
            _check_ends(config, key, space[key], f"{where}.{key}", path)
            if _is_whole(config, key, space[key], path):
                whole.add(key)
    if found:
        raise InputError("\n".join(found))
    return space, frozenset(whole)


def _check_grid(sweep: SweepConfig, space: Mapping[str, Dimension], where: str) -> None:
    """Check that there is a grid, with a point for each trial."""
    points = 1
    for key, dimension in space.items():
        if dimension.choices is None:
            raise InputError(
                f"{where}.search_space.{key}: expected choices, which a grid is made of, found a "
                "range"
            )
        points *= len(dimension.choices)
    if sweep.trials > points:
        raise InputError(
            f"{where}.trials: expected at most the grid's {points} points, found {sweep.trials}"
        )


def _check_ends(config: RunConfig, key: str, dimension: Dimension, where: str, path: Path) -> None:
    """Have the configuration take each choice, or both ends of a range."""
    values: dict[str, Value] = {"low": dimension.low, "high": dimension.high}
    if dimension.choices is not None:
        values = {f"choices.{i}": choice for i, choice in enumerate(dimension.choices)}
    for name, value in values.items():
        try:
            check_config(_changed(config, {key: value}), path)
        except InputError as error:
            reason = str(error).splitlines()[0].removeprefix(f"{path}: ").removeprefix(f"{key}: ")
            raise InputError(f"{where}.{name}: {reason}") from error


def _is_whole(config: RunConfig, key: str, dimension: Dimension, path: Path) -> bool:
    """Tell whether the configuration takes only whole numbers for a key."""
    low, high = dimension.low, dimension.high
    if low is None or high is None or not (low.is_integer() and high.is_integer()):
        return False
    try:
        check_config(_changed(config, {key: low + 0.5}), path)
    except InputError:
        return True
    return False


def _changed(config: RunConfig, params: Mapping[str, Any]) -> dict[str, Any]:
    raw = config.model_dump(mode="json")
    for key, value in params.items():
        put(raw, key, value)
    return raw


def _placed(sweep: SweepConfig, path: Path) -> SweepConfig:
    """Return the section with absolute paths: the sweep may be resumed from elsewhere."""
    changes = {}
    if sweep.reference is not None:
        changes["reference"] = str((path.parent / sweep.reference).absolute())
    if sweep.storage is not None:
        changes["storage"] = absolute_uri(sweep.storage, Path.cwd())
    return sweep.model_copy(update=changes)
