"""Textbook functions with known fronts: to test searches and to try the tool without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.problem import Problem
from framework.problems.det_functions import DET_FRONTS, det_front, det_values
from framework.roles import Metric, Sense
from framework.settings import Section
from framework.space import Bits, Box, Space
from framework.streams import RowStreams

FunctionName = Literal[
    "zdt1", "zdt2", "dtlz2", "lotz", "zed1", "zed2", "zed3", "zejd1", "zejd2", "zejd3"
]


class _Function(NamedTuple):
    """A test function: values of ``f(X)`` are (n, m); each lies in [0, high(d)].

    ``front(n)`` gives n points of its front, ``anchors`` what trivial candidates reach.
    """

    f: Callable[[Array], FloatArray]
    least_d: int
    sense: Sense
    high: Callable[[int], tuple[float, ...]]
    space: Callable[[int], Space]
    usual_d: int = 10
    most_d: int | None = None
    front: Callable[[int], FloatArray] | None = None
    anchors: tuple[tuple[float, float, float], ...] | None = None

    def check(self, name: str, d: int) -> str:
        """Say what is wrong with a number of genes; empty where nothing is."""
        if d < self.least_d or (self.most_d is not None and d > self.most_d):
            wanted = "at least" if self.most_d is None else "exactly"
            return f"expected d of {wanted} {self.least_d} for {name}, found {d}"
        return ""


class FunctionProblem(Problem):
    """A multi-objective test function; its metrics are ``f1``, ``f2`` (and ``f3``).

    ========  =======  ==========  ======  ====================================================
    name      space    objectives  sense   source
    ========  =======  ==========  ======  ====================================================
    zdt1      Box      2           min     Zitzler, Deb and Thiele 2000, convex front
    zdt2      Box      2           min     the same, concave front
    dtlz2     Box      3           min     Deb, Thiele, Laumanns and Zitzler 2002, spherical front
    lotz      Bits     2           max     Laumanns et al. 2002: leading ones, trailing zeros
    zed1-3    Box      3           min     reconstructed: :mod:`framework.problems.det_functions`
    zejd1-3   Box      3           min     reconstructed: :mod:`framework.problems.det_functions`
    ========  =======  ==========  ======  ====================================================

    Parameters
    ----------
    name : str
    d : int, optional
        Length of a genome; 10 if None, but 3 for zed1-3 and 2 for zejd1-3, which have no other.
    noise : float
        Standard deviation of a Gaussian error on every value, drawn from the row's stream; the
        values stay within the metrics' bounds.

    Raises
    ------
    InputError
        Another name, or a number of genes that the function does not have.
    """

    known_metrics = tuple(
        Metric(f"f{j}", "min", text=f"objective {j} of the function (of lotz: max)")
        for j in (1, 2, 3)
    )

    class Config(Section):
        """``{kind: function, name: zdt1, d: 10}``."""

        name: FunctionName
        d: int = Field(default=10, ge=1)
        noise: float = Field(default=0.0, ge=0)

        @model_validator(mode="before")
        @classmethod
        def _usual_genes(cls, raw: Any) -> Any:
            if isinstance(raw, Mapping) and raw.get("d") is None and raw.get("name") in FUNCTIONS:
                return {**raw, "d": FUNCTIONS[raw["name"]].usual_d}
            return raw

        @model_validator(mode="after")
        def _its_genes(self) -> FunctionProblem.Config:
            if wrong := FUNCTIONS[self.name].check(self.name, self.d):
                raise ValueError(wrong)
            return self

    def __init__(self, name: FunctionName, d: int | None = None, noise: float = 0.0) -> None:
        if name not in FUNCTIONS:
            raise InputError(f"name: expected one of {', '.join(FUNCTIONS)}; found {name!r}")
        function = FUNCTIONS[name]
        d = function.usual_d if d is None else d
        if wrong := function.check(name, d):
            raise InputError(f"d: {wrong}")
        self.name, self.noise = name, noise
        self.space = function.space(d)
        self.stochastic = noise > 0
        self.metrics = tuple(
            Metric(f"f{j + 1}", function.sense, high=high)
            for j, high in enumerate(function.high(d))
        )
        self.fingerprint = f"function/{name}/{d}/{noise}"

    @classmethod
    def from_config(cls, config: Config) -> FunctionProblem:
        """Make the problem that a configuration describes."""
        return cls(config.name, config.d, config.noise)

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        """See :meth:`Problem.anchors`."""
        points = FUNCTIONS[self.name].anchors
        if points is None or set(metrics) != set(self.metric_names):
            return None
        order = [self.metric_names.index(name) for name in metrics]
        return [[point[j] for j in order] for point in points]

    def true_front(self, n: int) -> FloatArray | None:
        """See :meth:`Problem.true_front`; known for zed1-3 and zejd1-3."""
        front = FUNCTIONS[self.name].front
        return None if front is None else front(n)

    def evaluate(self, X: Array, streams: RowStreams) -> Mapping[str, Array]:
        """See :meth:`Problem.evaluate`."""
        table = FUNCTIONS[self.name].f(X)
        if self.stochastic:
            errors = [stream.normal(0.0, self.noise, table.shape[1]) for stream in streams]
            table = np.clip(table + errors, 0.0, [metric.high for metric in self.metrics])
        return dict(zip(self.metric_names, table.T, strict=True))


def _zdt_g(X: Array) -> FloatArray:
    rest: FloatArray = np.ascontiguousarray(X[:, 1:])
    return np.asarray(1.0 + 9.0 * rest.sum(axis=1) / rest.shape[1])


def _zdt1(X: Array) -> FloatArray:
    f1, g = X[:, 0], _zdt_g(X)
    return np.column_stack([f1, g * (1.0 - np.sqrt(f1 / g))])


def _zdt2(X: Array) -> FloatArray:
    f1, g = X[:, 0], _zdt_g(X)
    return np.column_stack([f1, g * (1.0 - (f1 / g) * (f1 / g))])


def _dtlz2(X: Array) -> FloatArray:
    rest = np.ascontiguousarray(X[:, 2:]) - 0.5
    radius = 1.0 + (rest * rest).sum(axis=1)
    # contiguous: numpy's cosine may differ in the last bit with the layout, and so with the batch
    angles = np.ascontiguousarray(X[:, :2].T) * (np.pi / 2)
    (cos1, cos2), (sin1, sin2) = np.cos(angles), np.sin(angles)
    return np.column_stack([radius * cos1 * cos2, radius * cos1 * sin2, radius * sin1])


def _lotz(X: Array) -> FloatArray:
    leading_ones = np.cumprod(X == 1, axis=1).sum(axis=1)
    trailing_zeros = np.cumprod(X[:, ::-1] == 0, axis=1).sum(axis=1)
    return np.column_stack([leading_ones, trailing_zeros]).astype(np.float64)


def _unit_box(d: int) -> Space:
    return Box(np.zeros(d), np.ones(d))


def _zdt_high(d: int) -> tuple[float, ...]:
    return 1.0, 10.0


def _dtlz2_high(d: int) -> tuple[float, ...]:
    return (1.0 + 0.25 * (d - 2),) * 3


def _lotz_high(d: int) -> tuple[float, ...]:
    return float(d), float(d)


def _det(name: str) -> _Function:
    front = DET_FRONTS[name]
    d = 2 if front.joint else 3
    return _Function(
        partial(det_values, name),
        d,
        "min",
        lambda _: (1.0, 1.0, 1.0),
        _unit_box,
        usual_d=d,
        most_d=d,
        front=partial(det_front, name),
        anchors=_TRIVIAL_TWO_CLASSES if front.joint else _TRIVIAL_THREE_CLASSES,
    )


# what always answering one class is worth: as error rates of three classes, or as the rates of two
# and a complexity that is either end
_TRIVIAL_THREE_CLASSES = ((1.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0))
_TRIVIAL_TWO_CLASSES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0))

FUNCTIONS: dict[str, _Function] = {
    "zdt1": _Function(_zdt1, 2, "min", _zdt_high, _unit_box),
    "zdt2": _Function(_zdt2, 2, "min", _zdt_high, _unit_box),
    "dtlz2": _Function(_dtlz2, 3, "min", _dtlz2_high, _unit_box),
    "lotz": _Function(_lotz, 1, "max", _lotz_high, Bits),
    **{name: _det(name) for name in DET_FRONTS},
}
