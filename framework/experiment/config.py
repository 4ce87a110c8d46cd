"""Configurations of runs: read from YAML and checked, all errors reported at once.

An error is one line: file, key, what was expected and what was found. For an unknown key the
nearest known one is suggested. The errors of the branches of a union become one line.
"""

from __future__ import annotations

import inspect
import os
import reprlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

import numpy as np
import yaml
from pydantic import (
    BaseModel,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from framework import registry
from framework.errors import InputError, command
from framework.experiment.options import AlgorithmOptions, Options, ProblemOptions
from framework.parallel.config import ClusterConfig
from framework.problem import Problem
from framework.roles import Constraint, Objective, Roles
from framework.security import (
    CONFIG_BYTES,
    CONFIG_TEXT,
    CONFIG_VALUES,
    JSON_DEPTH,
    TRACKING,
    check_sizes,
    check_tree,
    note_address,
    read_text,
    received,
    without_password,
)
from framework.settings import Budget, FolderName, Section

M = TypeVar("M", bound=BaseModel)

_WANTED: dict[str, str] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "invalid_key": "a text as key",
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


class ObjectiveConfig(Section):
    """An objective, such as ``{metric: coverage, sense: max}``.

    metric : name of a metric of the problem.
    sense : whether it is minimised or maximised.
    worst : value of the metric from which the hypervolume is measured; its worst value otherwise.
    """

    metric: str
    sense: Literal["min", "max"]
    worst: float | None = None


class ConstraintConfig(Section):
    """A constraint, such as ``{metric: false_positive_rate, at_most: 0.1}``.

    metric : name of a metric of the problem; a solution that breaks a bound is not on the front.
    at_most, at_least : bounds of the metric, which are allowed values themselves.
    """

    metric: str
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> ConstraintConfig:
        if self.at_most is None and self.at_least is None:
            raise ValueError("expected at_most or at_least, found neither")
        return self


class TrackingConfig(Section):
    """What is logged to MLflow, and where.

    uri : MLflow's server, or a database; a password in it is the name of a variable of the
        environment, ``${NAME}``.
    experiment : name of MLflow's experiment; the name of the run unless given.
    system_metrics : whether use of processors, memory, disk and network is logged too.
    """

    uri: str = "sqlite:///mlflow.db"
    experiment: str | None = None
    system_metrics: bool = False

    @field_validator("uri")
    @classmethod
    def _no_password(cls, uri: str) -> str:
        return note_address(without_password(uri), "uri", TRACKING)


class RunConfig(Section):
    """The configuration of a run and its repeats.

    name : name of the run, which its directory ``runs/NAME-001`` has too.
    problem : what is searched: a ``kind`` and the keys that this kind has.
    objectives : the metrics of the problem that are to be traded off.
    constraints : bounds of metrics that every solution keeps.
    budget : when the search ends.
    algorithm : how it is searched: a ``kind`` and its keys; the kind alone stands for its defaults.
    seed : decides every random draw of the search; the split of the records has its own seed.
    repeats : number of independent runs with other seeds.
    workers : who evaluates: this process (``serial``), Ray on ``all`` cores or on so many, or
        whichever is faster (``auto``).
    memory_limit : gigabytes that this process may take; a run that needs more does not start.
    tracking : where MLflow logs; nothing is logged with ``null``.
    cluster : what a worker of Ray takes, and what is sent to it.
    """

    name: FolderName
    problem: SerializeAsAny[ProblemOptions]
    objectives: list[ObjectiveConfig] = Field(min_length=1)
    constraints: list[ConstraintConfig] = Field(default_factory=list)
    budget: Budget
    algorithm: SerializeAsAny[AlgorithmOptions]
    seed: int = Field(default=0, ge=0)
    repeats: int = Field(default=1, ge=1)
    workers: Literal["auto", "serial", "all"] | Annotated[int, Field(ge=1)] = "auto"
    memory_limit: float | None = Field(default=None, gt=0)
    tracking: TrackingConfig | None = TrackingConfig()
    cluster: ClusterConfig = ClusterConfig()

    @field_validator("algorithm")
    @classmethod
    def _within_budget(cls, algorithm: AlgorithmOptions, info: ValidationInfo) -> AlgorithmOptions:
        budget = info.data.get("budget")  # none where it is wrong
        return algorithm if budget is None else with_horizon(algorithm, budget)

    def roles(self, problem: Problem) -> Roles:
        """Return the roles that it gives the problem's metrics."""
        objectives = [Objective(**o.model_dump()) for o in self.objectives]
        constraints = [Constraint(**c.model_dump()) for c in self.constraints]
        return Roles(problem.metrics, objectives, constraints)

    def dump(self) -> str:
        """Return it as the content of a YAML file."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def identity(self) -> dict[str, Any]:
        """Return the dotted keys that decide which candidates are evaluated, and their values.

        Budget, workers, cluster, repeats, memory, tracking and the name are not among them: a run
        may be resumed with other ones.
        """
        deciding = {"problem", "objectives", "constraints", "algorithm", "seed"}
        return flatten(self.model_dump(mode="json", include=deciding))


def load_config(
    path: str | os.PathLike[str], overrides: Sequence[str] = (), **top_level: Any
) -> RunConfig:
    """Read a configuration, override some of its keys, and check it. Data are not loaded.

    Parameters
    ----------
    path : path-like
        A YAML file.
    overrides : sequence of str
        Assignments ``dotted.key=value``, with values in YAML. Items of lists are addressed by
        their number: ``objectives.0.sense=min``.
    **top_level
        Values of top-level keys (``seed``, ``repeats``, ``workers``); None is ignored.

    Returns
    -------
    RunConfig
        With all defaults filled in.

    Raises
    ------
    InputError
        Something is wrong with it, or it needs a permission that it lacks (see
        :mod:`framework.security.policy`); the message has one line for each error.
    """
    path = Path(path)
    raw = read_yaml(path)
    check_command(raw, path)
    override(raw, overrides)
    raw |= {key: value for key, value in top_level.items() if value is not None}
    with received(path, overrides, raw):
        return check(RunConfig, raw, path)


_COMMANDS = {
    "sweep": ("a sweep", "sweep"),
    "experiment": ("an experiment", "experiment"),
    "library": ("a library", "library build"),
    "": ("a run", "run"),
}  # by section


def check_command(raw: Mapping[str, Any], path: Path, section: str = "") -> None:
    """Refuse a file of another command than that of a section; without a section, of a run."""
    present = section if section in raw else next((name for name in _COMMANDS if name in raw), "")
    (kind, verb), place = _COMMANDS[present], path
    if path.name == "config.yaml" and path.with_name(f"{section}.yaml").is_file():
        kind, verb, place = "a file of its directory", "resume", path.parent
    if present != section:
        wanted = _COMMANDS[section][0]
        raise InputError(f"{path}: expected {wanted}, found {kind}; use {command(verb, place)}")
    if section and not isinstance(raw[section], dict):
        raise InputError(f"{path}: {section}: expected keys and values, found {raw[section]!r}")


def patched(config: RunConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a configuration with other values of dotted keys.

    A section that gets another kind starts from the defaults of that kind.
    """
    raw = config.model_dump(mode="json")
    before = flatten(raw)
    for key in sorted((key for key in values if key.endswith(".kind")), key=len):
        if values[key] != before.get(key):
            put(raw, key.removesuffix(".kind"), {"kind": values[key]})
    for key, value in values.items():
        put(raw, key, value)
    return raw


def changed(config: RunConfig, values: Mapping[str, Any], path: Path) -> RunConfig:
    """Return a configuration with other values of dotted keys; see :func:`check`."""
    return check(RunConfig, patched(config, values), path)


def with_horizon(algorithm: AlgorithmOptions, budget: Budget) -> AlgorithmOptions:
    """Return a search's options; a ``horizon`` that is not given is the budget's evaluations."""
    if getattr(algorithm, "horizon", 0) is None:
        return algorithm.model_copy(update={"horizon": budget.evaluations})
    return algorithm


@contextmanager
def noting(messages: list[str]) -> Iterator[None]:
    """Append the message of an InputError to ``messages`` instead of raising it."""
    try:
        yield
    except InputError as error:
        messages.append(str(error))


_MOST_ERRORS = 50  # of one section that are listed
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MOST_DIGITS = 100  # of a number; sixties (1:59:59) take a time that grows with their square


def _odd(problem: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which also refuses a key that comes twice, and what takes long to make.

    Of a malformed date or number it raises a YAML error with its place, not an error of Python's.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = 0
        self._values_of: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Count the values before any is made; those of an alias or of a merge each time."""
        is_alias, before = self.check_event(yaml.AliasEvent), self._values
        node = super().compose_node(parent, index)
        if node is not None and is_alias and node not in self._values_of:
            raise ValueError("an alias within what it stands for")
        self._values += self._values_of[node] if node is not None and is_alias else 1
        if isinstance(node, yaml.ScalarNode) and len(node.value) > CONFIG_TEXT:
            raise _odd(f"a text of more than {CONFIG_TEXT:,} characters", node)
        if self._values > CONFIG_VALUES:
            raise ValueError(f"more than {CONFIG_VALUES:,} values")
        if node is not None:
            self._values_of[node] = self._values - before
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse keys that are no texts, or come twice."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str):
                raise _odd("a key that is a list or a mapping", key)
            if key.value in seen:
                raise _odd(f"key {key.value!r} twice", key)
            seen.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if node.tag in _NUMBERS and len(node.value) > _MOST_DIGITS:
                raise ValueError
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError) as error:
            if not isinstance(node, yaml.ScalarNode):
                raise
            kind = node.tag.rpartition(":")[2]
            problem = f"{_shown(node.value)}, which is no {kind}; put a text in quotes"
            raise _odd(problem, node) from error


_ODD = (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError)


@lru_cache(maxsize=8)  # a command asks for the configuration of a run up to eight times
def _value(text: str) -> Any:
    value = yaml.load(text, _Loader)
    check_tree(value, CONFIG_VALUES)
    return value


def _parsed(text: str) -> Any:
    """Return a YAML value; what is malformed, too deep or too large raises one of ``_ODD``."""
    return deepcopy(_value(text))


def readable(text: str) -> str:
    """Return a configuration that is to be written; refuse one too large to be read again."""
    try:
        if len(text.encode()) > CONFIG_BYTES:
            raise ValueError(f"more than {CONFIG_BYTES:,} bytes")
        _parsed(text)
    except _ODD as error:
        raise InputError(
            f"experiment: expected a configuration that can be read again together with the files "
            f"that its cases name, found {error}"
        ) from error
    return text


def read_yaml(path: Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Read a YAML mapping, safely, and override some of its keys."""
    try:
        raw = _parsed(read_text(path, CONFIG_BYTES))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if (path / "config.yaml").is_file():
            reason = "it is the directory of what was run; `resume` goes on with it"
        raise InputError(f"{path}: cannot read the configuration: {reason}") from error
    except _ODD as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1}, column {where.column + 1})" if where else ""
        fault = getattr(error, "problem", None) or str(error)
        if isinstance(error, RecursionError):
            fault = f"more than {JSON_DEPTH} levels of lists and mappings"
        raise InputError(f"{path}{line}: expected YAML, found: {fault}") from error
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected keys and values, found {_shown(raw)}")
    override(raw, overrides)
    return raw


