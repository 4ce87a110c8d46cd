"""Deployable cascades: bare policies, and cascades that call their fitted models."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.utils import column_or_1d

from algorithms.cascade.calling import rows_of
from algorithms.cascade.policy import CASES_FILE, POLICY_FILE, Policy, count_of, decide, listed
from algorithms.cascade.stages import mean_of, vote_of
from algorithms.ensembling.model import WeightedEnsembleClassifier, places_of
from framework.arrays import Array, FloatArray, IntArray
from framework.data.columns import unusable
from framework.data.encoding import Encoder
from framework.data.table_files import GAPS
from framework.errors import InputError
from framework.front import Promise
from framework.libraries.call_files import spelled_answer
from framework.libraries.checks import shaped
from framework.libraries.library import Cost
from framework.models.checks import weights_for
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.registry import require_columns


class CascadePolicy(DeployableModel):
    """A policy without models, which answers tables of calls and can steer a gateway.

    Parameters
    ----------
    policy : Policy
    cases : sequence of mapping
        Conformance cases of :func:`~algorithms.cascade.policy.cases_of`.
    """

    kind = "cascade_policy"

    def __init__(self, policy: Policy, cases: Sequence[Mapping[str, Any]] = ()) -> None:
        self.policy, self.cases = policy, list(cases)
        self._failures = dict.fromkeys(policy.models, 0)

    def failures(self) -> Mapping[str, int]:
        return self._failures

    def take_promises(self, promises: Mapping[str, Promise]) -> None:
        self.policy = self.policy.promising(promises)

    def save_into(self, files: ModelFiles) -> Mapping[str, Any]:
        self.policy.write(files, self.cases)
        return {}

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> CascadePolicy:
        cases = listed(files.read_json(CASES_FILE), "cases")
        policy = Policy.from_json(files.read_json(POLICY_FILE))
        return cls(policy, cases)

    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Answer a table of calls with the columns ``MODEL:answer`` and ``MODEL:confidence``.

        For ``cumulative_mean`` the columns are ``MODEL:probability:CLASS`` instead. A call whose
        confidence is missing counts as failed.

        Returns
        -------
        DataFrame
            ``label`` (whether the answer taken is right, if the table has ``MODEL:correct`` in
            place of answers; empty without an answer), ``confidence``, ``model``, and ``calls``,
            how many models were asked.
        """
        policy = self.policy
        columns = {name: self._columns(name, frame) for name in policy.models}
        plain = policy.to_json()
        rows = []
        for i in range(len(frame)):

            def ask(name: str, i: int = i) -> Any:
                values = [column[i] for column in columns[name]]
                numbers = values if policy.answer == "cumulative_mean" else values[1:]
                if any(v != v for v in numbers):
                    self._failures[name] += 1
                    return None
                heard = [float(v) for v in numbers]
                return heard if policy.answer == "cumulative_mean" else (values[0], *heard)

            label, confidence, model, asked = decide(plain, ask)
            rows.append((label, confidence, model, len(asked)))
        names = ["label", "confidence", "model", "calls"]
        return pd.DataFrame(rows, columns=names, index=frame.index)

    @property
    def texts(self) -> Mapping[str, Collection[str]]:
        """Columns of answers, which are read as written and spelled as in a table of calls."""
        return {f"{name}:answer": GAPS for name in self.policy.models}

    def check_columns(self, names: Collection[str]) -> None:
        """Raise InputError if a column of a model is missing: its answers, or their correctness."""
        needed = [self._needed(model, names) for model in self.policy.models]
        require_columns(chain(*needed), names)

    def _needed(self, name: str, names: Collection[str]) -> list[str]:
        if self.policy.answer == "cumulative_mean":
            return [f"{name}:probability:{label}" for label in self.policy.classes]
        answer, right = f"{name}:answer", f"{name}:correct"
        return [right if right in names and answer not in names else answer, f"{name}:confidence"]

    def _columns(self, name: str, frame: pd.DataFrame) -> list[list[Any]]:
        wanted = self._needed(name, frame.columns)
        first = 0 if self.policy.answer == "cumulative_mean" else 1
        texts = [
            [spelled_answer(v) if isinstance(v, str) else v for v in frame[column]]
            for column in wanted[:first]
        ]
        return texts + [self._numbers(column, frame) for column in wanted[first:]]

    def _numbers(self, column: str, frame: pd.DataFrame) -> list[float]:
        try:
            return frame[column].astype(np.float64).tolist()  # None is NaN: the call failed
        except (TypeError, ValueError) as error:
            read = pd.to_numeric(frame[column], errors="coerce")
            wrong = frame.loc[read.isna() & frame[column].notna(), column]
            raise unusable(wrong, column, "numbers") from error

    def card(self) -> Card:
        return Card(
            title=f"A cascade of {count_of(self.policy)}",
            text=self.policy.text(),
            answers="the columns `label`, `confidence`, `model` and `calls`",
            methods="an object with `predict_table`, which takes tables of calls",
        )


