"""Any Python function as a problem: its parameters are the genes, its values are minimised."""

from __future__ import annotations

import hashlib
import inspect
import math
import numbers
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from framework.arrays import Array, FloatArray
from framework.errors import EnvironmentFailure, InputError
from framework.problem import Problem
from framework.roles import Metric, Sense
from framework.settings import Section
from framework.space import Box, Integers
from framework.streams import CandidateStreams

_KINDS = ("uniform", "log", "choice")
_MOST, _MOST_WHOLE = 1e300, 2**53  # differences of bounds are finite, of whole ones exact


class Parameter(NamedTuple):
    """A parameter of the function, and the gene that encodes it.

    Attributes
    ----------
    name : str
    low, high : float
        Bounds of the gene, which is the value itself, its logarithm to base 10, or its position
        among the choices.
    kind : {'float', 'int', 'log', 'choice'}
    choices : tuple
        The values of a ``choice``.
    """

    name: str
    low: float
    high: float
    kind: str
    choices: tuple[Any, ...] = ()

    @classmethod
    def of(cls, name: str, domain: Any) -> Parameter:
        """Return the parameter that a tuple ``(low, high)`` or a list of choices describes.

        Raises
        ------
        InputError
            It is neither, or a list of two numbers, which is ambiguous.
        """
        where = f"space: {name}"
        values, kind = domain, "choice" if isinstance(domain, list) else "uniform"
        if isinstance(domain, tuple) and domain and domain[-1] in _KINDS:
            values, kind = domain[:-1], domain[-1]
        numeric = isinstance(values, tuple | list) and all(map(_is_number, values))
        if isinstance(domain, list) and len(domain) == 2 and numeric:
            low, high = domain
            raise InputError(
                f"{where}: expected ({low}, {high}) for all numbers between, or "
                f"({low}, {high}, 'choice') for these two alone, found {domain!r}"
            )
        if kind == "choice" and values:
            return cls(name, 0, len(values) - 1, "choice", tuple(values))
        ordered = numeric and len(values) == 2 and values[0] < values[1]
        if kind == "choice" or not ordered or (kind == "log" and values[0] <= 0):
            raise InputError(
                f"{where}: expected (low, high) with low < high, (low, high, 'log') with low > 0, "
                f"or a list of choices, found {domain!r}"
            )
        whole = all(isinstance(value, numbers.Integral) for value in values)
        most = _MOST_WHOLE if whole and kind != "log" else _MOST
        if values[0] < -most or values[1] > most:
            raise InputError(
                f"{where}: expected bounds from -{most:g} to {most:g}, found {domain!r}"
            )
        if kind == "log":
            return cls(name, math.log10(values[0]), math.log10(values[1]), "log")
        return cls(name, float(values[0]), float(values[1]), "int" if whole else "float")

    @property
    def gene(self) -> str:
        return f"log10_{self.name}" if self.kind == "log" else self.name

    @property
    def whole(self) -> bool:
        return self.kind in {"int", "choice"}

    def values(self, genes: Array) -> Array:
        """Return the values that genes (n,) stand for, shape (n,); an object array for choices."""
        if self.kind == "choice":
            positions = genes.astype(np.int64)
            table = np.empty(len(self.choices), dtype=object)
            table[:] = self.choices
            return np.asarray(table[positions])
        if self.kind == "log":
            return np.asarray(10.0 ** genes.astype(np.float64))
        return genes.astype(np.int64 if self.kind == "int" else np.float64)


def _is_number(value: Any) -> bool:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and bool(-math.inf < value < math.inf)


