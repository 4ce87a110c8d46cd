"""Metrics of the designs of a run by class, kept for pages that weigh them anew.

``by_class.npz`` has what ``choose --prior``, ``--costs`` and ``--prices`` come to, as far as it
follows from sums over the records of each class: so a page, which has neither data nor problem,
finds what these find. How a metric follows is not taken on trust: it is tried with other shares of
the classes against the outcomes themselves, as ``choose`` weighs them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np

from framework.arrays import Array, FloatArray, IntArray
from framework.errors import DAMAGED
from framework.experiment.expected import Evidence, class_weights
from framework.experiment.run_dir import RunDir
from framework.files import write_whole
from framework.front import Front
from framework.outcomes import RecordOutcomes
from framework.problem import Deployable, Problem, Stakes
from framework.roles import Roles
from framework.security import JSON_BYTES, arrays_of, read_bytes

UNKNOWN, MEAN, OF_SOME, SAME = range(4)
"""How a metric follows: not from sums; a mean over records; over some of them; always the same."""

_MOST_CLASSES = 12
_MOST = 30_000  # designs; of more, those of the front
_VALUES = 4_000_000  # of a table
_WORK = 3e7  # designs x records: about a second of one core
_TOGETHER = 1 << 21  # answers that are looked at together
_LEVEL = 4  # of compression: a tenth larger than the best, in a quarter of the time
_TRIED = 200  # designs that other shares are tried on
_NEAR = 1e-9  # by which two ways to count may differ


@dataclass(frozen=True)
class ByClass:
    """Sums over the records of each class, of N designs, K classes, M metrics and F features.

    Attributes
    ----------
    ids : numpy.ndarray of int64, shape (N,)
        Of the designs; ascending.
    evaluated : int
        How many designs the run evaluated; where that is more than N, these are its front.
    labels : tuple of str
        The classes.
    counts : numpy.ndarray of int64, shape (K,)
        How many records they have.
    kinds : numpy.ndarray of int64, shape (M,)
        How each metric of the run follows: see ``MEAN`` and the others.
    sums : mapping of int to numpy.ndarray, shape (K, N)
        By the numbers of metrics that are means: their sums; of means over some records alone,
        such as those with an answer, the sums over these.
    below : numpy.ndarray of int64, shape (M,)
        For the latter the number of the metric that says how many records these are; else -1.
    same : mapping of int to numpy.ndarray of float64, shape (N,)
        By the numbers of the other metrics that are known: their values with the shares of the run.
    stakes : Stakes or None
        What errors and features cost as searched.
    steps : numpy.ndarray of int, shape (N, F), or None
        The step at which a design acquires each feature, -1 for never; None where it is not known.
    reached : numpy.ndarray of int, shape (S, K, N), or None
        How many records come to each step.
    """

    ids: IntArray
    evaluated: int
    labels: tuple[str, ...]
    counts: IntArray
    kinds: IntArray
    below: IntArray
    sums: Mapping[int, Array]
    same: Mapping[int, FloatArray]
    stakes: Stakes | None = None
    steps: Array | None = None
    reached: Array | None = None


def by_class(problem: Problem, front: Front, found: Evidence) -> ByClass | None:
    """Return the sums of all designs evaluated or, where these are many, of the front.

    None where records have no classes, or too many, or no metric follows from them.
    """
    known = problem.truth()
    if known is None or not len(front):
        return None
    codes, labels = known[0], tuple(map(str, known[1]))
    counts = np.bincount(codes, minlength=len(labels))
    outcomes = found.resamples.outcomes
    fits = len(codes) == outcomes.records and len(set(labels)) == len(labels) == len(counts)
    if not (fits and counts.all() and 2 <= len(labels) <= _MOST_CLASSES):
        return None
    evaluated = len(found.ids) - found.beside
    some = np.arange(evaluated)
    most = min(_MOST, _WORK / len(codes))
    if evaluated > most:
        some = found.positions(front.ids)
    if len(some) > most:
        return None
    names = list(front.roles.metrics)
    kinds, below, sums, same = _sums(problem, found, some, names)
    if not np.isin(kinds, (MEAN, OF_SOME)).any():
        return None
    steps = reached = None
    stakes = problem.stakes()
    if stakes is not None and stakes.prices:
        acquired = problem.acquired(found.X[some])
        if acquired is not None and max(part.size for part in acquired) <= _VALUES:
            steps, reached = acquired[0], _small(acquired[1])
    told = kinds, below, sums, same, stakes, steps, reached
    return ByClass(found.ids[some], evaluated, labels, counts, *told)


def _sums(
    problem: Problem, found: Evidence, some: IntArray, names: Sequence[str]
) -> tuple[IntArray, IntArray, dict[int, Array], dict[int, FloatArray]]:
    """Return how metrics follow, over what, sums of the means, and the values of the others."""
    known = problem.truth()
    assert known is not None
    codes, labels, outcomes = known[0], list(map(str, known[1])), found.resamples.outcomes
    classes, counts = len(labels), np.bincount(known[0]).astype(np.float64)
    first = [int(np.argmax(codes == k)) for k in range(classes)]
    columns, weights = [np.ones(len(codes))], [np.ones(classes)]
    for ramp in (np.arange(classes) + 1.0, (classes - np.arange(classes)) ** 2.0):
        wanted = dict(zip(labels, (counts * ramp / (counts @ ramp)).tolist(), strict=True))
        columns.append(class_weights(problem, wanted, outcomes).astype(np.float64))
        weights.append(columns[-1][first])
    alone = (codes[:, None] == np.arange(classes)).astype(np.float32)
    drawn = some[np.unique(np.linspace(0, len(some) - 1, _TRIED).round().astype(np.int64))]
    trial = _metrics(outcomes, np.column_stack([*columns, alone]), drawn, names)
    told = {name: of for name, of in trial.items() if np.isfinite(of).all()}
    kinds, below = np.full(len(names), UNKNOWN), np.full(len(names), -1)
    for number, name in enumerate(names):
        if name in told:
            kinds[number] = _kind(told[name], weights, counts)
    shares: Mapping[str, Array] = {}
    if isinstance(problem, Deployable) and trial.keys() >= {*names}:
        shares = problem.shares(trial)
    for number, name in enumerate(names):
        if kinds[number] != UNKNOWN or name not in told or name not in shares:
            continue
        for other in np.flatnonzero(kinds == MEAN).tolist():
            if np.array_equal(told[names[other]], shares[name]):
                kinds[number] = _kind(told[name], weights, counts, shares[name])
                below[number] = other if kinds[number] == OF_SOME else -1
                break
    needed = [name for name, kind in zip(names, kinds, strict=True) if kind in (MEAN, OF_SOME)]
    values = _metrics(outcomes, alone, some, needed) if needed else {}
    sums: dict[int, Array] = {}
    same: dict[int, FloatArray] = {}
    for number, name in enumerate(names):
        if kinds[number] == MEAN:
            sums[number] = _small((values[name] * counts).T)
        elif kinds[number] == OF_SOME:
            sums[number] = _small((values[name] * values[names[below[number]]] * counts).T)
        elif np.isfinite(found.values[name][some]).all():
            same[number] = found.values[name][some]
    return kinds, below, sums, same


def _kind(
    table: FloatArray,
    weights: Sequence[FloatArray],
    counts: FloatArray,
    over: FloatArray | None = None,
) -> int:
    """Return how a metric follows.

    Parameters
    ----------
    table : numpy.ndarray of float64, shape (n, len(weights) + K)
        Of some designs, under weights of the classes and in each class alone.
    weights : sequence of numpy.ndarray of float64, shape (K,)
    counts : numpy.ndarray of float64, shape (K,)
    over : numpy.ndarray of float64, shape of the table, optional
        Of which share of the records it may be the mean.
    """
    found, alone = table[:, : len(weights)], table[:, len(weights) :]
    near = _NEAR * max(1.0, float(np.abs(table).max()))

    def agree(other: Sequence[FloatArray]) -> bool:
        return bool((np.abs(np.column_stack(other) - found) <= near).all())

    if over is not None:
        some = over[:, len(weights) :] * counts
        rates = [alone * some @ w / np.maximum(some @ w, 1.0) for w in weights]
        return OF_SOME if agree(rates) else UNKNOWN
    if agree([found[:, 0]] * len(weights)):
        return SAME
    means = [alone @ (w * counts) / (w @ counts) for w in weights]
    return MEAN if agree(means) else UNKNOWN


def _metrics(
    outcomes: RecordOutcomes, weights: FloatArray, some: IntArray, names: Sequence[str]
) -> Mapping[str, FloatArray]:
    """Return metrics of designs, (n, columns), of which some are looked at together."""
    step = max(1, _TOGETHER // outcomes.records)
    pieces = [
        outcomes.metrics(weights, some[start : start + step], names)
        for start in range(0, len(some), step)
    ]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _small(values: Array) -> Array:
    """Return whole numbers of at least 0 in few bytes; others as they are."""
    whole = np.rint(values)
    if values.min(initial=0) < 0 or np.abs(values - whole).max(initial=0) > _NEAR:
        return np.ascontiguousarray(values, dtype=np.float64)
    most = whole.max(initial=0)
    kind = np.uint16 if most < 2**16 else np.uint32 if most < 2**32 else np.float64
    return np.ascontiguousarray(whole, dtype=kind)


def keep_by_class(run_dir: RunDir, kept: ByClass) -> None:
    """Write ``by_class.npz``."""
    arrays: dict[str, Array] = {
        "ids": kept.ids,
        "evaluated": np.array([kept.evaluated]),
        "labels": np.array(kept.labels),
        "counts": kept.counts,
        "kinds": kept.kinds,
        "below": kept.below,
        **{f"sums_{number}": of for number, of in kept.sums.items()},
        **{f"same_{number}": of for number, of in kept.same.items()},
    }
    if kept.stakes is not None:
        errors, prices = kept.stakes.errors, kept.stakes.prices
        arrays |= {
            "errors": np.zeros(0) if errors is None else np.array([*errors.values()]),
            "no_answer": np.array([kept.stakes.no_answer]),
            "decides": np.array([kept.stakes.decides]),
            "features": np.array([*prices], dtype=np.str_),
            "prices": np.array([*prices.values()], dtype=np.float64),
            "priced": np.array(kept.stakes.priced, dtype=np.str_),
        }
    if kept.steps is not None and kept.reached is not None:
        arrays |= {"steps": kept.steps, "reached": kept.reached}
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED, compresslevel=_LEVEL) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    write_whole(run_dir.by_class_file, content.getvalue())


def read_by_class(run_dir: RunDir, roles: Roles) -> ByClass | None:
    """Return what is kept of a run; None where nothing is, or what is damaged."""
    if not run_dir.by_class_file.is_file():
        return None
    try:
        kept = arrays_of(read_bytes(run_dir.by_class_file, JSON_BYTES), JSON_BYTES)
        return _checked(kept, len(roles.metrics))
    except (*DAMAGED, OSError, BadZipFile, zlib.error, EOFError):
        return None


def _checked(kept: Mapping[str, Array], metrics: int) -> ByClass:
    """Return arrays as what they stand for.

    Raises
    ------
    KeyError, ValueError
        They are not that.
    """

    def numbers(name: str, *shape: int) -> Array:
        array = kept[name]
        if array.dtype.kind not in "iuf" or array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers, shape {shape}")
        return array

    n, classes = len(kept["ids"]), len(kept["labels"])
    kinds = numbers("kinds", metrics).astype(np.int64)
    counts = numbers("counts", classes).astype(np.int64)
    if counts.min() < 1 or not 2 <= classes <= _MOST_CLASSES or not np.isin(kinds, range(4)).all():
        raise ValueError("expected records of each class")
    below = numbers("below", metrics).astype(np.int64)
    if (kinds[below[kinds == OF_SOME]] != MEAN).any() or below.min() < -1:
        raise ValueError("below: expected numbers of means")
    sums = {
        k: _small(numbers(f"sums_{k}", classes, n))
        for k in np.flatnonzero(np.isin(kinds, (MEAN, OF_SOME))).tolist()
    }
    others = np.flatnonzero(np.isin(kinds, (UNKNOWN, SAME))).tolist()
    same = {
        k: numbers(f"same_{k}", n).astype(np.float64)
        for k in others
        if kinds[k] == SAME or f"same_{k}" in kept
    }
    stakes = steps = reached = None
    labels = tuple(kept["labels"].astype(np.str_).tolist())
    if "prices" in kept:
        features = kept["features"].astype(np.str_).tolist()
        prices = numbers("prices", len(features))
        errors = None
        if len(kept["errors"]):
            errors = dict(zip(labels, numbers("errors", classes).tolist(), strict=True))
        stakes = Stakes(
            errors,
            float(numbers("no_answer", 1)[0]),
            bool(kept["decides"][0]),
            dict(zip(features, prices.tolist(), strict=True)),
            tuple(kept["priced"].astype(np.str_).tolist()),
        )
        if "steps" in kept:
            last = kept["reached"].shape[0]
            steps = numbers("steps", n, len(features))
            reached = _small(numbers("reached", last, classes, n))
            if steps.min(initial=0) < -1 or steps.max(initial=-1) >= last:
                raise ValueError("steps: expected steps that records come to")
    told = kinds, below, sums, same, stakes, steps, reached
    ids, evaluated = numbers("ids", n).astype(np.int64), int(numbers("evaluated", 1)[0])
    return ByClass(ids, evaluated, labels, counts, *told)
