"""Problems that misbehave on purpose, light enough for every actor to import."""

import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from framework.arrays import Array, WordArray
from framework.components import Components
from framework.problem import Problem
from framework.roles import Metric
from framework.space import Box
from framework.streams import CandidateStreams

KILLER, RAISER = -1.0, -2.0


class Sphere(Problem):
    """Two sums of squares; the first gene may be a magic value that misbehaves."""

    def __init__(self, d: int = 4, seconds: float = 0.0, noise: float = 0.0) -> None:
        self.space = Box([-10.0] * d, [10.0] * d)
        self.metrics = (Metric("near", "min", "ratio"), Metric("far", "max", "ratio"))
        self.fingerprint = f"sphere/{d}/{noise}"
        self.seconds, self.noise, self.stochastic = seconds, noise, noise > 0

    SLEEPER = -4.0

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        seconds = self.seconds * len(X) + 600 * float((X[:, 0] == self.SLEEPER).any())
        if seconds:  # to sleep for none is to queue for the processor
            time.sleep(seconds)
        if (X[:, 0] == KILLER).any():
            os._exit(1)
        if (X[:, 0] == RAISER).any():
            raise ValueError("magic gene")
        near = (X**2).sum(axis=1)
        if self.noise:
            near = near + self.noise * np.array([rng.normal() for rng in streams])
        return {"near": near, "far": ((X - 1.0) ** 2).sum(axis=1)}


class Prey(Sphere):
    """Its magic gene ends each worker of Ray, as somebody may who kills them from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = os.getpid()

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        if (X[:, 0] == KILLER).any():
            if os.getppid() != self.driver:
                os._exit(1)
            X = X * np.where(X == KILLER, 0.0, 1.0)
        print("what a problem prints is no answer")
        return super().evaluate(X, streams)


class Unborn(Sphere):
    """Workers of Ray are killed while they load it; a child of the driver is not."""

    def __reduce__(self) -> tuple[object, ...]:
        return _born, (os.getpid(),)


def _born(driver: int) -> Sphere:
    if os.getppid() != driver:
        os.kill(os.getpid(), signal.SIGKILL)
    return Sphere()


def hunted(driver: int, number: int) -> int:
    """Return a square, but be killed in a worker of Ray where the number is 3."""
    if number == 3 and os.getppid() != driver:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


class Reader(Sphere):
    """Adds what a file of the working directory and a variable of the environment say."""

    def __init__(self, file: str, variable: str) -> None:
        super().__init__()
        self.file, self.variable = file, variable

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        values = super().evaluate(X, streams)
        more = float(Path(self.file).read_text()) + float(os.environ[self.variable])
        return {**values, "near": values["near"] + more}


class Needy(Sphere):
    """Needs a library that not every node has, and a disk with room."""

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        import sklearn.base

        assert sklearn.base
        with tempfile.TemporaryFile() as file:
            file.write(bytes(200_000))
        return super().evaluate(X, streams)


def power(base: int, exponent: int) -> float:
    """Work for :meth:`Workforce.map`; an exponent may be a magic value that misbehaves."""
    if exponent == KILLER:
        os._exit(1)
    if exponent == RAISER:
        raise ValueError("magic exponent")
    time.sleep(0.001)
    return float(base**exponent)


class Orphan(Sphere):
    """A problem that no worker can load; it raises there, or kills."""

    def __init__(self, lethal: bool = False) -> None:
        super().__init__()
        self.lethal = lethal

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse, (self.lethal,)


def _refuse(lethal: bool) -> Orphan:
    if lethal:
        os._exit(1)
    raise ImportError("no such data on this machine")


class PartsToy(Problem):
    """A genome's value is the sum of its genes' squares; each distinct gene is a part.

    Every part built is a line in ``log``. Genes under -100 misbehave when they are built.
    """

    KILLER, RAISER = -101, -102

    def __init__(self, log: Path, d: int = 3, seconds: float = 0.0) -> None:
        self.space = Box([-200.0] * d, [1000.0] * d)
        self.metrics = (Metric("sum", "min", "ratio", high=1e9),)
        self.fingerprint = f"parts-toy/{d}"
        self.log, self.seconds = log, seconds
        self._squares: dict[int, float] = {}
        self._order: list[int] = []
        self._errors: dict[int, str] = {}

    @property
    def n_components(self) -> int:
        return len(self._order)

    def missing_components(self, X: Array) -> WordArray:
        genes = [gene for gene in np.unique(X).astype(int).tolist() if gene not in self._squares]
        return np.array(genes, dtype=np.int64).view(np.uint64).reshape(-1, 1)

    def build_components(self, keys: WordArray) -> Components:
        genes = keys.view(np.int64)[:, 0]
        time.sleep(self.seconds * len(keys))
        if self.KILLER in genes:
            os._exit(1)
        if self.RAISER in genes:
            raise ValueError("magic part")
        with open(self.log, "a") as file:
            file.write("".join(f"{gene}\n" for gene in genes))
        bits = (genes**2).astype(np.uint64).reshape(-1, 1, 1)
        return Components(keys, bits, [b"model"] * len(keys))

    def add_components(self, parts: Components) -> None:
        for i, gene in enumerate(parts.keys.view(np.int64)[:, 0].tolist()):
            if gene not in self._squares:
                self._order.append(gene)
                self._squares[gene] = np.nan if i in parts.errors else float(parts.bits[i, 0, 0])
                if i in parts.errors:
                    self._errors[gene] = parts.errors[i]

    def components_since(self, start: int) -> Components:
        genes = self._order[start:]
        keys = np.array(genes, dtype=np.int64).view(np.uint64).reshape(-1, 1)
        squares = [np.nan_to_num(self._squares[gene]) for gene in genes]
        errors = {i: self._errors[gene] for i, gene in enumerate(genes) if gene in self._errors}
        return Components(keys, np.array(squares, dtype=np.uint64).reshape(-1, 1, 1), [], errors)

    def evaluate(self, X: Array, streams: CandidateStreams) -> Mapping[str, Array]:
        lacking = self.missing_components(X)
        if len(lacking):
            self.add_components(self.build_components(lacking))
        return {"sum": np.array([[self._squares[int(g)] for g in x] for x in X]).sum(axis=1)}

    def explain(self, x: Array) -> str | None:
        return next((self._errors[int(g)] for g in x if int(g) in self._errors), None)
