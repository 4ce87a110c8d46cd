"""Pruning a trained network: which connections are worth their complexity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from algorithms.hull.data import Fold, NetworkConfig, Records, load
from algorithms.hull.kernels import network as kernels
from algorithms.hull.reference import TWO_CLASSES
from algorithms.hull.thresholds import Thresholds
from framework.answering import AnsweringProblem
from framework.answers import Answers, Measure, Part, Size
from framework.answers import Records as AnsweredRecords
from framework.arrays import Array, BoolArray, FloatArray, IntArray, WordArray, frozen, record_codes
from framework.capabilities import Alternative
from framework.components import Components, ComponentStore
from framework.data.datasets import memory_to_load
from framework.data.divisions import Subgroups, subgroups_of
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.machine import cache_dir
from framework.measures import Ratio, Tables, each_once, rates
from framework.problem import Deployable
from framework.roles import Metric
from framework.settings import Section
from framework.space import Bits, Integers, Space
from framework.streams import stream

if TYPE_CHECKING:
    import pandas as pd

_START, _ORDER, _GENOME = 81, 82, 83  # streams of one seed
_KEY = np.zeros((1, 1), dtype=np.uint64)  # of the only shared component there is
_SHARES = (*(0.75 ** np.arange(12)), 0.0)  # of connections kept, one for each level of magnitude
_TOGETHER = 4096  # candidates whose margins are in memory at a time
_SHOWN = 15  # thresholds of the unpruned network beside a front
_RATES = ("false_positive_rate", "false_negative_rate", "complexity")


class _Networks(NamedTuple):
    """Networks that were trained on the same records: one, or one for each level of magnitude."""

    sizes: IntArray
    weights: Array
    biases: Array
    masks: Array


class NetworkProblem(AnsweringProblem, Deployable):
    """Masks of a sigmoid network that was trained once on the training records, and thresholds.

    A gene is a connection (or, with ``gates: neurons``, a unit) that stays, or not. Biases stay.
    With ``gates: magnitude`` one gene says which share of the connections stays, those of the
    largest weights; each of these networks is then trained on. The last genes choose a
    threshold (:class:`~algorithms.hull.thresholds.Thresholds`).
    Metrics are of the validation records: the rates of errors among negative and among positive
    records, the share and the number of connections kept, and accuracy.

    Parameters
    ----------
    design : float64 (N, features)
        Encoded training records.
    positive : bool (N,)
    validation, test : Records
        ``test`` may be empty. Of a cross-validation, ``validation`` are those of the folds.
    config : NetworkConfig
    fingerprint : str
    about : mapping
        What reports say of the data, and what a model needs: ``describe``, ``encoder``,
        ``classes``, ``features``, ``example``.
    folds : sequence of Fold
        Of a cross-validation. Each scores its own records; the model that is handed out is trained
        on ``design``.
    units : int64 (records searched,), optional
        See :class:`~framework.outcomes.RecordOutcomes`.
    subgroups : sequence of Subgroups
        Of the validation records and of the test records; none unless given.

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

    A free mask belongs to one trained network. Levels of magnitude mean the same in all, so these
    can be measured out-of-fold: networks of five folds, and one of all records.

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
        folds: Sequence[Fold] = (),
        units: IntArray | None = None,
        subgroups: Sequence[Subgroups] = (),
    ) -> None:
        self.design = frozen(np.ascontiguousarray(design))
        self.positive = frozen(np.ascontiguousarray(positive))
        self.validation, self.test, self.config = validation, test, config
        self.about, self.folds, self.units = about, tuple(folds), units
        self.sizes = self._sizes(design)
        self.connections = int((self.sizes[:-1] * self.sizes[1:]).sum())
        self._by_magnitude = config.gates == "magnitude"
        self.narrow = not self._by_magnitude
        self.thresholds = Thresholds(config.thresholds, coded=not self._by_magnitude)
        more = self.thresholds.genes
        if self._by_magnitude:
            upper = [len(_SHARES) - 1, *[config.thresholds - 1] * more]
            self._gates = 1
            self.space: Space = Integers(np.zeros(len(upper)), np.array(upper))
        else:
            by_unit = config.gates == "neurons"
            self._gates = int(self.sizes[:-1].sum()) if by_unit else self.connections
            self.space = Bits(self._gates + more)
        for part, name in ((validation, "validation"), (test, "test")):
            if len(part) and part.positive.all() | ~part.positive.any():
                raise InputError(
                    f"problem.split: expected {name} records of both classes, found one; raise "
                    f"{name}, stratify, or choose another seed"
                )
        self.answered = {
            "search": self._answered(
                validation, "search", subgroups, units=units, refitted=bool(folds)
            ),
            "test": self._answered(test, "test", subgroups) if len(test) else None,
        }
        self.measures = self._measures(subgroups[0].names if subgroups else ())
        self._plain = not (config.rates or subgroups)  # whether counts of errors are all it takes
        self.fingerprint = fingerprint
        self._network: FloatArray | None = None  # weights, then biases
        self._failed = ""
        self._store: ComponentStore | None = None

    def _answered(
        self, of: Records, part: Part, subgroups: Sequence[Subgroups], **more: Any
    ) -> AnsweredRecords:
        """Return the records of a part as answers are about them."""
        labels, classes = of.positive.astype(np.int64), tuple(self.about["classes"])
        compared = subgroups_of(subgroups, part)
        return AnsweredRecords(labels, classes, 1, part=part, **compared, **more)

    def _measures(self, subgroups: Sequence[str]) -> tuple[Measure, ...]:
        """Return how the metrics follow from answers."""
        ones, n = int(self.validation.positive.sum()), len(self.validation)
        steps, tables = (n - ones, ones, self.connections, n, self.connections), Tables(2)
        false, missed, complexity, accuracy, connections = (
            metric._replace(steps=count)
            for metric, count in zip(self.known_metrics, steps, strict=True)
        )
        wrong, every = tables.everyone - tables.right, np.ones(2, dtype=bool)
        wrong *= tables.answered
        return each_once(
            [
                tables.ratio(false, "false_positive_rate", 1),
                tables.ratio(missed, "false_negative_rate", 1),
                Size(complexity),
                Ratio(accuracy, wrong, tables.everyone, every, complement=True),
                Size(connections._replace(high=float(self.connections))),
            ],
            rates(self.config.rates, self.about["classes"], 1, subgroups),
        )

    @classmethod
    def from_config(cls, config: NetworkConfig) -> Self:
        problem = cls(**load(config))
        problem.open_store()
        return problem

    @classmethod
    def memory_to_load(cls, config: NetworkConfig) -> int:
        return memory_to_load(config.dataset)

    def open_store(self) -> None:
        folder = cache_dir()
        if folder is not None:
            more = {"gates", "finetune"} if self._by_magnitude else set()
            config = self.config.model_dump_json(include={"hidden", "training", *more})
            digest = hashlib.sha256(config.encode())
            for design, positive in self._trainings():
                digest.update(design.tobytes() + positive.tobytes())
            words = sum(map(self._words, self._trainings()))
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
        more = self.thresholds.genes
        cuts = ("threshold",) if more == 1 else tuple(f"threshold_{i}" for i in range(more))
        if self._by_magnitude:
            return ("level", *cuts)
        if self.config.gates == "neurons":
            layers = enumerate(self.sizes[:-1].tolist())
            return (*(f"unit{layer}_{i}" for layer, n in layers for i in range(n)), *cuts)
        pairs = enumerate(zip(self.sizes[:-1].tolist(), self.sizes[1:].tolist(), strict=True))
        weights = (
            f"w{layer}_{i}_{j}" for layer, (n, m) in pairs for i in range(n) for j in range(m)
        )
        return (*weights, *cuts)

    def starts(self) -> Array:
        """Return the whole network with each threshold, and the two trivial classifiers."""
        cuts = self.thresholds.rows()
        if not len(cuts):
            return super().starts()
        whole, empty = (0, len(_SHARES) - 1) if self._by_magnitude else (1, 0)
        gates = np.full((len(cuts) + 2, self._gates), whole)
        gates[-2:] = empty
        X = np.concatenate([gates, np.concatenate([cuts, cuts[[0, -1]]])], axis=1)
        return X.astype(self.space.dtype)

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """Return what networks that always answer one class reach, at both ends of complexity."""
        if sorted(metrics) != sorted(_RATES):
            return None
        order = [_RATES.index(name) for name in metrics]
        return [[point[j] for j in order] for point in TWO_CLASSES]

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
        """Train the networks of all folds, then those that are handed out; return all numbers."""
        return np.concatenate([self._trained_on(*records) for records in self._trainings()])

    def _trainings(self) -> list[tuple[FloatArray, BoolArray]]:
        """Return the training records of each fold, then those of what is handed out."""
        return [(fold.design, fold.positive) for fold in self.folds] + [
            (self.design, self.positive)
        ]

    def _sizes(self, design: FloatArray) -> IntArray:
        return frozen(np.array([design.shape[1], *self.config.hidden, 2], dtype=np.int64))

    def _words(self, records: tuple[FloatArray, BoolArray]) -> int:
        """Return how many weights and biases all networks have that are trained on records."""
        sizes = self._sizes(records[0])
        each = int((sizes[:-1] * sizes[1:]).sum() + sizes[1:].sum())
        return each * (len(_SHARES) if self._by_magnitude else 1)

    def _trained_on(self, design: FloatArray, positive: BoolArray) -> FloatArray:
        """Train a network; return its weights, then its biases, and so on for each level."""
        training, sizes = self.config.training, self._sizes(design)
        rng = stream(training.seed, _START)
        bound = np.concatenate([np.full(n * m, np.sqrt(6.0 / (n + m))) for n, m in pairwise(sizes)])
        weights = rng.uniform(-bound, bound)
        biases = np.zeros(int(sizes[1:].sum()))
        everything = np.ones(len(weights), dtype=np.int8)
        rng = stream(training.seed, _ORDER)
        self._train(weights, biases, everything, training.epochs, rng, design, positive)
        parts = [weights, biases]
        if self._by_magnitude:
            for level, mask in enumerate(_largest(weights)[1:], start=1):
                tuned = weights.copy(), biases.copy()
                rng = stream(training.seed, _GENOME, level)
                self._train(*tuned, mask, self.config.finetune, rng, design, positive)
                parts += tuned
        return np.concatenate(parts)

    def _networks(self) -> list[_Networks]:
        """Return the networks of each fold, then those that are handed out."""
        self.network()
        assert self._network is not None
        networks, start = [], 0
        for records in self._trainings():
            sizes, end = self._sizes(records[0]), start + self._words(records)
            n = int((sizes[:-1] * sizes[1:]).sum())
            rows = self._network[start:end].reshape(-1, n + int(sizes[1:].sum()))
            weights, biases = (part.astype(np.float32) for part in (rows[:, :n], rows[:, n:]))
            networks.append(_Networks(sizes, weights, biases, _largest(rows[0, :n])))
            start = end
        return networks

    def masks(self, X: Array) -> Array:
        """Return which connections each genome keeps, int8 (n, connections)."""
        if self._by_magnitude:
            return frozen(self._networks()[-1].masks[X[:, 0]])
        X = X[:, : self._gates]
        if self.config.gates == "connections":
            return frozen(np.ascontiguousarray(X, dtype=np.int8))
        units = np.split(X, np.cumsum(self.sizes[:-1])[:-1].tolist(), axis=1)
        units.append(np.ones((len(X), 2), dtype=X.dtype))
        layers = [
            (above[:, :, np.newaxis] & below[:, np.newaxis, :]).reshape(len(X), -1)
            for above, below in pairwise(units)
        ]
        return frozen(np.ascontiguousarray(np.concatenate(layers, axis=1), dtype=np.int8))

    def tuned(self, X: Array, masks: Array) -> tuple[Array, Array]:
        """Return the networks of genomes: float32 weights and biases, one row or one a genome."""
        if self._by_magnitude:
            network = self._networks()[-1]
            return network.weights[X[:, 0]], network.biases[X[:, 0]]
        weights, biases = self.network()
        if not self.config.finetune:
            return weights[np.newaxis].astype(np.float32), biases[np.newaxis].astype(np.float32)
        tuned = []
        for x, mask in zip(X[:, : self._gates], masks, strict=True):
            copies = weights.copy(), biases.copy()
            digest = hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=8).digest()
            rng = stream(self.config.training.seed, _GENOME, int.from_bytes(digest, "little"))
            self._train(*copies, mask, self.config.finetune, rng, self.design, self.positive)
            tuned.append(copies)
        return (
            np.array([w for w, _ in tuned], dtype=np.float32),
            np.array([b for _, b in tuned], dtype=np.float32),
        )

    def direct(self, X: Array, part: Part) -> Mapping[str, Array]:
        """Return all metrics, if counts of errors are enough: see :class:`AnsweringProblem`."""
        if not self._plain:
            return {}
        records = self.validation if part == "search" else self.test
        masks = self.masks(X)
        wrong, ones = self._answers(X, records) != records.positive, int(records.positive.sum())
        errors = np.count_nonzero(wrong, axis=1)
        missed = np.count_nonzero(wrong & records.positive, axis=1)
        connected = masks.sum(axis=1, dtype=np.int64)
        return {
            "false_positive_rate": (errors - missed) / (len(records) - ones),
            "false_negative_rate": missed / ones,
            "complexity": connected / self.connections,
            "accuracy": 1.0 - errors / len(records),
            "connections": connected.astype(np.float64),
        }

    def answers(self, X: Array, part: Part = "search") -> Answers:
        """Return which records genomes call positive, and how many connections they keep."""
        records = self.records(part)
        assert records is not None
        of = self.validation if part == "search" else self.test
        codes = np.empty((len(X), len(of)), dtype=np.int8)
        for first in range(0, len(X), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            codes[some] = self._answers(X[some], of)
        stays = self.masks(X).sum(axis=1, dtype=np.int64)
        sizes = {"complexity": stays / self.connections, "connections": stays.astype(np.float64)}
        return Answers(records, codes, sizes=sizes)

    def alternatives(self) -> Sequence[Alternative]:
        """Return the unpruned network with some of its thresholds, and the largest class."""
        alternatives, last = [], self.thresholds.count - 1
        name = "the unpruned network"
        if last < 0:
            whole = np.full((1, self._gates), 0 if self._by_magnitude else 1)
            X = whole.astype(self.space.dtype)
            alternatives.append(Alternative.of_genomes(self, name, ["its larger output"], X))
        elif last > 1:  # the first and the last one answer the same always
            some = np.unique(np.linspace(1, last - 1, _SHOWN).round().astype(np.int64))
            points = [f"{100 * (1 - i / last):.1f}% called positive" for i in some]
            name = f"{name} with a threshold"
            alternatives.append(Alternative.of_genomes(self, name, points, self.starts()[some]))
        return [*alternatives, self.largest_class()]

    def _margins(self, X: Array, part: Records) -> Array:
        """Return by how much genomes call records positive, float32 (n, records)."""
        if not self._by_magnitude:
            masks = self.masks(X)
            tuned = self.tuned(X, masks)
            return kernels.margins(part.columns, len(part), *tuned, self.sizes, masks)
        levels, which = np.unique(X[:, 0], return_inverse=True)
        networks = self._networks()
        asked = [(networks[-1], part)]
        if part is self.validation and self.folds:
            asked = [
                (network, fold.held) for network, fold in zip(networks, self.folds, strict=False)
            ]
        margins = [
            kernels.margins(
                held.columns,
                len(held),
                network.weights[levels],
                network.biases[levels],
                network.sizes,
                frozen(network.masks[levels]),
            )
            for network, held in asked
        ]
        return np.asarray(np.concatenate(margins, axis=1)[which.ravel()])

    def _answers(self, X: Array, part: Records) -> BoolArray:
        """Return which records genomes call positive, (n, records)."""
        margins = searched = self._margins(X, part)
        if self.thresholds.count and part is not self.validation:
            searched = self._margins(X, self.validation)
        cuts = self.thresholds.cuts(X[:, self._gates :], searched)
        return np.asarray(margins > cuts[:, np.newaxis])

    def describe(self) -> Mapping[str, Any]:
        return dict(self.about["describe"])

    def example(self) -> Mapping[str, list[Any]]:
        return dict(self.about["example"])

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        part = self.validation
        pooled = self.design, part.columns[:, : 0 if self.folds else len(part)].T
        searched = np.concatenate(pooled)
        y = np.concatenate([self.positive, part.positive[: len(searched) - len(self.design)]])
        asked = Encoder.from_json(self.about["encoder"]).transform(frame)
        return record_codes(asked.astype(searched.dtype), codes), record_codes(searched, y)

    def decode(self, x: Array) -> Any:
        from algorithms.hull.model import SparseNetworkClassifier

        X = np.asarray(x)[np.newaxis]
        masks = self.masks(X)
        weights, biases = self.tuned(X, masks)
        margins = self._margins(X, self.validation)
        return SparseNetworkClassifier.from_fitted(
            encoder=Encoder.from_json(self.about["encoder"]),
            sizes=self.sizes,
            weights=weights[0],
            biases=biases[0],
            mask=masks[0],
            classes=self.about["classes"],
            threshold=float(self.thresholds.cuts(X[:, self._gates :], margins)[0]),
        )

    def _train(
        self,
        weights: FloatArray,
        biases: FloatArray,
        mask: Array,
        epochs: int,
        rng: np.random.Generator,
        design: FloatArray,
        positive: BoolArray,
    ) -> None:
        n = len(positive)
        order = np.array([rng.permutation(n) for _ in range(epochs)], dtype=np.int64)
        training = self.config.training
        kernels.train(
            design,
            positive,
            weights,
            biases,
            self._sizes(design),
            frozen(mask),
            order.reshape(epochs, n),
            training.batch,
            training.learning_rate,
        )


def _largest(weights: FloatArray) -> Array:
    """Return the mask of each level of magnitude, int8 (levels, weights): the largest stay."""
    order = np.argsort(-np.abs(weights), kind="stable")
    masks = np.zeros((len(_SHARES), len(weights)), dtype=np.int8)
    for mask, share in zip(masks, _SHARES, strict=True):
        mask[order[: round(share * len(weights))]] = 1
    return masks
