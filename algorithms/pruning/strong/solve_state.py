"""A solve as bytes and back: plain arrays and JSON, so that reading it runs nothing."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np

from algorithms.pruning.strong.box import Box
from algorithms.pruning.strong.branch_and_bound import BranchAndBound, OpenBox
from algorithms.pruning.strong.cuts import no_cuts
from algorithms.pruning.strong.instance import Instance, Pruned
from framework.arrays import Array
from framework.limits import ESTIMATOR_BYTES
from framework.models.npy import arrays_of
from framework.plain_files import DAMAGED

_VERSION = 2
_COUNTS = ("nodes", "programs", "iterations", "_made", "_nothing")


def pack(solver: BranchAndBound, also: Any = None) -> bytes:
    """Return all that a solve goes on from, with a JSON value of the caller's.

    Boxes that stem from one another share their cuts and bases; each is written once.
    """
    nodes = solver._open
    arrays: dict[str, Array] = {}
    kept: dict[int, int] = {}
    pieces: list[Array] = []

    def place(array: Array | None) -> int:
        if array is None:
            return -1
        if id(array) not in kept:
            kept[id(array)] = len(pieces)
            pieces.append(array)
        return kept[id(array)]

    places = [(place(n.cuts), place(n.basis), place(n.status)) for n in nodes]
    arrays["places"] = np.array(places, dtype=np.int64).reshape(-1, 3)
    for kind in (np.int64, np.int8):  # cuts; bases and statuses
        own = [i for i, piece in enumerate(pieces) if piece.dtype == kind]
        name = np.dtype(kind).name
        arrays[f"{name}_at"] = np.array(own, dtype=np.int64)
        arrays[f"{name}_lengths"] = np.array([pieces[i].size for i in own], dtype=np.int64)
        arrays[name] = np.concatenate([np.zeros(0, kind), *(pieces[i].ravel() for i in own)])
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


def unpack(instance: Instance, content: bytes) -> tuple[BranchAndBound, Any]:
    """Return the solve and the value that :func:`pack` was given.

    Raises
    ------
    ValueError
        The content is not one of :func:`pack` for such an instance.
    """
    try:
        arrays = arrays_of(content, ESTIMATOR_BYTES)
        about = json.loads(arrays["about"].tobytes())
        if about["version"] != _VERSION:
            raise ValueError("another version")
        solver = BranchAndBound.__new__(BranchAndBound)
        solver.instance = instance
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
    except (*DAMAGED, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise ValueError(f"not a solve that can be gone on with: {error}") from error
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
    return boxes  # in the order of the heap that they were
