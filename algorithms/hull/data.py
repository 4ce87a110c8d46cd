"""The records of a network problem: how they are read, divided and encoded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from algorithms.hull.kernels.network import padded
from framework.arrays import BoolArray, FloatArray, IntArray, frozen
from framework.data.datasets import DatasetConfig, load_table
from framework.data.divisions import Subgroups, about_folds, divide, subgroups_in
from framework.data.encoding import Encoder
from framework.data.splits import MeasureConfig, SplitConfig
from framework.errors import InputError, listed
from framework.measures import Rates
from framework.settings import Section

_LABEL = " label"  # no column's name: those of tables are stripped


class NetworkSplit(SplitConfig):
    """The paper's shares of records, unless others are given."""

    train: float = Field(default=0.25, gt=0, lt=1)
    validation: float = Field(default=0.25, gt=0, lt=1)
    test: float = Field(default=0.5, ge=0, lt=1)


class TrainingConfig(Section):
    """How a network is trained.

    epochs, batch : passes over the training records, and records of a step.
    learning_rate : length of a step.
    seed : decides the initial weights and the order of the records.
    """

    epochs: int = Field(default=100, ge=0)
    batch: int = Field(default=5, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)
    seed: int = Field(default=0, ge=0)


_HOLDOUT = MeasureConfig(kind="holdout")


class NetworkConfig(Section):
    """``{kind: network, dataset: {sklearn: breast_cancer}}``.

    dataset : where the records come from, and how they are read.
    split : shares of the records to train on, to search on and to test on, and how to divide them.
    training : how the network is trained before its connections are searched.
    distinct : whether only the first of equal records counts, so that none is in two parts.
    hidden : units of each hidden layer.
    gates : whether a gene keeps a connection (``connections``) or an input or hidden unit with all
        its connections (``neurons``), or one gene says how many connections are kept, the largest
        first (``magnitude``).
    thresholds : number of thresholds that genes choose from, a power of two; with 0, a network
        answers by its larger output, as in the paper.
    finetune : epochs of training of the masked network before it is scored; 20 by default with
        ``gates: magnitude``, else 0.
    subgroup : column whose values are subgroups, which further metrics compare. It stays a feature
        if it is one.
    measure : the records that candidates are measured on; by default a cross-validation with
        ``gates: magnitude``, else the validation records, as a mask belongs to one trained network.
    """

    dataset: DatasetConfig
    split: NetworkSplit = NetworkSplit.model_validate({})
    distinct: bool = False
    hidden: list[Annotated[int, Field(ge=1)]] = Field(default=[10, 6], min_length=1)
    gates: Literal["connections", "neurons", "magnitude"] = "connections"
    thresholds: int = Field(default=128, ge=0, le=4096)
    training: TrainingConfig = TrainingConfig()
    finetune: int = Field(default=0, ge=0)
    rates: Rates = ()
    subgroup: str | None = None
    measure: MeasureConfig = _HOLDOUT

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, raw: Any) -> Any:
        """Fill in the defaults of ``gates: magnitude``."""
        if not isinstance(raw, Mapping) or raw.get("gates") != "magnitude":
            return raw
        return {"measure": {"kind": "cross_validation"}, "finetune": 20, **raw}

    @model_validator(mode="after")
    def _fits(self) -> NetworkConfig:
        if self.thresholds == 1 or self.thresholds & (self.thresholds - 1):
            raise ValueError(
                f"thresholds: expected 0 or a power of two, such as 128, found {self.thresholds}"
            )
        if self.gates != "magnitude" and self.measure.kind != "holdout":
            raise ValueError(
                f"measure: expected holdout with gates: {self.gates}, since a mask belongs to one "
                f"trained network, found {self.measure.kind}; take gates: magnitude"
            )
        return self

    def settings(self) -> str:
        """Return all keys but the data as JSON for the fingerprint.

        Newer keys are left out if they have their old meaning, so that older fingerprints hold.
        """
        usual = {"thresholds": 0, "measure": _HOLDOUT, "rates": (), "subgroup": None}
        new = {key for key, value in usual.items() if getattr(self, key) == value}
        return self.model_dump_json(exclude={"kind", "dataset", *new}, exclude_none=True)