def check(
    model: type[M], raw: Any, where: str | Path, context: Mapping[str, Any] | None = None
) -> M:
    """Return an instance of a model, made of the content of a configuration or of a section.

    Parameters
    ----------
    model : type
        A pydantic model.
    raw : object
    where : str or pathlib.Path
        The place that messages name: a section, or a file, to whose folder paths are relative.
    context : mapping, optional
        ``base`` is the folder to which paths are relative where ``where`` is no file.

    Raises
    ------
    InputError
        Something is wrong with it; the message has one line for each error.
    """
    context = {"base": where.parent} if isinstance(where, Path) else dict(context or {})
    raw = _without_arrays(raw)
    check_sizes(raw, str(where))
    try:
        return model.model_validate(raw, context=context)
    except ValidationError as error:
        raise InputError("\n".join(_error_lines(model, raw, error, str(where)))) from error


def _without_arrays(raw: Any) -> Any:
    """Return values with lists and numbers of Python in place of numpy's, as YAML has them."""
    if isinstance(raw, np.ndarray | np.generic):
        return raw.tolist()
    if isinstance(raw, dict):
        return {_without_arrays(key): _without_arrays(value) for key, value in raw.items()}
    if type(raw) in (list, tuple):
        return type(raw)(map(_without_arrays, raw))
    return raw


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings and lists of mappings as one mapping of dotted keys."""
    if isinstance(tree, Mapping):
        items = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list) and any(isinstance(item, Mapping) for item in tree):
        items = [(str(i), value) for i, value in enumerate(tree)]
    else:
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat |= flatten(value, f"{prefix}.{key}" if prefix else key)
    return flat


def override(raw: dict[str, Any], assignments: Iterable[str]) -> None:
    """Apply each ``dotted.key=value``: see :func:`load_config`."""
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise InputError(f"--set: expected KEY=VALUE, found {_shown(assignment)}")
        if key.count(".") > JSON_DEPTH:
            raise InputError(f"--set: expected a key of at most {JSON_DEPTH} levels, found more")
        try:
            value = _parsed(text)
        except _ODD as error:
            raise InputError(f"--set {key}: expected a YAML value, found {_shown(text)}") from error
        put(raw, key, value)


_OF_KIND = {"problem", "algorithm", "classifier", "measure"}  # a text stands for their kind alone


def put(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key; items of lists are addressed by their number."""
    *path, last = key.split(".")
    node: Any = raw
    for step in path:
        if isinstance(node, dict) and node.get(step) is None:
            node[step] = {}
        elif isinstance(node, dict) and step in _OF_KIND and isinstance(node[step], str):
            node[step] = {"kind": node[step]}
        node = _child(node, step, key)
    if isinstance(node, list):
        _child(node, last, key)
        node[int(last)] = value
    elif isinstance(node, dict):
        node[last] = value
    else:
        raise InputError(f"--set {key}: expected a section above {last!r}, found a plain value")


