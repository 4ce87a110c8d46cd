"""Deployable cascades: of fitted models, asked only where they are needed, and bare policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from algorithms.cascade import reference
from algorithms.cascade.router import read_router, score_of, write_router
from algorithms.cascade.stages import mean_of, vote_of
from algorithms.ensembling.model import WeightedEnsembleClassifier, places_of
from framework.arrays import Array, FloatArray, IntArray
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.front import Promise
from framework.libraries.call_files import inputs_of
from framework.libraries.calls import CallTable
from framework.libraries.library import Cost
from framework.libraries.members import shaped
from framework.models.files import ModelFiles
from framework.models.model import Card, DeployableModel
from framework.models.store import cell

POLICY_FILE, CASES_FILE, REFERENCE_FILE = "cascade.json", "conformance.json", "cascade.py"
FORMAT = 1

_CASES = 25
_decide: Any = reference.decide
_RULES = ("own", "cumulative_mean", "vote")
_FIGURES = ("claimed", "expected", "low", "high", "budget")
_TEXT = """\
It asks {first} first. A model's answer is taken from its confidence on; else the next one is
asked{end}

{rows}

`cascade.json` says the same to any program: `cascade.py` beside it evaluates it in plain Python,
and `conformance.json` has cases to test an evaluator of your own with."""


@dataclass(frozen=True)
class Policy:
    """Which models are asked, in which order, and when an answer is taken.

    Attributes
    ----------
    models : tuple of str
    accept : tuple of float
        From which confidence on; -inf always, NaN never.
    refuse : tuple of float or None
        Up to which confidence a record is given up.
    answer : str
        ``own``, ``cumulative_mean`` or ``vote``.
    abstains : bool
        Whether there may be no answer.
    classes : tuple
        Labels in the order of probabilities; empty where they are not known.
    promises : mapping of str to mapping of str to float
        Of each metric what is ``claimed`` on the tuning records; where it is known, what is
        ``expected`` on new ones and a 95% range of it, from ``low`` to ``high``; of a mean cost the
        ``budget`` that is kept in 95% of the resamples of the records.
    table : str
        Digest of the table of calls that it was chosen on.
    enter : tuple of float or None
        Router's score from which on a record begins with a model, else with the next one; None
        where the router is not asked. Empty without a router.
    """

    models: tuple[str, ...]
    accept: tuple[float, ...]
    refuse: tuple[float | None, ...]
    answer: str = "own"
    abstains: bool = False
    classes: tuple[Any, ...] = ()
    promises: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    table: str = ""
    enter: tuple[float | None, ...] = ()

    @property
    def routed(self) -> tuple[str, ...]:
        """The models that the router is asked about."""
        pairs = zip(self.models, self.enter, strict=False)
        return tuple(name for name, enter in pairs if enter is not None)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, as ``cascade.json`` has it."""
        return {
            "format": FORMAT,
            "models": list(self.models),
            "accept": [_plain(value) for value in self.accept],
            "refuse": [None if value is None else _plain(value) for value in self.refuse],
            "answer": self.answer,
            "abstains": self.abstains,
            "classes": list(self.classes),
            "promises": {name: dict(figures) for name, figures in self.promises.items()},
            "table": self.table,
            **({"enter": list(self.enter)} if self.routed else {}),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Policy:
        """Return the policy of :meth:`to_json`, checked.

        Raises
        ------
        InputError
            The parts do not fit together.
        KeyError, TypeError, ValueError
            It is something else.
        """
        if plain["format"] != FORMAT:
            raise InputError(f"{POLICY_FILE}: expected format {FORMAT}, found {plain['format']!r}")
        models = _texts(plain["models"], "models")
        accept = tuple(_number(value) for value in _listed(plain["accept"], "accept"))
        refuse = tuple(
            None if value is None else _number(value)
            for value in _listed(plain["refuse"], "refuse")
        )
        if not models or len({len(models), len(accept), len(refuse)}) > 1:
            raise InputError(
                f"{POLICY_FILE}: expected a model or more with thresholds each, found "
                f"{len(models)} models, {len(accept)} and {len(refuse)} thresholds"
            )
        if plain["answer"] not in _RULES:
            raise InputError(
                f"{POLICY_FILE}: answer: expected {', '.join(_RULES)}, found {plain['answer']!r}"
            )
        if not isinstance(plain["abstains"], bool) or not isinstance(plain["table"], str):
            raise InputError(f"{POLICY_FILE}: expected abstains true or false and table a text")
        enter = tuple(
            None if value is None else _number(value)
            for value in _listed(plain.get("enter", []), "enter")
        )
        if enter and (len(enter) != len(models) or enter[-1] is not None):
            raise InputError(
                f"{POLICY_FILE}: enter: expected {len(models)} scores or null, one a model, null "
                f"for the last, found {list(enter)}"
            )
        classes = tuple(_listed(plain["classes"], "classes"))
        if not all(isinstance(label, str | int | float) for label in classes):
            raise InputError(f"{POLICY_FILE}: classes: expected texts or numbers, found others")
        promises = {
            str(name): {figure: float(figures[figure]) for figure in _FIGURES if figure in figures}
            for name, figures in dict(plain["promises"]).items()
        }
        return cls(
            models,
            accept,
            refuse,
            str(plain["answer"]),
            plain["abstains"],
            classes,
            promises,
            plain["table"],
            enter,
        )

    def promising(self, promises: Mapping[str, Promise]) -> Policy:
        """Return the policy with what to expect of it on new records, by metric."""
        told = {name: promise._asdict() for name, promise in promises.items()}
        known = {name: {**figures, **told.get(name, {})} for name, figures in self.promises.items()}
        return replace(self, promises=known)

    def write(self, files: ModelFiles, cases: Sequence[Mapping[str, Any]]) -> None:
        """Write it with its evaluator and its cases, for whoever wants no dependency."""
        files.write_json(POLICY_FILE, self.to_json())
        files.write_json(CASES_FILE, list(cases))
        files.write(REFERENCE_FILE, Path(reference.__file__).read_bytes())

    def rows(self) -> str:
        """Return the models with their thresholds as a Markdown table."""
        lines = ["| model | its answer is taken | given up |", "| --- | --- | --- |"]
        for name, accept, refuse in zip(self.models, self.accept, self.refuse, strict=True):
            taken = f"from confidence {accept:.6g} on"
            if accept == -math.inf:
                taken = "always"
            elif math.isnan(accept):
                taken = "never"
            up = "" if refuse is None else f"up to {refuse:.6g}"
            lines.append(f"| {cell(name)} | {taken} | {up} |")
        return "\n".join(lines)

    def text(self) -> str:
        """Return what a README says of it."""
        end = "; what none is sure of gets no answer." if self.abstains else "."
        for name, enter in zip(self.models, self.enter, strict=False):
            if enter is not None:
                end += (
                    f" Records that its router gives less than {enter:.6g} for\n{cell(name)} begin "
                )
                end += "with the next model."
        return _TEXT.format(first=cell(self.models[0]), end=end, rows=self.rows())


class CascadePolicy(DeployableModel):
    """A policy without models: it answers tables of calls, and tells a gateway what to do.

    Parameters
    ----------
    policy : Policy
    cases : sequence of mapping
        Conformance cases.
    router : mapping of str to classifier or float, optional
        Of each model that the router is asked about; else its scores are columns of the tables.
    columns : sequence of str
        What the router reads.
    """

    kind = "cascade_policy"

    def __init__(
        self,
        policy: Policy,
        cases: Sequence[Mapping[str, Any]] = (),
        router: Mapping[str, Any] | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.policy, self.cases = policy, list(cases)
        self.router = {name: (router or {})[name] for name in policy.routed if router}
        self.columns = list(columns) if self.router else []

    def take_promises(self, promises: Mapping[str, Promise]) -> None:
        self.policy = self.policy.promising(promises)

    def save_into(self, files: ModelFiles) -> Mapping[str, Any]:
        self.policy.write(files, self.cases)
        if not self.router:
            return {}
        return {"router": write_router(files, self.router), "columns": self.columns}

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> CascadePolicy:
        cases = _listed(files.read_json(CASES_FILE), "cases")
        policy = Policy.from_json(files.read_json(POLICY_FILE))
        if "router" not in description:
            return cls(policy, cases)
        router = read_router(files, description["router"], policy.routed)
        return cls(policy, cases, router, _texts(description["columns"], "columns"))

    def predict_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Answer a table of calls: columns ``MODEL:answer`` and ``MODEL:confidence``.

        For ``cumulative_mean`` columns ``MODEL:probability:CLASS`` instead. A call whose confidence
        is missing counts as failed. A router's scores are columns ``MODEL:score``; where there are
        none, it scores the columns that it reads.

        Returns
        -------
        DataFrame
            ``label`` (of tables without answers: whether the answer taken is right, or empty),
            ``confidence``, ``model`` and ``calls``, the models asked.
        """
        policy = self.policy
        columns = {name: self._columns(name, frame) for name in policy.models}
        scores = {name: self._scores(name, frame) for name in policy.routed}
        plain = policy.to_json()
        found = []
        for i in range(len(frame)):

            def ask(name: str, i: int = i) -> Any:
                values = [column[i] for column in columns[name]]
                if policy.answer == "cumulative_mean":
                    return None if any(v != v for v in values) else [float(v) for v in values]
                return None if values[1] != values[1] else (values[0], float(values[1]))

            routed = {name: column[i] for name, column in scores.items()}
            label, confidence, model, asked = _decide(plain, ask, routed)
            found.append((label, confidence, model, len(asked)))
        names = ["label", "confidence", "model", "calls"]
        return pd.DataFrame(found, columns=names, index=frame.index)

    def _columns(self, name: str, frame: pd.DataFrame) -> list[list[Any]]:
        if self.policy.answer == "cumulative_mean":
            wanted = [f"{name}:probability:{label}" for label in self.policy.classes]
        else:
            said = f"{name}:answer" if f"{name}:answer" in frame.columns else f"{name}:correct"
            wanted = [said, f"{name}:confidence"]
        for column in wanted:
            if column not in frame.columns:
                instead = f" or {name}:answer" if column == f"{name}:correct" else ""
                raise InputError(f"data: expected a column {column}{instead}, found none")
        first = 0 if self.policy.answer == "cumulative_mean" else 1
        told = [frame[column].tolist() for column in wanted[:first]]
        return told + [self._numbers(column, frame) for column in wanted[first:]]

    def _scores(self, name: str, frame: pd.DataFrame) -> list[float]:
        if f"{name}:score" in frame.columns or not self.router:
            return self._numbers(f"{name}:score", frame)
        scores = score_of(self.router[name], inputs_of(frame, self.columns, "data"))
        return [float(score) for score in scores]

    def _numbers(self, column: str, frame: pd.DataFrame) -> list[float]:
        if column not in frame.columns:
            raise InputError(f"data: expected a column {column}, found none")
        try:
            return frame[column].astype(np.float64).tolist()  # None is NaN: the call failed
        except (TypeError, ValueError) as error:
            raise InputError(f"data: {column}: expected numbers, found texts") from error

    def card(self) -> Card:
        return Card(
            title=f"A cascade of {_count(self.policy)}",
            text=self.policy.text(),
            answers="the columns `label`, `confidence`, `model` and `calls`",
            methods="an object with `predict_table`, which takes tables of calls",
        )


class Run(NamedTuple):
    """What became of records: codes of answers (-1: none), confidences, who answered, calls."""

    said: IntArray
    confidence: FloatArray
    by: IntArray
    calls: IntArray
    probabilities: FloatArray


class CascadeClassifier(WeightedEnsembleClassifier):
    """Asks a cheap model first, and a dearer one only for the records that it is not sure of.

    ``of_policy`` makes one of fitted models; ``fit`` trains the members in their order.

    Parameters
    ----------
    estimators : sequence of (str, classifier with ``predict_proba``), optional
        The cheapest first. None: a logistic regression.
    accept : float
        Confidence from which on an answer is taken, in :meth:`fit`.

    Attributes
    ----------
    policy_ : Policy
    failures_ : dict of str to int
        Of each member, how many records it failed on since it was made (it raised, or gave NaN);
        they went to the next.

    The others as of :class:`~algorithms.ensembling.model.WeightedEnsembleClassifier`.
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
        router: Mapping[str, Any] | None = None,
    ) -> CascadeClassifier:
        """Return a cascade of fitted models, without training.

        ``router`` has the router's classifier or constant for each model that it is asked about.

        Raises
        ------
        InputError
            The models are not those of the policy, or know other classes.
        """
        if list(models) != list(policy.models):
            raise InputError(
                f"models: expected those of the policy ({', '.join(policy.models)}), found "
                f"{', '.join(models)}"
            )
        made = cls.from_fitted(models, np.ones(len(models)), classes, costs=costs, encoder=encoder)
        assert isinstance(made, cls)
        made._take(policy, cases, router)
        return made

    def _take(
        self,
        policy: Policy,
        cases: Sequence[Mapping[str, Any]],
        router: Mapping[str, Any] | None = None,
    ) -> None:
        lacks = [name for name in policy.routed if name not in (router or {})]
        if lacks:
            raise InputError(f"router: expected one that scores {lacks[0]!r}, found none")
        self.router_ = {name: (router or {})[name] for name in policy.routed}
        self.policy_ = replace(policy, classes=tuple(self.classes_.tolist()))
        self.cases_ = list(cases)
        self.failures_ = dict.fromkeys(self.names_, 0)

    def predict(self, X: pd.DataFrame | Array) -> Array:
        """Return the class (n,) of each record; None where the cascade abstains."""
        return self._labels_of(self._run(self._records(X)).said)

    def bare(self) -> CascadePolicy:
        """Return the policy without the models, which may be functions that no file holds."""
        return CascadePolicy(self.policy_, self.cases_)

    def calls(self, X: pd.DataFrame | Array) -> IntArray:
        """Return how many models are asked, (n,), for records (n, d)."""
        return self._run(self._records(X)).calls

    def failures(self) -> Mapping[str, int]:
        """Return ``failures_``."""
        return self.failures_

    def take_promises(self, promises: Mapping[str, Promise]) -> None:
        """Keep what to expect on new records, for ``cascade.json``."""
        self.policy_ = self.policy_.promising(promises)

    def save_into(self, files: ModelFiles) -> dict[str, Any]:
        """Write members and policy; see :class:`~framework.models.model.DeployableModel`."""
        self.policy_.write(files, self.cases_)
        constants = write_router(files, self.router_)
        return {**super().save_into(files), **({"router": constants} if self.router_ else {})}

    @classmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> Any:
        """Return the cascade that ``save_into`` wrote."""
        made = super().load_from(files, description)
        policy = Policy.from_json(files.read_json(POLICY_FILE))
        if list(policy.models) != made.names_:
            raise InputError(f"{POLICY_FILE}: expected the members {made.names_}, found others")
        if list(policy.classes) != made.classes_.tolist():
            raise InputError(f"{POLICY_FILE}: expected the model's classes, found others")
        router = read_router(files, description.get("router", {}), policy.routed)
        made._take(policy, _listed(files.read_json(CASES_FILE), "cases"), router)
        return made

    def card(self) -> Card:
        """Return the policy and the members with their costs."""
        return Card(
            title=f"A cascade of {_count(self.policy_)}",
            text=f"{self.policy_.text()}\n\n{self.member_table()}",
            answers=self._columns,
            methods="a scikit-learn estimator: `predict`, `predict_proba`, `calls`",
        )

    def predict_cost(self) -> dict[str, float]:
        """Return what a record costs on average, as the tuning records said."""
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
        """Send records through, each model in one batch of those that come to it."""
        n, policy = len(records), self.policy_
        said = np.full(n, -1, dtype=np.int64)
        by = np.full(n, -1, dtype=np.int64)
        calls = np.zeros(n, dtype=np.int64)
        confidence = np.full(n, np.nan)
        chosen = np.zeros((n, len(self.classes_)))
        start = self._starts(records)
        heard: list[Array] = []  # of the records that are left, whose rows are ``open_``
        open_ = np.arange(n)
        for j, name in enumerate(self.names_):
            if not len(open_):
                break
            here = None if start is None else start[open_] <= j  # the others begin later
            if here is not None and not here.any():
                continue
            found = np.full((len(open_), len(self.classes_)), np.nan, dtype=np.float32)
            with suppress(Exception):  # whatever a model does: the next one is asked
                if here is None or here.all():
                    found = self._asked(j, records)
                else:
                    found[here] = self._asked(j, _rows(records, here))
            heard = [found] if policy.answer == "own" else [*heard, found]
            on = np.asarray(np.isnan(found).any(axis=1))
            told = ~on if on.any() else slice(None)
            calls[open_ if here is None else open_[here]] += 1
            self.failures_[name] += int((on if here is None else on & here).sum())
            answer, sure, given = self._stated(np.stack([part[told] for part in heard]))
            at = open_[told]
            said[at], confidence[at], by[at], chosen[at] = answer, sure, j, given
            left = ~((sure >= policy.accept[j]) | (policy.accept[j] == -math.inf))
            low = policy.refuse[j]
            if low is not None:
                refused = at[left & (sure <= low)]
                said[refused], by[refused] = -1, -1
                left &= ~(sure <= low)
            on[told] = left
            open_ = open_[on]
            if len(open_):
                records = _rows(records, on)
                heard = [part[on] for part in heard]
        if policy.abstains:
            said[open_], by[open_] = -1, -1
        return Run(said, confidence, by, calls, chosen)

    def _starts(self, records: Any) -> IntArray | None:
        """Return the place of the model that each record (n,) begins with; None: all at 0."""
        if not self.router_ or not len(records):
            return None
        waiting = np.ones(len(records), dtype=bool)
        start = np.zeros(len(records), dtype=np.int64)
        for name, enter in zip(self.names_, self.policy_.enter, strict=True):
            if enter is None:
                break
            waiting &= ~(score_of(self.router_[name], records) >= enter)
            start += waiting
        return start

    def _asked(self, j: int, records: Any) -> Array:
        """Return a member's probabilities (n, C) as a library keeps them."""
        places = places_of(self.models_[j], self.classes_, self.names_[j])
        found = np.zeros((len(records), len(self.classes_)), dtype=np.float32)
        given = np.asarray(self.models_[j].predict_proba(records))
        found[:, places] = shaped(given, (len(records), len(places)))
        if found.shape[1] == 2:
            found[:, 0] = 1 - found[:, 1]
        return found

    def _stated(self, heard: Array) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return answers, confidences and probabilities after models were heard, (models, n, C)."""
        known = ~np.isnan(heard).any(axis=2)
        if known.all():
            return self._stated_by(heard)
        n = heard.shape[1]
        found = np.zeros(n, np.int64), np.zeros(n), np.zeros(heard.shape[1:])
        for pattern in np.unique(known, axis=1).T:  # records that the same models answered
            here = np.flatnonzero((known == pattern[:, None]).all(axis=0))
            for column, part in zip(found, self._stated_by(heard[pattern][:, here]), strict=True):
                column[here] = part
        return found

    def _stated_by(self, fine: Array) -> tuple[IntArray, FloatArray, FloatArray]:
        if self.policy_.answer == "cumulative_mean":
            mean = mean_of(fine)
            return mean.argmax(axis=1), mean.max(axis=1), mean
        last = fine[-1].astype(np.float64)
        if self.policy_.answer == "own":
            return last.argmax(axis=1), last.max(axis=1), last
        said, sure = vote_of(fine.argmax(axis=2), fine.max(axis=2).astype(np.float64))
        spread = np.repeat((1 - sure)[:, None] / max(last.shape[1] - 1, 1), last.shape[1], axis=1)
        spread[np.arange(len(said)), said] = sure
        return said, sure, spread


def cases_of(
    policy: Policy, table: CallTable, scores: Mapping[str, FloatArray] | None = None
) -> list[dict[str, Any]]:
    """Return calls of a table with what becomes of them, for evaluators to be tested with.

    ``scores`` are the router's, (N,) by model.
    """
    plain, cases = policy.to_json(), []
    for r in range(min(_CASES, table.n)):
        calls = {name: _call(policy, table, table.ids.index(name), r) for name in policy.models}
        routed = {name: float((scores or {})[name][r]) for name in policy.routed}
        answer, _, model, asked = _decide(plain, calls.get, routed)
        expected = {"answer": answer, "model": model, "asked": asked}
        if all(math.isfinite(v) for call in calls.values() for v in _floats(call)):
            case = {"calls": calls, **({"scores": routed} if routed else {}), "expected": expected}
            cases.append(case)
    return cases


def example_calls(table: CallTable, inputs: pd.DataFrame | None = None) -> dict[str, list[Any]]:
    """Return a few records of a table, as columns that a policy takes.

    ``inputs`` are the columns that its router reads.
    """
    columns: dict[str, list[Any]] = {}
    if inputs is not None:
        columns |= {str(name): inputs[name].head().tolist() for name in inputs.columns}
    for m, name in enumerate(table.ids):
        said = table.right[m, :5].astype(int).tolist()
        if table.answers is not None:
            said = [table.labels[code] for code in table.answers[m, :5].tolist()]
        columns[f"{name}:correct" if table.answers is None else f"{name}:answer"] = said
        columns[f"{name}:confidence"] = table.confidence[m, :5].tolist()
        for c, label in enumerate(table.labels if table.probabilities is not None else ()):
            assert table.probabilities is not None
            columns[f"{name}:probability:{label}"] = table.probabilities[m, :5, c].tolist()
    return columns


def _call(policy: Policy, table: CallTable, m: int, r: int) -> list[Any]:
    if policy.answer == "cumulative_mean":
        assert table.probabilities is not None
        return [float(p) for p in table.probabilities[m, r]]
    said: Any = int(table.right[m, r])
    if table.answers is not None:
        said = table.labels[int(table.answers[m, r])]
    return [said, float(table.confidence[m, r])]


def _floats(call: Sequence[Any]) -> list[float]:
    return [value for value in call if isinstance(value, float)]


def _rows(records: Any, rows: Array) -> Any:
    return records.iloc[rows] if isinstance(records, pd.DataFrame) else records[rows]


def _count(policy: Policy) -> str:
    return f"{len(policy.models)} models" if len(policy.models) > 1 else "one model"


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{POLICY_FILE}: expected a number as threshold, found {value!r}")
    if isinstance(value, str) and value not in ("-inf", "inf", "nan"):
        raise InputError(f"{POLICY_FILE}: expected a number as threshold, found {value!r}")
    return float(value)


def _listed(found: Any, what: str) -> list[Any]:
    if not isinstance(found, list):
        raise InputError(f"{POLICY_FILE}: {what}: expected a list, found {type(found).__name__}")
    return found


def _texts(found: Any, what: str) -> tuple[str, ...]:
    names = _listed(found, what)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InputError(f"{POLICY_FILE}: {what}: expected different names, found {names}")
    return tuple(names)
