"""Multi-objective test functions as problems: to test searches and to try the tool without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, field_validator, model_validator

from framework import registry
from framework.arrays import Array, FloatArray
from framework.errors import InputError
from framework.problem import Problem
from framework.roles import Metric, Sense
from framework.settings import Section
from framework.space import Bits, Box, Space
from framework.streams import CandidateStreams


class Function(NamedTuple):
    """A test function, as it is registered under a name in the group ``paretolab.functions``.

    Attributes
    ----------
    text : str
        Its source and properties, for ``paretolab list functions``.
    f : callable
        Maps genomes of shape (n, d) to values of shape (n, m), which lie in [0, high(d)].
    sense : {'min', 'max'}
        The sense of all objectives.
    high : callable
        Maps the number of genes to the greatest values of the m objectives.
    space : callable
        Maps the number of genes to the search space.
    least_d, usual_d : int
        The least number of genes, and the default.
    most_d : int, optional
        The greatest number of genes.
    front : callable, optional
        ``front(n)`` returns n points of the true front, shape (n, m).
    anchors : sequence of m floats each, optional
        Reference points: see ``Problem.anchors``.
    """

    text: str
    f: Callable[[Array], FloatArray]
    sense: Sense
    high: Callable[[int], tuple[float, ...]]
    space: Callable[[int], Space]
    least_d: int
    usual_d: int = 10
    most_d: int | None = None
    front: Callable[[int], FloatArray] | None = None
    anchors: Sequence[Sequence[float]] | None = None

    def check(self, name: str, d: int) -> str:
        """Return what is wrong with a number of genes, or an empty text."""
        if d < self.least_d or (self.most_d is not None and d > self.most_d):
            wanted = "at least" if self.most_d is None else "exactly"
            return f"expected d of {wanted} {self.least_d} for {name}, found {d}"
        return ""


@cache
def registered(name: str) -> Function:
    """Return the function that is registered under a name."""
    return registry.load_instance("functions", name, Function)


def unknown(name: str) -> str:
    """Return a text saying that no function has this name, or an empty text if one has."""
    names = registry.names("functions")
    if name in names:
        return ""
    return f"expected one of {', '.join(names)}; found {name!r}{registry.nearest(name, names)}"


class FunctionProblem(Problem):
    """A multi-objective test function; its metrics are ``f1``, ``f2`` (and ``f3``).

    ``paretolab list functions`` names all functions; a package adds its own by registering a
    :class:`Function` in the group ``paretolab.functions``.

    Parameters
    ----------
    name : str
    d : int, optional
        Length of a genome; the default of the function if None.
    noise : float
        Standard deviation of a Gaussian error on every value, drawn from the candidate's stream;
        values are clipped to the metrics' bounds.

    Raises
    ------
    InputError
        The name is unknown, or the function is not defined for this number of genes.
    """

    known_metrics = tuple(
        Metric(f"f{j}", "min", text=f"objective {j} of the function (of lotz: max)")
        for j in (1, 2, 3)
    )

    class Config(Section):
        """``{kind: function, name: zdt1, d: 10}``.

        name : a test function whose front is known: ``zdt1``, ``dtlz2``, ``lotz`` and others.
        d : number of genes; some functions have another default.
        noise : standard deviation of the noise on each objective.
        """

        name: str
        d: int = Field(default=10, ge=1)
        noise: float = Field(default=0.0, ge=0)

        @field_validator("name")
        @classmethod
        def _known(cls, name: str) -> str:
            if wrong := unknown(name):
                raise ValueError(wrong)
            return name

        @model_validator(mode="before")
        @classmethod
        def _usual_genes(cls, raw: Any) -> Any:
            if isinstance(raw, Mapping) and raw.get("d") is None:
                name = raw.get("name")
                if isinstance(name, str) and not unknown(name):
                    return {**raw, "d": registered(name).usual_d}
            return raw

        @model_validator(mode="after")
        def _its_genes(self) -> FunctionProblem.Config:
            if wrong := registered(self.name).check(self.name, self.d):
                raise ValueError(wrong)
            return self

    def __init__(self, name: str, d: int | None = None, noise: float = 0.0) -> None:
        if wrong := unknown(name):
            raise InputError(f"name: {wrong}")
        function = registered(name)
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
        return cls(config.name, config.d, config.noise)

    def anchors(self, metrics: Sequence[str]) -> Sequence[Sequence[float]] | None:
        points = registered(self.name).anchors
        if points is None or set(metrics) != set(self.metric_names):
            return None
        order = [self.metric_names.index(name) for name in metrics]
        return [[point[j] for j in order] for point in points]

    def true_front(self, n: int) -> FloatArray | None:
        front = registered(self.name).front
        return None if front is None else front(n)

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        table = registered(self.name).f(X)
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
    # The last bit of NumPy's cosine may depend on the memory layout, and so on the batch, unless
    # the array is contiguous.
    angles = np.ascontiguousarray(X[:, :2].T) * (np.pi / 2)
    (cos1, cos2), (sin1, sin2) = np.cos(angles), np.sin(angles)
    return np.column_stack([radius * cos1 * cos2, radius * cos1 * sin2, radius * sin1])


def _lotz(X: Array) -> FloatArray:
    leading_ones = np.cumprod(X == 1, axis=1).sum(axis=1)
    trailing_zeros = np.cumprod(X[:, ::-1] == 0, axis=1).sum(axis=1)
    return np.column_stack([leading_ones, trailing_zeros]).astype(np.float64)


def _unit_box(d: int) -> Space:
    return Box(np.zeros(d), np.ones(d))


ZDT1 = Function(
    "Zitzler, Deb and Thiele 2000: two objectives, convex front",
    _zdt1,
    "min",
    lambda d: (1.0, 10.0),
    _unit_box,
    least_d=2,
)
ZDT2 = ZDT1._replace(text="Zitzler, Deb and Thiele 2000: two objectives, concave front", f=_zdt2)
DTLZ2 = Function(
    "Deb, Thiele, Laumanns and Zitzler 2002: three objectives, spherical front",
    _dtlz2,
    "min",
    lambda d: (1.0 + 0.25 * (d - 2),) * 3,
    _unit_box,
    least_d=3,
)
LOTZ = Function(
    "Laumanns et al. 2002: leading ones and trailing zeros of bits, both to maximise",
    _lotz,
    "max",
    lambda d: (float(d), float(d)),
    Bits,
    least_d=1,
)
