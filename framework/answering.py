"""Problems that are defined by the answers of their candidates, and all that follows from these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.answers import (
    NO_ANSWER,
    AnswerOutcomes,
    Answers,
    Measure,
    Part,
    Records,
    Size,
    measured,
)
from framework.arrays import Array, IntArray
from framework.capabilities import Alternative, TrivialClassifier
from framework.measures import Ratio, samples_of
from framework.outcomes import Sample
from framework.problem import Deployable, Problem
from framework.roles import Metric
from framework.streams import CandidateStreams

if TYPE_CHECKING:
    import pandas as pd

CertifiedCosts = tuple[Mapping[str, Array], Mapping[str, float]]
_ANSWERS = 1 << 22  # answers that :meth:`AnsweringProblem.slowly` computes at a time


class AnsweringProblem(Problem):
    """A problem that says what its candidates answer to each record, and what they pay for it.

    A family defines :attr:`answered`, :meth:`answers` and :attr:`measures`. Its :meth:`direct` may
    compute metrics faster, which must have the same values to the bit
    (:func:`~framework.testing.problems.evaluates_its_answers` checks it).

    Attributes
    ----------
    answered : mapping of part to Records
        The records that candidates are scored on and, if there are some, the test records.
    measures : sequence of Measure
        How each metric is computed from answers, in the order in which metrics are reported.
    """

    answered: Mapping[Part, Records | None]
    measures: Sequence[Measure]

    @property
    def metrics(self) -> tuple[Metric, ...]:  # type: ignore[override]
        return tuple(measure.metric for measure in self.measures)

    def records(self, part: Part = "search") -> Records | None:
        """Return the records that candidates are scored on, or the test records; None for none."""
        return self.answered.get(part)

    @abstractmethod
    def answers(self, X: Array, part: Part = "search") -> Answers:
        """Return what genomes (n, d) answer to the records of a part."""

    def direct(self, X: Array, part: Part) -> Mapping[str, Array]:
        """Return the metrics of the first measures, in their order, computed without answers.

        Those of the other measures, by default of all, are computed from :meth:`answers`.
        """
        return {}

    def slowly(
        self, X: Array, part: Part = "search", measures: Sequence[Measure] | None = None
    ) -> Mapping[str, Array]:
        """Return metrics (n,) of genomes (n, d) from their answers: by all measures if None."""
        measures = self.measures if measures is None else measures
        records = self.records(part)
        assert records is not None
        if not measures:
            return {}
        step = max(1, _ANSWERS // max(len(records), 1))
        blocks = [X[start : start + step] for start in range(0, max(len(X), 1), step)]
        values = [measured(self.answers(block, part), measures) for block in blocks]
        return {name: np.concatenate([v[name][:, 0] for v in values]) for name in values[0]}

    def evaluate(self, X: Array, streams: CandidateStreams | None = None) -> Mapping[str, Array]:
        return self._values(X, "search")

    def evaluate_test(
        self, X: Array, streams: CandidateStreams | None = None
    ) -> Mapping[str, Array] | None:
        return None if self.records("test") is None else self._values(X, "test")

    def _values(self, X: Array, part: Part) -> Mapping[str, Array]:
        values = self.direct(X, part)
        return {**values, **self.slowly(X, part, self.measures[len(values) :])}

    def outcomes(self, X: Array) -> AnswerOutcomes | None:
        records = self.records()
        return None if records is None else AnswerOutcomes(self.measures, self.answers, X, records)

    def truth(self) -> tuple[IntArray, Sequence[Any]] | None:
        records = self.records()
        return (records.labels, records.classes) if records and records.classes else None

    def labels(self) -> Sequence[Any]:
        """Return the classes that models can answer, by code."""
        records = self.records()
        return () if records is None else records.classes

    def positive_code(self) -> int:
        """Return the code of the positive class; -1 for none."""
        records = self.records()
        return -1 if records is None else records.positive

    def constant(self, part: Part = "search") -> Answers | None:
        """Return the answers of K classifiers that always say one class; None without records.

        They use no features, so they pay nothing but :meth:`paid_for`, and their sizes are 0.
        """
        records = self.records(part)
        if records is None:
            return None
        k = len(records.classes)
        codes = np.repeat(np.arange(k)[:, np.newaxis], len(records), axis=1)
        names = [name for m in self.measures if isinstance(m, Ratio) for name in m.paid]
        paid = dict.fromkeys(names, np.zeros((k, 1), dtype=np.int64))
        paid |= self.paid_for(codes, records)
        sizes = [m.metric.name for m in self.measures if isinstance(m, Size)]
        return Answers(records, codes, paid, dict.fromkeys(sizes, np.zeros(k)))

    def paid_for(self, codes: Array, records: Records) -> Mapping[str, Array]:
        """Return what answers cost by themselves, such as errors, by name of a cost, (n, N) each.

        ``codes``, shape (n, N), are the predicted classes.
        """
        return {}

    def trivial_classifiers(self) -> Sequence[TrivialClassifier]:
        """Return the classifiers that always say one of two classes, the negative one first."""
        classes, positive = self.labels(), self.positive_code()
        if positive < 0 or len(classes) != 2:
            return ()
        answers, tested = self.constant(), self.constant("test")
        if answers is None:
            return ()

        def metrics(part: Answers, code: int) -> dict[str, float]:
            of = measured(part.take(np.array([code])), self.measures)
            return {name: float(values[0, 0]) for name, values in of.items()}

        return [
            TrivialClassifier(
                f"always {name}",
                classes[code],
                classes,
                metrics(answers, code),
                None if tested is None else metrics(tested, code),
                AnswerOutcomes.of(self.measures, answers.take(np.array([code]))),
            )
            for name, code in (("negative", 1 - positive), ("positive", positive))
        ]

    @property
    def certifiable(self) -> Sequence[Measure]:
        """The measures that a certificate may bound, where they are means over records."""
        return self.measures

    def certified(self, model: Any, table: pd.DataFrame, answers: Answers) -> CertifiedCosts:
        """Return what a model pays for each record, and the most that it can pay for any record.

        Both are in units, by name of a cost: arrays of shape (1, N), and numbers.

        Parameters
        ----------
        model
            As :meth:`~framework.problem.Deployable.decode` returns it.
        table : pandas.DataFrame
            The result of the model's ``predict_table`` on the records.
        answers : Answers
            The answers in that table, as codes.
        """
        return {}, {}

    def answers_of_model(self, table: pd.DataFrame, codes: IntArray) -> Answers:
        """Return the answers in a model's ``predict_table``; ``codes`` are the true classes, (N,).

        A label that is no class counts as no answer.
        """
        labels = tuple(self.labels())
        code_of = {label: code for code, label in enumerate(labels)}
        answered = [code_of.get(label, NO_ANSWER) for label in table["label"]]
        answers = np.array([answered], dtype=np.int64)
        return Answers(Records(codes, labels, self.positive_code()), answers)

    def samples(
        self, x: Array, frame: pd.DataFrame, codes: IntArray
    ) -> Mapping[str, Sequence[Sample]]:
        """See :meth:`~framework.problem.Deployable.samples`."""
        assert isinstance(self, Deployable)
        model = self.decode(x)
        table = model.predict_table(frame)
        answers = self.answers_of_model(table, codes)
        paid, most = self.certified(model, table, answers)
        return samples_of(self.certifiable, replace(answers, paid=paid), most)

    def largest_class(self) -> Alternative:
        """Return the classifier that always answers the most frequent class."""
        records, answers = self.records(), self.constant()
        assert records is not None
        assert answers is not None
        counts = np.bincount(records.labels, records.weights, minlength=len(records.classes))
        largest = np.array([counts.argmax()])
        tested = self.constant("test")
        tested = None if tested is None else tested.take(largest)
        name, label = "the largest class", str(records.classes[int(largest[0])])
        return alternative_of(name, [label], self.measures, answers.take(largest), tested)


def alternative_of(
    name: str,
    points: Sequence[str],
    measures: Sequence[Measure],
    searched: Answers,
    tested: Answers | None,
) -> Alternative:
    """Return an alternative from the answers of its points; ``tested`` are to the test records."""
    test = None
    if tested is not None:
        test = {name: column[:, 0] for name, column in measured(tested, measures).items()}
    return Alternative(name, points, AnswerOutcomes.of(measures, searched), test)
