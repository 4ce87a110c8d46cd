"""Multi-stage classifiers with early exit and a terminal reject, as a problem (EMSCO, Section 2).

A candidate is an ordered partition of the features into stages. A record passes the stages in
turn. At each, the features of the stage are acquired (and paid for), and a classifier trained on
all features acquired so far predicts. The record leaves as soon as the probability of its most
likely class is high enough, or without an answer after the last stage.

The classifier of a stage depends only on its set of features, so all candidates share one cache of
sub-classifiers, kept as bits per record. Scoring a candidate then takes a few operations on words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.moves.bits import pack, words_for
from algorithms.moves.variation import moved
from algorithms.multistage.alternatives import with_thresholds
from algorithms.multistage.components import SubClassifiers
from algorithms.multistage.config import MissingPolicy, MultiStageConfig
from algorithms.multistage.data import COMPONENTS_FORMAT, INCONCLUSIVE, digest, load
from algorithms.multistage.decision import Confidences, StageDecision, class_threshold
from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import (
    COST,
    ERROR_COST,
    LOSS,
    METRICS,
    POSITIVE,
    RISKS,
    HeldOutRecords,
    measure,
    measures_of,
)
from algorithms.multistage.outcomes import answers_of, outcomes_of, parts_of
from algorithms.multistage.records import FeatureCosts, Source, StageData
from algorithms.multistage.refits import AllRecords
from algorithms.multistage.stage_classifiers import Recipe, build_cost
from framework.answering import AnsweringProblem, CertifiedCosts, alternative_of
from framework.answers import AnswerOutcomes, Answers, Measure, Part, Records
from framework.arrays import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    WordArray,
    digest_of,
    evenly,
    frozen,
    record_codes,
)
from framework.capabilities import Alternative
from framework.components import BuildCost, Components
from framework.data.costs import Panels, cost_texts
from framework.data.datasets import memory_to_load
from framework.data.divisions import Subgroups
from framework.data.error_costs import per_class
from framework.errors import InputError
from framework.measures import each_once
from framework.models.classifiers import CalibrationMethod, ClassifierConfig
from framework.outcomes import RecordOutcomes, Refits
from framework.problem import Deployable
from framework.registry import nearest
from framework.roles import Metric
from framework.space import Partition

if TYPE_CHECKING:
    import pandas as pd

_SPLITTING = ("decision_tree", "gradient_boosting")
_FOUND_OR_NOT = (
    "where features tell classes only together, a tree may find that or not: 95% ranges of its "
    "accuracy then hold less often, in 80% of an XOR"
)
_STARTS = 50  # greatest number of classifiers that a search begins with


class MultiStageProblem(AnsweringProblem, Deployable):
    """Coverage, conclusive accuracy and cost of ordered feature partitions.

    Usually made by :meth:`from_config`. Its metrics are over the validation records. In a
    cross-validation they are over its records, each answered by classifiers fitted without it:

    ``coverage``
        Share of records that leave with an answer (Equation 3, conclusiveness).
    ``accuracy``
        Share of the answers that are right (Equation 4, conclusive accuracy); 0 where there is no
        answer at all.
    ``cost``
        Mean cost of the features acquired and, where they cost something, of the stages reached;
        records without an answer are included (Section 2.2.3, raw cost).
    ``stages``
        Number of stages.
    ``inconclusive_rate``
        Share of records terminally rejected, 1 - coverage.
    ``balanced_accuracy``, ``worst_recall``
        Mean and least over the classes of the share of a class's answers that are right; 0 for a
        class none of whose records has an answer.
    ``false_positive_rate``, ``false_negative_rate``, ``recall``, ``f1``
        Of the records with an answer: the share of negatives called positive, of positives called
        something else, of positives called positive, and the harmonic mean of precision and
        recall; 0 where there is nothing to take a share of. Only with a positive class.
    ``error_cost``
        Mean cost per record of wrong answers. Only with ``error_costs``.
    ``risk``, ``total_cost``
        Mean cost per record of wrong and missing answers, and the sum of that and ``cost``. Only
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
        Stages decide by these costs. Further genes then choose thresholds of risk.
    confidences : Confidences, optional
        Thresholds that further genes choose from; those of ``data`` are fixed if None.
    rates : sequence of Measure
        Further metrics.
    subgroups : sequence of Subgroups, optional
        Those of the records that are scored, and of the test records.
    counts : sequence of numpy.ndarray of int64, optional
        How often each of these records counts; once if it is empty.
    missing : {'impute', 'ask', 'inconclusive'}
        What models do, as metrics say;
        see :class:`~algorithms.multistage.model.MultiStageClassifier`.
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
        confidences: Confidences | None = None,
        rates: Sequence[Measure] = (),
        subgroups: Sequence[Subgroups] = (),
        counts: Sequence[IntArray] = (),
        missing: MissingPolicy = "impute",
        classifier: ClassifierConfig | None = None,
        calibration: CalibrationMethod = "none",
    ) -> None:
        n = data.n_features
        classifier = classifier or ClassifierConfig()
        self.data = data
        self.costs, self.cost_scale = costs.units, costs.scale
        self.panels = costs.panels or Panels.none(n)
        of_panels = frozen(self.panels.of), costs.panel_units
        self.charges = scoring.Charges(costs.units, *of_panels, costs.stage_units)
        self.error_costs = None if error_costs is None else np.asarray(error_costs, np.float64)
        self.missing = missing
        self.recipe = Recipe(classifier.kind, classifier.parameters, calibration)
        self.decision, self.confidences = decision, confidences
        chosen = decision or confidences
        levels = chosen.genes(max_stages) if chosen else (0, 1, False)
        self.space: Partition = Partition(n, max_stages, remove_features, *levels)
        self.feature_names, self.classes = tuple(source.feature_names), tuple(source.classes)
        self.encoder = dict(source.encoder)
        self._about_data, self._example = dict(source.description), dict(source.example)
        worst = 1.0 if error_costs is None else float(np.max(error_costs))
        dearest = costs.total + max_stages * costs.stage_units / costs.scale
        highs = {"error_cost": worst, "cost": dearest, "stages": float(max_stages)}
        if decision is not None:
            highs["risk"] = max(float(decision.costs.errors.max()), decision.costs.no_answer)
            highs["total_cost"] = highs["risk"] + dearest
        of_family = tuple(
            metric._replace(high=highs.get(metric.name, metric.high))
            for metric in self.known_metrics
            if self._reported(metric)
        )
        self.counts = tuple(counts)
        self._family_names = tuple(metric.name for metric in of_family)
        k = len(self.classes)
        about = k, data.positive, self.cost_scale, self.error_costs
        self.measures = each_once(measures_of(of_family, *about), rates)
        # whether no measure asks which of several other classes a wrong answer names
        self._countable = k == 2 or (data.positive < 0 and not rates)
        self.answered = parts_of(data, self.classes, self.counts, subgroups)
        answers = [  # everything on which the answers of a sub-classifier depend
            COMPONENTS_FORMAT,
            source.fingerprint,
            classifier.kind,
            classifier.parameters,
            data.thresholds.tolist(),
            data.positive,
        ]
        if calibration != "none":
            answers.append(calibration)
        if decision is not None:
            risks = decision.costs
            answers.append([risks.errors.tolist(), risks.no_answer, decision.thresholds.tolist()])
        if confidences is not None:
            answers.append(confidences.thresholds.tolist())
        if data.codes:
            answers.append("codes")
        if data.sample_weights is not None:
            answers.append("weights of mean 1")
        self.components_fingerprint = digest(answers)
        design = [self.costs.tolist(), costs.scale, max_stages, remove_features]
        if self.error_costs is not None:
            design.append(self.error_costs.tolist())
        if len(self.panels):
            design += [self.panels.of.tolist(), costs.panel_units.tolist()]
        if costs.stage_units:
            design += ["stage cost", costs.stage_units]
        if chosen is not None:
            design.append(chosen.per_stage)
        design += [rate.metric.name for rate in rates]
        design += [part.content for part in subgroups]
        design += [of_part.tolist() for of_part in self.counts]
        if data.unknown.any():
            design.append(digest_of("unknown", [data.unknown]))
        self.fingerprint = digest([self.components_fingerprint, *design])

    Config = MultiStageConfig

    @classmethod
    def from_config(cls, config: MultiStageConfig) -> MultiStageProblem:
        problem = cls(**load(config))
        problem.open_store()
        return problem

    @classmethod
    def memory_to_load(cls, config: MultiStageConfig) -> int:
        return memory_to_load(config.dataset)

    def open_store(self) -> None:
        self.sub_classifiers.open_store(self.components_fingerprint, self.component_name)

    def describe(self) -> Mapping[str, Any]:
        costs = self.costs / self.cost_scale
        return {**self._about_data, "costs": cost_texts(self.feature_names, costs, self.panels)}

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
        # the driver keeps components and the disk, and sends workers the components they lack
        made_here = ("sub_classifiers", "_final", "_all_records")
        return {name: value for name, value in self.__dict__.items() if name not in made_here}

    @cached_property
    def sub_classifiers(self) -> SubClassifiers:
        """The sub-classifiers that candidates are scored with; those of this process."""
        return self._classifiers(self.data)

    @cached_property
    def _final(self) -> SubClassifiers:
        """The sub-classifiers that users get: in a cross-validation those of all records."""
        return self._beside(self.data.final, "final") if self.data.folds else self.sub_classifiers

    @cached_property
    def _all_records(self) -> AllRecords:
        return AllRecords(self.data, self._final, partial(self._beside, stored=False))

    def _beside(self, data: StageData, name: str, *, stored: bool = True) -> SubClassifiers:
        """Return an empty table of others than those that candidates are scored with."""
        classifiers = self._classifiers(data, stored=stored)
        if self.sub_classifiers.store is not None:
            fingerprint = digest([self.components_fingerprint, name])
            classifiers.open_store(fingerprint, self.component_name)
        return classifiers

    def _classifiers(self, data: StageData, *, stored: bool = True) -> SubClassifiers:
        """Return an empty table of sub-classifiers that are trained on ``data``."""
        rule, chosen = scoring.BY_CONFIDENCE, self.decision or self.confidences
        if chosen is not None:
            rule = chosen.rule(self.space.n, data.answer_planes)
        names, k = self.feature_names, self.space.k
        return SubClassifiers(data, self.recipe, names, k, rule, stored=stored)

    @property
    def gene_names(self) -> tuple[str, ...]:
        names = list(self.feature_names)
        for number in range(1, self.space.levels + 1):
            name = f"threshold_{number}" if self.space.levels > 1 else "threshold"
            while name in names:
                name += "_"
            names.append(name)
        return tuple(names)

    def settings(self, X: Array) -> Mapping[str, FloatArray]:
        """Return the thresholds that genes choose; NaN for stages that a design does not have."""
        chosen = self.decision or self.confidences
        if chosen is None or not self.space.levels:
            return {}
        n, levels = self.space.n, self.space.levels
        # with a decision by costs, the last stage has no threshold
        last = X[:, :n].max(axis=1, initial=0) - (self.decision is not None)
        values = chosen.thresholds[X[:, n:].astype(np.int64)]
        values[np.arange(levels) > last[:, None]] = np.nan
        return dict(zip(self.gene_names[n:], values.T, strict=True))

    @property
    def n_components(self) -> int:
        return self.sub_classifiers.table.n

    def missing_components(self, X: Array) -> WordArray:
        return self.sub_classifiers.missing(self._items(X))

    def _items(self, X: Array) -> Array:
        """Return the partitions of genomes, without the genes of thresholds."""
        return np.ascontiguousarray(self.space.checked(X)[:, : self.space.n])

    def build_components(self, keys: WordArray) -> Components:
        return self.sub_classifiers.build(keys)

    def build_cost(self, keys: WordArray) -> BuildCost:
        return build_cost(self.data, self.recipe, keys)

    def add_components(self, components: Components) -> None:
        self.sub_classifiers.add(components)

    def components_since(self, start: int) -> Components:
        return self.sub_classifiers.table.slice(start, self.data.validation_words)

    def neighbours(self, X: Array) -> Array:
        return moved(self.space, X)

    @property
    def remains(self) -> str:
        refitted = self.recipe.kind in _SPLITTING and self.data.fold_of is not None
        return _FOUND_OR_NOT if refitted else ""

    def starts(self) -> Array:
        """Return designs of one stage, as a person might take without a search.

        Where designs choose a threshold of confidence, the stage has all features, at each of the
        thresholds. Where stages decide by costs, it has the cheapest feature, the two cheapest, and
        so on up to all, or all of them if no feature may be removed.
        """
        n, nothing = self.space.n, super().starts()
        if self.confidences is not None:
            X = np.zeros((self.space.values, self.space.d), dtype=self.space.dtype)
            X[:, n] = np.arange(self.space.values)
            return X
        if self.decision is None:
            return nothing
        order = np.argsort(self.costs, kind="stable")
        X = np.zeros((n, self.space.d), dtype=self.space.dtype)
        for row, last in zip(X, range(1, n + 1), strict=True):
            row[order[last:]] = -1
        if not self.space.removal:
            return X[-1:]
        return X[evenly(n, _STARTS)]

    def answers(self, X: Array, part: Part = "search") -> Answers:
        records = self.records(part)
        assert records is not None
        return answers_of(self.space.checked(X), *self._asked(X, part), self.charges, records)

    def _asked(self, X: Array, part: Part) -> tuple[scoring.Held, HeldOutRecords]:
        """Return the classifiers that answer a part and its records, as scoring reads them.

        Classifiers of genomes that are neither there nor on disk are trained.
        """
        if part == "test":
            return self._final.of(self._items(X)).held, self._final.records[1]
        missing = self.missing_components(X)
        if len(missing):
            self.add_components(self.build_components(missing))
        return self.sub_classifiers.table.held, self.sub_classifiers.records[0]

    def refits(self, X: Array) -> Refits | None:
        """Return the outcomes, on all records, of each fold's classifiers and of the final ones.

        For each feature set they are trained here, unless they are on disk: one classifier for each
        fold, and one on all records.
        """
        return self._all_records.refits(self.space.checked(X), self._items(X), self._outcomes_of)

    def outcomes(self, X: Array) -> AnswerOutcomes | None:
        records = self.records()
        assert records is not None
        X = self.space.checked(X)
        asked = partial(self._asked, part="search"), self.charges, records
        return outcomes_of(X, self.measures, *asked, countable=self._countable)

    def _outcomes_of(self, X: Array, classifiers: SubClassifiers) -> RecordOutcomes:
        """Return the outcomes of genomes, whose classifiers are trained, on the first repeat."""
        records = self.records()
        assert records is not None
        held = classifiers.table.held, classifiers.records[0]
        first = replace(records.take(np.arange(len(held[1].labels))), units=None, refitted=False)
        asked = (lambda X: held), self.charges, first
        return outcomes_of(X, self.measures, *asked, countable=self._countable)

    def paid_for(self, codes: Array, records: Records) -> Mapping[str, Array]:
        if self.decision is None:
            return {}
        return {LOSS: self.decision.units[records.labels, codes]}

    def with_errors(
        self, section: Mapping[str, Any], errors: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return a configuration's section with other costs of errors by true class.

        If stages decide by costs, they then decide by these, with the thresholds of the search.
        """
        costs = per_class(errors, self.classes, 1.0, "costs")
        by_class = dict(zip(map(str, self.classes), costs.tolist(), strict=True))
        if not (np.isfinite(costs).all() and costs.min() >= 0 and costs.max() > 0):
            listed = ", ".join(f"{k}={v:g}" for k, v in by_class.items())
            raise InputError(f"costs: expected numbers from 0, one above it, found {listed}")
        if self.decision is None:
            return {**section, "error_costs": by_class}
        thresholds = self.decision.thresholds.tolist()
        decision = {**section["decision"], "errors": by_class, "thresholds": thresholds}
        return {**section, "decision": decision}

    def with_prices(
        self, section: Mapping[str, Any], prices: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return a configuration's section with other prices of features; panels keep theirs."""
        for name, price in prices.items():
            if name not in self.feature_names:
                raise InputError(
                    f"prices: expected features ({', '.join(self.feature_names)}), found {name!r}"
                    f"{nearest(name, self.feature_names)}"
                )
            if not (isinstance(price, Real) and np.isfinite(price) and price >= 0):
                raise InputError(f"prices: {name}: expected a number from 0, found {price}")
        before = (self.costs / self.cost_scale).tolist()
        values = dict(zip(self.feature_names, before, strict=True)) | dict(prices)
        panels = (section.get("costs") or {}).get("panels", {})
        return {**section, "costs": {"values": values, "panels": panels}}

    def alternatives(self) -> Sequence[Alternative]:
        """Return one classifier on all features with a reject threshold, and the largest class.

        Where models stop at a missing value, so does the classifier. There are none where stages
        decide by costs.
        """
        if self.decision is not None:
            return []
        paid = int(self.costs.sum() + self.charges.of_panel.sum()) + self.charges.of_stage
        return [
            *(
                self._alternative(name, answers, paid)
                for name, answers in with_thresholds(self.data, self.recipe, self.classes)
            ),
            self.largest_class(),
        ]

    def _alternative(self, name: str, codes: Mapping[str, IntArray], paid: int) -> Alternative:
        """Return an alternative from its answers to scored and test records, (records,) each."""
        n, stacked = self.data.n_validation, np.stack([*codes.values()])

        def answers(part: Part, said: IntArray, stopped: BoolArray) -> Answers:
            records = self.records(part)
            assert records is not None
            units = np.full((len(said), 1), paid, dtype=np.int64)
            if stopped.any():
                units = units * ~stopped
            return Answers(records, said, {COST: units}, {"stages": np.ones(len(said))})

        stopped = self.data.stopped
        searched = answers("search", stacked[:, :n], stopped[:n])
        tested = answers("test", stacked[:, n:], stopped[n:]) if self.data.n_test else None
        return alternative_of(name, list(codes), self.measures, searched, tested)

    def explain(self, x: Array) -> str | None:
        return self.sub_classifiers.error_of(self._keys(x))

    def decode(self, x: Array) -> Any:
        from algorithms.multistage.model import MultiStageClassifier
        from framework.data.encoding import Encoder

        classifiers = self._final.classifiers(np.array(self._keys(x)), self.classes)
        x, levels = x[: self.space.n], x[self.space.n :]
        decision = None
        if self.decision is not None:
            stops = self.decision.stops(levels, len(classifiers))
            decision = self.decision.costs.to_json(self.classes) | {"thresholds": stops.tolist()}
        chosen = self.confidences
        return MultiStageClassifier.from_fitted(
            encoder=Encoder.from_json(self.encoder),
            stages=[np.flatnonzero(x == stage) for stage in range(len(classifiers))],
            classifiers=classifiers,
            classes=self.classes,
            costs=self.costs / self.cost_scale,
            panels=self.panels if len(self.panels) else None,
            missing=self.missing,
            threshold=class_threshold(self.data.thresholds, self.classes)
            if chosen is None
            else chosen.of_model(levels, len(classifiers)),
            reject_label="no answer" if INCONCLUSIVE in map(str, self.classes) else INCONCLUSIVE,
            decision=decision,
            stage_cost=self.charges.of_stage / self.cost_scale,
        )

    def certified(self, model: Any, table: pd.DataFrame, answers: Answers) -> CertifiedCosts:
        most = float(model.cumulative_costs()[-1]) * self.cost_scale
        paid = {COST: table["cost"].to_numpy(dtype=np.float64)[np.newaxis] * self.cost_scale}
        if self.decision is None:
            return paid, {COST: most}
        unanswered = np.full(len(self.classes), self.decision.no_answer)
        units = np.column_stack([self.decision.units, unanswered])
        return (
            {**paid, LOSS: units[answers.records.labels, answers.codes]},
            {COST: most, LOSS: float(units.max())},
        )

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        from framework.data.encoding import Encoder

        if not self.encoder:
            return None
        data = self.data
        # in a cross-validation the design already has all records of the search
        held = data.held[:, : 0 if data.folds else data.n_validation]
        searched = np.concatenate([data.design, held], axis=1)[:-1]
        y = np.concatenate([data.y, data.y_held[: held.shape[1]]])
        encoded = Encoder.from_json(self.encoder).transform(frame)
        return record_codes(encoded, codes), record_codes(searched.T, y)

    def walk(self, model: Any) -> Any:
        from algorithms.multistage.routing import walk_held_records

        return walk_held_records(model, self.data, self.recipe)

    def _keys(self, x: Array) -> list[WordArray]:
        """Return the feature set of each stage of one genome."""
        x = x[: self.space.n]
        masks = [(x >= 0) & (x <= stage) for stage in range(int(x.max()) + 1)]
        return [pack(mask) for mask in masks]

    def direct(self, X: Array, part: Part) -> Mapping[str, FloatArray]:
        if part == "test" and self._final.table.stripped:
            raise ValueError("expected components with their test records, found stripped ones")
        if self.counts:
            return {}
        table, held = self._asked(X, part)
        prices = self.charges, self.cost_scale, self.error_costs
        values = measure(self.space.checked(X), table, held, *prices)
        return {name: values[name] for name in self._family_names}

    def _reported(self, metric: Metric) -> bool:
        """Return whether this problem has what a metric needs."""
        if metric is ERROR_COST:
            return self.error_costs is not None
        if metric in RISKS:
            return self.decision is not None
        return self.data.positive >= 0 or metric not in POSITIVE
