"""Branch and bound over boxes of sizes, thresholds and calls.

A step takes the open boxes with the greatest bounds, one or several. Workers solve their linear
programs side by side, each from the basis that its box carries. Then the step adds cuts to each box
or divides it, in their order. So nothing depends on the machine or on interruptions. The state
between two steps is plain data, arrays and JSON (:func:`pack`, :func:`unpack`): reading it runs no
code.
"""

from __future__ import annotations

import heapq
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from algorithms.pruning.branch_and_bound.cuts import Box, Cuts, conflicts, no_cuts
from algorithms.pruning.branch_and_bound.instance import Instance, Pruned
from algorithms.pruning.branch_and_bound.local_search import first_members, improve
from algorithms.pruning.branch_and_bound.relaxation import Relaxation, Relaxed, closure_bound
from framework.arrays import Array
from framework.preparation import InProcess, Workforce
from framework.security import BAD_ARRAYS, ESTIMATOR_BYTES, arrays_of

_ROOT_ROUNDS, _ROUNDS = 40, 6  # rounds of cuts before a box is divided, for the first and others
_WORTH = 0.02  # least share of the gap that a round of cuts has to close
_WHOLE = 1e-6  # numbers that are so near to a whole number count as whole
_CLIMBERS = 4  # local searches that the first looks are divided among
_LOOKS_EACH = 10  # greatest number of first looks for each ensemble that there is
_RELATIVE = 1e-9  # bound and value with less relative difference are equal, if there is no step
_VERSION = 3  # of the packed state
_COUNTS = ("nodes", "programs", "iterations", "_made", "_nothing")


@dataclass(order=True)
class OpenBox:
    """A box still to be solved; they are sorted by greatest bound, then by age."""

    key: tuple[float, int]
    bound: float = field(compare=False)
    box: Box = field(compare=False)
    cuts: Cuts = field(compare=False)
    basis: Array | None = field(compare=False, default=None)
    status: Array | None = field(compare=False, default=None)
    rounds: int = field(compare=False, default=0)

    @property
    def is_decided(self) -> bool:
        """Whether the box holds one ensemble."""
        return bool((self.box.x >= 0).all())


class _Piece(NamedTuple):
    """A box whose linear program a worker solves."""

    node: OpenBox
    cutoff: float


def _solved(relaxation: Relaxation, piece: _Piece) -> tuple[Relaxed, Cuts | None]:
    """Return the solution of a box and the cuts that it breaks; None if the box is closed."""
    node = piece.node
    with _threads().limit(limits=1):
        relaxed = relaxation.solve(node.box, node.cuts, node.basis, node.status)
        bound = min(node.bound, _rounded(relaxation.instance, relaxed.bound))
        return relaxed, relaxation.broken(relaxed, node.box) if bound > piece.cutoff else None


def _rounded(instance: Instance, bound: float) -> float:
    """Return the greatest value up to a bound that an ensemble can have."""
    if not instance.step or not np.isfinite(bound):
        return bound
    constant = instance.constant
    return float(np.floor((bound - constant) / instance.step + _WHOLE) * instance.step + constant)


