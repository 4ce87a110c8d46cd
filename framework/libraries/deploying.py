"""Chosen models of a library, read from its folder to be deployed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost, Library
from framework.libraries.members import EXAMPLE_FILE, MODELS, load_encoder, load_member


class Members(NamedTuple):
    """Chosen models, ready to be deployed together.

    Attributes
    ----------
    models : dict of str to estimator
        Fitted, by id, in the order of the library.
    costs : dict of str to Cost
        Values of shape (chosen,).
    encoder : Encoder, optional
        What turns raw records into the columns that the models read.
    """

    models: dict[str, Any]
    costs: dict[str, Cost]
    encoder: Encoder | None


def load_members(library: Library, chosen: Sequence[int], costs: Sequence[str]) -> Members:
    """Return the fitted models at some positions, with what they cost.

    Raises
    ------
    InputError
        There are no fitted models, or one cannot be read.
    """
    folder = library.folder
    if folder is None or not (folder / MODELS).is_dir():
        place = library.name if folder is None else folder
        raise InputError(
            f"library {place}: expected fitted models to export, found predictions alone; build "
            "the library with its models, or bring the fitted models instead of arrays"
        )
    models = {library.ids[i]: load_member(folder, library.ids[i]) for i in chosen}
    return Members(models, costs_of(library, chosen, costs), load_encoder(folder))


def costs_of(library: Library, chosen: Sequence[int], costs: Sequence[str]) -> dict[str, Cost]:
    """Return what some models cost, values of shape (chosen,)."""
    return {
        name: Cost(np.asarray(library.costs[name].values)[chosen], library.costs[name].unit)
        for name in costs
    }


def example_records(library: Library) -> dict[str, list[Any]]:
    """Return some raw records, column by column, where the library's folder has some."""
    path = None if library.folder is None else library.folder / EXAMPLE_FILE
    if path is None or not path.is_file():
        return {}
    frame = pd.read_csv(path)
    plain = frame.astype(object).where(frame.notna(), None)
    return {str(name): plain[name].tolist() for name in plain.columns}


def named_models(models: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Return fitted models by name, as estimators are given them; without one it is ``model_0``.

    Raises
    ------
    InputError
        Two have the same name, or a tuple is no name with a model.
    """
    if isinstance(models, Mapping):
        pairs = list(models.items())
    else:
        pairs = [m if isinstance(m, tuple) else (f"model_{i}", m) for i, m in enumerate(models)]
    if any(len(pair) != 2 for pair in pairs):
        raise InputError("models: expected models, or pairs of a name and a model, found others")
    named = {str(name): model for name, model in pairs}
    if len(named) < len(pairs):
        raise InputError(f"models: expected different names, found {[name for name, _ in pairs]}")
    return named


class KeepsModels:
    """A scikit-learn estimator whose parameter ``models`` is asked, never trained.

    ``sklearn.base.clone`` would un-fit the models, as it does what an estimator is to fit.
    """

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy with the same fitted models."""
        parameters: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        models = parameters.pop("models")
        others = {name: clone(value, safe=False) for name, value in parameters.items()}
        return type(self)(models, **others)  # type: ignore[call-arg]
