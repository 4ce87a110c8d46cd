"""From a configuration to a network problem, and from a genome to a model: the driver's part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from algorithms.hull.network_config import NetworkConfig, Records
from framework.arrays import Array
from framework.data.datasets import load_table
from framework.data.encoding import Encoder
from framework.data.splits import split_records
from framework.errors import InputError

if TYPE_CHECKING:
    from algorithms.hull.model import SparseNetworkClassifier


_LABEL = " label"  # no column's name: those of tables are stripped


def set_up(config: NetworkConfig) -> dict[str, Any]:
    """Load, split and encode the data; return the arguments of ``NetworkProblem``.

    Raises
    ------
    InputError
        Other than two classes, or no validation records.
    """
    table = load_table(config.dataset)
    if table.positive is None or len(table.classes) != 2:
        raise InputError(
            "problem.dataset: expected two classes, found "
            f"{len(table.classes)}: {', '.join(map(str, table.classes[:5]))}"
        )
    features, labels = table.features, table.labels
    if config.distinct:
        first = ~features.assign(**{_LABEL: labels}).duplicated().to_numpy()
        features, labels = features[first], labels[first]
    split = split_records(labels, config.split)
    if len(split.validation) == 0:
        raise InputError("problem.split.validation: expected a share above 0, found 0")
    training = features.iloc[split.train]
    encoder = table.fit_encoder(training)
    positive = labels == table.positive

    def part(rows: Array) -> Records:
        return Records(encoder.transform(features.iloc[rows]), positive[rows])

    settings = config.model_dump_json(exclude={"dataset"})
    return {
        "design": encoder.transform(training),
        "positive": positive[split.train],
        "validation": part(split.validation),
        "test": part(split.test),
        "config": config,
        "fingerprint": f"network {table.fingerprint} {table.positive} {settings}",
        "about": {
            "encoder": encoder.to_json(),
            "classes": (table.classes[1 - table.positive], table.classes[table.positive]),
            "example": table.example,
            "describe": {
                **table.about(),
                "records": len(labels),
                "features": len(table.features.columns),
                "classes": [str(label) for label in table.classes],
                "positive": str(table.classes[table.positive]),
                "train": len(split.train),
                "validation": len(split.validation),
                "test": len(split.test),
            },
        },
    }


class Masked(Protocol):
    """What a model of a network problem is made from, besides its genome."""

    sizes: Any

    @property
    def about(self) -> Mapping[str, Any]: ...

    def masks(self, X: Array) -> Any:
        """Return the masks of genomes."""
        ...

    def tuned(self, X: Array, masks: Any) -> tuple[Any, Any]:
        """Return weights and biases under the masks."""
        ...


def deploy(problem: Masked, x: Array) -> SparseNetworkClassifier:
    """Return the sparse network of a genome."""
    from algorithms.hull.model import SparseNetworkClassifier

    X = np.asarray(x)[np.newaxis]
    masks = problem.masks(X)
    weights, biases = problem.tuned(X, masks)
    return SparseNetworkClassifier.from_fitted(
        encoder=Encoder.from_json(problem.about["encoder"]),
        sizes=problem.sizes,
        weights=weights[0],
        biases=biases[0],
        mask=masks[0],
        classes=problem.about["classes"],
    )
