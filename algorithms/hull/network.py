"""Pruning a trained network: which connections are worth their complexity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from algorithms.hull.kernels import network as kernels
from algorithms.hull.outcomes import NetworkOutcomes
from algorithms.hull.reference import TWO_CLASSES
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray
from framework.components import Components, ComponentStore
from framework.data.datasets import DatasetConfig, load_table, memory_to_load
from framework.data.divisions import divide
from framework.data.encoding import Encoder
from framework.data.splits import SplitConfig
from framework.errors import InputError, listed
from framework.machine import cache_dir
from framework.problem import Deployable, Problem, TrivialClassifier
from framework.roles import Metric
from framework.settings import Section
from framework.space import Bits
from framework.streams import CandidateStreams

_START, _ORDER, _GENOME = 81, 82, 83  # streams of one seed
_KEY = np.zeros((1, 1), dtype=np.uint64)  # of the only shared component there is
_TOGETHER = 4096  # masks whose margins are in memory at a time
_LABEL = " label"  # no column's name: those of tables are stripped
_RATES = ("false_positive_rate", "false_negative_rate", "complexity")


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
        self.columns = kernels.padded(design)
        self.positive = np.ascontiguousarray(positive)

    def __len__(self) -> int:
        return len(self.positive)


class NetworkProblem(Problem, Deployable):
    """Masks of a sigmoid network that was trained once on the training records.

    A gene is a connection (or, with ``gates: neurons``, a unit) that stays, or not. Biases stay.
    Metrics are of the validation records: the rates of errors among negative and among positive
    records, the share and the number of connections kept, and accuracy.

    Parameters
    ----------
    design : float64 (N, features)
        Encoded training records.
    positive : bool (N,)
    validation, test : Records
        ``test`` may be empty.
    config : NetworkConfig
    fingerprint : str
    about : mapping
        What reports say of the data, and what a model needs: ``describe``, ``encoder``,
        ``classes``, ``features``, ``example``.

    Raises
    ------
    InputError
        Validation records of one class alone.

    Notes
    -----
    Sparse networks of Zhao et al. (3DFCH-EMOA), Section 4.4: n-10-6-2, all units sigmoid, 100
    epochs of batches of 5, a bit a weight, validation records alone in the search. The paper
    gives no optimiser: Adam on the cross-entropy. The trained network is a shared part: one worker
    trains it, all are sent it, and it is kept on disk (PARETOLAB_CACHE).

    A fine-tuned network sees the records in an order that its genome draws, so that equal genomes
    have equal values. O(validation records x kept connections) a mask.
    """

    component_name = "networks"
    Config: ClassVar[type[Section]] = NetworkConfig
    known_metrics = (
        Metric(_RATES[0], "min", text="share of negative records called positive", mixes=True),
        Metric(_RATES[1], "min", text="share of positive records called negative", mixes=True),
        Metric(_RATES[2], "min", text="share of the connections that are kept", mixes=True),
        Metric("accuracy", "max", text="share of the records called what they are", mixes=True),
        Metric("connections", "min", "ratio", text="number of connections kept", mixes=True),
    )

    def __init__(
        self,
        design: FloatArray,
        positive: BoolArray,
        validation: Records,
        test: Records,
        config: NetworkConfig,
        fingerprint: str,
        about: Mapping[str, Any],
    ) -> None:
        self.design, self.positive = np.ascontiguousarray(design), np.ascontiguousarray(positive)
        self.validation, self.test, self.config = validation, test, config
        self.about = about
        self.sizes: IntArray = np.array([design.shape[1], *config.hidden, 2], dtype=np.int64)
        self.connections = int((self.sizes[:-1] * self.sizes[1:]).sum())
        units = int(self.sizes[:-1].sum())
        self.space = Bits(self.connections if config.gates == "connections" else units)
        for part, name in ((validation, "validation"), (test, "test")):
            if len(part) and part.positive.all() | ~part.positive.any():
                raise InputError(
                    f"problem.split: expected {name} records of both classes, found one; raise "
                    f"{name}, stratify, or choose another seed"
                )
        ones = int(validation.positive.sum())
        steps = (len(validation) - ones, ones, self.connections, len(validation), 0)
        self.metrics = tuple(
            metric._replace(steps=count)
            for metric, count in zip(self.known_metrics, steps, strict=True)
        )
        self.metrics = (
            *self.metrics[:-1],
            self.metrics[-1]._replace(high=float(self.connections), steps=self.connections),
        )
        self.fingerprint = fingerprint
        self._network: FloatArray | None = None  # weights, then biases
        self._failed = ""
        self._store: ComponentStore | None = None

    @classmethod
    def from_config(cls, config: NetworkConfig) -> Self:
        """Load, split and encode the data of a configuration."""
        problem = cls(**_loaded(config))
        problem.open_store()
        return problem

    @classmethod
    def memory_to_load(cls, config: NetworkConfig) -> int:
        return memory_to_load(config.dataset)

    def open_store(self) -> None:
        folder = cache_dir()
        if folder is not None:
            config = self.config.model_dump_json(include={"hidden", "training"})
            digest = hashlib.sha256(config.encode())
            digest.update(self.design.tobytes() + self.positive.tobytes())
            words = self.connections + int(self.sizes[1:].sum())
            self._store = ComponentStore(folder, digest.hexdigest(), 1, words, self.component_name)

    def __getstate__(self) -> dict[str, Any]:
        # The trained network and the disk stay with the driver; workers are sent the network.
        return {**self.__dict__, "_network": None, "_failed": "", "_store": None}

    @property
    def n_components(self) -> int:
        return int(self._network is not None or bool(self._failed))

    def missing_components(self, X: Array) -> WordArray:
        if not self.n_components and self._store is not None:
            self._hold(self._store.get(_KEY))
        return _KEY[self.n_components :]

    def build_components(self, keys: WordArray) -> Components:
        trained = [self._pretrained().view(np.uint64) for _ in keys]
        return Components(
            keys, np.array(trained, dtype=np.uint64)[:, np.newaxis], [b""] * len(keys)
        )

    def add_components(self, parts: Components) -> None:
        if not self.n_components:
            self._hold(parts)
            if self._store is not None and parts.models:
                self._store.put(parts)

    def components_since(self, start: int) -> Components:
        if start or not self.n_components:
            return Components(_KEY[:0], np.zeros((0, 0, 0), dtype=np.uint64))
        if self._network is None:
            return self.failed_components(_KEY, self._failed)
        return Components(_KEY, self._network.view(np.uint64)[np.newaxis, np.newaxis])

    def _hold(self, parts: Components) -> None:
        """Take the network from parts, or why there is none."""
        if parts.errors:
            self._failed = parts.errors[0]
        elif len(parts):
            self._network = parts.bits[0, 0].view(np.float64)

    @property
    def gene_names(self) -> tuple[str, ...]:
        if self.config.gates == "neurons":
            layers = enumerate(self.sizes[:-1].tolist())
            return tuple(f"unit{layer}_{i}" for layer, n in layers for i in range(n))
        pairs = enumerate(zip(self.sizes[:-1].tolist(), self.sizes[1:].tolist(), strict=True))
        return tuple(
            f"w{layer}_{i}_{j}" for layer, (n, m) in pairs for i in range(n) for j in range(m)
        )

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return what networks that always answer one class reach, at both ends of complexity."""
        if sorted(metrics) != sorted(_RATES):
            return None
        order = [_RATES.index(name) for name in metrics]
        return [[point[j] for j in order] for point in TWO_CLASSES]

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return what answering one class always scores, for which no connection is needed."""
        classes = self.about["classes"]

        def scores(part: Records, positive: int) -> dict[str, float]:
            share = float(part.positive.mean())
            rates = (1.0, 0.0, 0.0, share, 0.0) if positive else (0.0, 1.0, 0.0, 1 - share, 0.0)
            return dict(zip(self.metric_names, rates, strict=True))

        return [
            TrivialClassifier(
                f"always {'positive' if code else 'negative'}",
                classes[code],
                classes,
                scores(self.validation, code),
                scores(self.test, code) if len(self.test) else None,
            )
            for code in (0, 1)
        ]

    def network(self) -> tuple[FloatArray, FloatArray]:
        """Return the trained weights and biases, flat; trained here where nobody did before.

        Raises
        ------
        RuntimeError
            Who was to train it could not.
        """
        if len(self.missing_components(_KEY[:0])):
            self.add_components(self.build_components(_KEY))
        if self._network is None:
            raise RuntimeError(self._failed)
        return self._network[: self.connections], self._network[self.connections :]

    def _pretrained(self) -> FloatArray:
        """Train a network on the training records; return its weights, then its biases."""
        training = self.config.training
        rng = _stream(training.seed, _START)
        bound = np.concatenate(
            [
                np.full(n * m, np.sqrt(6.0 / (n + m)))
                for n, m in zip(self.sizes[:-1], self.sizes[1:], strict=True)
            ]
        )
        weights = rng.uniform(-bound, bound)
        biases = np.zeros(int(self.sizes[1:].sum()))
        everything = np.ones(self.connections, dtype=np.int8)
        rng = _stream(training.seed, _ORDER)
        self._train(weights, biases, everything, training.epochs, rng)
        return np.concatenate([weights, biases])

    def masks(self, X: Array) -> Array:
        """Return which connections each genome keeps, int8 (n, connections)."""
        if self.config.gates == "connections":
            return np.ascontiguousarray(X, dtype=np.int8)
        units = np.split(X, np.cumsum(self.sizes[:-1])[:-1].tolist(), axis=1)
        units.append(np.ones((len(X), 2), dtype=X.dtype))
        layers = [
            (above[:, :, np.newaxis] & below[:, np.newaxis, :]).reshape(len(X), -1)
            for above, below in pairwise(units)
        ]
        return np.ascontiguousarray(np.concatenate(layers, axis=1), dtype=np.int8)

    def tuned(self, X: Array, masks: Array) -> tuple[Array, Array]:
        """Return the networks of genomes: float32 weights and biases, one row or one a genome."""
        weights, biases = self.network()
        if not self.config.finetune:
            return weights[np.newaxis].astype(np.float32), biases[np.newaxis].astype(np.float32)
        found = []
        for x, mask in zip(X, masks, strict=True):
            own = weights.copy(), biases.copy()
            digest = hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=8).digest()
            rng = _stream(self.config.training.seed, _GENOME, int.from_bytes(digest, "little"))
            self._train(*own, mask, self.config.finetune, rng)
            found.append(own)
        return (
            np.array([w for w, _ in found], dtype=np.float32),
            np.array([b for _, b in found], dtype=np.float32),
        )

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        """See :meth:`Problem.evaluate`; all masks go through the records in one pass."""
        return self._scores(X, self.validation)

    def evaluate_test(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array] | None:
        """Score on the test records; None where there are none."""
        return self._scores(X, self.test) if len(self.test) else None

    def outcomes(self, X: Array) -> NetworkOutcomes:
        """Return the answers of genomes to each validation record."""
        masks, part = self.masks(X), self.validation
        answers = np.empty((len(X), -(-len(part) // 8)), dtype=np.uint8)
        for first in range(0, len(X), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            tuned = self.tuned(X[some], masks[some])
            margins = kernels.margins(part.columns, len(part), *tuned, self.sizes, masks[some])
            answers[some] = np.packbits(margins > 0, axis=1)
        kept = masks.sum(axis=1, dtype=np.int64)
        return NetworkOutcomes(answers, part.positive, kept, self.connections, self.metric_names)

    def _scores(self, X: Array, part: Records) -> dict[str, Array]:
        masks = self.masks(X)
        errors = kernels.count_errors(
            part.columns, part.positive, *self.tuned(X, masks), self.sizes, masks
        )
        ones = int(part.positive.sum())
        kept = masks.sum(axis=1, dtype=np.int64)
        return {
            "false_positive_rate": errors[:, 0] / (len(part) - ones),
            "false_negative_rate": errors[:, 1] / ones,
            "complexity": kept / self.connections,
            "accuracy": 1.0 - errors.sum(axis=1) / len(part),
            "connections": kept.astype(np.float64),
        }

    def describe(self) -> Mapping[str, Any]:
        """See :meth:`Problem.describe`."""
        return dict(self.about["describe"])

    def example(self) -> Mapping[str, list[Any]]:
        """See :meth:`Problem.example`."""
        return dict(self.about["example"])

    def decode(self, x: Array) -> Any:
        """Return the sparse network of a genome."""
        from algorithms.hull.model import SparseNetworkClassifier

        X = np.asarray(x)[np.newaxis]
        masks = self.masks(X)
        weights, biases = self.tuned(X, masks)
        return SparseNetworkClassifier.from_fitted(
            encoder=Encoder.from_json(self.about["encoder"]),
            sizes=self.sizes,
            weights=weights[0],
            biases=biases[0],
            mask=masks[0],
            classes=self.about["classes"],
        )

    def _train(
        self,
        weights: FloatArray,
        biases: FloatArray,
        mask: Array,
        epochs: int,
        rng: np.random.Generator,
    ) -> None:
        n = len(self.positive)
        order = np.array([rng.permutation(n) for _ in range(epochs)], dtype=np.int64)
        training = self.config.training
        kernels.train(
            self.design,
            self.positive,
            weights,
            biases,
            self.sizes,
            mask,
            order.reshape(epochs, n),
            training.batch,
            training.learning_rate,
        )


def _loaded(config: NetworkConfig) -> dict[str, Any]:
    """Load, split and encode the data; return the arguments of ``NetworkProblem``.

    Raises
    ------
    InputError
        Other than two classes, or no validation records.
    """
    table = load_table(config.dataset, aside=config.split.columns)
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
    found = divide(table, config.split)
    split = found.split
    if len(split.validation) == 0:
        raise InputError("problem.split.validation: expected a share above 0, found 0")
    training = features.iloc[split.train]
    encoder = table.fit_encoder(training)
    positive = labels == code

    def part(rows: Array) -> Records:
        return Records(encoder.transform(features.iloc[rows]), positive[rows])

    # keys of the split that are not given are left out, as before there were any: caches stay good
    settings = config.model_dump_json(exclude={"dataset"}, exclude_none=True)
    parts = ["network", table.fingerprint, str(code), settings, found.fingerprint]
    return {
        "design": encoder.transform(training),
        "positive": positive[split.train],
        "validation": part(split.validation),
        "test": part(split.test),
        "config": config,
        "fingerprint": " ".join(filter(None, parts)),
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
                "train": len(split.train),
                "validation": len(split.validation),
                "test": len(split.test),
            },
        },
    }


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