class BranchAndBound:
    """Solve an instance, a step at a time.

    Parameters
    ----------
    instance : Instance
    seed : int
        Seed of the local searches.
    looks : int
        Greatest number of ensembles that the first local search values.

    Attributes
    ----------
    incumbent : Pruned or None
        The best ensemble so far; None before one is known that meets all requirements.
    bound : float
        No ensemble is worth more; minus infinity if there is none at all.
    nodes, programs, iterations : int
        Boxes divided or closed, linear programs solved, simplex iterations.
    """

    def __init__(self, instance: Instance, *, seed: int = 0, looks: int = 1_000_000) -> None:
        self.instance = instance
        self.incumbent: Pruned | None = None
        self.nodes = self.programs = self.iterations = 0
        self._rng = np.random.default_rng(np.random.SeedSequence(seed))
        self._made = 0  # boxes so far, which tells their age
        self._open: list[OpenBox] = []  # a heap
        self._any: BranchAndBound | None = None  # a search for any admitted members
        start = first_members(instance)
        if start is not None:
            enough = _LOOKS_EACH * 2**instance.k
            for i in range(_CLIMBERS):
                share = (min(looks, enough) + i) // _CLIMBERS
                self._take(improve(instance, start, share, self._rng))
        closure = closure_bound(instance)
        k = instance.k
        box = Box(
            np.full(k, -1, dtype=np.int8),
            np.full(len(instance.gains), -1, dtype=np.int8),
            (instance.requirements.min_members, instance.max_members),
            (0, max(instance.max_members - 1, 0)),
        ).tightened(instance.requirements.majority)
        # an ensemble that calls nothing positive (L = S) is in no box; any admitted members do it
        self._nothing = instance.constant if instance.nothing_admitted else -np.inf
        if box is not None:
            self._push(closure.bound, box, conflicts(closure.binding, len(instance.down), k))
        if not self._open:
            self._seek_any()

    @property
    def done(self) -> bool:
        """Whether it is proven that the incumbent is best, or that there is no ensemble."""
        return not self._open and self._any is None

    @property
    def bound(self) -> float:
        value = -np.inf if self.incumbent is None else self.incumbent.value
        if self.done:
            return value
        if not self._open:
            return self._nothing
        return max(self._open[0].bound, value, self._nothing)

    @property
    def gap(self) -> float:
        """(bound - value) / |value|; infinite without an incumbent."""
        if self.incumbent is None:
            return 0.0 if self.done else float("inf")
        return share_of_gap(self.bound, self.incumbent.value)

    def step(self, boxes: int = 1, workers: Workforce | None = None) -> None:
        """Solve the linear programs of the best boxes and act on them; do nothing once done.

        Parameters
        ----------
        boxes : int
            Greatest number of boxes. The course of the search depends on it.
        workers : Workforce, optional
            Who solves the programs, each by one thread; this process if None. The course of the
            search does not depend on them.
        """
        if not self.done:
            with _threads().limit(limits=1):  # more threads get in each other's way
                self._step(boxes, workers or InProcess())

    def _step(self, boxes: int, workers: Workforce) -> None:
        if self._any is not None:
            self._step_to_any(self._any)
            return
        nodes = [heapq.heappop(self._open) for _ in range(min(boxes, len(self._open)))]
        # all programs of a step get the same cutoff, whoever solves which of them first
        cutoff = self._cutoff()
        pieces = [_Piece(node, cutoff) for node in nodes if not node.is_decided]
        answers = workers.map(_solved, self._relaxation, pieces)
        for node in nodes:
            if node.is_decided:
                self._take(self.instance.best_threshold(node.box.x))
                self.nodes += 1
                continue
            relaxed, new = next(answers)
            self.programs += 1
            self.iterations += relaxed.iterations
            bound = min(node.bound, _rounded(self.instance, relaxed.bound))
            if new is not None and bound > self._cutoff():
                self._cut_or_divide(node, relaxed, bound, new)
            else:
                self.nodes += 1
        self._prune()

    @cached_property
    def _worths(self) -> Array:
        """What a wrong call of each pattern costs in value and in caps, shape (U + D,)."""
        return np.asarray(np.abs(self.instance.gains) + np.abs(self.instance.takes).sum(axis=0))

    @cached_property
    def _relaxation(self) -> Relaxation:
        return Relaxation(self.instance)

    def _cut_or_divide(self, node: OpenBox, relaxed: Relaxed, bound: float, new: Cuts) -> None:
        """Add the new cuts to a box if the last ones paid off; otherwise divide it."""
        gap = bound - self._cutoff()
        pays = node.rounds == 0 or node.bound - bound > _WORTH * gap
        most = _ROOT_ROUNDS if self.nodes == 0 else _ROUNDS
        cuts = np.concatenate([relaxed.binding, new])
        basis, status = relaxed.basis, relaxed.binding_status
        if len(new) and pays and node.rounds < most:
            self._push(bound, node.box, cuts, basis, status, rounds=node.rounds + 1)
            return
        self._round_up(relaxed)  # once a box: the solutions of its programs are much alike
        self.nodes += 1
        for box in self._divided(node.box, relaxed):
            tight = box.tightened(self.instance.requirements.majority)
            if tight is not None:
                self._push(bound, tight, cuts, basis, status)

    def _divided(self, box: Box, relaxed: Relaxed) -> list[Box]:
        """Return two halves of a box, which differ in one of these, the first that is open.

        The sizes or the thresholds, whichever range is wider in ratio; then the call of the pattern
        with the most fractional z, weighted by what is at stake; then a member.
        """
        (sa, sb), (la, lb) = box.sizes, box.thresholds
        if sb > sa and (sb + 1) / (sa + 1) >= (lb + 2) / (la + 2):
            middle = min(max(int(np.sqrt(sa * sb)), sa), sb - 1)
            return [replace(box, sizes=(sa, middle)), replace(box, sizes=(middle + 1, sb))]
        if lb > la:
            middle = min(max(int(np.sqrt((la + 1) * (lb + 1))) - 1, la), lb - 1)
            low, high = (la, middle), (middle + 1, lb)
            return [replace(box, thresholds=low), replace(box, thresholds=high)]
        doubts = np.where(box.calls < 0, np.minimum(relaxed.z, 1 - relaxed.z) * self._worths, 0.0)
        if (doubts > _WHOLE).any():
            at = int(np.argmax(doubts))
            return [replace(box, calls=_decided(box.calls, at, side)) for side in (1, 0)]
        free = np.flatnonzero(box.x < 0)
        at = int(free[np.argmin(np.abs(relaxed.x[free] - 0.5))])
        return [replace(box, x=_decided(box.x, at, side)) for side in (1, 0)]

    def _round_up(self, relaxed: Relaxed) -> None:
        """Try the members with the greatest fractional values, and climb from them."""
        size = int(np.clip(round(float(relaxed.x.sum())), 1, self.instance.k))
        order = np.argsort(-relaxed.x, kind="stable")
        for count in sorted({max(size - 1, 1), size, min(size + 1, self.instance.k)}):
            x = np.zeros(self.instance.k, dtype=np.int8)
            x[order[:count]] = 1
            if self.instance.requirements.admits(x):
                self._take(self.instance.best_threshold(x))
        x = np.zeros(self.instance.k, dtype=np.int8)
        x[order[:size]] = 1
        self._take(improve(self.instance, x, 2000, self._rng))

    def _take(self, ensemble: Pruned | None) -> None:
        """Make an ensemble the incumbent if it meets all requirements and is the best so far."""
        if ensemble is None or not np.isfinite(ensemble.value):
            return
        if not self.instance.requirements.admits(ensemble.x):
            return
        if self.incumbent is None or ensemble.value > self.incumbent.value:
            self.incumbent = ensemble

    def _cutoff(self) -> float:
        """Return the bound up to which a box cannot hold a better ensemble."""
        if self.incumbent is None:
            return -np.inf
        value = self.incumbent.value
        return value if self.instance.step else value + _RELATIVE * max(1.0, abs(value))

    def _prune(self) -> None:
        """Close all boxes once none of them can hold a better ensemble."""
        if self._open and self._open[0].bound <= self._cutoff():
            self._open.clear()
        if not self._open:
            self._seek_any()

    def _seek_any(self) -> None:
        """Search for any admitted members if no box holds an ensemble, to call nothing positive."""
        if self.incumbent is None and np.isfinite(self._nothing):
            self._any = BranchAndBound(self.instance.of_members(), looks=1)
            self._end_with_any(self._any)

    def _step_to_any(self, search: BranchAndBound) -> None:
        before = search.iterations
        search.step()
        self.programs += 1
        self.iterations += search.iterations - before
        self._end_with_any(search)

    def _end_with_any(self, search: BranchAndBound) -> None:
        if search.incumbent is not None:
            self.incumbent = self.instance.best_threshold(search.incumbent.x)
        if search.done or search.incumbent is not None:
            self._any = None

    def _push(
        self,
        bound: float,
        box: Box,
        cuts: Cuts,
        basis: Array | None = None,
        status: Array | None = None,
        rounds: int = 0,
    ) -> None:
        bound = _rounded(self.instance, bound)
        if bound <= self._cutoff():
            return
        self._made += 1
        node = OpenBox((-bound, self._made), bound, box, cuts, basis, status, rounds)
        heapq.heappush(self._open, node)


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def _decided(open_or_not: Array, at: int, side: int) -> Array:
    copy = open_or_not.copy()
    copy[at] = side
    return copy