class Run(NamedTuple):
    """What a cascade did with n records: arrays of shape (n,), and probabilities (n, C).

    ``said`` is the position of the answer among the classes and ``by`` that of the model that gave
    it; both are -1 without an answer. ``calls`` counts the models asked.
    """

    said: IntArray
    confidence: FloatArray
    by: IntArray
    calls: IntArray
    probabilities: FloatArray


class CascadeClassifier(WeightedEnsembleClassifier):
    """Asks a cheap model first, and a dearer one only about records that the first is unsure of.

    ``of_policy`` makes a cascade of fitted models; ``fit`` trains the members itself.

    Parameters
    ----------
    estimators : sequence of (str, classifier with ``predict_proba``), optional
        The members, the cheapest first; a logistic regression if None.
    accept : float
        Least confidence with which :meth:`fit` lets an answer be taken.

    Attributes
    ----------
    policy_ : Policy
    failures_ : dict of str to int
        For each member the number of records that it failed on so far, by an exception or NaN.
        Such records go on to the next member.

    The others are those of :class:`~algorithms.ensembling.model.WeightedEnsembleClassifier`.
    """

    kind = "cascade"
    weights: None = None
    _columns = "the columns `label`, `confidence`, `model` and `calls`"

    def __init__(
        self, estimators: Sequence[tuple[str, Any]] | None = None, accept: float = 0.9
    ) -> None:
        self.estimators = estimators
        self.accept = accept

    def fit(self, X: pd.DataFrame | Array, y: Array) -> Any:
        """Fit a clone of each member; all but the last have the threshold ``accept``."""
        super().fit(X, y)
        count = len(self.names_)
        accept = (*[float(self.accept)] * (count - 1), -math.inf)
        self._take(Policy(tuple(self.names_), accept, (None,) * count), ())
        return self

    @classmethod
    def of_policy(
        cls,
        models: Mapping[str, Any],
        policy: Policy,
        classes: Sequence[Any] | Array,
        *,
        costs: Mapping[str, Cost] | None = None,
        encoder: Encoder | None = None,
        cases: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return a cascade of fitted models, without training.

        Raises
        ------
        InputError
            The models are not those of the policy, or they have other classes.
        """
        if list(models) != list(policy.models):
            raise InputError(
                f"models: expected those of the policy ({', '.join(policy.models)}), found "
                f"{', '.join(models)}"
            )
        made = cls.from_fitted(models, np.ones(len(models)), classes, costs=costs, encoder=encoder)
        made._take(policy, cases)
        return made

    def _take(self, policy: Policy, cases: Sequence[Mapping[str, Any]]) -> None:
        self.policy_ = replace(policy, classes=tuple(self.classes_.tolist()))
        self.cases_ = list(cases)
        self.failures_ = dict.fromkeys(self.names_, 0)

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the class (n,) of each record; None where the cascade abstains."""
        return self._labels_of(self._run(self._records(X)).said)

    def score(self, X: pd.DataFrame | Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return the share of the answers that are right, 0 where no record gets an answer."""
        said, y = self._run(self._records(X)).said, column_or_1d(y, warn=True)
        weights = weights_for(sample_weight, y) * (said >= 0)
        right = weights[self.classes_[np.maximum(said, 0)] == y].sum()
        return float(right / weights.sum()) if weights.any() else 0.0

    def bare(self) -> CascadePolicy:
        """Return the policy alone; the models may be functions, which cannot be saved."""
        return CascadePolicy(self.policy_, self.cases_)

    def calls(self, X: pd.DataFrame | Array) -> IntArray:
        """Return how many models are asked, (n,), for records (n, d)."""
        return self._run(self._records(X)).calls

    def failures(self) -> Mapping[str, int]:
        return self.failures_

    def take_promises(self, promises: Mapping[str, Promise]) -> None:
        self.policy_ = self.policy_.promising(promises)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        self.policy_.write(files, self.cases_)
        return super().save_into(files)

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> Any:
        made = super().load_from(files, description)
        policy = Policy.from_json(files.read_json(POLICY_FILE))
        if list(policy.models) != made.names_:
            raise InputError(f"{POLICY_FILE}: expected the members {made.names_}, found others")
        if list(policy.classes) != made.classes_.tolist():
            raise InputError(f"{POLICY_FILE}: expected the model's classes, found others")
        made._take(policy, listed(files.read_json(CASES_FILE), "cases"))
        return made

    def card(self) -> Card:
        return Card(
            title=f"A cascade of {count_of(self.policy_)}",
            text=f"{self.policy_.text()}\n\n{self.member_table()}",
            answers=self._columns,
            methods="a scikit-learn estimator: `predict`, `predict_proba`, `calls`",
        )

    def predict_cost(self) -> dict[str, float]:
        """Return what a record costs on average, as claimed on the tuning records."""
        promised = self.policy_.promises
        return {name: promised[name]["claimed"] for name in self.costs_ if name in promised}

    def _labels_of(self, said: IntArray) -> Array:
        labels = self.classes_[np.maximum(said, 0)]
        if (said >= 0).all():
            return np.asarray(labels)
        labels = labels.astype(object)
        labels[said < 0] = None
        return np.asarray(labels)

    def _answers(self, records: Any) -> dict[str, Array]:
        run = self._run(records)
        names = np.array([*self.names_, None], dtype=object)
        return {
            "label": self._labels_of(run.said),
            "confidence": run.confidence,
            "model": names[run.by],
            "calls": run.calls,
        }

    def _probabilities(self, records: Any) -> FloatArray:
        return self._run(records).probabilities

    def _run(self, records: Any) -> Run:
        """Send records through the cascade; each model gets those that reach it in one batch."""
        n, policy = len(records), self.policy_
        said = np.full(n, -1, dtype=np.int64)
        by = np.full(n, -1, dtype=np.int64)
        calls = np.zeros(n, dtype=np.int64)
        confidence = np.full(n, np.nan)
        chosen = np.zeros((n, len(self.classes_)))
        rows = np.arange(n)  # of the records that still wait for an answer
        heard: list[Array] = []  # the probabilities that models gave for these
        for j, name in enumerate(self.names_):
            if not len(rows):
                break
            probabilities = np.full((len(rows), len(self.classes_)), np.nan, dtype=np.float32)
            with suppress(Exception):  # whatever a model raises: the next one is asked
                probabilities = self._asked(j, records)
            heard = [probabilities] if policy.answer == "own" else [*heard, probabilities]
            passed = np.asarray(np.isnan(probabilities).any(axis=1))
            answered = ~passed if passed.any() else slice(None)
            calls[rows] += 1
            self.failures_[name] += int(passed.sum())
            answer, sure, stated = self._stated(np.stack([part[answered] for part in heard]))
            at = rows[answered]
            said[at], confidence[at], by[at], chosen[at] = answer, sure, j, stated
            unsure = ~((sure >= policy.accept[j]) | (policy.accept[j] == -math.inf))
            low = policy.refuse[j]
            if low is not None:
                refused = at[unsure & ~(sure >= low)]
                said[refused], by[refused] = -1, -1
                unsure &= sure >= low
            passed[answered] = unsure
            rows = rows[passed]
            if len(rows):
                records = rows_of(records, passed)
                heard = [part[passed] for part in heard]
        if policy.abstains:
            said[rows], by[rows] = -1, -1
        return Run(said, confidence, by, calls, chosen)

    def _asked(self, j: int, records: Any) -> Array:
        """Return a member's probabilities (n, C), rounded as those of a library are."""
        places = places_of(self.models_[j], self.classes_, self.names_[j])
        probabilities = np.zeros((len(records), len(self.classes_)), dtype=np.float32)
        answers = self.models_[j].predict_proba(records)
        probabilities[:, places] = shaped(answers, (len(records), len(places)))
        if probabilities.shape[1] == 2:
            probabilities[:, 0] = 1 - probabilities[:, 1]
        return probabilities

    def _stated(self, heard: Array) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return answers (n,), their confidences (n,) and probabilities (n, C).

        ``heard`` has the probabilities of the models asked, shape (models, n, C); NaN where a call
        failed.
        """
        answered = ~np.isnan(heard).any(axis=2)
        if answered.all():
            return self._stated_by(heard)
        n = heard.shape[1]
        columns = np.zeros(n, np.int64), np.zeros(n), np.zeros(heard.shape[1:])
        for pattern in np.unique(answered, axis=1).T:  # records that the same models answered
            here = np.flatnonzero((answered == pattern[:, None]).all(axis=0))
            for column, part in zip(columns, self._stated_by(heard[pattern][:, here]), strict=True):
                column[here] = part
        return columns

    def _stated_by(self, heard: Array) -> tuple[IntArray, FloatArray, FloatArray]:
        if self.policy_.answer == "cumulative_mean":
            mean = mean_of(heard)
            return mean.argmax(axis=1), mean.max(axis=1), mean
        last = heard[-1].astype(np.float64)
        if self.policy_.answer == "own":
            return last.argmax(axis=1), last.max(axis=1), last
        said, sure = vote_of(heard.argmax(axis=2), heard.max(axis=2).astype(np.float64))
        # a vote has no probabilities: the classes not voted for share the rest evenly
        spread = np.repeat((1 - sure)[:, None] / max(last.shape[1] - 1, 1), last.shape[1], axis=1)
        spread[np.arange(len(said)), said] = sure
        return said, sure, spread