class PythonFunction(Problem):
    """A function of the user, whose values are the metrics.

    Parameters
    ----------
    function : callable
        Returns one number for each objective, as a mapping by name, a sequence in their order, or
        a single number. If it raises an exception, the candidate fails.
    space : mapping of str to tuple or list, or a sequence of these
        Domains of the parameters. A mapping passes them by name, ``function(x=0.3, kernel="rbf")``;
        a sequence as one list, ``function([0.3, "rbf"])``. ``(0.0, 1.0)`` stands for real numbers,
        ``(1, 10)`` for whole numbers, both bounds included, ``(1e-3, 1e3, "log")`` for real numbers
        with an even spread of logarithms, and a list for choices.
    objectives : str, sequence of str, or mapping of str to {'min', 'max'}
        Names of the objectives, which are minimised unless a mapping says otherwise.
    vectorised : bool
        Whether the function takes arrays of n values and returns arrays of shape (n,). A value must
        not depend on the others in its array, not even in the last bit.

    Raises
    ------
    InputError
        A domain has none of these forms, or there are no parameters or no objectives.
    """

    class Config(Section):
        """What the directory of a run says of a function given to :func:`paretolab.minimize`.

        function : its module and name; only the program that has it can evaluate it.
        parameters : for each its name, the bounds of its gene, its kind and its choices.
        values : names of objectives, and whether each is minimised or maximised.
        digest : digest of the function's text, parameters and objectives.
        """

        function: str
        parameters: list[Parameter]
        values: dict[str, Sense]
        digest: str

    def __init__(
        self,
        function: Callable[..., Any],
        space: Mapping[str, Any] | Sequence[Any],
        objectives: str | Sequence[str] | Mapping[str, Sense],
        *,
        vectorised: bool = False,
    ) -> None:
        self.vectorised, self.by_name = vectorised, isinstance(space, Mapping)
        named = space if isinstance(space, Mapping) else {f"x{j}": s for j, s in enumerate(space)}
        objectives = [objectives] if isinstance(objectives, str) else objectives
        if not isinstance(objectives, Mapping):
            if len(set(map(str, objectives))) < len(objectives):
                raise InputError(f"objectives: expected different names, found {objectives!r}")
            objectives = dict.fromkeys(map(str, objectives), "min")
        senses: Mapping[str, Sense] = objectives
        parameters = [Parameter.of(str(name), domain) for name, domain in named.items()]
        if not parameters or not senses:
            raise InputError(
                "space and objectives: expected at least one of each, found "
                f"{len(parameters)} parameters and {len(senses)} objectives"
            )
        digest = hashlib.sha256(
            repr([_code(function), parameters, dict(senses), vectorised]).encode()
        ).hexdigest()
        self._describe(function, parameters, senses, digest)

    def _describe(
        self,
        function: Callable[..., Any],
        parameters: Sequence[Parameter],
        senses: Mapping[str, Sense],
        digest: str,
    ) -> None:
        self.function, self.parameters, self.fingerprint = function, parameters, digest
        self.metrics = tuple(
            Metric(str(name), sense, low=-math.inf, high=math.inf) for name, sense in senses.items()
        )
        lower = np.array([parameter.low for parameter in parameters])
        upper = np.array([parameter.high for parameter in parameters])
        whole = np.array([parameter.whole for parameter in parameters])
        narrow = whole.all() and np.abs([lower, upper]).max() < 2**31
        self.space = Integers(lower, upper) if narrow else Box(lower, upper, whole)

    @property
    def gene_names(self) -> tuple[str, ...]:
        return tuple(parameter.gene for parameter in self.parameters)

    @classmethod
    def from_config(cls, config: Config) -> PythonFunction:
        """Return the problem of a run without its function: it cannot evaluate anything."""
        problem = cls.__new__(cls)
        problem.vectorised, problem.by_name = True, False
        absent = _Absent(config.function)
        problem._describe(absent, config.parameters, config.values, config.digest)
        return problem

    def section(self) -> dict[str, Any]:
        """Return the section ``problem`` of the configuration in a run's directory."""
        return {
            "kind": "python",
            "function": f"{getattr(self.function, '__module__', '')}.{name_of(self.function)}",
            "parameters": [
                [*parameter[:-1], [str(choice) for choice in parameter.choices]]
                for parameter in self.parameters
            ],
            "values": {metric.name: metric.sense for metric in self.metrics},
            "digest": self.fingerprint,
        }

    def arguments(self, X: Array) -> list[dict[str, Any]]:
        """Return the values of the parameters, by name, for each of the genomes (n, d)."""
        columns = [p.values(X[:, j]).tolist() for j, p in enumerate(self.parameters)]
        names = [parameter.name for parameter in self.parameters]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        if self.vectorised:
            columns = {p.name: p.values(X[:, j]) for j, p in enumerate(self.parameters)}
            table = self._table(self._call(columns), len(X))
        else:
            table = np.concatenate([self._table(self._call(row), 1) for row in self.arguments(X)])
        return dict(zip(self.metric_names, table.T, strict=True))

    def _call(self, values: Mapping[str, Any]) -> Any:
        try:
            return self.function(**values) if self.by_name else self.function([*values.values()])
        except SystemExit as error:
            if hasattr(error, "ray_terminate_msg"):  # this worker is asked to end
                raise
            raise RuntimeError(f"the function called sys.exit({error.code!r})") from error

    def _table(self, returned: Any, n: int) -> FloatArray:
        """Return the metrics of n candidates from a returned value, shape (n, metrics)."""
        m = len(self.metrics)
        if isinstance(returned, Mapping):
            if set(returned) != set(self.metric_names):
                raise ValueError(
                    f"expected values of {', '.join(self.metric_names)}, found "
                    f"{', '.join(map(str, returned)) or 'none'}"
                )
            returned = [returned[name] for name in self.metric_names]
        values = np.asarray(returned, dtype=np.float64)
        if values.size != n * m or values.shape not in {(), (m,), (m, n), (n,)}:
            shape = f"shape ({n},)" if self.vectorised else "one number"
            raise ValueError(
                f"expected {shape} for each of {', '.join(self.metric_names)}, found an array of "
                f"shape {values.shape}"
            )
        return values.reshape(m, n).T


@dataclass(frozen=True)
class _Absent:
    """Stands for a function in a process that has only the directory of its run."""

    name: str

    def __call__(self, values: Any) -> NoReturn:
        raise EnvironmentFailure(
            f"problem.function: expected the program that has {self.name}, found none: "
            "paretolab.minimize there with the same arguments and out= goes on with this run"
        )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of another callable."""
    return str(getattr(function, "__name__", type(function).__name__))


def _code(function: Callable[..., Any]) -> str:
    """Return the source of a function, or of its class; its byte code where there is no source."""
    holder = function if hasattr(function, "__code__") else type(function)
    try:
        return textwrap.dedent(inspect.getsource(holder))
    except (TypeError, OSError):
        code = getattr(function, "__code__", None)
        return holder.__qualname__ if code is None else repr((code.co_code, code.co_names))