def _child(node: Any, step: str, key: str) -> Any:
    if isinstance(node, dict):
        return node[step]
    if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
        return node[int(step)]
    raise InputError(f"--set {key}: expected a key or a list position at {step!r}, found none")


def _error_lines(model: type[BaseModel], raw: Any, error: ValidationError, where: str) -> list[str]:
    """Return one line for each error of ``raw``; ``where`` is its file, or ``file: section``."""
    by_place: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for detail in error.errors():
        by_place.setdefault(_keys_of(detail, raw), []).append(detail)
    # of a union, only the branch counts in which validation got deepest
    passed = {place[:i] for place in by_place for i in range(len(place))}
    deepest = [place for place in by_place if place not in passed]
    more = len(deepest) - _MOST_ERRORS
    lines = [
        _error_line(model, raw, by_place[place], place, where) for place in deepest[:_MOST_ERRORS]
    ]
    return [*lines, f"{where}: {more:,} more errors"] if more > 0 else lines


def _shown(value: Any) -> str:
    """Return a value as it is written in a sentence."""
    return "nothing" if value is None else reprlib.repr(value)


def _keys_of(detail: Mapping[str, Any], raw: Any) -> tuple[str, ...]:
    """Return the keys that lead to an error, without the steps that name a union's branch."""
    branches = {"int", "str", "float", "bool", "constrained-int", "constrained-float"}
    keys: list[str] = []
    for step in detail["loc"]:
        inner = dict(enumerate(raw)) if isinstance(raw, list) else raw
        is_key = isinstance(inner, Mapping) and step in inner  # whatever its name
        if is_key or ("[" not in str(step) and step not in branches):
            keys.append(str(step))
            raw = inner[step] if is_key else None
    return tuple(keys)


