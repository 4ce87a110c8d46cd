"""Weighted ensembles as files: each member's .skops in a folder of its own; and their README."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from framework.arrays import FloatArray
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost
from framework.models.card import cell
from framework.models.checks import stored_labels
from framework.models.files import ModelFiles
from framework.models.model import Card

MEMBERS, MEMBER_FILE = "members", "model.skops"

_TEXT = """\
It {answer}, weighted by how often each was picked. {cost}

| {header} |
| {rule} |
{members}"""


class Weighted(Protocol):
    """What is kept and said of a fitted ensemble."""

    names_: list[str]
    models_: list[Any]
    weights_: FloatArray
    costs_: dict[str, Cost]
    encoder_: Encoder | None

    def predict_cost(self) -> dict[str, float]:
        """Return each cost of a prediction, by name."""
        ...


def write(model: Weighted, files: ModelFiles) -> dict[str, Any]:
    """Write the members and return the description of the rest, plain JSON values."""
    for name, member in zip(model.names_, model.models_, strict=True):
        files.write_estimator(_file(name), member)
    plain = {
        "members": model.names_,
        "weights": model.weights_.tolist(),
        "costs": {
            name: {"unit": cost.unit, "values": cost.values.tolist()}
            for name, cost in model.costs_.items()
        },
        "encoder": None if model.encoder_ is None else model.encoder_.to_json(),
    }
    return plain if _classes(model) is None else {"classes": _classes(model), **plain}


def read(cls: Any, files: ModelFiles, plain: Mapping[str, Any]) -> Any:
    """Return the ensemble, of class ``cls``, that ``write`` described."""
    costs = {name: Cost(cost["values"], cost["unit"]) for name, cost in plain["costs"].items()}
    encoder = None if plain["encoder"] is None else Encoder.from_json(plain["encoder"])
    needed = "predict_proba" if hasattr(cls, "predict_proba") else "predict"
    members = {str(name): _member(files, str(name), needed) for name in plain["members"]}
    parts = [members, plain["weights"]]
    if needed == "predict_proba":
        parts.append(stored_labels(plain["classes"], "classes"))
    return cls.from_fitted(*parts, costs=costs, encoder=encoder)


def card_of(model: Weighted) -> Card:
    """Return the members with their weights and costs as a table."""
    classifies = _classes(model) is not None
    sums = [
        f"{cell(name)} {value:.6g} {model.costs_[name].unit}".rstrip()
        for name, value in model.predict_cost().items()
    ]
    units = [f"{cell(name)}{f' ({c.unit})' if c.unit else ''}" for name, c in model.costs_.items()]
    header = ["member", "weight", "kind", *units]
    rows = []
    for i, (name, part) in enumerate(zip(model.names_, model.models_, strict=True)):
        costs = [f"{cost.values[i]:.6g}" for cost in model.costs_.values()]
        weight = f"{model.weights_[i] / model.weights_.sum():.4g}"
        rows.append(" | ".join([cell(name), weight, type(part).__name__, *costs]))
    text = _TEXT.format(
        answer="answers with the likeliest class by the mean of its members' probabilities"
        if classifies
        else "answers with the mean of its members' values",
        cost=f"A prediction runs every member and costs, all of them together: {', '.join(sums)}."
        if sums
        else "A prediction runs every member.",
        header=" | ".join(header),
        rule=" | ".join(["---"] * len(header)),
        members="\n".join(f"| {row} |" for row in rows),
    )
    return Card(
        title=f"A weighted ensemble of {f'{len(rows)} models' if len(rows) > 1 else 'one model'}",
        text=text,
        answers="the columns `label` and `confidence`" if classifies else "the column `value`",
        methods="a scikit-learn estimator: "
        + ("`predict`, `predict_proba`" if classifies else "`predict`")
        + ", `predict_cost`",
    )


def _classes(model: Weighted) -> list[Any] | None:
    classes = getattr(model, "classes_", None)
    return None if classes is None else list(classes.tolist())


def _member(files: ModelFiles, name: str, needed: str) -> Any:
    member = files.read_estimator(_file(name))
    if not hasattr(member, needed):
        raise InputError(
            f"member {name!r}: expected a model with {needed}, found {type(member).__name__}"
        )
    return member


def _file(name: str) -> str:
    """Return the file of a member, whose name may lead to no other folder."""
    if "/" in name:
        raise InputError(f"members: expected names that can name a folder, found {name!r}")
    return f"{MEMBERS}/{name}/{MEMBER_FILE}"
