"""Tables of calls: what several models answered to each record, how surely, and at what price.

A :class:`~framework.libraries.library.Library` needs probabilities and has one cost for each model.
A table of calls has a cost for every single call, and need not tell more of an answer than whether
it was right: enough for language models with a price list. Costs are stored as whole multiples of
1e-9 of their unit, so that sums over records are exact in whatever order they are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from framework.arrays import Array, FloatArray, IntArray, digest_of, frozen, is_number
from framework.errors import InputError, listed
from framework.libraries.checks import checked_ids, plain_labels
from framework.libraries.library import Library

UNIT = 10**9
"""A cost of one unit as it is stored, a whole number."""

_MOST = 2**61  # what all calls together may cost, as it is stored
_UNITS = {"cost": "$", "latency_ms": "ms"}


def whole_cost(cost: float, times: int, where: str) -> int:
    """Return a cost as a whole multiple of 1e-9 of its unit, which can be added so many times.

    Raises
    ------
    InputError
        The cost is negative or not a number, so small that rounding would change it by more than a
        thousandth, or so large that the sum might not fit in 64 bits.
    """
    most = _MOST / UNIT / times
    if not 0 <= cost <= most:
        raise InputError(
            f"{where}: expected a cost from 0 to {most:.3g}, which may be added {times:,} times, "
            f"found {cost:g}; give all costs in a larger unit"
        )
    return int(_rounded(np.array([[cost]], dtype=np.float64), where)[0, 0])


def _rounded(costs: FloatArray, where: str) -> IntArray:
    """Return costs (K, N) as whole multiples of 1e-9; refuse a change by over a thousandth."""
    units = np.rint(costs * UNIT)
    off = np.abs(units.sum(axis=1) / UNIT - costs.sum(axis=1)) > costs.sum(axis=1) / 1000
    if off.any():
        small = costs[off]
        raise InputError(
            f"{where}: expected whole multiples of 1e-9, or costs of which that rounds off less "
            f"than a thousandth, found {small[small > 0].min():g}; give all costs in a smaller unit"
        )
    return units.astype(np.int64)


class CallCost(NamedTuple):
    """One kind of cost of each call.

    Attributes
    ----------
    values : numpy.ndarray of int64, shape (K, N)
        In 1e-9 of the unit, at least 0.
    unit : str
    fixed : numpy.ndarray of int64, shape (K,), or None
        What each record pays for a model that a policy contains, whether or not the model is asked
        about that record: its share of what a call costs however few records it has. None for 0.
    """

    values: IntArray
    unit: str = ""
    fixed: IntArray | None = None

    def take(self, models: Any = slice(None), records: Any = slice(None)) -> CallCost:
        """Return the cost of some models and records."""
        fixed = None if self.fixed is None else self.fixed[models]
        return CallCost(self.values[models][:, records], self.unit, fixed)

    def alone(self) -> IntArray:
        """Return what each record costs with a single model that is always asked, shape (K, N)."""
        return self.values if self.fixed is None else self.values + self.fixed[:, None]


@dataclass(frozen=True, eq=False)
class CallTable:
    """What ``K`` models answered to ``N`` records, read-only.

    Make one with :meth:`from_arrays`, :meth:`of` or
    :func:`framework.libraries.call_files.read_calls`, which check everything.

    Attributes
    ----------
    ids : tuple of str, length K
    right : numpy.ndarray of bool, shape (K, N)
    confidence : numpy.ndarray of float64, shape (K, N)
        The higher, the surer. Values of different models need not be comparable; infinity stands
        for certainty.
    costs : mapping of str to CallCost
        By name. Models are ordered by the first one.
    answers : numpy.ndarray of int64, shape (K, N), or None
        Positions in ``labels``.
    truth : numpy.ndarray of int64, shape (N,), or None
        Positions in ``labels``; -1 where the true answer is none of them.
    labels : tuple
        What may be answered, such as the classes.
    probabilities : numpy.ndarray of float32, shape (K, N, C), or None
        Of the labels, in their order.
    groups : numpy.ndarray of int64, shape (N,), or None
        Codes, from 0; records with the same code belong together.
    records : tuple of str, length N, or None
        Names of the records.
    name : str
    fingerprint : str
        Hash of the whole content but the names of records and table.
    """

    ids: tuple[str, ...]
    right: Array
    confidence: FloatArray
    costs: Mapping[str, CallCost]
    answers: IntArray | None = None
    truth: IntArray | None = None
    labels: tuple[Any, ...] = ()
    probabilities: Array | None = None
    groups: IntArray | None = None
    records: tuple[str, ...] | None = None
    name: str = "calls"
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", _fingerprint(self))

    @property
    def k(self) -> int:
        """Number of models."""
        return len(self.ids)

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.right.shape[1])

    @classmethod
    def from_arrays(
        cls,
        ids: Sequence[str],
        right: Any,
        confidence: Any,
        costs: Mapping[str, Any],
        *,
        units: Mapping[str, str] | None = None,
        fixed: Mapping[str, Any] | None = None,
        answers: Any = None,
        truth: Any = None,
        labels: Sequence[Any] | None = None,
        probabilities: Any = None,
        groups: Any = None,
        records: Sequence[Any] | None = None,
        name: str = "calls",
    ) -> CallTable:
        """Return a checked table.

        Parameters
        ----------
        ids : sequence of str, length K
        right : array_like, shape (K, N), or None
            1 for a right answer, 0 for a wrong one. If None, an answer is right if it is the truth.
        confidence : array_like, shape (K, N)
        costs : mapping of str to array_like, shape (K, N) or (K,)
            In their unit. With one value for each model, that is the price of each of its calls.
        units : mapping of str to str, optional
        fixed : mapping of str to array_like, shape (K,), optional
            See :class:`CallCost`; by cost, in its unit.
        answers, truth : array_like, shapes (K, N) and (N,), optional
            Labels; a number may also come as text.
        labels : sequence, optional
            All labels that occur, sorted as texts, if None.
        probabilities : array_like, shape (K, N, C), optional
            In the order of ``labels``.
        groups : array_like, shape (N,), optional
        records : sequence, length N, optional
        name : str

        Raises
        ------
        InputError
            A call or a confidence is missing, an answer is none of the labels, a cost is negative
            or not a number, a record comes twice, or shapes do not fit each other.
        """
        ids = checked_ids(tuple(map(str, ids)), name)
        k = len(ids)
        distinct = _labels_of(labels, answers, truth)
        coded = None if answers is None else _codes(answers, distinct)
        true = None if truth is None else _codes(truth, distinct)
        if coded is not None and (coded < 0).any():
            stray = np.asarray(answers, dtype=object)[coded < 0][0]
            raise InputError(
                f"{name}: answers: expected one of {len(distinct)} labels each, found {stray!r}"
            )
        if right is None:
            if coded is None or true is None:
                raise InputError(
                    f"{name}: expected whether each answer is right, or the answers with the true "
                    "ones; found neither"
                )
            correct = np.asarray(coded == true)
        else:
            correct = _right(right, ids, name)
        n = correct.shape[1] if correct.ndim == 2 else 0
        if correct.shape != (k, n) or n == 0:
            raise InputError(
                f"{name}: expected answers of {k} models to a record or more, shape ({k}, N), "
                f"found {correct.shape}"
            )
        sure = _confidence(confidence, ids, n, name)
        fixed = fixed or {}
        table = {
            str(key): CallCost(
                _whole(amounts, ids, n, key, name),
                (units or _UNITS).get(key, _UNITS.get(key, "")),
                _whole(fixed[key], ids, 1, key, name)[:, 0] if key in fixed else None,
            )
            for key, amounts in costs.items()
        }
        if not table:
            raise InputError(f"{name}: expected a cost of the calls, such as money, found none")
        return cls(
            ids=ids,
            right=frozen(correct),
            confidence=frozen(sure),
            costs=table,
            answers=_shaped(coded, (k, n), f"{name}: answers"),
            truth=_shaped(true, (n,), f"{name}: truth"),
            labels=distinct,
            probabilities=_shaped(
                None if probabilities is None else np.asarray(probabilities, np.float32),
                (k, n, len(distinct)),
                f"{name}: probabilities",
            ),
            groups=_shaped(_group_codes(groups), (n,), f"{name}: groups"),
            records=_record_names(records, n, name),
            name=name,
        )

    @classmethod
    def of(
        cls,
        library: Library,
        part: str = "validation",
        costs: Sequence[str] | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> CallTable:
        """Return the predictions of a library of classifiers as calls, each at its model's cost.

        A model answers the most probable class; its confidence is the probability of that class.

        Parameters
        ----------
        library : Library
        part : {'validation', 'test'}
        costs : sequence of str, optional
            Costs of the library to take, in their order; all of them if None.
        fixed : mapping of str to array_like, shape (K,), optional
            By cost, the part that becomes :attr:`CallCost.fixed`; the rest is paid for each call.

        Raises
        ------
        InputError
            The library is for regression, has no such part, or no costs.
        """
        if library.classes is None:
            raise InputError(
                f"{library.title}: expected classifiers, found models for regression, whose "
                "answers are never just right or wrong"
            )
        P, y = (
            (library.validation, library.y_validation)
            if part == "validation"
            else (library.test, library.y_test)
        )
        if P is None or y is None:
            raise InputError(f"{library.title}: expected {part} records, found none")
        names = tuple(library.costs) if costs is None else tuple(costs)
        if not names:
            raise InputError(
                f"{library.title}: expected costs of the models (build it with measured: true, or "
                "import them), found none"
            )
        unknown = [name for name in names if name not in library.costs]
        if unknown:
            raise InputError(
                f"{library.title}: expected a cost of the models ({listed(library.costs)}), found "
                f"{unknown[0]!r}"
            )
        probabilities = np.asarray(P, dtype=np.float32)
        if probabilities.ndim == 2:
            probabilities = np.stack([1 - probabilities, probabilities], axis=2)
        codes = probabilities.argmax(axis=2)
        return cls.from_arrays(
            library.ids,
            codes == np.asarray(y)[None, :],
            probabilities.max(axis=2).astype(np.float64),
            {
                name: np.subtract(library.costs[name].values, (fixed or {}).get(name, 0.0))
                for name in names
            },
            fixed=fixed,
            units={name: library.costs[name].unit for name in names},
            answers=np.asarray(library.classes, dtype=object)[codes],
            truth=np.asarray(library.classes, dtype=object)[np.asarray(y)],
            labels=library.classes,
            probabilities=probabilities,
            groups=library.units if part == "validation" else None,
            name=library.title if part == "validation" else f"{library.title}, test",
        )

    def take(self, records: Array) -> CallTable:
        """Return the table of some records, by position."""
        rows = np.arange(self.n)[np.asarray(records)]
        return replace(
            self,
            **self._calls(records=rows),
            truth=None if self.truth is None else self.truth[rows],
            groups=None if self.groups is None else _group_codes(self.groups[rows]),
            records=self.records and tuple(self.records[i] for i in rows.tolist()),
        )

    def _calls(self, models: Any = slice(None), records: Any = slice(None)) -> dict[str, Any]:
        """Return the attributes that have a value for each call, of some models and records."""
        names = ("right", "confidence", "answers", "probabilities")
        arrays = {name: getattr(self, name) for name in names}
        some = {key: frozen(a[models][:, records]) for key, a in arrays.items() if a is not None}
        return some | {"costs": {key: c.take(models, records) for key, c in self.costs.items()}}

    def only(self, models: Sequence[str]) -> CallTable:
        """Return the table of some models, in the order given.

        Raises
        ------
        InputError
            There is no such model, or one comes twice.
        """
        if len(set(models)) < len(models):
            raise InputError(f"{self.name}: expected each model once, found {', '.join(models)}")
        for model in models:
            if model not in self.ids:
                raise InputError(
                    f"{self.name}: expected models of the table ({', '.join(self.ids)}), found "
                    f"{model!r}"
                )
        rows = [self.ids.index(model) for model in models]
        return replace(self, ids=tuple(models), **self._calls(rows))

    def matched(self, other: CallTable) -> CallTable:
        """Return another table, of new records, with models and labels in the order of this one.

        Raises
        ------
        InputError
            It lacks a model or a cost of this table, or has a record of this table. Where records
            have no names, it is refused if each of its records has the same calls as one of this
            table.
        """
        lacks = [name for name in self.ids if name not in other.ids]
        if lacks:
            raise InputError(
                f"{other.name}: expected calls of the same models as {self.name}, found none of "
                f"{lacks[0]!r}"
            )
        for name in self.costs:
            if name not in other.costs:
                raise InputError(
                    f"{other.name}: expected the costs of {self.name}, found no {name!r}"
                )
        shared = set(self.records or ()) & set(other.records or ())
        if shared:
            raise InputError(
                f"{other.name}: expected records that are not in {self.name}, found "
                f"{len(shared)} in both ({min(shared)!r}, say); a promise on records that a search "
                "has seen is none"
            )
        same = other.only(self.ids)
        if self.records is None or other.records is None:
            self._check_new(same)
        codes = same.answers
        if codes is not None and same.labels != self.labels:
            places = {str(label): i for i, label in enumerate(self.labels)}
            extra = [label for label in same.labels if str(label) not in places]
            labels = (*self.labels, *extra)
            places |= {str(label): len(self.labels) + i for i, label in enumerate(extra)}
            new = np.array([places[str(label)] for label in same.labels] or [0])
            truth = None if same.truth is None else np.where(same.truth < 0, -1, new[same.truth])
            same = replace(same, answers=new[codes], truth=truth, labels=labels)
        return same

    def _check_new(self, same: CallTable) -> None:
        """Refuse a table of which each record has the same calls as a record of this one."""
        cost = next(iter(self.costs))
        parts = [(t.right, t.confidence, t.costs[cost].values) for t in (self, same)]
        mine, theirs = (set(map(bytes, np.vstack(part).T.astype(float))) for part in parts)
        # where most records have calls like no other, that so many are equal is no coincidence
        if theirs <= mine and 2 * len(mine) > self.n:
            raise InputError(
                f"{same.name}: expected records that are not in {self.name}, found each of its "
                f"{same.n} there, by its calls; a promise on records that a search has seen is none"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallTable) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def _labels_of(labels: Sequence[Any] | None, answers: Any, truth: Any) -> tuple[Any, ...]:
    if labels is not None:
        return tuple(plain_labels(labels))
    if answers is None:
        return ()
    said = np.asarray(answers, dtype=object).ravel().tolist()
    said += [] if truth is None else np.asarray(truth, dtype=object).ravel().tolist()
    by_text = {str(label): label for label in plain_labels(said) if label == label}  # without NaN
    return tuple(by_text[key] for key in sorted(by_text))


def _codes(values: Any, labels: tuple[Any, ...]) -> IntArray:
    """Return the positions of values in the labels, by their texts; -1 for others."""
    places = {str(label): i for i, label in enumerate(labels)}
    plain = np.asarray(values, dtype=object)
    codes = [places.get(str(label), -1) for label in plain_labels(plain.ravel())]
    return np.array(codes, dtype=np.int64).reshape(plain.shape)


def _numbers(values: Any, where: str) -> FloatArray:
    raw = np.asarray(values)
    if raw.dtype.kind in "OUS":
        for value in raw.ravel().tolist():
            if not is_number(value):
                raise InputError(
                    f"{where}: expected numbers, found the text {value!r}; write amounts without "
                    "currency and thousands marks"
                )
    try:
        return np.asarray(raw, dtype=np.float64)
    except OverflowError as error:  # a whole number of more than 308 digits
        raise InputError(f"{where}: expected numbers below 1e308, found a larger one") from error


def refuse_gaps(
    numbers: FloatArray,
    ids: Sequence[str],
    expected: str,
    hint: str = "; leave the model or the records out",
) -> None:
    """Refuse NaN in numbers (K, N); the message names the model that lacks most.

    Raises
    ------
    InputError
    """
    gaps = np.isnan(numbers)
    worst = int(gaps.sum(axis=1).argmax())
    if gaps[worst].any():
        raise InputError(
            f"{expected}, found none of {ids[worst]!r} for {gaps[worst].sum()} records (record "
            f"{int(gaps[worst].argmax()) + 1} first){hint}"
        )


def _right(values: Any, ids: Sequence[str], name: str) -> Array:
    numbers = _numbers(values, f"{name}: right answers")
    if numbers.ndim == 2 and len(numbers) == len(ids):
        refuse_gaps(numbers, ids, f"{name}: expected a call of every model to every record")
    if not np.isin(numbers, (0.0, 1.0)).all():
        stray = numbers[~np.isin(numbers, (0.0, 1.0))].ravel()[0]
        raise InputError(f"{name}: expected 1 for a right answer and 0 for a wrong, found {stray}")
    return np.asarray(numbers == 1.0)


def _confidence(values: Any, ids: Sequence[str], n: int, name: str) -> FloatArray:
    numbers = _numbers(values, f"{name}: confidence")
    if numbers.shape != (len(ids), n):
        raise InputError(
            f"{name}: expected a confidence of each call, shape ({len(ids)}, {n}), found "
            f"{numbers.shape}"
        )
    refuse_gaps(numbers, ids, f"{name}: expected a confidence of each call")
    return numbers


def _whole(values: Any, ids: Sequence[str], n: int, key: str, name: str) -> IntArray:
    """Return costs as whole multiples of 1e-9, shape (K, N)."""
    costs = _numbers(values, f"{name}: {key}")
    if costs.shape == (len(ids),):
        costs = np.repeat(costs[:, None], n, axis=1)
    if costs.shape != (len(ids), n):
        raise InputError(
            f"{name}: {key}: expected one number a model or a call, shape ({len(ids)},) or "
            f"({len(ids)}, {n}), found {costs.shape}"
        )
    refuse_gaps(costs, ids, f"{name}: {key}: expected one of each call", hint="")
    if (costs < 0).any() or np.isinf(costs).any():
        raise InputError(
            f"{name}: {key}: expected finite numbers from 0, found {costs.min():g} to "
            f"{costs.max():g}"
        )
    if costs.max() > _MOST / UNIT / (len(ids) * n):
        raise InputError(
            f"{name}: {key}: expected costs that add up to at most {_MOST / UNIT:.2g}, found calls "
            f"of up to {costs.max():g}; give it in a larger unit"
        )
    return frozen(_rounded(costs, f"{name}: {key}"))


def _shaped(array: Any, shape: tuple[int, ...], where: str) -> Any:
    if array is not None and array.shape != shape:
        raise InputError(f"{where}: expected shape {shape}, found {array.shape}")
    return None if array is None else frozen(array)


def _group_codes(groups: Any) -> IntArray | None:
    if groups is None:
        return None
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    return codes.astype(np.int64).ravel()


def _record_names(records: Sequence[Any] | None, n: int, name: str) -> tuple[str, ...] | None:
    if records is None:
        return None
    names = tuple(map(str, records))
    if len(names) != n or len(set(names)) < n:
        twice = next((r for r in names if names.count(r) > 1), "")
        problem = f"{twice!r} twice" if twice else f"{len(names)} names"
        raise InputError(f"{name}: expected a name for each of {n} records, once, found {problem}")
    return names


def _fingerprint(table: CallTable) -> str:
    plain = [
        table.ids,
        list(map(str, table.labels)),
        [(c, table.costs[c].unit) for c in table.costs],
    ]
    arrays = [table.right, table.confidence, table.answers, table.truth, table.probabilities]
    arrays += [table.groups, *(cost.values for cost in table.costs.values())]
    arrays += [cost.fixed for cost in table.costs.values()]
    return digest_of(plain, arrays)