def _error_line(
    model: type[BaseModel],
    raw: Any,
    details: Sequence[Mapping[str, Any]],
    place: tuple[str, ...],
    where: str,
) -> str:
    key = ".".join(place)
    start = f"{where}{'.' if ': ' in where else ': '}{key}" if key else where
    kind = details[0]["type"]
    if kind == "extra_forbidden":
        models = _models_at(model, raw, place[:-1])
        keys = list(dict.fromkeys(name for section in models for name in _keys(section)))
        listed = f"one of {', '.join(keys)}" if keys else "no key"
        *above, last = place
        sections = [[*above, name] for name in keys]
        deeper = [
            ".".join([*section, last])
            for section in sections
            if any(last in below.model_fields for below in _models_at(model, raw, section))
        ]
        hint = registry.nearest(deeper or last, deeper or keys)
        return f"{start}: unknown key; expected {listed}; found {place[-1]!r}{hint}"
    if kind == "missing":
        for section in _models_at(model, raw, place):
            if issubclass(section, Options):
                return f"{start}: {section.lacking()}; add a line such as `{place[-1]}: KIND`"
        return f"{start}: expected a value, found nothing"
    if kind == "value_error":  # a sentence of ours
        return f"{start}: {details[0]['ctx']['error']}"
    *others, last = dict.fromkeys(_wanted(detail) for detail in details)
    wanted = " or ".join([*(text.replace(" or ", ", ") for text in others), last])
    return f"{start}: expected {wanted}, found {_shown(details[0]['input'])}"


