"""Makes the deployable ensemble of a genome from the fitted models of a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from framework.arrays import Array
from framework.libraries.library import Library
from framework.libraries.members import load_members


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

    picked = np.flatnonzero(x).tolist()
    models, charged, encoder = load_members(library, picked, costs)
    if library.classes is None:
        return WeightedEnsembleRegressor.from_fitted(
            models, x[picked], costs=charged, encoder=encoder
        )
    return WeightedEnsembleClassifier.from_fitted(
        models, x[picked], library.classes, costs=charged, encoder=encoder
    )