class Records:
    """Encoded records of a part: columns, float32 (features, at least n), and classes (n,)."""

    def __init__(self, design: FloatArray, positive: BoolArray) -> None:
        self.columns = frozen(padded(design))
        self.positive = frozen(np.ascontiguousarray(positive))

    def __len__(self) -> int:
        return len(self.positive)


class Fold(NamedTuple):
    """Training records of one network, (N, features) and (N,), and the records that it scores."""

    design: FloatArray
    positive: BoolArray
    held: Records


def load(config: NetworkConfig) -> dict[str, Any]:
    """Load, split and encode the data; return the arguments of ``NetworkProblem``.

    Raises
    ------
    InputError
        There are not two classes, or no validation records.
    """
    table = load_table(config.dataset, aside=config.split.columns, subgroup=config.subgroup)
    code = table.positive
    if code is None or len(table.classes) != 2:
        raise InputError(
            "problem.dataset: expected two classes, found "
            f"{len(table.classes)}: {listed(table.classes[:5])}"
        )
    if config.distinct:
        first = ~table.features.assign(**{_LABEL: table.labels}).duplicated().to_numpy()
        table = table.only(first)
    features, labels = table.features, table.labels
    division = divide(table, config.split, config.measure)
    split, training, scored = division.split, division.split.train, division.split.validation
    if len(scored) == 0 and not division.repeats:
        raise InputError("problem.split.validation: expected a share above 0, found 0")
    positive = labels == code

    def encoded(training: IntArray, *parts: IntArray) -> tuple[Encoder, FloatArray, list[Records]]:
        """Return an encoder fitted to training records, these records, and the other parts."""
        encoder = table.fit_encoder(features.iloc[training])
        return (
            encoder,
            frozen(encoder.transform(features.iloc[training])),
            [Records(encoder.transform(features.iloc[rows]), positive[rows]) for rows in parts],
        )

    folds = []
    counts: dict[str, Any] = {"train": len(split.train), "validation": len(split.validation)}
    if division.repeats:
        training = split.pooled
        asked = [fold for folds_of in division.repeats for fold in folds_of]
        for fold in asked:
            _, design, (held,) = encoded(training[fold.train], training[fold.held_out])
            folds.append(Fold(design, frozen(positive[training[fold.train]]), held))
        scored = training[np.concatenate([fold.held_out for fold in asked])]
        counts = about_folds(division, config.split, config.measure)
    subgroups: tuple[Subgroups, ...] = ()
    if config.subgroup is not None:
        every = subgroups_in(table.aside[config.subgroup])
        subgroups = every.take(scored), every.take(split.test)
    encoder, design, (validation, test) = encoded(training, scored, split.test)
    fingerprints = [table.fingerprint, str(code), config.settings(), division.fingerprint]
    if config.rates or subgroups:
        fingerprints.append(json.dumps([config.rates, [of.content for of in subgroups]]))
    return {
        "design": design,
        "positive": positive[training],
        "validation": validation,
        "test": test,
        "config": config,
        "fingerprint": " ".join(filter(None, ["network", *fingerprints])),
        "about": {
            "encoder": encoder.to_json(),
            "classes": (table.classes[1 - code], table.classes[code]),
            "example": table.example,
            "describe": {
                **table.about(),
                "records": len(labels),
                "features": len(table.features.columns),
                "classes": [str(label) for label in table.classes],
                "positive": str(table.classes[code]),
                **counts,
                "test": len(split.test),
            },
        },
        "folds": folds,
        "subgroups": subgroups,
        "units": np.unique(division.units[scored], return_inverse=True)[1].ravel(),
    }
