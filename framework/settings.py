"""The base of all sections of a configuration, and the budget: checked values, no YAML."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from framework.effects import note


def _placed(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    try:
        place = (Path(base, path.expanduser()) if base else path.expanduser()).resolve()
    except (RuntimeError, OSError, ValueError) as error:  # no user ~NAME; a loop; a null byte
        is_ascii = isinstance(error, UnicodeEncodeError)  # in this locale, names of files are
        reason = "no text of this locale; set PYTHONUTF8=1" if is_ascii else error
        raise ValueError(f"expected the path of a file, found {str(path)!r} ({reason})") from error
    note("read", str(place), info.field_name or "", path)
    return place


PlacedPath = Annotated[Path, AfterValidator(_placed)]
"""A path in a configuration, which is made absolute from the folder ``context['base']``.

Reading the path is recorded as an effect of the configuration.
"""


def _names_a_folder(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(
            f"expected letters, digits, '.', '_' and '-', first a letter or digit, found {name!r}"
        )
    return name


FolderName = Annotated[str, AfterValidator(_names_a_folder)]
"""A name that a directory can have."""

Rate = Annotated[float, Field(ge=0, le=1)]
"""A share or a probability, as a parameter of a search."""


_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*(?:\n(?: {4,}.*|(?=\n {4})))*)", re.MULTILINE)
_PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?([\w.]+)`")


def descriptions(cls: type) -> dict[str, str]:
    """Return the descriptions of keys in the docstrings of a class and its bases, by key.

    An entry is ``key : text``; below the heading *Parameters* the text begins in the next line.
    """
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        doc = inspect.cleandoc(vars(base).get("__doc__") or "")
        listed = _PARAMETERS.search(doc)
        for keys, entry in _ENTRY.findall(listed[1] if listed else doc):
            text = entry.partition("\n")[2] if listed else entry
            text = _ROLE.sub(r"``\1``", " ".join(text.split())).replace("``", "`")
            text = text.replace("if None", "unless given")
            texts |= dict.fromkeys(keys.split(", "), text[:1].upper() + text[1:])
    return texts


def describe(section: dict[str, Any], *classes: type) -> None:
    """Put the descriptions of keys in the docstrings of classes into a section's JSON schema.

    Of several, that of the key's own field counts, then that of the last class.
    """
    doc = inspect.cleandoc(classes[-1].__doc__ or "")
    section["description"] = doc.partition("\n\n")[0]
    for cls in reversed(classes):
        for key, text in descriptions(cls).items():
            if key in section["properties"]:
                section["properties"][key].setdefault("description", text)


class Section(BaseModel):
    """Base of every section of a configuration: unknown keys are refused, values are frozen.

    The JSON schema takes the description of each key from a line ``key : text`` in the docstring
    of the class.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        describe(handler.resolve_ref_schema(schema), cls)
        return schema

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_from_yes(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse yes and no, which pydantic would read as 1 and 0, unless they are choices."""
        if info.field_name is None:
            return value
        annotation = str(cls.model_fields[info.field_name].annotation)
        if isinstance(value, list):
            return [_choice(item, annotation) for item in value]
        value = _choice(value, annotation)
        if isinstance(value, bool) and "bool" not in annotation and "Any" not in annotation:
            raise ValueError(f"expected another value than true or false, found {value}")
        return value


def _choice(value: Any, annotation: str) -> Any:
    """Return yes or no, of which YAML makes a truth value, as a text where that is a choice."""
    word = "yes" if value else "no"
    return word if isinstance(value, bool) and f"'{word}'" in annotation else value


class SectionOfKind(Section):
    """A section that may be abbreviated to the text of its ``kind``."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = super().__get_pydantic_json_schema__(core, handler)
        handler.resolve_ref_schema(schema)["type"] = ["string", "object"]
        return schema

    @model_validator(mode="wrap")
    @classmethod
    def _of_kind(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return handler({"kind": value} if isinstance(value, str) else value)


class Budget(Section):
    """The limits of a run, which ends at the first one it reaches; one of the first four is needed.

    generations : number of generations after the first one.
    evaluations : number of candidates evaluated.
    seconds : time spent searching, over all sessions; the one limit with which the front depends
        on the machine.
    patience : number of generations in a row without a change of the Pareto front.
    max_failed_share : share of failed evaluations above which the run stops, from the 50th on.
    """

    generations: int | None = Field(default=None, ge=0)
    evaluations: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    patience: int | None = Field(default=None, ge=1)
    max_failed_share: float = Field(default=0.5, ge=0, le=1)

    @model_validator(mode="after")
    def _finite(self) -> Budget:
        if not any((self.generations is not None, self.evaluations, self.seconds, self.patience)):
            raise ValueError(
                "expected one of generations, evaluations, seconds, patience; found none"
            )
        return self
