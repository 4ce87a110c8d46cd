"""Policies of cascades: which models are asked, when an answer is taken, and their file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from algorithms.cascade import reference
from framework.errors import InputError
from framework.front import Promise
from framework.libraries.calls import CallTable
from framework.models.files import ModelFiles
from framework.models.store import cell, markdown_table

POLICY_FILE, CASES_FILE, REFERENCE_FILE = "cascade.json", "conformance.json", "cascade.py"
FORMAT = 2

decide: Any = reference.decide

_CASES = 25
_ANSWERS = {
    "own": "A model's answer",
    "cumulative_mean": "The answer by the mean probabilities of all models asked so far",
    "vote": "The answer that most of the models asked so far give",
}
_FIGURES = ("claimed", "expected", "low", "high", "budget")
_TEXT = """\
It asks {first} first. {answer} is taken from its confidence on; else the next one is
asked{end}

{rows}

`cascade.json` says the same to any program: `cascade.py` beside it evaluates it in plain Python,
and `conformance.json` has cases to test your own evaluator with."""


@dataclass(frozen=True)
class Policy:
    """Which models are asked, in which order, and when an answer is taken.

    Attributes
    ----------
    accept : tuple of float
        Least confidence with which a model's answer is taken: -inf for always, NaN for never.
    refuse : tuple of float or None
        A record whose confidence does not reach it is given up: NaN for all, None for none.
    answer : str
        ``own``, ``cumulative_mean`` or ``vote``.
    abstains : bool
        Whether a record may be left without an answer.
    classes : tuple
        Labels in the order of probabilities; empty if they are not needed.
    promises : mapping of str to mapping of str to float
        For each metric, the value ``claimed`` on the tuning records and, once estimated, the value
        ``expected`` on new records with its 95% range, from ``low`` to ``high``. For each mean
        cost also the ``budget`` that is kept in 95% of the resamples of the records.
    table : str
        Fingerprint of the table of calls that the policy was chosen on.
    """

    models: tuple[str, ...]
    accept: tuple[float, ...]
    refuse: tuple[float | None, ...]
    answer: str = "own"
    abstains: bool = False
    classes: tuple[Any, ...] = ()
    promises: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    table: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``cascade.json``."""
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
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Policy:
        """Check the content of ``cascade.json`` and return its policy.

        Raises
        ------
        InputError
            The format is another one, there are unknown keys, or the parts do not fit together.
        KeyError, TypeError, ValueError
            The content is not that of a policy at all.
        """
        if plain["format"] != FORMAT:
            raise InputError(f"{POLICY_FILE}: expected format {FORMAT}, found {plain['format']!r}")
        keys = ("format", *(attribute.name for attribute in fields(cls)))
        if others := sorted(plain.keys() - set(keys)):
            raise InputError(
                f"{POLICY_FILE}: expected the keys {', '.join(keys)}, found {others[0]!r}"
            )
        models = tuple(listed(plain["models"], "models"))
        named = all(isinstance(name, str) and name for name in models)
        if not named or len(set(models)) < len(models):
            raise InputError(
                f"{POLICY_FILE}: models: expected different names, found {list(models)}"
            )
        accept = tuple(_number(value) for value in listed(plain["accept"], "accept"))
        refuse = tuple(
            None if value is None else _number(value) for value in listed(plain["refuse"], "refuse")
        )
        if not models or len({len(models), len(accept), len(refuse)}) > 1:
            raise InputError(
                f"{POLICY_FILE}: expected a model or more with thresholds each, found "
                f"{len(models)} models, {len(accept)} and {len(refuse)} thresholds"
            )
        if str(plain["answer"]) not in _ANSWERS:
            raise InputError(
                f"{POLICY_FILE}: answer: expected {', '.join(_ANSWERS)}, found {plain['answer']!r}"
            )
        if not isinstance(plain["abstains"], bool) or not isinstance(plain["table"], str):
            raise InputError(f"{POLICY_FILE}: expected abstains true or false and table a text")
        classes = tuple(listed(plain["classes"], "classes"))
        if not all(isinstance(label, str | int | float) for label in classes):
            raise InputError(f"{POLICY_FILE}: classes: expected texts or numbers, found others")
        promises = {
            str(name): {figure: float(figures[figure]) for figure in _FIGURES if figure in figures}
            for name, figures in dict(plain["promises"]).items()
        }
        answer, abstains, table = str(plain["answer"]), plain["abstains"], plain["table"]
        return cls(models, accept, refuse, answer, abstains, classes, promises, table)

    def promising(self, promises: Mapping[str, Promise]) -> Policy:
        """Return the policy with estimates of its metrics on new records added to ``promises``."""
        estimates = {name: promise._asdict() for name, promise in promises.items()}
        figures_of = {
            name: {**figures, **estimates.get(name, {})} for name, figures in self.promises.items()
        }
        return replace(self, promises=figures_of)

    def write(self, files: ModelFiles, cases: Sequence[Mapping[str, Any]]) -> None:
        """Write the policy, an evaluator of it in plain Python, and cases to test others with."""
        files.write_json(POLICY_FILE, self.to_json())
        files.write_json(CASES_FILE, list(cases))
        files.write(REFERENCE_FILE, Path(reference.__file__).read_bytes())

    def rows(self) -> str:
        """Return the models with their thresholds as a Markdown table."""
        rows = []
        for name, accept, refuse in zip(self.models, self.accept, self.refuse, strict=True):
            taken = f"from confidence {accept:.6g} on"
            if accept == -math.inf:
                taken = "always"
            elif math.isnan(accept):
                taken = "never"
            up = "" if refuse is None else f"below {refuse:.6g}"
            if refuse is not None and math.isnan(refuse):
                up = "else"
            rows.append((cell(name), taken, up))
        return markdown_table(("model", "its answer is taken", "given up"), rows)

    def text(self) -> str:
        """Return the description for a README, in Markdown."""
        end = "; what none is sure of gets no answer." if self.abstains else "."
        first, answer = cell(self.models[0]), _ANSWERS[self.answer]
        return _TEXT.format(first=first, answer=answer, end=end, rows=self.rows())


def cases_of(policy: Policy, table: CallTable) -> list[dict[str, Any]]:
    """Return the calls of a few records and what the policy makes of them, to test evaluators."""
    plain, cases = policy.to_json(), []
    for r in range(min(_CASES, table.n)):
        calls = {name: _call(policy, table, table.ids.index(name), r) for name in policy.models}
        answer, _, model, asked = decide(plain, calls.get)
        expected = {"answer": answer, "model": model, "asked": asked}
        figures = [v for call in calls.values() for v in call if isinstance(v, float)]
        if all(map(math.isfinite, figures)):
            cases.append({"calls": calls, "expected": expected})
    return cases


def example_calls(table: CallTable) -> dict[str, list[Any]]:
    """Return a few records of a table as the columns that a policy reads."""
    columns: dict[str, list[Any]] = {}
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


def count_of(policy: Policy) -> str:
    return f"{len(policy.models)} models" if len(policy.models) > 1 else "one model"


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number and value not in ("-inf", "inf", "nan"):
        raise InputError(f"{POLICY_FILE}: expected a number as threshold, found {value!r}")
    return float(value)


def listed(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{POLICY_FILE}: {what}: expected a list, found {type(value).__name__}")
    return value
