"""The laws, for everything that is registered."""

import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from framework import registry
from framework.algorithm import Algorithm, Outcome
from framework.arrays import frozen
from framework.errors import ContractError
from framework.experiment.options import parameters
from framework.problems.functions import FunctionProblem
from framework.run.driver import Driver
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.testing import (
    ALGORITHM_LAWS,
    EVALUATOR_LAWS,
    MAX_PENDING_LAWS,
    PROBLEM_LAWS,
    check_algorithm,
    check_elastic,
    check_evaluator,
    check_problem,
)
from framework.testing.tools import ShuffledEvaluator
from tests.configured import WITHOUT_INSTANCE, configurations, configured, keys, named
from tests.conftest import (
    ALGORITHMS,
    MAX_PENDING,
    PROBLEMS,
    algorithm_cases,
    first_max_pending_cases,
    max_pending_cases,
    problem_cases,
    roles_of,
)


def law_name(law: Callable[..., None]) -> str:
    return law.__name__


# The laws that take longest: the quick tests have them for one search of each family, and the
# others for all.
DEAR_LAWS = {
    *("flipped_signs_change_nothing", "front_ignores_completion_order"),
    *("resumed_after_interrupts", "resumed_with_more_budget", "returned_candidates_are_the_runs"),
}
OF_EACH_FAMILY = {"cascade_exact", "emsco", "fch_emoa", "hapens", "ip_front", "local_search"}


def under_the_laws(cases: list[ParameterSet]) -> list[ParameterSet]:
    """Return each case with each law."""
    rows = []
    for case, law in product(cases, ALGORITHM_LAWS):
        name = str(case.id).partition("-")[0]
        slow = law.__name__ in DEAR_LAWS and name not in OF_EACH_FAMILY
        marks = [pytest.mark.slow] if slow else case.marks
        rows.append(pytest.param(*case.values, law, id=f"{case.id}-{law.__name__}", marks=marks))
    return rows


@pytest.mark.parametrize(
    ("case", "law"), under_the_laws([*algorithm_cases(), *first_max_pending_cases()])
)
def test_algorithm(case, law):
    law(case)


@pytest.mark.parametrize("law", MAX_PENDING_LAWS, ids=law_name)
@pytest.mark.parametrize("case", max_pending_cases())
def test_max_pending(case, law):
    law(case)


@pytest.mark.parametrize("law", PROBLEM_LAWS, ids=law_name)
@pytest.mark.parametrize("problem", problem_cases())
def test_problem(problem, law):
    law(problem, 0, 24)


@pytest.mark.parametrize("law", EVALUATOR_LAWS, ids=law_name)
@pytest.mark.parametrize("make", [SerialEvaluator], ids=["serial"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_evaluator(make, noise, law):
    law(make, FunctionProblem("zdt1", 5, noise))


def test_whatever_is_registered_is_under_the_laws():
    """Else add a line for it to ALGORITHMS, MAX_PENDING or PROBLEMS in tests/conftest.py."""
    assert set(registry.names("algorithms")) <= set(ALGORITHMS)
    assert set(registry.names("problems")) <= set(PROBLEMS)
    for name in registry.names("algorithms"):
        takes = "max_pending" in parameters(registry.load("algorithms", name)).model_fields
        assert takes == (name in MAX_PENDING), name


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, i, marks=[pytest.mark.slow] if i else [])
        for kind, several in configurations().items()
        for i in range(len(several))
    ],
)
def test_problem_of_a_configuration(kind, number):
    problem = configured(kind, number)
    for law in PROBLEM_LAWS:
        law(problem, 0, 10)


@pytest.mark.parametrize("kind", registry.names("problems"))
def test_every_key_of_a_problem_is_under_the_laws(kind):
    section = registry.load("problems", kind).Config
    instances = [dict(named(raw)) for raw in configurations().get(kind, [])]
    for key, default in keys(section):
        exempt = any(re.fullmatch(pattern, f"{kind}.{key}") for pattern in WITHOUT_INSTANCE)
        assert exempt or any(default != one.get(key, default) for one in instances), (
            f"give {kind}.{key} another value than {default!r} in an instance of "
            "tests/configured.py, or a reason why it needs none"
        )


# --- the laws catch those who break them ----------------------------------------------------


