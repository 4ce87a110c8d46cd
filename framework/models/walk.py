"""The walk of records through a model with stages: where they leave, and which stages to doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, TypeAdapter, ValidationError, with_config

from framework.errors import DAMAGED, InputError, first_few
from framework.security import read_object

_ALPHA = 0.01  # probability of a false warning, over all stages of a system
_MOST_NAMED = 5  # classes in warnings
_FEWEST_ANSWERS = 5  # records of a class that are answered, before a warning about their accuracy
_GAP = 0.01  # smaller differences are not warned of, even if significant
_MANY = 1000  # records from which isotonic calibration is safe (Niculescu-Mizil and Caruana 2005)

Count = Annotated[int, Field(strict=True, ge=0)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class StageWalk:
    """The walk of records through one stage.

    Attributes
    ----------
    features : tuple of str
        The features that are acquired at the stage.
    cost, cost_so_far : float
        Cost of these features, and of all features acquired by the end of the stage.
    entering : int
        Number of records that reach the stage.
    answers : mapping of str to int
        Number of records that leave with each answer, in the order of the classes.
    right : int
        Number of right answers.
    confidence : float
        Mean confidence of the answers; 0 if there are none.
    calibration_error : float
        Expected calibration error of the answers: the mean over ten bins of confidence, weighted
        by the number of answers, of the distance between confidence and share of right answers.
    p_value : float
        P-value of the exact binomial test that answers are right with probability ``confidence``.
    """

    features: tuple[str, ...]
    cost: Finite
    cost_so_far: Finite
    entering: Count
    answers: Mapping[str, Count]
    right: Count
    confidence: Finite
    calibration_error: Finite
    p_value: Finite

    @property
    def leaving(self) -> int:
        """Number of records that leave with an answer."""
        return sum(self.answers.values())

    @property
    def accuracy(self) -> float:
        """Share of the answers that are right; 0 if there are none."""
        return self.right / max(self.leaving, 1)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Walk:
    """How the records on which a search has scored a system go through its stages.

    Attributes
    ----------
    records : int
        Number of records, of validation or of a cross-validation.
    training_records : int
    calibration : str
        The configured method, on which the advice in warnings depends.
    stages : tuple of StageWalk
    confusions : mapping of ``validation`` and, if there are such records, ``test``
        One row per true class, with the number of records that got each answer and, in the last
        column, those that got none.
    out_of_fold : bool
        Whether the records are those of a cross-validation, each answered by classifiers that were
        fitted without it; ``validation`` then refers to these.
    by_cost : bool
        Whether stages decide by the costs of errors and not by confidence.
    weighted : bool
        Whether records have weights in metrics; here each counts once.
    """

    records: Annotated[Count, Field(ge=1)]
    training_records: Count
    calibration: str
    stages: tuple[StageWalk, ...]
    confusions: Mapping[str, tuple[tuple[Count, ...], ...]] = field(default_factory=dict)
    out_of_fold: StrictBool = False
    by_cost: StrictBool = False
    weighted: StrictBool = False

    @property
    def measured(self) -> str:
        """The records of the figures, as in ``on 142 validation records``."""
        unweighted = ", unweighted" if self.weighted else ""
        if self.out_of_fold:
            return f"out-of-fold on {self.records:,} records{unweighted}"
        return f"on {self.records:,} validation records{unweighted}"

    @property
    def kind(self) -> str:
        """The name of the records: ``validation records`` or ``out-of-fold records``."""
        return f"{self.part_name('validation')} records"

    def part_name(self, part: str) -> str:
        """Return the name of a part of ``confusions`` for users."""
        return "out-of-fold" if self.out_of_fold and part == "validation" else part

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of rows and columns of ``confusions``."""
        return tuple(self.stages[0].answers)

    @property
    def rejected(self) -> int:
        """Number of records that no stage answers."""
        return self.records - sum(stage.leaving for stage in self.stages)

    def warnings(self) -> list[str]:
        """Return sentences about classes that are seldom or never answered, and doubtful stages.

        A class is seldom right if at least five of its records are answered, most of them with
        another class.

        A stage is doubtful if the share of right answers differs from their mean confidence by at
        least 0.01, and the p-value of the binomial test is below 0.01 divided by the number of
        stages with answers (Bonferroni). The test assumes that every answer has the mean
        confidence, which makes it slightly conservative.
        """
        answering = [stage for stage in self.stages if stage.leaving]
        return [*self._never_answered(), *self._seldom_right(), *self._overconfident(answering)]

    def _never_answered(self) -> list[str]:
        """Return a sentence for each class that no record is answered, or one if there are many."""
        rows = self.confusions.get("validation", ())
        never = {
            name: row
            for k, (name, row) in enumerate(zip(self.classes, rows, strict=False))
            if sum(row) and not any(other[k] for other in rows)
        }
        if len(never) > _MOST_NAMED:
            total, none = sum(map(sum, never.values())), sum(row[-1] for row in never.values())
            return [
                f"classes {first_few([*never], _MOST_NAMED)}: no record is answered so; of their "
                f"{total:,} {self.kind} {total - none:,} get another answer and {none:,} none"
            ]
        return [
            f"class {name}: no record is answered {name}; of its {sum(row):,} {self.kind} "
            f"{sum(row[:-1]):,} get another answer and {row[-1]:,} none"
            for name, row in never.items()
        ]

    def _seldom_right(self) -> list[str]:
        """Return a sentence for each class of which most answered records get another class."""
        rows = self.confusions.get("validation", ())
        sentences = [
            f"class {name}: of its {sum(row):,} {self.kind} {sum(row[:-1]):,} are answered, and "
            f"{f'only {row[k]:,}' if row[k] else 'none'} of them as {name}"
            for k, (name, row) in enumerate(zip(self.classes, rows, strict=False))
            if sum(row[:-1]) >= _FEWEST_ANSWERS
            and 2 * row[k] < sum(row[:-1])
            and any(other[k] for other in rows)
        ]
        more = len(sentences) - _MOST_NAMED
        return [
            *sentences[:_MOST_NAMED],
            *([f"and so are {more} more classes"] if more > 0 else []),
        ]

    def _overconfident(self, answering: Sequence[StageWalk]) -> list[str]:
        return [
            f"stage {number}: answers claim {stage.confidence:.2f} and are right in "
            f"{stage.accuracy:.2f} of {stage.leaving:,} cases (p = {stage.p_value:.1g}); "
            + self._advice(stage)
            for number, stage in enumerate(self.stages, start=1)
            if stage.leaving
            and abs(stage.confidence - stage.accuracy) >= _GAP
            and stage.p_value < _ALPHA / len(answering)
        ]

    def _advice(self, stage: StageWalk) -> str:
        if self.by_cost:
            return "try " + (
                "problem.calibration: softmax"
                if self.calibration == "none"
                else "another problem.calibration"
            )
        if self.calibration == "none":
            method = "isotonic" if self.training_records >= _MANY else "sigmoid"
            return f"set problem.calibration: {method}"
        if stage.confidence < stage.accuracy:
            return "a lower problem.threshold would let it answer more"
        return "raise problem.threshold, or try another problem.calibration"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values for :meth:`from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Walk:
        """Return the walk that ``to_json`` wrote; raises ValueError for other values."""
        try:
            walk = _READER.validate_python(plain)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"{place}: {first['msg'].lower()}") from error
        if len({tuple(stage.answers) for stage in walk.stages}) != 1:
            raise ValueError("stages with the same answers")
        if any(stage.leaving > stage.entering for stage in walk.stages):
            raise ValueError("counts of records")
        if set(walk.confusions) not in (set(), {"validation"}, {"validation", "test"}):
            raise ValueError("tables of the answers to validation and test records")
        n = len(walk.classes)
        if any([len(row) for row in rows] != [n + 1] * n for rows in walk.confusions.values()):
            raise ValueError("tables of answers")
        return walk


_READER = TypeAdapter(Walk)


@dataclass(frozen=True)
class Chosen:
    """The solution in the directory of a model, and its walk."""

    solution: int
    walk: Walk

    @classmethod
    def read(cls, directory: Path) -> Chosen | None:
        """Return the solution in a directory; None if there is no model with a walk."""
        try:
            plain = read_object(directory / "model.json", "a model's description")
            return cls(int(plain["about"]["solution"]), Walk.from_json(plain["walk"]))
        except (InputError, *DAMAGED):
            return None


def shares(walk: Walk, most: int) -> tuple[list[str], list[list[float]]]:
    """Return the names of answers, and for each stage the share of all records with each answer.

    Parameters
    ----------
    walk : Walk
    most : int
        How many names to return at most; the rarest answers are put together as ``others``.
    """
    names = list(walk.stages[0].answers)
    total: dict[str, int] = {n: sum(s.answers[n] for s in walk.stages) for n in names}
    columns: Sequence[str] = names
    if len(names) > most:
        frequent = sorted(names, key=lambda name: -total[name])[: most - 1]
        columns = [name for name in names if name in frequent]
    rows = []
    for stage in walk.stages:
        row = [stage.answers[name] / walk.records for name in columns]
        if len(columns) < len(names):
            row.append(stage.leaving / walk.records - sum(row))
        rows.append(row)
    return [*columns, *(["others"] if len(columns) < len(names) else [])], rows
