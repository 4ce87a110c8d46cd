"""Weighted ensembles in a directory: JSON, and each member's .skops file in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from algorithms.ensembling.model import (
    WeightedEnsemble,
    WeightedEnsembleClassifier,
    WeightedEnsembleRegressor,
)
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost

KIND = "voting"
MEMBERS, MEMBER_FILE = "members", "model.skops"

TRUSTED = (
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
)
"""Types beyond scikit-learn's own that a member may hold."""


def write(
    model: WeightedEnsemble, folder: Path, check: Callable[[bytes, str], Any]
) -> dict[str, Any]:
    """Write the members and return the description of the rest, plain JSON values.

    ``check`` takes a member's content and name, and raises InputError for types not trusted.
    """
    from skops import io

    for name, member in zip(model.names_, model.models_, strict=True):
        content = io.dumps(member)
        check(content, f"member {name!r}")
        place = folder / MEMBERS / _folder_name(name)
        place.mkdir(parents=True)
        (place / MEMBER_FILE).write_bytes(content)
    classes = model.classes_.tolist() if isinstance(model, WeightedEnsembleClassifier) else None
    return {
        "classes": classes,
        "members": model.names_,
        "weights": model.weights_.tolist(),
        "costs": {
            name: {"unit": cost.unit, "values": cost.values.tolist()}
            for name, cost in model.costs_.items()
        },
        "encoder": None if model.encoder_ is None else model.encoder_.to_json(),
    }


def read(
    plain: Mapping[str, Any], folder: Path, load: Callable[[bytes, str], Any]
) -> WeightedEnsemble:
    """Return the ensemble that ``write`` described; ``load`` takes a member's content and name."""
    members = {str(name): _member(folder, str(name), load) for name in plain["members"]}
    costs = {name: Cost(cost["values"], cost["unit"]) for name, cost in plain["costs"].items()}
    encoder = None if plain["encoder"] is None else Encoder.from_json(plain["encoder"])
    weights, classes = plain["weights"], plain["classes"]
    needed = "predict" if classes is None else "predict_proba"
    for name, member in members.items():
        if not hasattr(member, needed):
            raise InputError(
                f"member {name!r}: expected a model with {needed}, found {type(member).__name__}"
            )
    if classes is None:
        return WeightedEnsembleRegressor.from_fitted(members, weights, costs=costs, encoder=encoder)
    return WeightedEnsembleClassifier.from_fitted(
        members, weights, classes, costs=costs, encoder=encoder
    )


def _member(folder: Path, name: str, load: Callable[[bytes, str], Any]) -> Any:
    path = folder / MEMBERS / _folder_name(name) / MEMBER_FILE
    if not path.is_file():
        raise InputError(f"member {name!r}: expected its file {MEMBER_FILE}, found none")
    return load(path.read_bytes(), f"member {name!r}")


def _folder_name(name: str) -> str:
    """Return a member's name as it is, refusing one that leads out of the directory."""
    if not name or name.startswith(".") or set(name) & set("/\\\0"):
        raise InputError(f"members: expected names that can name a folder, found {name!r}")
    return name