def share_of_gap(bound: float, value: float) -> float:
    """Return (bound - value) / |value|, the gap as CPLEX defines it; infinite for a value of 0."""
    difference = max(bound - value, 0.0)
    if difference == 0.0:
        return 0.0
    return difference / abs(value) if value else float("inf")


def pack(solver: BranchAndBound, also: Any = None) -> bytes:
    """Return the state from which to continue, with a JSON value of the caller's.

    Boxes of the same origin share arrays of cuts and bases; each array is written once.
    """
    nodes = solver._open
    arrays: dict[str, Array] = {}
    numbers: dict[int, int] = {}
    pieces: list[Array] = []

    def place(array: Array | None) -> int:
        if array is None:
            return -1
        if id(array) not in numbers:
            numbers[id(array)] = len(pieces)
            pieces.append(array)
        return numbers[id(array)]

    places = [(place(n.cuts), place(n.basis), place(n.status)) for n in nodes]
    arrays["places"] = np.array(places, dtype=np.int64).reshape(-1, 3)
    for kind in (np.int64, np.int8):  # cuts; bases and statuses
        of_kind = [i for i, piece in enumerate(pieces) if piece.dtype == kind]
        name = np.dtype(kind).name
        arrays[f"{name}_at"] = np.array(of_kind, dtype=np.int64)
        arrays[f"{name}_lengths"] = np.array([pieces[i].size for i in of_kind], dtype=np.int64)
        arrays[name] = np.concatenate([np.zeros(0, kind), *(pieces[i].ravel() for i in of_kind)])
    k = solver.instance.k
    arrays["x"] = np.array([n.box.x for n in nodes], dtype=np.int8).reshape(-1, k)
    arrays["calls"] = np.array([n.box.calls for n in nodes], dtype=np.int8)
    ranges = [(*n.box.sizes, *n.box.thresholds, n.rounds, n.key[1]) for n in nodes]
    arrays["ranges"] = np.array(ranges, dtype=np.int64).reshape(-1, 6)
    arrays["bounds"] = np.array([n.bound for n in nodes], dtype=np.float64)
    best = solver.incumbent
    if best is not None:
        arrays["best"] = best.x
        arrays["best_value"] = np.array([best.value, best.threshold])
    if solver._any is not None:
        arrays["any"] = np.frombuffer(pack(solver._any), dtype=np.uint8)
    about = {
        "version": _VERSION,
        "counts": {name: getattr(solver, name) for name in _COUNTS},
        "rng": solver._rng.bit_generator.state,
        "also": also,
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def unpack(content: bytes, instance_of: Callable[[Any], Instance]) -> tuple[BranchAndBound, Any]:
    """Return the solver and the caller's value that :func:`pack` wrote.

    ``instance_of`` returns the instance, given the caller's value.

    Raises
    ------
    ValueError
        The content is not the state of such an instance.
    """
    try:
        arrays = arrays_of(content, ESTIMATOR_BYTES)
        about = json.loads(arrays["about"].tobytes())
        if about["version"] != _VERSION:
            raise ValueError("another version")
        solver = BranchAndBound.__new__(BranchAndBound)
        solver.instance = instance = instance_of(about["also"])
        for name, value in about["counts"].items():
            if name in _COUNTS:
                setattr(solver, name, value)
        solver._rng = np.random.default_rng(0)
        solver._rng.bit_generator.state = about["rng"]
        solver.incumbent = None
        if "best" in arrays:
            value, threshold = arrays["best_value"].tolist()
            solver.incumbent = Pruned(arrays["best"], int(threshold), value)
        solver._open = _boxes(arrays, instance)
        solver._any = None
        if "any" in arrays:
            solver._any, _ = unpack(arrays["any"].tobytes(), lambda _: instance.of_members())
    except BAD_ARRAYS as error:
        raise ValueError(f"not a solve that can be continued: {error}") from error
    return solver, about["also"]


def _boxes(arrays: dict[str, Array], instance: Instance) -> list[OpenBox]:
    pieces: dict[int, Array] = {}
    for name in ("int64", "int8"):
        ends = np.cumsum(arrays[f"{name}_lengths"])
        parts: Sequence[Array] = np.split(arrays[name], ends[:-1]) if len(ends) else []
        pieces |= dict(zip(arrays[f"{name}_at"].tolist(), parts, strict=True))
    pieces[-1] = np.zeros(0)
    boxes = []
    width = no_cuts(instance.k).shape[1]
    for x, calls, row, bound, (cuts, basis, status) in zip(
        arrays["x"].reshape(-1, instance.k),
        arrays["calls"].reshape(-1, len(instance.gains)),
        arrays["ranges"].tolist(),
        arrays["bounds"].tolist(),
        arrays["places"].tolist(),
        strict=True,
    ):
        sa, sb, la, lb, rounds, made = row
        boxes.append(
            OpenBox(
                (-bound, made),
                bound,
                Box(x, calls, (sa, sb), (la, lb)),
                pieces[cuts].reshape(-1, width),
                None if basis < 0 else pieces[basis],
                None if status < 0 else pieces[status],
                rounds,
            )
        )
    return boxes  # in their order on the heap, so that they are a heap again