def _keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a section, without ``kind``, which decides what the others are."""
    implied = {"kind"} if issubclass(model, Options) else set()
    return [name for name in model.model_fields if name not in implied]


def _wanted(detail: Mapping[str, Any]) -> str:
    if detail["type"] in _WANTED:
        context = detail.get("ctx", {}).items()
        whole = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in context}
        return _WANTED[detail["type"]].format(**whole)
    return str(detail["msg"]).removeprefix("Input should be ")


def _models_at(model: type[BaseModel], raw: Any, location: Sequence[str]) -> list[Any]:
    """Return the models that may stand at a place of a model, through unions, lists and names."""
    level = _models_in(model, raw)
    for step in location:
        raw = raw.get(step) if isinstance(raw, Mapping) else None
        below: list[Any] = []
        for candidate in level:
            if typing.get_origin(candidate) is dict:  # the step is a name of the user's
                below += _models_in(typing.get_args(candidate)[1], raw)
            elif step.isdigit():
                below.append(candidate)
            elif step in candidate.model_fields:
                below += _models_in(candidate.model_fields[step].annotation, raw)
        level = below
    return [candidate for candidate in level if inspect.isclass(candidate)]


def _models_in(annotation: Any, raw: Any) -> list[Any]:
    """Return the models that an annotation mentions; of options that of the kind in ``raw``."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        if issubclass(annotation, Options) and isinstance(raw, Mapping):
            return [annotation.of_kind(raw.get("kind"))]
        return [annotation]
    if typing.get_origin(annotation) is dict:
        return [annotation]
    if typing.get_origin(annotation) in (Union, types.UnionType, list, Annotated):
        return [m for argument in typing.get_args(annotation) for m in _models_in(argument, raw)]
    return []
