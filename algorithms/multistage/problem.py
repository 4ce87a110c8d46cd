"""Multi-stage classifiers with early exit and a terminal reject, as a problem (EMSCO, Section 2).

A candidate is an ordered partition of the features into stages. A record passes the stages in
turn; at each, the features of the stage are acquired (and paid for) and a classifier trained on
all features acquired so far predicts; the record leaves as soon as the most likely class is
confident enough, or undecided after the last stage.

A stage's classifier depends on its set of features alone, so all candidates share one cache of
sub-classifiers, kept as bits per record; scoring a candidate is a handful of word operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from algorithms.moves.variation import moved
from algorithms.multistage.bit_planes import (
    ComponentTable,
    StageTables,
    features_of,
    pack,
    words_for,
)
from algorithms.multistage.data import (
    COMPONENTS_FORMAT,
    INCONCLUSIVE,
    FeatureCosts,
    MissingPolicy,
    MultiStageConfig,
    Source,
    StageData,
    column_weights,
    digest,
    prepare_table,
)
from algorithms.multistage.decision import StageDecision
from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import (
    ERROR_COST,
    METRICS,
    POSITIVE,
    RISKS,
    WORST,
    constant_metrics,
    fresh_samples,
    held_out_records,
    measure,
)
from algorithms.multistage.outcomes import GivenOutcomes, StageOutcomes
from algorithms.multistage.stage_classifiers import (
    build_cost,
    on_all_features,
    restore,
    train,
    with_threshold,
)
from framework.arrays import Array, FloatArray, IntArray, WordArray, row_codes
from framework.components import BuildCost, Components, ComponentStore
from framework.data.costs import CostGroups
from framework.data.datasets import load_table, memory_to_load
from framework.data.error_costs import per_class
from framework.errors import InputError
from framework.machine import cache_dir
from framework.models.classifiers import (
    LOGISTIC_REGRESSION,
    CalibrationMethod,
    ClassifierConfig,
)
from framework.outcomes import RecordOutcomes, Sample, WeightedOutcomes
from framework.problem import Alternative, Deployable, Problem, TrivialClassifier
from framework.rates import RatedOutcomes, RatedRecords, further
from framework.registry import nearest
from framework.roles import Metric
from framework.space import Partition
from framework.streams import CandidateStreams

if TYPE_CHECKING:
    import pandas as pd

THRESHOLDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)  # of one classifier alone
FEW_ANSWERS = 0.25  # share of records: what answers fewer is no alternative
_AT_ONCE = 2**22  # answers of weighted records that are looked at together
_STARTS = 50  # classifiers that a search begins with, at most
_CHUNK = 4096  # sub-classifiers trained at a time where all of them are


class MultiStageProblem(Problem, Deployable):
    """Coverage, conclusive accuracy and cost of ordered feature partitions.

    Usually made by :meth:`from_config`. Its metrics, over the validation records, or in a
    cross-validation over its records, each answered by classifiers that were fitted without it:

    ``coverage``
        Share of records that leave with an answer (Equation 3, conclusiveness).
    ``accuracy``
        Share of the answers that are right (Equation 4, conclusive accuracy); 0 where there is no
        answer at all.
    ``cost``
        Mean cost of the features acquired, undecided records included (Section 2.2.3, raw cost).
    ``stages``
        Number of stages.
    ``inconclusive_rate``
        Share of records terminally rejected, 1 - coverage.
    ``balanced_accuracy``, ``worst_recall``
        Mean and least over the classes of the share of a class's answers that are right; 0 for a
        class none of whose records has an answer.
    ``false_positive_rate``, ``false_negative_rate``, ``recall``, ``f1``
        Of the records with an answer: share of the negatives called positive, of the positives
        called something else or positive, and the harmonic mean of precision and recall; 0 where
        there is nothing to take a share of. Only where there is a positive class.
    ``error_cost``
        Mean cost per record of wrong answers. Only with ``error_costs``.
    ``risk``, ``total_cost``
        Mean cost per record of wrong answers and of none; the same and the acquisition cost. Only
        with ``decision``.

    All values are exact: they are ratios of integer counts, and costs are fixed-point numbers.

    Parameters
    ----------
    data : StageData
        The records, encoded.
    costs : FeatureCosts
        Of n features.
    source : Source
        Where the records come from.
    max_stages : int
        From 1 to n.
    remove_features : bool
        Whether a gene may be -1: that feature is never acquired.
    error_costs : numpy.ndarray of float64, shape (K,), optional
        What a wrong answer costs, by the true class.
    decision : StageDecision, optional
        Stages decide by these costs. The space has further genes then, the numbers of thresholds.
    rated : sequence of RatedRecords, optional
        Further metrics, of the records that are scored and of the test records.
    counts : sequence of numpy.ndarray of int64, optional
        How often each of these records counts; once each unless given.
    missing : {'impute', 'ask', 'inconclusive'}
        Of the models; see :class:`~algorithms.multistage.model.MultiStageClassifier`.
    classifier : ClassifierConfig, optional
        What is trained for each stage; logistic regression if None.
    calibration : {'none', 'isotonic', 'sigmoid', 'softmax'}
        How its probabilities are calibrated.
    """

    component_name = "sub-classifiers"
    known_metrics = METRICS
    costs_of_errors = ("total_cost", "error_cost")

    def __init__(
        self,
        data: StageData,
        costs: FeatureCosts,
        source: Source,
        *,
        max_stages: int,
        remove_features: bool = False,
        error_costs: Array | None = None,
        decision: StageDecision | None = None,
        rated: Sequence[RatedRecords] = (),
        counts: Sequence[IntArray] = (),
        missing: MissingPolicy = "impute",
        classifier: ClassifierConfig | None = None,
        calibration: CalibrationMethod = "none",
    ) -> None:
        n = data.n_features
        classifier = classifier or ClassifierConfig()
        self.data = data
        self.costs, self.cost_scale = costs.units, costs.scale
        self.groups = costs.groups or CostGroups.none(n)
        self.charges = scoring.Charges(costs.units, self.groups.of, costs.group_units)
        self.error_costs = None if error_costs is None else np.asarray(error_costs, np.float64)
        self.missing = missing
        self.kind, self.parameters = classifier.kind, classifier.parameters
        self.calibration = calibration
        self.decision = decision
        levels = (0, 1) if decision is None else decision.genes(max_stages)
        self.space: Partition = Partition(n, max_stages, remove_features, *levels)
        self.feature_names, self.classes = tuple(source.feature_names), tuple(source.classes)
        self.encoder = dict(source.encoder)
        self._about_data, self._example = dict(source.description), dict(source.example)
        worst = 1.0 if error_costs is None else float(np.max(error_costs))
        highs = {"error_cost": worst, "cost": costs.total, "stages": float(max_stages)}
        if decision is not None:
            highs["risk"] = max(float(decision.costs.errors.max()), decision.costs.no_answer)
            highs["total_cost"] = highs["risk"] + costs.total
        own = tuple(
            metric._replace(high=highs.get(metric.name, metric.high))
            for metric in self.known_metrics
            if self._reported(metric)
        )
        self.rated, self.counts = tuple(rated), tuple(counts)
        self._own_names = tuple(metric.name for metric in own)
        self.metrics = (*own, *further(self.rated, self._own_names))
        answers = [  # all that decides what a sub-classifier answers
            COMPONENTS_FORMAT,
            source.fingerprint,
            self.kind,
            self.parameters,
            data.thresholds.tolist(),
            data.positive,
        ]
        if calibration != "none":  # without it, as before there was any: caches stay good
            answers.append(calibration)
        if decision is not None:
            answers.append(decision.plain())
        if data.codes:
            answers.append("codes")
        self.components_fingerprint = digest(answers)
        design = [self.costs.tolist(), costs.scale, max_stages, remove_features]
        if self.error_costs is not None:
            design.append(self.error_costs.tolist())
        if len(self.groups):
            design += [self.groups.of.tolist(), costs.group_units.tolist()]
        if decision is not None:
            design.append(decision.per_stage)
        design += [records.content() for records in self.rated]
        design += [own.tolist() for own in self.counts]
        self.fingerprint = digest([self.components_fingerprint, *design])
        self._start_empty()
        self._store: ComponentStore | None = None

    Config = MultiStageConfig

    @classmethod
    def from_config(cls, config: MultiStageConfig) -> MultiStageProblem:
        """Load the data, split and encode them, and open the cache of sub-classifiers.

        Raises
        ------
        InputError
            Whatever is wrong with data, costs or the other keys.
        """
        aside = dict(config.split.columns)
        if config.weights is not None:
            aside["weights"] = config.weights
        table, weights = load_table(config.dataset, aside=aside, group=config.group), None
        if config.weights is not None:
            weights = column_weights(table, config.weights)
            told = f"{table.fingerprint} {digest(weights.tolist())}"
            table = replace(table.only(weights > 0), fingerprint=told)
            weights = weights[weights > 0]
        problem = cls(**prepare_table(table, config, weights=weights))
        problem.open_store()
        return problem

    @classmethod
    def memory_to_load(cls, config: MultiStageConfig) -> int:
        return memory_to_load(config.dataset)

    def open_store(self) -> None:
        folder = cache_dir()
        if folder is not None:
            shape = self.data.planes, self.data.words
            self._store = ComponentStore(
                folder, self.components_fingerprint, *shape, self.component_name
            )

    def describe(self) -> Mapping[str, Any]:
        return self._about_data

    def example(self) -> Mapping[str, list[Any]]:
        return self._example

    def memory(self, candidates: int | None) -> tuple[int, str]:
        data = self.data
        fixed = data.nbytes
        part = 8 * (words_for(data.n_features) + data.planes * data.words)
        most = 2**data.n_features - 1
        if candidates is not None:
            most = min(most, candidates * self.space.k)
        total = fixed + most * part
        text = f"data {fixed / 1e6:,.1f} MB, sub-classifiers {part / 1e3:,.1f} MB per 1,000"
        if candidates is None and most * part > 1e12:
            return total, text
        return total, f"{text}; at most {most:,} of them, {total / 1e6:,.0f} MB in all"

    def __getstate__(self) -> dict[str, Any]:
        # Components and the disk stay with the driver; workers are sent those they lack.
        return {**self.__dict__, "_store": None, "_table": None, "_records": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The table is made here: what came through Ray's object store cannot be written.
        self.__dict__ |= state
        self._start_empty()

    def _start_empty(self) -> None:
        """Set up what is made in each process: an empty table, and what follows from the data."""
        data, rule = self.data, scoring.BY_CONFIDENCE
        if self.decision is not None:
            rule = self.decision.rule(self.space.n, data.answer_planes)
        self._table = ComponentTable(words_for(data.n_features), data.planes, data.words, rule)
        self._records = held_out_records(data)

    @property
    def gene_names(self) -> tuple[str, ...]:
        found = list(self.feature_names)
        for number in range(1, self.space.levels + 1):
            name = f"threshold_{number}" if self.space.levels > 1 else "threshold"
            while name in found:
                name += "_"
            found.append(name)
        return tuple(found)

    @property
    def n_components(self) -> int:
        return self._table.n

    def missing_components(self, X: Array) -> WordArray:
        items = np.ascontiguousarray(self._genomes(X)[:, : self.space.n])
        missing = scoring.missing(items, self._table.slots, self._table.keys)
        if self._store is not None and len(missing):
            self._table.add(self._store.get(missing))
            missing = scoring.missing(items, self._table.slots, self._table.keys)
        # the largest first: they take longest, and no worker should wait for one begun last
        sizes = np.bitwise_count(missing).sum(axis=1, dtype=np.int64)
        return missing[np.argsort(-sizes, kind="stable")]

    def build_components(self, keys: WordArray) -> Components:
        return train(self.data, self.kind, self.parameters, keys, self.calibration)

    def build_cost(self, keys: WordArray) -> BuildCost:
        return build_cost(self.data, self.kind, self.parameters, keys, self.calibration)

    def add_components(self, components: Components) -> None:
        self._table.add(components)
        if self._store is not None and components.models:
            self._store.put(components)

    def components_since(self, start: int) -> Components:
        return self._table.slice(start, self.data.validation_words)

    def missing_sets(self) -> WordArray:
        """Return the feature sets whose sub-classifier :meth:`stage_tables` would have to train.

        Those on disk are held afterwards.

        Returns
        -------
        numpy.ndarray of uint64, shape (m, 1)
            Keys of components, at most 2^n - 1; n below 64.
        """
        missing = np.setdiff1d(self._all_sets(), self._table.keys[: self._table.n, 0])[:, None]
        if self._store is None:
            return missing
        for start in range(0, len(missing), _CHUNK):
            self._table.add(self._store.get(missing[start : start + _CHUNK]))
        return np.setdiff1d(missing[:, 0], self._table.keys[: self._table.n, 0])[:, None]

    def tables(self) -> MultiStageProblem:
        """Return what exact methods read: the problem itself, for its :meth:`stage_tables`."""
        return self

    def stage_tables(self) -> StageTables:
        """Train the sub-classifiers that are missing, every feature set's; return all their bits.

        With one stage only that of all features is there; the other rows stay empty.

        Raises
        ------
        InputError
            One of them cannot be trained.

        Notes
        -----
        2^n - 1 of them, n below 64.
        """
        self._refuse_weights()
        keys, words = self._trained_sets(), self.data.validation_words
        conclusive, right = np.zeros((2, 2**self.space.n, words), dtype=np.uint64)
        conclusive[keys] = self._table.bits[: len(keys), 0, :words]
        right[keys] = self._table.bits[: len(keys), 1, :words]
        return StageTables(conclusive, right, self._records[0].everyone, self.data.n_validation)

    def stage_planes(self) -> tuple[WordArray, scoring.Rule, WordArray, int]:
        """Return every plane of bits, where stages decide by costs; trains as :meth:`stage_tables`.

        Returns
        -------
        numpy.ndarray of uint64, shape (2^n, planes, words)
            By feature set.
        Rule
            What the planes are.
        numpy.ndarray of uint64, shape (words,)
            One bit per record.
        int
            Number of records.
        """
        self._refuse_weights()
        keys, words = self._trained_sets(), self.data.validation_words
        planes = np.zeros((2**self.space.n, self.data.planes, words), dtype=np.uint64)
        planes[keys] = self._table.bits[: len(keys), :, :words]
        return planes, self._table.rule, self._records[0].everyone, self.data.n_validation

    def _refuse_weights(self) -> None:
        """Refuse exact methods, which count each record once.

        Raises
        ------
        InputError
        """
        if self.counts:
            raise InputError(
                "problem.weights, in Python a sample_weight that is not whole: expected a search "
                "that weighs records, found an exact one, which counts each of them once; take "
                "local_search or emsco"
            )

    def _trained_sets(self) -> IntArray:
        """Train what is missing; return the sets of all components, in their order.

        Raises
        ------
        InputError
            One of those that are wanted cannot be trained.
        """
        n, wanted = self.space.n, self._all_sets()
        missing = self.missing_sets()
        for start in range(0, len(missing), _CHUNK):
            self.add_components(self.build_components(missing[start : start + _CHUNK]))
        keys = self._table.keys[: self._table.n, 0].astype(np.int64)
        for number, error in self._table.errors.items():
            if keys[number] >= wanted[0]:
                names = [self.feature_names[f] for f in range(n) if keys[number] >> f & 1]
                raise InputError(
                    "problem.classifier: expected a sub-classifier of every feature set, found "
                    f"none on {', '.join(names)}: {error}"
                )
        return keys

    def _all_sets(self) -> WordArray:
        """Return every feature set that a stage may have acquired, of fewer than 64 features."""
        n = self.space.n
        return np.arange(1 if self.space.k > 1 else 2**n - 1, 2**n, dtype=np.uint64)

    def evaluate(self, X: Array, streams: CandidateStreams | None = None) -> Mapping[str, Array]:
        return self._measure(X, 0)

    def evaluate_test(
        self, X: Array, streams: CandidateStreams | None = None
    ) -> Mapping[str, Array] | None:
        if self.data.n_test == 0:
            return None
        if self._table.stripped:
            raise ValueError("expected components with their test records, found stripped ones")
        return self._measure(X, 1)

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return what answering one of two classes always scores; nothing is acquired for it."""
        data = self.data
        if data.positive < 0 or len(self.classes) != 2:
            return ()
        parts = [data.y_held[: data.n_validation], data.y_held[data.n_validation :]]

        def scores(y: IntArray, code: int) -> dict[str, float]:
            costs = None if self.decision is None else self.decision.costs
            part = int(y is parts[1])
            own = self.counts[part] if self.counts else None
            found = constant_metrics(y, code, data.positive, self.error_costs, costs, own)
            if self.rated:
                found |= self.rated[part].of_constant(code, own)
            return {name: found[name] for name in self.metric_names}

        return [
            TrivialClassifier(
                f"always {'positive' if code == data.positive else 'negative'}",
                self.classes[code],
                self.classes,
                *(scores(y, code) for y in parts if len(y)),
            )
            for code in (1 - data.positive, data.positive)
        ]

    def neighbours(self, X: Array) -> Array:
        return moved(self.space, X)

    def starts(self) -> Array:
        """Return one classifier on the cheapest features, on ever more of them, on all.

        Only where stages decide by costs: what a person would do without a search, who has a
        classifier on the features that money allows.
        """
        n, nothing = self.space.n, super().starts()
        if self.decision is None:
            return nothing
        order = np.argsort(self.costs, kind="stable")
        X = np.zeros((n, self.space.d), dtype=self.space.dtype)
        for row, last in zip(X, range(1, n + 1), strict=True):
            row[order[last:]] = -1
        if not self.space.removal:
            return X[-1:]
        return X[np.unique(np.linspace(0, n - 1, min(n, _STARTS)).round().astype(np.int64))]

    def outcomes(self, X: Array) -> RecordOutcomes:
        """Return how genomes do on each record; copies and repeats of one are drawn together."""
        self._build_missing(X)
        found = self._outcomes(X, 0)
        found.refitted = bool(self.data.folds)
        return self._told(found)

    def _outcomes(self, X: Array, part: Literal[0, 1]) -> StageOutcomes:
        """Return how genomes, whose classifiers are there, do on each record of a part."""
        return StageOutcomes(
            self._genomes(X),
            self._table.held,
            self._records[part],
            self.charges,
            self.cost_scale,
            self.error_costs,
            self._own_names,
            self.data.units if part == 0 else None,
        )

    def _told(self, found: StageOutcomes, part: Literal[0, 1] = 0) -> RecordOutcomes:
        """Return outcomes with all metrics, of records that count as often as they do."""
        told: RecordOutcomes = found
        if self.rated:
            told = RatedOutcomes(found, self.rated[part], found.said, self.metric_names)
        return WeightedOutcomes(told, self.counts[part]) if self.counts else told

    def truth(self) -> tuple[IntArray, Sequence[Any]]:
        return self.data.y_held[: self.data.n_validation], self.classes

    def with_errors(
        self, section: Mapping[str, Any], errors: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return a configuration's section with other costs of errors by true class.

        Where stages decide by them, they decide anew: with the thresholds that were searched.
        """
        costs = per_class(errors, self.classes, 1.0, "costs")
        given = dict(zip(map(str, self.classes), costs.tolist(), strict=True))
        if not (np.isfinite(costs).all() and costs.min() >= 0 and costs.max() > 0):
            found = ", ".join(f"{k}={v:g}" for k, v in given.items())
            raise InputError(f"costs: expected numbers from 0, one above it, found {found}")
        if self.decision is None:
            return {**section, "error_costs": given}
        kept = self.decision.thresholds.tolist()
        decision = {**section["decision"], "errors": given, "thresholds": kept}
        return {**section, "decision": decision}

    def with_prices(
        self, section: Mapping[str, Any], prices: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return a configuration's section with other prices; what groups cost stays."""
        for name, price in prices.items():
            if name not in self.feature_names:
                raise InputError(
                    f"prices: expected features ({', '.join(self.feature_names)}), found {name!r}"
                    f"{nearest(name, self.feature_names)}"
                )
            if not (isinstance(price, Real) and np.isfinite(price) and price >= 0):
                raise InputError(f"prices: {name}: expected a number from 0, found {price}")
        own = (self.costs / self.cost_scale).tolist()
        values = dict(zip(self.feature_names, own, strict=True)) | dict(prices)
        groups = (section.get("costs") or {}).get("groups", {})
        return {**section, "costs": {"values": values, "groups": groups}}

    def alternatives(self) -> Sequence[Alternative]:
        """Return one classifier on all features with a reject threshold, and the largest class.

        The classifier is that of the stages; where this is another, a logistic regression too.
        None as yet where stages decide by costs.
        """
        if self.decision is not None:
            return []
        own = self.kind, self.parameters, self.calibration
        plain = LOGISTIC_REGRESSION, dict[str, Any](), own[2]
        data, n = self.data, self.data.n_validation
        paid = int(self.costs.sum() + self.charges.of_group.sum())
        found = []
        for kind, parameters, calibration in (own,) if own[0] == plain[0] else (own, plain):
            P = on_all_features(data, kind, parameters, calibration, self.classes)
            if P is None:
                continue
            title = (
                f"{kind.replace('_', ' ')} on all {self.space.n} features with a reject threshold"
            )
            answers = {f"threshold {t:g}": with_threshold(P, t) for t in self._thresholds()}
            kept = {name: a for name, a in answers.items() if (a[:n] >= 0).mean() >= FEW_ANSWERS}
            if kept:
                found.append(self._alternative(title, list(kept), np.stack([*kept.values()]), paid))
        largest = int(np.bincount(data.y).argmax())
        same = np.full((1, len(data.y_held)), largest)
        return [
            *found,
            self._alternative("the largest class", [str(self.classes[largest])], same, 0),
        ]

    def _thresholds(self) -> list[float]:
        """Return the thresholds of one classifier on all features: its own, and some others."""
        return sorted({*THRESHOLDS, *np.unique(self.data.thresholds).tolist()})

    def _alternative(
        self, name: str, points: list[str], answers: IntArray, paid: int
    ) -> Alternative:
        """Return classifiers by their answers, (points, scored and test records)."""
        n, same = self.data.n_validation, (self.cost_scale, self.error_costs, self._own_names)
        given = GivenOutcomes(answers[:, :n], paid, self._records[0], *same, self.data.units)
        outcomes = self._told(given)
        if not self.data.n_test:
            return Alternative(name, points, outcomes)
        tested = self._told(GivenOutcomes(answers[:, n:], paid, self._records[1], *same), part=1)
        test = tested.metrics(np.ones((self.data.n_test, 1)))
        return Alternative(name, points, outcomes, {k: v[:, 0] for k, v in test.items()})

    def explain(self, x: Array) -> str | None:
        for key in self._keys(x):
            number = self._table.find(key)
            if number in self._table.errors:
                names = [self.feature_names[f] for f in features_of(key, self.space.n)]
                return f"sub-classifier on {', '.join(names)}: {self._table.errors[number]}"
        return None

    def decode(self, x: Array) -> Any:
        """Return the fitted :class:`~algorithms.multistage.model.MultiStageClassifier`."""
        from algorithms.multistage.model import MultiStageClassifier
        from framework.data.encoding import Encoder

        models = self._models(np.array(self._keys(x)))
        x, levels = x[: self.space.n], x[self.space.n :]
        decision = None
        if self.decision is not None:
            stops = self.decision.stops(levels, len(models))
            decision = self.decision.costs.to_json(self.classes) | {"thresholds": stops.tolist()}
        setting = self.data, self.kind, self.calibration, self.classes
        thresholds = dict(zip(self.classes, self.data.thresholds.tolist(), strict=True))
        same = len(set(thresholds.values())) == 1
        return MultiStageClassifier.from_fitted(
            encoder=Encoder.from_json(self.encoder),
            stages=[np.flatnonzero(x == stage) for stage in range(len(models))],
            classifiers=[
                restore(model, *setting, (x >= 0) & (x <= stage))
                for stage, model in enumerate(models)
            ],
            classes=self.classes,
            costs=self.costs / self.cost_scale,
            cost_groups=self.groups if len(self.groups) else None,
            missing=self.missing,
            threshold=next(iter(thresholds.values())) if same else thresholds,
            reject_label=INCONCLUSIVE,
            decision=decision,
        )

    def labels(self) -> Sequence[Any]:
        return self.classes

    def samples(
        self, x: Array, frame: pd.DataFrame, codes: IntArray
    ) -> Mapping[str, Sequence[Sample]]:
        model = self.decode(x)
        table = model.predict_table(frame)
        numbers = {label: code for code, label in enumerate(self.classes)}
        given = np.array([numbers.get(label, -1) for label in table["label"]], dtype=np.int64)
        paid, most = table["cost"].to_numpy(dtype=np.float64), float(model.cumulative_costs()[-1])
        classes = len(self.classes), self.data.positive
        costs = None if self.decision is None else self.decision.costs
        return fresh_samples(codes, given, paid, most, *classes, self.error_costs, costs)

    def shares(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        covered = values["coverage"]
        of_class = dict.fromkeys((*(metric.name for metric in POSITIVE), WORST.name), covered / 2)
        return {**of_class, "accuracy": covered}

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        from framework.data.encoding import Encoder

        if not self.encoder:
            return None
        data = self.data
        held = data.held[:, : 0 if data.folds else data.n_validation]  # folds pool all of them
        own = np.concatenate([data.design, held], axis=1)
        y = np.concatenate([data.y, data.y_held[: held.shape[1]]])

        def of(columns: Array, labels: IntArray) -> WordArray:  # -0.0 is 0.0
            return row_codes(np.column_stack([columns, labels.astype(np.float64)]) + 0.0)

        return of(Encoder.from_json(self.encoder).transform(frame), codes), of(own.T, y)

    def walk(self, model: Any) -> Any:
        from algorithms.multistage.routing import walk_held_records

        setting = self.data, self.kind, self.parameters, self.calibration
        return walk_held_records(model, *setting)

    def _models(self, keys: WordArray) -> list[bytes]:
        """Return the models of sub-classifiers: from the disk, else trained (again)."""
        known: dict[bytes, bytes] = {}
        if self._store is not None:
            stored = self._store.get(keys)
            known = {k.tobytes(): m for k, m in zip(stored.keys, stored.models, strict=True)}
        models = []
        for key in keys:
            model = known.get(key.tobytes())
            if not model:
                crossed = len(self.data.folds) > 0
                data = self.data.refit if crossed else self.data
                setting = data, self.kind, self.parameters, key[None], self.calibration
                trained = train(*setting, keep_all=True)
                if trained.errors:
                    raise InputError(f"problem.classifier: {trained.errors[0]}")
                model = trained.models[0]
                if not crossed:  # what was fitted again says nothing of the folds
                    self.add_components(trained)
            models.append(model)
        return models

    def _genomes(self, X: Array) -> Array:
        """Return a writeable copy in the space's type (one machine-code version for all)."""
        if X.ndim != 2 or X.shape[1] != self.space.d:
            raise ValueError(f"expected genomes of shape (n, {self.space.d}), found {X.shape}")
        items = X[:, : self.space.n]
        if len(X) and (items.min() < self.space.lower[0] or items.max() >= self.space.k):
            raise ValueError(
                f"expected stages from {self.space.lower[0]} to {self.space.k - 1}, "
                f"found {items.min()} to {items.max()}"
            )
        levels = X[:, self.space.n :]
        if levels.size and (levels.min() < 0 or levels.max() >= self.space.values):
            raise ValueError(
                f"expected thresholds from 0 to {self.space.values - 1}, found {levels.min()} to "
                f"{levels.max()}"
            )
        return np.array(X, dtype=self.space.dtype, order="C")

    def _keys(self, x: Array) -> list[WordArray]:
        """Return the feature set of each stage of one genome."""
        x = x[: self.space.n]
        masks = [(x >= 0) & (x <= stage) for stage in range(int(x.max()) + 1)]
        return [pack(mask) for mask in masks]

    def _build_missing(self, X: Array) -> None:
        """Train the sub-classifiers that genomes need and that are neither here nor on disk."""
        missing = self.missing_components(X)
        if len(missing):
            self.add_components(self.build_components(missing))

    def _measure(self, X: Array, part: Literal[0, 1]) -> dict[str, FloatArray]:
        """Score genomes on the validation (0) or the test records (1)."""
        self._build_missing(X)
        if self.counts:
            return self._weighted(X, part)
        table, records, errors = self._table.held, self._records[part], self.error_costs
        found = measure(self._genomes(X), table, records, self.charges, self.cost_scale, errors)
        if self.rated:
            found |= self.rated[part].measured(len(X), self._outcomes(X, part).said)
        return {name: found[name] for name in self.metric_names}

    def _weighted(self, X: Array, part: Literal[0, 1]) -> dict[str, FloatArray]:
        """Score genomes where records do not count alike."""
        ones = np.ones((len(self._records[part].labels), 1))
        step = max(1, _AT_ONCE // max(len(ones), 1))
        found = [
            self._told(self._outcomes(X[start : start + step], part), part).metrics(ones)
            for start in range(0, len(X), step)
        ]
        if not found:
            return {name: np.zeros(0) for name in self.metric_names}
        return {n: np.concatenate([one[n][:, 0] for one in found]) for n in self.metric_names}

    def _reported(self, metric: Metric) -> bool:
        """Return whether this problem has what a metric needs."""
        if metric is ERROR_COST:
            return self.error_costs is not None
        if metric in RISKS:
            return self.decision is not None
        return self.data.positive >= 0 or metric not in POSITIVE
