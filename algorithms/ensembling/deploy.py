"""Makes the deployable ensemble of a genome from the fitted models of a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from framework.arrays import Array
from framework.errors import InputError
from framework.libraries.library import Cost, Library
from framework.libraries.members import EXAMPLE_FILE, MODELS, load_encoder, load_member


def deploy(library: Library, x: Array, costs: Sequence[str]) -> Any:
    """Return the fitted ensemble of the picked models, weighted by their counts.

    Parameters
    ----------
    library : Library
        With fitted models in its folder.
    x : numpy.ndarray of int, shape (K,)
    costs : sequence of str
        Which costs the model reports.

    Raises
    ------
    InputError
        There are no fitted models, or one cannot be read.
    """
    from algorithms.ensembling.model import WeightedEnsembleClassifier, WeightedEnsembleRegressor

    folder = library.folder
    if folder is None or not (folder / MODELS).is_dir():
        place = library.name if folder is None else folder
        raise InputError(
            f"library {place}: expected fitted models to export, found predictions alone; build "
            "the library, or bring the fitted models instead of arrays"
        )
    picked = np.flatnonzero(x).tolist()
    models = {library.ids[i]: load_member(folder, library.ids[i]) for i in picked}
    charged = {
        name: Cost(np.asarray(library.costs[name].values)[picked], library.costs[name].unit)
        for name in costs
    }
    encoder = load_encoder(folder)
    if library.classes is None:
        return WeightedEnsembleRegressor.from_fitted(
            models, x[picked], costs=charged, encoder=encoder
        )
    return WeightedEnsembleClassifier.from_fitted(
        models, x[picked], library.classes, costs=charged, encoder=encoder
    )


def example_records(library: Library) -> dict[str, list[Any]]:
    """Return some raw records, column by column, where the library's folder has some."""
    path = None if library.folder is None else library.folder / EXAMPLE_FILE
    if path is None or not path.is_file():
        return {}
    frame = pd.read_csv(path)
    plain = frame.astype(object).where(frame.notna(), None)
    return {str(name): plain[name].tolist() for name in plain.columns}
