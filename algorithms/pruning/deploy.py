"""From the genome of a pruning to the ensemble that runs, with the library's fitted models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from framework.arrays import Array
from framework.errors import InputError
from framework.libraries.library import Cost, Library
from framework.libraries.members import MODELS, load_encoder, load_member

if TYPE_CHECKING:
    from algorithms.pruning.model import PrunedVotingClassifier


def deploy(
    library: Library, x: Array, threshold: int, positive: int, costs: Sequence[str]
) -> PrunedVotingClassifier:
    """Return the vote of the members, fitted.

    Parameters
    ----------
    library : Library
        With fitted models in its folder.
    x : numpy.ndarray of int, shape (K,)
    threshold : int
    positive : int
        Position of the positive class.
    costs : sequence of str
        Which costs the model reports.

    Raises
    ------
    InputError
        There are no fitted models, or one cannot be read.
    """
    from algorithms.pruning.model import PrunedVotingClassifier

    folder = library.folder
    if folder is None or not (folder / MODELS).is_dir():
        place = library.name if folder is None else folder
        raise InputError(
            f"library {place}: expected fitted models to export, found predictions alone; build "
            "the library with its models, or bring the fitted models instead of arrays"
        )
    members = np.flatnonzero(x).tolist()
    models = {library.ids[i]: load_member(folder, library.ids[i]) for i in members}
    charged = {
        name: Cost(np.asarray(library.costs[name].values)[members], library.costs[name].unit)
        for name in costs
    }
    assert library.classes is not None
    return PrunedVotingClassifier.from_votes(
        models,
        min(threshold, len(members)),
        library.classes,
        positive=positive,
        costs=charged,
        encoder=load_encoder(folder),
    )
