"""Cascades of priced models as a problem.

A candidate says which models are asked, usually the cheapest first, and from which confidence on
the answer of each is taken; below it the next model is asked. Models are never called: everything
is counted from a table of calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from algorithms.cascade.config import Abstain, CascadeConfig, Order, obtain_calls
from algorithms.cascade.outcomes import (
    ANSWERED,
    ASKED,
    CALIBRATED,
    RIGHT,
    RIGHT_CODE,
    SAID,
    TENTHS,
    WRONG_CODE,
    CalibratedAccuracy,
    Facts,
    Policies,
    UpperQuantile,
    limits_of,
    walk,
)
from algorithms.cascade.stages import TENS, AnswerRule, Calibration, Stages
from algorithms.moves.variation import moved
from framework.analysis.resamples import Resamples
from framework.answering import AnsweringProblem
from framework.answers import NO_ANSWER, Answers, Measure, Part, Records, Size
from framework.arrays import Array, IntArray, WordArray, digest_of
from framework.data.divisions import Subgroups, subgroups_of
from framework.errors import InputError
from framework.libraries.calls import UNIT, CallTable, whole_cost
from framework.libraries.config import BuildConfig, measured_as
from framework.libraries.library import Library
from framework.libraries.members import example_records, has_members, load_members
from framework.libraries.problem import describe, known_records, positive_code, positive_label
from framework.measures import Ratio, Tables, each_once
from framework.measures import rates as rates_of
from framework.problem import Deployable
from framework.registry import require_known
from framework.roles import Metric
from framework.space import Integers

if TYPE_CHECKING:
    import pandas as pd

    from algorithms.cascade.policy import Policy

_MOST_CLASSES = 100  # counts by true class and answer have no room for free texts
VERSION = 1  # raise it when a value changes for the same table

_ACCURACY = Metric("accuracy", "max", text="share of records that are answered rightly", mixes=True)
_CALIBRATED = Metric(
    "calibrated_accuracy",
    "max",
    text="the same with each answer's calibrated probability of being right",
    mixes=True,
    estimates="accuracy",
)
_CONCLUSIVE = Metric("conclusive_accuracy", "max", text="share of the answers that are right")
_COVERAGE = Metric("coverage", "max", text="share of records that get an answer", mixes=True)
_CALLS = Metric("models_asked", "min", "ratio", text="models asked, mean of a record", mixes=True)
_MODELS = Metric("chain_length", "min", "ratio", text="models in the cascade", size=True)
_OVER = Metric("over_limit", "min", text="share of records that cost more than limit", mixes=True)
_ERRORS = Metric("error_cost", "min", "ratio", text="mean cost of the answers", mixes=True)


class CascadeProblem(AnsweringProblem, Deployable):
    """Accuracy, coverage and costs of cascades of priced models.

    Metrics, in natural sign:

    ``accuracy``, ``conclusive_accuracy``, ``coverage``
        The share of records answered correctly, the share of answers that are correct, and the
        share of records answered.
    ``calibrated_accuracy``
        As ``accuracy``, with each answer counted as its calibrated probability of being right
        (:meth:`algorithms.cascade.stages.Stages.tens`). Search by it if tuning records are few. On
        test records, where nothing is calibrated, it equals ``accuracy``.
    ``models_asked``, ``chain_length``
        The mean number of models asked about a record, and the number of models in the cascade.
    each cost of the table, under its name, and ``p95_NAME``
        The mean cost of a record, and the amount that 95% of the records do not exceed.
    ``over_limit``, ``error_cost``
        Only with ``limit`` and ``errors``.

    A gene of 0 leaves a model out; with a gene of ``g``, its answer is taken from the ``g``-th of
    its different confidences on (1: always; one more than there are confidences: never). The last
    model asked always answers, unless the cascade abstains.

    Parameters
    ----------
    calls : CallTable
        Of at least two models.
    test : CallTable, optional
        The calls of the same models for other records.
    order, answer, abstain, limit, errors, no_answer, calibrate, rates, positive
        See :class:`CascadeConfig`. With ``rates``, answers are told apart by their classes, else
        only by whether they are right.
    subgroups : sequence of Subgroups
        Of the records of both tables, or empty.
    library : Library, optional
        The library of the models, for exports.

    Raises
    ------
    InputError
        A word is none of its key's, there is one model only, confidences cannot divide records, a
        model is always right and free, a table does not have a label or the classes that rates
        need, or a record is in both tables.
    """

    known_metrics = (
        *(_ACCURACY, _CALIBRATED, _CONCLUSIVE, _COVERAGE, _CALLS, _MODELS, _OVER, _ERRORS),
        Metric("cost", "min", "ratio", text="or any other cost, mean of a record", mixes=True),
        Metric("p95_cost", "min", "ratio", text="what 95% of the records do not exceed"),
    )

    def __init__(
        self,
        calls: CallTable,
        *,
        test: CallTable | None = None,
        order: Order = "price",
        answer: AnswerRule = "own",
        abstain: Abstain = "no",
        limit: float | None = None,
        errors: Mapping[str, Mapping[str, float]] | None = None,
        no_answer: float = 0.0,
        library: Library | None = None,
        calibrate: Calibration = "confidences",
        rates: Sequence[str] = (),
        positive: Any = None,
        subgroups: Sequence[Subgroups] = (),
    ) -> None:
        for key, value, words in (
            ("order", order, get_args(Order)),
            ("answer", answer, get_args(AnswerRule)),
            ("abstain", abstain, get_args(Abstain)),
            ("calibrate", calibrate, get_args(Calibration)),
        ):
            require_known([value], words, f"{key}: expected one of {', '.join(words)};")
        self.library, self.source = library, calls.name
        self.order, self.answer, self.abstain, self.limit = order, answer, abstain, limit
        self.errors, self.no_answer = errors, no_answer
        self.calls = _by_price(calls)
        self.test = None if test is None else self.calls.matched(test)
        _check_choice(self.calls)
        self.costs = tuple(self.calls.costs)
        self.stages = Stages(self.calls, answer, calibrate=calibrate)
        self._test_stages = (
            None if self.test is None else Stages(self.test, answer, tuning=self.stages)
        )
        k, n = self.calls.k, self.calls.n
        alone = answer == "own"
        ends = np.array([len(self.stages[m,].cuts) if alone else n for m in range(k)])
        uppers = [ends + 1]
        if abstain == "early":
            uppers.append(ends)
        if order == "free":
            uppers.append(np.full(k, k - 1))
        upper = np.concatenate(uppers)
        self.space: Integers = Integers(np.zeros(len(upper), int), upper, members=k)
        tables = [self.calls] if self.test is None else [self.calls, self.test]
        self._error_costs = None if errors is None else _error_table(tables, errors, no_answer)
        self.positive, classes = -1, ()
        if rates or subgroups:
            try:
                classes = _classes_of(tables)
            except InputError:  # right and wrong answers are enough to compare subgroups
                if rates:
                    raise
        if len(classes) == 2:
            self.positive = positive_code(positive, classes)
        self.by_class, self.classes = bool(classes), classes or ("right", "wrong")
        compared = {_ACCURACY.name: "right"}
        if abstain != "no":
            compared |= {_CONCLUSIVE.name: "accuracy", _COVERAGE.name: "coverage"}
        names = subgroups[0].names if subgroups else ()
        further = rates_of(rates, classes, self.positive, names, compared)
        self.measures = each_once(self._measures(), further, self.source)
        searched = self._records_of("search", self.calls, subgroups)
        tested = None if self.test is None else self._records_of("test", self.test, subgroups)
        self.answered = {"search": searched, "test": tested}
        content = [VERSION, self.calls.fingerprint, order, answer, abstain, limit, errors]
        content += [no_answer, None if self.test is None else self.test.fingerprint]
        content += [] if calibrate == "confidences" else [calibrate]
        if rates or subgroups:
            content += [list(rates), list(map(str, self.classes)), self.positive]
        content += [of.content for of in subgroups]
        self.fingerprint = digest_of(content)

    Config = CascadeConfig
    built: BuildConfig | None = None  # how the library was built, if the configuration says so

    @classmethod
    def from_config(cls, config: CascadeConfig) -> CascadeProblem:
        obtained = obtain_calls(config.calls, config.measure, config.subgroup)
        calls, test, library, subgroups = obtained
        names = type(config).model_fields.keys() - {"calls", "measure", "kind", "subgroup"}
        others = {name: getattr(config, name) for name in names}
        source, built = config.calls.library, None
        if source is not None:
            built = measured_as(source, config.measure).build
        others["positive"] = positive_label(config.positive, built, calls.labels)
        problem = cls(calls, test=test, library=library, subgroups=subgroups, **others)
        problem.built = built
        return problem

    @property
    def gene_names(self) -> tuple[str, ...]:
        ids = self.calls.ids
        names = list(ids)
        if self.abstain == "early":
            names += [f"{name}:give up" for name in ids]
        if self.order == "free":
            names += [f"{name}:place" for name in ids]
        return tuple(names)

    def describe(self) -> Mapping[str, Any]:
        tested = 0 if self.test is None else self.test.n
        sizes = {"records": self.calls.n + tested, "validation": self.calls.n, "test": tested}
        about = {
            "name": self.source,
            "source": self.source,
            "fingerprint": self.calls.fingerprint,
            "models": self.calls.k,
        }
        return {**(sizes if self.library is None else describe(self.library, "")), **about}

    def chain(self, x: Array) -> list[int]:
        """Return the models of a genome, shape (d,), in the order of asking."""
        k = self.calls.k
        asked = np.flatnonzero(x[:k]).tolist()
        if self.order == "free":
            place = x[-k:]
            asked.sort(key=lambda m: (place[m], m))
        return list(asked)

    def _records_of(self, part: Part, table: CallTable, subgroups: Sequence[Subgroups]) -> Records:
        refitted = part == "search" and self.library is not None and self.library.folds > 0
        labels = np.full(table.n, RIGHT_CODE, dtype=np.int64)
        if self.by_class:
            assert table.truth is not None
            labels = table.truth
        about = {"units": table.groups, "part": part, **subgroups_of(subgroups, part)}
        return Records(labels, self.classes, self.positive, refitted=refitted, **about)

    def neighbours(self, X: Array) -> Array:
        return moved(self.space, X)

    def truth(self) -> tuple[IntArray, Sequence[Any]] | None:
        return super().truth() if self.by_class else None

    def decoded(self, x: Array) -> Policy:
        """Return the policy that a genome, shape (d,), stands for, without promises."""
        from algorithms.cascade.policy import Policy

        chain, k = self.chain(x), self.calls.k
        accept: list[float] = []
        refuse: list[float | None] = []
        for j, m in enumerate(chain):
            cuts = self.stages[self.stages.key(chain[: j + 1])].cuts
            level, low = int(x[m]), int(x[k + m]) if self.abstain == "early" else 0
            last = j == len(chain) - 1 and self.abstain == "no"
            if last or level <= 1:
                accept.append(-np.inf)
            else:
                accept.append(float(cuts[level - 1]) if level <= len(cuts) else np.nan)
            low = min(low, level - 1, len(cuts))
            above = np.append(cuts, np.nan)  # records at the lowest confidences do not reach it
            refuse.append(float(above[low]) if low > 0 and not last else None)
        return Policy(
            tuple(self.calls.ids[m] for m in chain),
            tuple(accept),
            tuple(refuse),
            self.answer,
            self.abstain != "no",
            self.calls.labels if self.answer == "cumulative_mean" else (),
            table=self.calls.fingerprint,
        )

    def example(self) -> Mapping[str, list[Any]]:
        if self.library is not None:
            return example_records(self.library)
        from algorithms.cascade.policy import example_calls

        return example_calls(self.calls)

    def labels(self) -> Sequence[Any]:
        """Return the classes of the library's models, or those that rates tell apart, if any."""
        if self.by_class:
            return self.classes
        return () if self.library is None else self.library.classes or ()

    @property
    def certifiable(self) -> Sequence[Measure]:
        return [m for m in self.measures if isinstance(m, Ratio) and not m.paid]

    def answers_of_model(self, table: pd.DataFrame, codes: IntArray) -> Answers:
        said = super().answers_of_model(table, codes)
        if self.by_class:
            return said
        right = np.where(said.codes == codes, RIGHT_CODE, WRONG_CODE)
        records = Records(np.full(len(codes), RIGHT_CODE, dtype=np.int64), ("right", "wrong"))
        return Answers(records, np.where(said.codes == NO_ANSWER, NO_ANSWER, right))

    def known_records(
        self, frame: pd.DataFrame, codes: IntArray
    ) -> tuple[WordArray, WordArray] | None:
        if self.library is not None:
            return known_records(self.built, self.library, frame, codes)
        if self.calls.records is None or "record" not in frame:
            return None
        names = [*map(str, frame["record"]), *self.calls.records]
        numbers = np.unique(names, return_inverse=True)[1].astype(np.uint64)
        return numbers[: len(frame)], numbers[len(frame) :]

    def decode(self, x: Array) -> Any:
        """Return the deployable cascade of a genome (see :mod:`algorithms.cascade.model`).

        It asks the fitted models of the library. Without them it is the bare policy, which answers
        tables of calls.
        """
        from algorithms.cascade.model import CascadeClassifier

        bare, library = self.policy(x), self.library
        if library is None or not has_members(library):
            return bare
        chosen = [library.ids.index(name) for name in bare.policy.models]
        models, costs, encoder = load_members(library, chosen, list(self.costs))
        assert library.classes is not None
        return CascadeClassifier.of_policy(
            models,
            bare.policy,
            library.classes,
            costs=costs,
            encoder=encoder,
            cases=bare.cases,
        )

    def policy(self, x: Array) -> Any:
        """Return the bare policy of a genome, which answers tables of calls."""
        from algorithms.cascade.model import CascadePolicy
        from algorithms.cascade.policy import cases_of

        values = self.evaluate(np.asarray(x)[None])
        promises = {name: {"claimed": float(value[0])} for name, value in values.items()}
        outcomes = self.outcomes(np.asarray(x)[None])
        assert outcomes is not None
        resamples = Resamples(outcomes, 0)
        paid = resamples.outcomes.metrics(resamples.weights, names=self.costs)
        for name in self.costs:
            promises[name]["budget"] = float(np.quantile(paid[name][0], 0.95, method="higher"))
        policy = replace(self.decoded(x), promises=promises)
        return CascadePolicy(policy, cases_of(policy, self.calls))

    def answers(self, X: Array, part: Part = "search") -> Answers:
        """Return for each record whether its answer is right, and what it pays."""
        if X.ndim != 2 or X.shape[1] != self.space.d:
            raise ValueError(f"expected genomes of shape (n, {self.space.d}), found {X.shape}")
        tuning = part == "search"
        table, stages = (self.calls, self.stages) if tuning else (self.test, self._test_stages)
        records = self.records(part)
        assert table is not None
        assert stages is not None
        assert records is not None
        policies, keys = self._policies(X)
        states = [stages[key] for key in keys]
        unsaid = np.full(table.n, -1, dtype=np.int64)
        costs = [table.costs[name] for name in self.costs]
        fixed = [np.zeros(table.k, np.int64) if c.fixed is None else c.fixed for c in costs]
        scale = [  # costs are divided by their greatest common divisor: sums stay small
            max(int(np.gcd.reduce([np.gcd.reduce(c.values, axis=None), *paid.tolist()])), 1)
            for c, paid in zip(costs, fixed, strict=True)
        ]
        facts = Facts(
            np.stack([s.level for s in states]),
            np.stack([s.right for s in states]),
            np.stack([stages.tens(key) if tuning else TENS * stages[key].right for key in keys]),
            np.stack([unsaid if s.said is None else s.said for s in states]),
            np.stack([c.values // g for c, g in zip(costs, scale, strict=True)]),
            np.stack([paid // g for paid, g in zip(fixed, scale, strict=True)]),
            np.array([g / UNIT for g in scale]),
        )
        planes, paid = walk(policies, facts)
        codes = np.where(planes[RIGHT] > 0, RIGHT_CODE, WRONG_CODE)
        codes = (planes[SAID] if self.by_class else codes).astype(np.int8)
        codes[planes[ANSWERED] == 0] = NO_ANSWER
        columns: dict[str, Array] = dict(zip(self.costs, paid, strict=True))
        columns |= {_CALLS.name: planes[ASKED], TENTHS: planes[CALIBRATED]}
        if self.limit is not None:
            columns[_OVER.name] = paid[0] > round(self.limit * UNIT) // scale[0]
        if self._error_costs is not None:
            assert table.truth is not None
            # no answer is -1: the last column of the table
            columns[_ERRORS.name] = self._error_costs[table.truth[None, :], planes[SAID]]
        length = (policies.models >= 0).sum(axis=1)
        limits = {_CALLS.name: (np.ones_like(length), length)}
        each = zip(self.costs, limits_of(policies.models, facts), strict=True)
        limits |= {name: ends for name, ends in each if ends is not None}
        worth = dict(zip(self.costs, facts.scale.tolist(), strict=True))
        sizes = {_MODELS.name: length.astype(np.float64)}
        return Answers(records, codes, columns, sizes, worth, limits=limits)

    def paid_for(self, codes: Array, records: Records) -> Mapping[str, Array]:
        paid: dict[str, Array] = {TENTHS: TENS * (codes == records.labels)}
        if self._error_costs is not None:
            paid[_ERRORS.name] = self._error_costs[records.labels, codes]
        return paid

    def _policies(self, X: Array) -> tuple[Policies, list[tuple[int, ...]]]:
        """Return genomes as arrays, and the key of each stage that these name by its position."""
        k = self.calls.k
        models = np.full((len(X), k), -1, dtype=np.int64)
        stages = np.full((len(X), k), -1, dtype=np.int64)
        accept = np.zeros((len(X), k), dtype=np.int64)
        refuse = np.zeros((len(X), k), dtype=np.int64)
        keys: dict[tuple[int, ...], int] = {}
        for i, x in enumerate(X):
            chain = self.chain(x)
            for j, m in enumerate(chain):
                key = self.stages.key(chain[: j + 1])
                models[i, j] = m
                stages[i, j] = keys.setdefault(key, len(keys))
                accept[i, j] = x[m]
                if self.abstain == "early":
                    refuse[i, j] = x[k + m]
        return Policies(models, stages, accept, refuse, self.abstain != "no"), list(keys)

    def _measures(self) -> list[Measure]:
        ratios, every = Tables(len(self.classes)), np.ones(len(self.classes), dtype=bool)
        everyone, nothing = ratios.everyone, 0 * ratios.everyone

        def mean(metric: Metric, per: int = 1) -> Measure:
            return Ratio(metric, nothing, everyone, every, (metric.name,), per=per)

        k, n = self.calls.k, self.calls.n
        measures: list[Measure] = [
            ratios.ratio(_ACCURACY._replace(steps=n), "right"),
            CalibratedAccuracy(_CALIBRATED._replace(steps=10 * n)),
            ratios.ratio(_CONCLUSIVE, "accuracy"),
            ratios.ratio(_COVERAGE._replace(steps=n), "coverage"),
            mean(_CALLS._replace(low=1.0, high=float(k) or 1.0)),
            Size(_MODELS._replace(high=float(k))),
        ]
        for name, cost in self.calls.costs.items():
            tests = () if self.test is None else (self.test.costs[name].alone(),)
            tables = [cost.alone(), *tests]
            dearest = max(float(v.sum() / (UNIT * v.shape[1])) for v in tables) * (1 + 1e-9)
            most = max(float(v.sum(axis=0).max() / UNIT) for v in tables) * (1 + 1e-9)
            by_call = bool((cost.values != cost.values[:, :1]).any())
            metric = Metric(name, "min", "ratio", high=dearest or 1.0, unit=cost.unit)
            metric = metric._replace(scale=by_call)
            measures.append(mean(metric._replace(text="mean of a record", mixes=True)))
            text = "what 95% of the records do not exceed"
            metric = metric._replace(name=f"p95_{name}", high=most or 1.0, text=text)
            metric = metric._replace(statistic="quantile")
            measures.append(UpperQuantile(metric, name))
        if self.limit is not None:
            measures.append(mean(_OVER))
        if self._error_costs is not None:
            high = float(self._error_costs.max()) / UNIT or 1.0
            measures.append(mean(_ERRORS._replace(high=high), per=UNIT))
        return measures


def _by_price(calls: CallTable) -> CallTable:
    """Return the table with its models sorted by mean cost, the cheapest first."""
    first = next(iter(calls.costs.values())).alone()
    order = np.argsort(first.sum(axis=1), kind="stable").tolist()
    return calls.only([calls.ids[m] for m in order])


def _check_choice(calls: CallTable) -> None:
    """Raise InputError if the table leaves nothing to choose."""
    if calls.k < 2:
        raise InputError(
            f"{calls.name}: expected two models or more, found {calls.k}; there is nothing to "
            "choose"
        )
    varies = [len(np.unique(row)) > 1 for row in calls.confidence]
    if not any(varies[:-1]):
        raise InputError(
            f"{calls.name}: expected confidences by which records can be told apart, found them "
            f"all equal within each model but {calls.ids[-1]!r}; a threshold divides nothing"
        )
    first = next(iter(calls.costs.values())).values
    for m in np.flatnonzero(calls.right.all(axis=1)).tolist():
        if not first[m].any():
            raise InputError(
                f"{calls.name}: expected a trade-off, found that {calls.ids[m]!r} is right on "
                "every record and costs nothing; ask it alone"
            )


def _labels_of(tables: Sequence[CallTable], where: str) -> tuple[Any, ...]:
    """Return the labels of tables, which need answers and the true ones."""
    for table in tables:
        if table.answers is None or table.truth is None:
            raise InputError(
                f"{table.name}: {where}: expected a table with answers and the true ones, found "
                "none"
            )
    return tables[-1].labels  # those of test records include all others


def _classes_of(tables: Sequence[CallTable]) -> tuple[Any, ...]:
    """Return the labels of tables whose answers are classes; refuse others."""
    labels = _labels_of(tables, "problem.rates")
    if len(labels) > _MOST_CLASSES:
        raise InputError(
            f"{tables[0].name}: problem.rates: expected up to {_MOST_CLASSES} classes, found "
            f"{len(labels)} different answers; leave rates out"
        )
    for table in tables:
        truth = table.truth
        assert truth is not None  # with labels
        other = (table.right != (table.answers == truth)).any(axis=0) | (truth < 0)
        if other.any():
            raise InputError(
                f"{table.name}: problem.rates: expected that just those answers are right that "
                f"equal the true one, found {other.sum()} records where it is not so (record "
                f"{int(other.argmax()) + 1} first); leave rates out"
            )
    return labels


def _error_table(
    tables: Sequence[CallTable], errors: Mapping[str, Mapping[str, float]], no_answer: float
) -> IntArray:
    labels = [str(label) for label in _labels_of(tables, "problem.errors")]
    records = max(calls.n for calls in tables)
    table = np.zeros((len(labels) + 1, len(labels) + 1), dtype=np.int64)
    for true, row in errors.items():
        for said, cost in row.items():
            for label in (true, said):
                if label not in labels:
                    raise InputError(
                        f"problem.errors: expected labels of {tables[0].name} "
                        f"({', '.join(labels)}), found {label!r}"
                    )
            whole = whole_cost(cost, records, f"problem.errors: {true}: {said}")
            table[labels.index(true), labels.index(said)] = whole
    table[:, -1] = whole_cost(no_answer, records, "problem.no_answer")
    return table
