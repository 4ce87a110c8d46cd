"""From the genome of a pruning to the ensemble that runs, with the library's fitted models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from framework.arrays import Array
from framework.libraries.library import Library
from framework.libraries.members import load_members

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

    members = np.flatnonzero(x).tolist()
    found = load_members(library, members, costs)
    assert library.classes is not None
    return PrunedVotingClassifier.from_votes(
        found.models,
        min(threshold, len(members)),
        library.classes,
        positive=positive,
        costs=found.costs,
        encoder=found.encoder,
    )
