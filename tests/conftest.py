"""Instances of everything that is registered: the laws run on each of them."""

import os
from collections.abc import Callable, Collection, Generator, Sequence
from functools import partial
from itertools import product
from math import isfinite
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from filelock import FileLock
from hypothesis import settings

from algorithms.cascade.exact import ExactCascades
from algorithms.ensembling.problem import EnsembleProblem
from algorithms.ensembling.searches.base import SingleBest, Singles
from algorithms.ensembling.searches.evolution import QDOES, QOES, HAPEns, ParetoES
from algorithms.ensembling.searches.greedy import GES, MultiGES
from algorithms.ensembling.searches.small_ensembles import SmallEnsembles
from algorithms.general.baselines import GridSearch, RandomSearch
from algorithms.general.local_search import ParetoLocalSearch
from algorithms.general.nsga2 import NSGAII
from algorithms.general.optuna_search import OptunaNSGAII
from algorithms.general.pymoo_searches import NSGAIII, RVEA, SMSEMOA, PymooNSGAII
from algorithms.hull.data import NetworkConfig
from algorithms.hull.network import NetworkProblem
from algorithms.hull.papers.archive_peers import ARMOEA, TwoArch2
from algorithms.hull.papers.decomposition_peers import MOEADD, MPSOD
from algorithms.hull.searches import CHEMOA, FCHEMOA, NDFCHEMOA
from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.exact.search import METRICS as EXACT_METRICS
from algorithms.multistage.exact.search import Exact
from algorithms.multistage.papers.tuning import BaselineConfig, BaselineProblem, Tuned
from algorithms.multistage.problem import MultiStageProblem
from algorithms.pruning.papers.baselines import (
    Backfitting,
    FullEnsemble,
    HillClimbing,
    KappaPruning,
)
from algorithms.pruning.papers.printed_program import PrintedProgram
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.searches.ip import IntegerProgram
from algorithms.pruning.searches.ip_front import ExactFront
from framework.algorithm import Algorithm
from framework.problem import Problem
from framework.problems.functions import FunctionProblem
from framework.problems.python_function import PythonFunction
from framework.roles import Constraint, Objective, Roles
from framework.testing import AlgorithmCase
from tests.cascade.tables import cascades
from tests.made_up_libraries import made_up
from tests.toys import EnsembleToy, StagesToy, two_of_mixed

settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=100, deadline=None)  # make test-all
settings.load_profile("quick")

# Files that take longest, longest first: a process that begins one late ends after all others.
LONG_FILES = [
    *("test_laws", "parallel/test_ray_evaluator", "test_random_kills", "trust/test_effects"),
    *("tracking/test_sweep", "cli/test_run", "outside/test_package", "trust/test_received"),
    *("test_faults", "experiment/test_experiment", "tracking/test_tracker", "cli/test_choose"),
    *("estimators/test_front", "analysis/test_compare", "cli/test_cascade", "libraries/test_build"),
    *("models/test_service", "models/test_mixture", "multistage/test_exact"),
    *("multistage/test_decision", "multistage/test_problem", "multistage/test_logistic"),
    *("moves/test_variation", "test_rates", "test_extras", "test_layers", "test_jit"),
    "facade/test_runs",
]
QUICK_PROBLEMS = 1  # of each algorithm and dear kind of problem; make test-all has them all