class Broken(Algorithm):
    """Random search with one fault, named by ``fault``."""

    def __init__(self, problem, roles, *, seed, fault):
        super().__init__(problem, roles, seed=seed)
        self.fault = fault
        self.n = 0
        if fault == "keeps the problem":
            self.problem = problem
        if fault == "ignores the seed":
            self.rng = np.random.default_rng(0)
        self.X = self.space.sample(self.rng, 10)

    def ask(self):
        X = super().ask()
        if X is None or self.fault != "changes what it asked":
            return X
        first, _ = self._batches.pop()
        self._batches.append((first, self.X))
        return frozen(self.X)

    def propose(self):
        if self.fault == "draws globally":
            return np.random.random((10, self.space.d))  # noqa: NPY002
        if self.fault == "changes what it asked":
            return self.X
        return self.space.sample(self.rng, 10)

    def learn(self, batch):
        if self.fault == "changes what it asked":
            self.X[:] = self.space.sample(self.rng, 10)
        if self.fault == "looks at signs" and batch.values["f1"].mean() < 0:
            self.rng.random()

    def tell(self, batch):
        self.n += self.fault == "counts before it checks"
        super().tell(batch)
        if self.fault == "averages failures" and np.isnan(batch.values["f1"]).any():
            raise ValueError("NaN")

    def outcome(self):
        if self.fault == "returns what it never asked":
            return Outcome(returned=np.array([10**6]))
        if self.fault == "returns what failed":
            return Outcome(returned=np.arange(3))
        return Outcome()


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("keeps the problem", "without the problem"),
        ("ignores the seed", "law 1"),
        ("draws globally", "law"),
        ("changes what it asked", "law 6"),
        ("looks at signs", "law 7"),
        ("counts before it checks", "law 5"),
        ("averages failures", "NaN"),
        ("returns what it never asked", "expected different feasible rows"),
        ("returns what failed", "expected nothing where every row fails"),
    ],
)
def test_a_broken_algorithm_is_caught(fault, law):
    problem = FunctionProblem("zdt1", 3)

    def make(problem, roles, seed):
        return Broken(problem, roles, seed=seed, fault=fault)

    with pytest.raises((AssertionError, ContractError, TypeError, ValueError), match=law):
        check_algorithm(make, problem, roles_of(problem))


class BrokenFunction(FunctionProblem):
    """zdt1 with one fault."""

    def __init__(self, fault):
        super().__init__("zdt1", 3)
        self.fault = fault

    def evaluate(self, X, streams):
        values = dict(super().evaluate(X, streams))
        if self.fault == "depends on the batch":
            values["f1"] = values["f1"] - values["f1"].min()
        if self.fault == "draws globally":
            np.random.random()  # noqa: NPY002
        if self.fault == "draws without saying so":
            values["f1"] = np.array([stream.random() for stream in streams])
        if self.fault == "leaves its bounds":
            values["f1"] = values["f1"] + 5.0
        return values


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("depends on the batch", "law 2: chunks"),
        ("draws globally", "law 6"),
        ("draws without saying so", "law 1"),
        ("leaves its bounds", "within"),
    ],
)
def test_a_broken_problem_is_caught(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_problem(BrokenFunction(fault))


@pytest.mark.parametrize("items", range(3, 31))
def test_the_problem_of_the_documentation_keeps_the_laws(items, monkeypatch):
    text = (Path(__file__).parents[1] / "docs/architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n([^`]*class Knapsack[^`]*)```", text)
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    exec(block, page.__dict__)
    rng = np.random.default_rng(items)
    values, weights = rng.random(items), rng.random(items)
    check_problem(page.Knapsack(values, weights))

    class Product(page.Knapsack):  # type: ignore[name-defined]
        def evaluate(self, X, streams):
            return {"value": X @ self.values, "weight": X @ self.weights}

    if items == 12:
        with pytest.raises(AssertionError, match=r"law 2: chunks of 1: .* rounding alone: X @ v"):
            check_problem(Product(values, weights))


class Changed(Algorithm):
    """Proposes what ``change`` makes of genomes of the space."""

    def __init__(self, problem, roles, *, seed, change):
        super().__init__(problem, roles, seed=seed)
        self.change = change

    def propose(self):
        return self.change(self.space.sample(self.rng, 10))

    def learn(self, batch):
        pass


@pytest.mark.parametrize("change", [np.invert, np.float64, np.bool_, np.str_, np.diagflat])
def test_genomes_of_another_space_are_told_at_once(change):
    """A newcomer takes ``~`` for the complement of int8 bits; that of booleans is another."""
    message = r"int8 genomes of shape \(n, 9\), n at least 1, found "
    if change is np.invert:
        message = "Bits of 9 genes, found -[12] as gene 0 of row 0, which goes from 0"
    problem = FunctionProblem("lotz", 9)
    with pytest.raises(ContractError, match=message):
        check_algorithm(partial(Changed, change=change), problem, roles_of(problem))
    algorithm = Changed(problem, roles_of(problem), seed=0, change=change)
    with pytest.raises(ContractError, match=message):
        Driver(problem, algorithm, SerialEvaluator(problem), budget=Budget(evaluations=20)).run()


class Lossy(SerialEvaluator):
    """Swallows or repeats rows."""

    def collect(self, timeout=None):
        return 2 * super().collect(timeout)


def test_a_broken_evaluator_is_caught():
    with pytest.raises(AssertionError, match=r"each row once|nothing left"):
        check_evaluator(Lossy, FunctionProblem("zdt1", 3))
    with pytest.raises(AssertionError, match="each row once"):
        check_elastic(Lossy, FunctionProblem("zdt1", 3), [lambda evaluator: None])


def test_shuffled_evaluator_returns_every_row():
    problem = FunctionProblem("zdt1", 3)
    evaluator = ShuffledEvaluator(problem, 0, order=1)
    X = problem.space.sample(np.random.default_rng(0), 30)
    evaluator.submit(np.arange(30), X)
    ids = []
    while len(ids) < 30:
        ids += [id for piece in evaluator.collect() for id in piece.ids.tolist()]
    assert sorted(ids) == list(range(30))
