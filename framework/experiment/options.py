"""The options of problems and searches: each kind has a pydantic model, found by its name."""

from __future__ import annotations

import inspect
import reprlib
import typing
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    create_model,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from framework import registry
from framework.algorithm import Algorithm, fitting, name_of
from framework.errors import InputError, Unfit
from framework.problem import Problem
from framework.roles import Roles
from framework.security import TABLE_CELLS
from framework.settings import Section, describe

AS_WRITTEN = "as_written"
"""Key of the validation context by which a section is read without the class of its kind."""


class Options(Section):
    """The section ``problem`` or ``algorithm``: ``kind``, and the options that this kind has.

    Validation makes an instance of the model that :meth:`of_kind` returns; a text stands for a
    section with a ``kind`` alone. Relative paths are taken relative to ``context['base']``.

    Attributes
    ----------
    registered_class : type
        Class attribute of the model of a kind: the class that is registered for it.
    """

    kind: str

    _group: ClassVar[registry.Group]
    _contract: ClassVar[type]
    registered_class: ClassVar[Any]

    if TYPE_CHECKING:  # which options there are depends on the kind

        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def lacking(cls) -> str:
        """Return the sentence that a kind is missing, with all that there are."""
        return f"expected one of {', '.join(registry.names(cls._group))}; found nothing"

    @classmethod
    def of_kind(cls, kind: object) -> type[Self]:
        """Return the model of a kind: the options of the class that is registered, and ``kind``.

        Raises
        ------
        InputError
            Nothing is registered under this name, or no subclass of the contract.
        """
        if kind is None:
            raise InputError(cls.lacking())
        try:
            implementation: Any = registry.load(cls._group, str(kind))
        except InputError as error:
            raise InputError(str(error).removeprefix(f"{cls._group}: ")) from error
        fits = isinstance(implementation, type) and issubclass(implementation, cls._contract)
        if not fits:
            raise InputError(
                f"expected {kind!r} to be registered for a subclass of {cls._contract.__name__}, "
                f"found {reprlib.repr(implementation)}; repair or remove its package"
            )
        return typing.cast("type[Self]", _model(cls, implementation, str(kind)))

    def as_arguments(self) -> dict[str, Any]:
        """Return the options by name, without the kind."""
        return {name: value for name, value in self if name != "kind"}

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        if "_group" not in vars(cls):
            return handler(source)
        return core_schema.with_info_plain_validator_function(cls._validated)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        if "_group" not in vars(cls):
            return super().__get_pydantic_json_schema__(core, handler)
        kinds, cases = registry.names(cls._group), []
        for kind in kinds:
            options = cls.of_kind(kind)
            model = handler.resolve_ref_schema(handler(options.__pydantic_core_schema__))
            describe(model, options.registered_class, options)
            properties = {**model["properties"], "kind": {"const": kind}}
            condition = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
            cases.append({"if": condition, "then": {**model, "properties": properties}})
        whole = {"type": "object", "properties": {"kind": {"enum": kinds}}, "allOf": cases}
        return {"anyOf": [{"enum": kinds}, whole]}

    @classmethod
    def _validated(cls, value: Any, info: ValidationInfo) -> Options:
        if isinstance(value, cls):
            return value
        raw = {"kind": value} if isinstance(value, str) else value
        raw = raw.model_dump() if isinstance(raw, OptionsAsWritten) else raw
        if not isinstance(raw, Mapping):
            raise PydanticCustomError("dict_type", "a section (keys and values)")
        if (info.context or {}).get(AS_WRITTEN):
            return OptionsAsWritten.model_validate(raw)
        try:
            model = cls.of_kind(raw.get("kind"))
        except InputError as error:
            wrong = PydanticCustomError("value_error", "{error}", {"error": str(error)})
            details = InitErrorDetails(type=wrong, loc=("kind",), input=raw.get("kind"))
            raise ValidationError.from_exception_data(cls.__name__, [details]) from error
        return model.model_validate(raw, context=info.context)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the kind with the values: its model cannot be imported from a module."""
        registered = getattr(type(self), "registered_class", None)
        model = type(self)
        if registered is not None:
            model = next(base for base in model.__mro__ if "_group" in vars(base))
        return _unpickled, (model, registered, dict(self))


class ProblemOptions(Options):
    """Section ``problem``."""

    _group: ClassVar[registry.Group] = "problems"
    _contract: ClassVar[type] = Problem


class AlgorithmOptions(Options):
    """Section ``algorithm``."""

    _group: ClassVar[registry.Group] = "algorithms"
    _contract: ClassVar[type] = Algorithm

    def make(self, problem: Problem, roles: Roles, seed: int) -> Algorithm:
        """Return the search in its initial state.

        Raises
        ------
        InputError
            It cannot search the problem; the message names searches that can. Or it asks for so
            many candidates at a time that their genes do not fit in memory.
        """
        search: type[Algorithm] = self.registered_class
        sizes = {key: getattr(self, key, None) or 0 for key in ("population", "batch")}
        for key, size in sizes.items():
            if size * problem.space.d > TABLE_CELLS:
                raise InputError(
                    f"algorithm.{key}: expected at most {TABLE_CELLS // problem.space.d:,} for "
                    f"{problem.space.d:,} genes each, found {size:,}"
                )
        try:
            return search(problem, roles, seed=seed, **self.as_arguments())
        except Unfit as error:
            name = name_of(search)
            others = ", ".join(other for other in fitting(problem) if other != name) or "none"
            raise InputError(
                f"{error}; take another algorithm (for this problem: {others})"
            ) from error


class OptionsAsWritten(Options):
    """A section as it stands in the directory of a run, whose package need not be installed."""

    model_config = ConfigDict(extra="allow")


@cache
def _model(contract: type[Options], implementation: type, kind: str) -> type[Options]:
    declared = parameters(implementation)
    keys: dict[str, Any] = {"kind": (Literal[kind], ...)}
    model: Any = create_model(
        declared.__name__, __base__=(declared, contract), __module__=declared.__module__, **keys
    )
    model.registered_class = implementation
    return typing.cast("type[Options]", model)


def _unpickled(model: type[Options], registered: type | None, values: dict[str, Any]) -> Options:
    of_kind = model if registered is None else _model(model, registered, values["kind"])
    return of_kind.model_construct(**values)


def parameters(cls: type) -> type[BaseModel]:
    """Return the pydantic model of a class's section in a configuration.

    It is ``Config`` of the class if it has one. Otherwise it is made from the keyword parameters
    of ``__init__``, so that a configuration takes the same names, types and defaults as Python.
    Where ``__init__`` passes ``**options`` on, it also has those of the next class that has one;
    of a parameter of both, type and default are the subclass's.
    """
    declared = getattr(cls, "Config", None)
    if declared is not None:
        return typing.cast("type[BaseModel]", declared)
    fields: dict[str, Any] = {}
    for base in cls.__mro__:
        constructor = vars(base).get("__init__")
        if constructor is None:
            continue
        hints = typing.get_type_hints(constructor, include_extras=True)
        arguments = inspect.signature(constructor).parameters.values()
        keys = {
            p.name: (hints[p.name], ... if p.default is p.empty else p.default)
            for p in arguments
            if p.kind is p.KEYWORD_ONLY and p.name != "seed"
        }
        fields = keys | fields  # the base's keys come first, but the subclass's types win
        if all(p.kind is not p.VAR_KEYWORD for p in arguments):
            break
    return create_model(f"{cls.__name__}Config", __base__=Section, **fields)
