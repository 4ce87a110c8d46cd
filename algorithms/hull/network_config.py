"""The ``problem`` section of network problems, and the records that a network is asked about."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from algorithms.hull.kernels.network import padded
from framework.arrays import BoolArray, FloatArray
from framework.data.datasets import DatasetConfig
from framework.data.splits import SplitConfig
from framework.settings import Section


class NetworkSplit(SplitConfig):
    """The paper's shares of records, unless others are given."""

    train: float = Field(default=0.25, gt=0, lt=1)
    validation: float = Field(default=0.25, gt=0, lt=1)
    test: float = Field(default=0.5, ge=0, lt=1)


class TrainingConfig(Section):
    """How a network is trained; ``seed`` draws its first weights and the order of records."""

    epochs: int = Field(default=100, ge=0)
    batch: int = Field(default=5, ge=1)
    learning_rate: float = Field(default=0.01, gt=0)
    seed: int = Field(default=0, ge=0)


class NetworkConfig(Section):
    """``{kind: network, dataset: {sklearn: breast_cancer}}``.

    distinct : whether of equal records only the first one counts, so that none is in two parts.
    hidden : units of each hidden layer.
    gates : whether a gene keeps a connection, or an input or hidden unit with all of its.
    finetune : epochs of training of the masked network before it is scored.
    """

    dataset: DatasetConfig
    split: NetworkSplit = NetworkSplit.model_validate({})
    distinct: bool = False
    hidden: list[Annotated[int, Field(ge=1)]] = Field(default=[10, 6], min_length=1)
    gates: Literal["connections", "neurons"] = "connections"
    training: TrainingConfig = TrainingConfig()
    finetune: int = Field(default=0, ge=0)


class Records:
    """Encoded records of a part: float32 (features, at least n), and which are positive (n,)."""

    def __init__(self, design: FloatArray, positive: BoolArray) -> None:
        self.columns = padded(design)
        self.positive = np.ascontiguousarray(positive)

    def __len__(self) -> int:
        return len(self.positive)