os.environ["PARETOLAB_CACHE"] = "off"  # what a test trains is neither found nor left on disk
# what tests write for each other to read is the user's own; tests/trust grants nothing
os.environ["PARETOLAB_ALLOW"] = ";".join(f"{k}={gettempdir()}" for k in ("read", "write"))
os.environ["XDG_CONFIG_HOME"] = mkdtemp(prefix="paretolab-tests-")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have processes collect one after another: the first compiles what the others import then."""
    with FileLock(Path(gettempdir(), f"paretolab-tests-{os.getuid()}.lock")):
        return (yield)


def covering(*axes: Sequence[Any]) -> list[ParameterSet]:
    """Return the product of some values; all but rows that have each value once are slow."""
    sizes = [len(axis) for axis in axes]
    quick = {tuple(row % size for size in sizes) for row in range(max(sizes))}
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(axes, row, strict=True)),
            marks=[] if row in quick else [pytest.mark.slow],
        )
        for row in product(*map(range, sizes))
    ]


def first(*values: Any) -> list[Any]:
    """Return what a fixture is made with; the quick tests take the first of it."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases as slow, and have files that take longest begin first.

    The latter with ``--no-loadscope-reorder``. Of a test with the mark ``quick(n)``, ``make test``
    takes so many cases, spread evenly over those that are not slow anyway.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("quick") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in cases.values():
        n = of_one[0].get_closest_marker("quick").args[0]
        quick = {len(of_one) * i // n for i in range(n)}
        for i, item in enumerate(of_one):
            if i not in quick:
                item.add_marker(pytest.mark.slow)
    place = {f"tests/{name}.py": number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


def examples(thorough: int) -> settings:
    """Return the settings of a dear property: so many examples in make test-all, a quarter here."""
    return settings(max_examples=max(5, thorough * settings().max_examples // 100))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PARETOLAB_CACHE", str(folder))
    return folder


def multistage(**section: Any) -> MultiStageProblem:
    """Return a multi-stage problem on a small synthetic set; ``section`` overrides its keys."""
    dataset = {"synthetic": {"samples": 200, "features": 6, "informative": 4}}
    raw = {"dataset": dataset, "measure": {"kind": "holdout"}, **section}
    if "decision" not in raw:  # a single threshold
        raw.setdefault("threshold", 0.75)
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(raw))


def by_cost(**section: Any) -> MultiStageProblem:
    """Return a multi-stage problem whose stages decide by the costs of errors."""
    decision = {"errors": {"1": 5}, "no_answer": 0.5, "per_stage": True, "thresholds": [0.1, 0.3]}
    return multistage(decision=decision, calibration="none", **section)


def baselines() -> BaselineProblem:
    """Return the tuning of the baselines on a small synthetic set."""
    dataset = {"synthetic": {"samples": 120, "features": 4, "informative": 3, "redundant": 0}}
    methods = ["single_stage", "cost_ordered", "cact_lasso"]
    config = BaselineConfig.model_validate({"dataset": dataset, "methods": methods})
    return BaselineProblem.from_config(config)


def network(**section: Any) -> Problem:
    """Return masks of a small network on a synthetic set; ``section`` overrides its keys."""
    dataset = {"synthetic": {"samples": 160, "features": 5, "informative": 4, "redundant": 0}}
    plain = {"dataset": dataset, "hidden": [4, 3], "training": {"epochs": 20}, "thresholds": 0}
    plain |= section
    return NetworkProblem.from_config(NetworkConfig.model_validate(plain))


def ensemble(classes: int = 2, **more: Any) -> EnsembleProblem:
    """Return ensembles of a few made-up models; ``classes`` 0 is regression."""
    return EnsembleProblem(made_up(classes=classes), **{"max_count": 8, **more})


def pruning(k: int = 8, **more: Any) -> PruningProblem:
    """Return prunings of a few made-up classifiers."""
    return PruningProblem(made_up(k=k), **more)


def roles_of(problem: Problem, *constraints: Constraint, metrics: Collection[str] = ()) -> Roles:
    """Return every metric (of ``metrics``, if given) as an objective, in its natural sense."""
    objectives = [
        Objective(metric.name, metric.sense)
        for metric in problem.metrics
        if not metrics or metric.name in metrics
    ]
    return Roles(problem.metrics, objectives, constraints)


# A line for each registered problem: its registry name -> small instances of it.
PROBLEMS: dict[str, list[Callable[[], Problem]]] = {
    "cascade": [
        cascades,
        partial(cascades, order="free", answer="cumulative_mean", abstain="early", limit=0.004),
        partial(
            cascades,
            answer="vote",
            abstain="last",
            errors={"a": {"b": 5, "c": 2}, "b": {"a": 1}},
            no_answer=0.5,
            rates=["recall:a", "matthews"],
        ),
    ],
    "function": [
        partial(FunctionProblem, "zdt1", 5),
        partial(FunctionProblem, "zdt2", 4, noise=0.1),
        partial(FunctionProblem, "dtlz2", 6),
        partial(FunctionProblem, "lotz", 9),
        partial(FunctionProblem, "zed2"),
        partial(FunctionProblem, "zejd3"),
    ],
    "python": [
        partial(
            PythonFunction,
            two_of_mixed,
            {"x": (-1.0, 2.0), "n": (0, 3), "kind": ["a", "b", "c"], "c": (0.01, 100, "log")},
            ["f1", "f2"],
        )
    ],
    "multistage": [
        multistage,
        partial(
            multistage, remove_features=True, classifier={"kind": "gaussian_nb"}, stage_cost=0.3
        ),
        partial(multistage, calibration="isotonic"),
        partial(multistage, measure={"kind": "cross_validation", "folds": 3}),
        by_cost,
    ],
    "rivals": [baselines],
    "network": [
        network,
        partial(network, gates="neurons", hidden=[6]),
        partial(network, finetune=2, training={"epochs": 5, "seed": 3}, thresholds=8),
        partial(network, gates="magnitude", training={"epochs": 5}, thresholds=16),
    ],
    "ensemble": [
        ensemble,
        partial(ensemble, 3, score=["roc_auc", "log_loss", "neg_brier_score"], costs=["memory"]),
        partial(ensemble, 0, score=["rmse", "r2"], max_count=700),
    ],
    "pruning": [
        pruning,
        partial(pruning, 70, threshold="majority", positive="no", costs=["memory"]),
    ],
}

# What searches of ordered partitions are tried on.
_PARTITIONS = [StagesToy, partial(StagesToy, removal=True), *PROBLEMS["multistage"][:2], by_cost]
# What searches of counts are tried on: some models, models that are all alike, a library.
_COUNTS = [EnsembleToy, partial(EnsembleToy, 4, 6, alike=True), ensemble]

# What searches that know several spaces are tried on.
_SEVERAL = [*_PARTITIONS, EnsembleToy, partial(FunctionProblem, "lotz", 9)]
_SEVERAL += [partial(FunctionProblem, "dtlz2", 5), pruning, cascades, *PROBLEMS["python"]]

# What convex-hull searches are tried on: three bounded objectives.
_HULLS = [partial(FunctionProblem, "zed2"), partial(FunctionProblem, "zejd1"), network]
_PEERS = [partial(FunctionProblem, "lotz", 9), partial(FunctionProblem, "dtlz2", 5), StagesToy]
_HULL_METRICS = {"f1", "f2", "f3", "false_positive_rate", "false_negative_rate", "complexity"}

# What searches that read the votes of a pool are tried on.
_PRUNINGS = [pruning, partial(pruning, 6, threshold="majority", positive="no")]

# What a random search is tried on, and what a grid: few candidates.
_ANY = [*PROBLEMS["function"], StagesToy, partial(StagesToy, removal=True)]
_ANY += [multistage, ensemble, pruning, cascades]
_FEW = [partial(FunctionProblem, "lotz", 7), partial(StagesToy, removal=True)]
_FEW += [baselines, partial(pruning, 4)]

# A line for each registered algorithm: its registry name -> how to make a small one, and
# instances of problems that it can search.
ALGORITHMS: dict[str, tuple[Callable[..., Algorithm], list[Callable[[], Problem]]]] = {
    "random": (partial(RandomSearch, batch=20), _ANY),
    "cascade_exact": (
        partial(ExactCascades, max_models=3),
        [cascades, partial(cascades, n=15, abstain="early", answer="cumulative_mean")],
    ),
    "grid": (partial(GridSearch, batch=20), _FEW),
    "tuned": (partial(Tuned, batch=4), [baselines]),
    "exact": (
        Exact,
        [
            multistage,
            partial(multistage, max_stages=6, classifier={"kind": "gaussian_nb"}, stage_cost=0.5),
        ],
    ),
    "ch_emoa": (partial(CHEMOA, population=12, batch=5), _HULLS),
    "fch_emoa": (partial(FCHEMOA, population=12, batch=5, non_frontal="random"), _HULLS),
    "ndfch_emoa": (partial(NDFCHEMOA, population=12, batch=5), _HULLS),
    "ar_moea": (partial(ARMOEA, population=12), _PEERS),
    "moea_dd": (partial(MOEADD, population=12, batch=6), _PEERS),
    "mpso_d": (partial(MPSOD, population=12, horizon=60), _HULLS[:2] + _PEERS[:1]),
    "rvea": (partial(RVEA, population=20, horizon=100), _SEVERAL),
    "two_arch2": (partial(TwoArch2, population=10), _PEERS),
    "emsco": (partial(EMSCO, population=20), _PARTITIONS),
    "ges": (partial(GES, iterations=4), _COUNTS),
    "hapens": (partial(HAPEns, batch=10), _COUNTS),
    "backfitting": (Backfitting, _PRUNINGS),
    "full_ensemble": (FullEnsemble, _PRUNINGS),
    "hill_climbing": (partial(HillClimbing, fitness="uwa"), _PRUNINGS),
    "kappa_pruning": (KappaPruning, _PRUNINGS),
    "ip": (partial(IntegerProgram, looks=100), _PRUNINGS),
    "ip_front": (partial(ExactFront, metric="accuracy", against="members", looks=50), _PRUNINGS),
    "ip_cvxpy": (PrintedProgram, _PRUNINGS[1:]),
    "local_search": (partial(ParetoLocalSearch, batch=20), _SEVERAL),
    "multi_ges": (partial(MultiGES, iterations=4), _COUNTS),
    "nsga2": (partial(NSGAII, population=20), _SEVERAL),
    "nsga3": (partial(NSGAIII, population=20), _SEVERAL),
    "optuna_nsga2": (partial(OptunaNSGAII, population=20), _PARTITIONS),
    "pareto_es": (partial(ParetoES, batch=10), _COUNTS),
    "pymoo_nsga2": (partial(PymooNSGAII, population=20), _PARTITIONS),
    "qdo_es": (partial(QDOES, batch=10), _COUNTS),
    "qo_es": (partial(QOES, batch=10), _COUNTS),
    "single_best": (SingleBest, _COUNTS),
    "singles": (Singles, _COUNTS),
    "small_ensembles": (partial(SmallEnsembles, members=3, picks=4, batch=20), _COUNTS),
    "sms_emoa": (partial(SMSEMOA, population=20), _SEVERAL),
}

# Algorithms that know some metrics alone, and those that draw nothing.
METRICS: dict[str, Collection[str]] = {
    "exact": EXACT_METRICS,
    **dict.fromkeys(("ch_emoa", "fch_emoa", "ndfch_emoa"), _HULL_METRICS),
}
DETERMINISTIC = {
    *("backfitting", "cascade_exact", "tuned", "full_ensemble", "hill_climbing", "kappa_pruning"),
    *("exact", "ges", "grid", "ip", "ip_front", "ip_cvxpy", "multi_ges"),
    *("single_best", "singles", "small_ensembles"),
}


# Searches in their form without generations: how to make a small one, and what it is tried on.
MAX_PENDING: dict[str, tuple[Callable[..., Algorithm], list[Callable[[], Problem]]]] = {
    "ch_emoa": (partial(CHEMOA, population=12, max_pending=20), _HULLS[:1]),
    "emsco": (partial(EMSCO, population=20, memetic=0.3, max_pending=24), _PARTITIONS[:1]),
    "fch_emoa": (partial(FCHEMOA, population=12, max_pending=20, non_frontal="random"), _HULLS[1:]),
    "hapens": (partial(HAPEns, batch=10, max_pending=8), _COUNTS),
    "local_search": (partial(ParetoLocalSearch, batch=20, max_pending=24), _SEVERAL[1::3]),
    "ndfch_emoa": (partial(NDFCHEMOA, population=12, max_pending=20), _HULLS[:1]),
    "nsga2": (partial(NSGAII, population=20, max_pending=24), _SEVERAL[::2]),
    "nsga3": (partial(NSGAIII, population=12, max_pending=32), _SEVERAL[:1]),
    "pareto_es": (partial(ParetoES, batch=10, max_pending=32), _COUNTS),
    "qdo_es": (partial(QDOES, batch=10, max_pending=8), _COUNTS[:1]),
    "qo_es": (partial(QOES, batch=10, max_pending=8), _COUNTS[:1]),
    "sms_emoa": (partial(SMSEMOA, population=12, max_pending=32), _SEVERAL[-1:]),
}


def max_pending_cases() -> list[ParameterSet]:
    """Return every search that has a form without generations in that form."""
    return _cases(MAX_PENDING)


def first_max_pending_cases() -> list[ParameterSet]:
    """Return each of them once."""
    return _cases({name: (make, few[:1]) for name, (make, few) in MAX_PENDING.items()})


def algorithm_cases() -> list[ParameterSet]:
    """Return every algorithm on every problem it can search, once with a constraint.

    The quick tests take the first problems of each.
    """
    return _cases(ALGORITHMS)


def _cases(
    algorithms: dict[str, tuple[Callable[..., Algorithm], list[Callable[[], Problem]]]],
) -> list[ParameterSet]:
    cases = []
    for name, (make, problems) in algorithms.items():
        for i, make_problem in enumerate(problems):
            problem = make_problem()
            metric = problem.metrics[0]
            middle = (metric.low + metric.high) / 2
            side = "at_least" if metric.sense == "max" else "at_most"  # what one would ask for
            limited = i == 0 and isfinite(middle)
            constraints = [Constraint(metric.name, **{side: middle})] if limited else []
            roles = roles_of(problem, *constraints, metrics=METRICS.get(name, ()))
            case = AlgorithmCase(make, problem, roles, deterministic=name in DETERMINISTIC)
            marks = [pytest.mark.slow] if i >= QUICK_PROBLEMS else []
            cases.append(pytest.param(case, id=f"{name}-{problem.fingerprint}", marks=marks))
    return cases


def problem_cases() -> list[ParameterSet]:
    """Return every instance of every problem, and the toys.

    The quick tests take the first of those on records: the keys of the others are in
    ``tests/configured.py`` too.
    """
    cases = [pytest.param(StagesToy(), id="stages-toy")]
    for kind, makers in PROBLEMS.items():
        for i, make in enumerate(makers):
            problem = make()
            slow = i >= QUICK_PROBLEMS and kind != "function"
            marks = [pytest.mark.slow] if slow else []
            cases.append(pytest.param(problem, id=problem.fingerprint, marks=marks))
    return cases
