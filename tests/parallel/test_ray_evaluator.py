"""The Ray evaluator: equal to the serial one to the bit, whatever happens to its workers.

And the one that measures first, and moves to Ray where that pays: it needs the same cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

import numpy as np
import pytest

from algorithms.general.baselines import RandomSearch
from algorithms.multistage.exact import enumeration
from algorithms.multistage.exact.search import METRICS, Exact
from algorithms.multistage.problem import MultiStageProblem
from framework.errors import ClusterError
from framework.front import Front
from framework.parallel.auto_evaluator import AutoEvaluator, _to_share
from framework.parallel.config import ClusterConfig, Resources
from framework.parallel.pool import WorkerSlot
from framework.parallel.ray_evaluator import RayEvaluator
from framework.parallel.tasks import DispatchCost, Task
from framework.parallel.worker import build_each
from framework.problem import Problem
from framework.problems.functions import FunctionProblem
from framework.run.driver import search
from framework.run.evaluator import Evaluator, SerialEvaluator
from framework.settings import Budget
from framework.testing import EVALUATOR_LAWS, check_elastic
from framework.testing.evaluators import EvaluatorLaw
from tests.command import until
from tests.conftest import multistage, roles_of
from tests.parallel.asking import (
    Make,
    assert_same,
    collect_all,
    expected,
    gene_sets,
    genomes,
    score,
    wait_for_pids,
)
from tests.ray_toys import KILLER, RAISER, Orphan, PartsToy, Prey, Sphere, Unborn, hunted, power


def test_importing_the_evaluator_does_not_import_ray() -> None:
    code = "import sys\n"
    for module in ("ray_evaluator", "auto_evaluator", "cluster"):
        code += f"import framework.parallel.{module}\n"
    code += "sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.quick(3)
@pytest.mark.parametrize("law", EVALUATOR_LAWS, ids=lambda law: law.__name__)
def test_laws(make: Make, law: EvaluatorLaw) -> None:
    law(lambda problem, seed: make(problem), FunctionProblem("zdt2", 5, 0.1))


def test_workers_may_come_and_go(make: Make) -> None:
    def kill(evaluator: RayEvaluator) -> None:
        for slot in evaluator.pool.ready[:1]:
            os.kill(slot.pid, signal.SIGKILL)

    problem = Sphere(seconds=0.01, noise=0.1)
    check_elastic(lambda problem, seed: make(problem), problem, [kill, kill], rows=100)


@pytest.mark.slow
def test_sigkill_changes_nothing(make: Make) -> None:
    problem = Sphere(seconds=0.01, noise=0.5)
    ray, X = make(problem), genomes(200)
    ray.submit(np.arange(200), X)
    pieces = ray.collect()
    victims = wait_for_pids(ray, 2)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    assert_same(collect_all(ray, 200, pieces), expected(problem, X))
    assert not set(victims) & set(wait_for_pids(ray, 0))


def test_pieces_of_a_divided_task_are_not_joined_again() -> None:
    pieces = Task("score", (np.arange(40), np.zeros((40, 1)))).split()
    assert sum(map(len, pieces)) == 40
    assert not any(piece.slice(0, 1).is_new for piece in pieces)


@pytest.mark.slow
def test_a_row_that_kills_its_worker_fails_alone(make: Make) -> None:
    X = genomes(40)
    X[17, 0] = KILLER
    found = score(make(Sphere()), X)
    assert list(found.errors) == [17]
    assert found.errors[17].startswith("killed its worker 3 times (last: ")
    assert found.errors[17].endswith("and a process of its own")
    fine = np.arange(40) != 17
    alone = expected(Sphere(), X[fine])
    assert found.values["near"][fine].tobytes() == alone.values["near"].tobytes()


@pytest.mark.slow
def test_a_row_whose_workers_are_killed_by_others_is_scored_all_the_same(make: Make) -> None:
    X = genomes(20)
    X[3, 0] = KILLER
    ray, problem = make(Prey()), Prey()
    problem.driver = os.getppid()
    serial = expected(problem, X)
    found = score(ray, X)
    assert not found.errors
    assert_same(found, serial)
    assert ray.incidents()["workers_lost"] >= 3


@pytest.mark.slow
def test_twenty_kills_at_random_leave_the_same_front(make: Make) -> None:
    problem = Sphere(seconds=0.01, noise=0.5)
    roles, budget = roles_of(problem), Budget(evaluations=2000)

    def front_of(evaluator: Evaluator) -> Front:
        return search(problem, RandomSearch(problem, roles, seed=3), evaluator, budget=budget)

    serial = front_of(SerialEvaluator(Sphere(noise=0.5), 7))
    ray, rng, killed = make(problem), random.Random(0), []

    def kill() -> None:
        while len(killed) < 20:
            time.sleep(rng.uniform(0.05, 0.6))
            if wait_for_pids(ray, 0):
                killed.append(rng.choice(wait_for_pids(ray, 0)))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    hunter = threading.Thread(target=kill, daemon=True)
    hunter.start()
    front = front_of(ray)
    assert len(killed) == 20, "the run was over too soon"
    assert ray.incidents()["workers_lost"] >= 10
    assert_same(front.rows, serial.rows)


@pytest.mark.slow
def test_workers_that_die_while_they_load_the_problem_are_an_error(make: Make) -> None:
    ray = make(Orphan(lethal=True))
    ray.submit(np.arange(3), genomes(3))
    with pytest.raises(ClusterError, match=r"no Ray worker can be started: .*--workers serial"):
        collect_all(ray, 3)


@pytest.mark.slow
def test_workers_that_are_killed_before_they_are_ready_end_nothing(make: Make) -> None:
    X = genomes(2)
    assert_same(score(make(Unborn()), X), expected(Sphere(), X))


@pytest.mark.slow
def test_no_room_is_told_and_a_slow_start_is_not(make, monkeypatch, caplog):
    monkeypatch.setattr("framework.parallel.pool._ROOM_SECONDS", 0.0)
    make(Sphere()).pool.step(1.5)
    assert not caplog.records
    config = ClusterConfig(resources=Resources(custom={"licence": 1}))
    evaluator = RayEvaluator(Sphere(), 7, workers=2, config=config)
    evaluator.pool.step(1.5)
    evaluator.close()
    told = "no node has room for a Ray worker of {'CPU': 1.0, 'licence': 1.0}; waiting for one"
    assert [record.message[: len(told)] for record in caplog.records] == [told]


@pytest.mark.slow
def test_workers_that_cannot_load_the_problem_are_an_error(make: Make) -> None:
    ray = make(Orphan())
    ray.submit(np.arange(3), genomes(3))
    with pytest.raises(ClusterError, match=r"no such data on this machine.*--workers serial"):
        collect_all(ray, 3)
    assert ray.incidents() == {"environment_failures": 3}


@pytest.mark.slow
def test_collect_keeps_its_timeout(make: Make) -> None:
    ray = make(Sphere(seconds=2.0))
    assert ray.collect() == []
    wait_for_pids(ray, 2)
    ray.submit(np.arange(1), genomes(1))
    start = time.perf_counter()
    assert ray.collect(timeout=0.2) == []
    assert 0.15 < time.perf_counter() - start < 1.5
    assert len(collect_all(ray, 1)) == 1


def test_close_ends_the_workers(make: Make) -> None:
    ray = make(Sphere())
    pids = wait_for_pids(ray, 2)
    ray.close()
    # Ray ends them one after another, slowly where cores are few
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 60)
    assert ray.collect() == []
    ray.close()


# Shared parts ---------------------------------------------------------------------------------


def test_the_serial_evaluator_says_how_far_the_parts_are(tmp_path: Path) -> None:
    X = np.arange(60).reshape(20, 3).astype(float)
    evaluator = SerialEvaluator(PartsToy(tmp_path / "log", seconds=0.005), 7)
    evaluator.submit(np.arange(20), X)
    seen, pieces = [], []
    while not pieces:
        pieces = evaluator.collect(timeout=0.02)
        seen.append(evaluator.components())
    built = [done for done, total in seen[:-1] if total == 60]
    assert len(built) == len(seen) - 1 > 2
    assert built == sorted(built)
    assert seen[-1] == (0, 0)
    assert_same(pieces[0], expected(PartsToy(tmp_path / "other"), X))
    assert Counter((tmp_path / "log").read_text().split()).most_common(1)[0][1] == 1


@pytest.mark.slow
def test_the_ray_evaluator_says_how_far_the_parts_are(make: Make, tmp_path: Path) -> None:
    X = np.arange(90).reshape(30, 3).astype(float)
    evaluator = make(PartsToy(tmp_path / "log", seconds=0.02))
    evaluator.submit(np.arange(30), X)
    seen = [evaluator.components()]
    while not evaluator.collect(timeout=0.05):
        seen.append(evaluator.components())
    assert seen[0] == (0, 90)
    assert {total for _, total in seen} <= {90, 0}
    assert any(0 < done < 90 for done, _ in seen)
    assert evaluator.components() == (0, 0)


def test_each_part_is_built_once_and_never_by_the_driver(make: Make, tmp_path: Path) -> None:
    problem = PartsToy(tmp_path / "log", seconds=0.001)
    ray = make(problem)
    problem.build_components = None  # type: ignore[assignment, method-assign]
    X = gene_sets(80)
    ray.submit(np.arange(40), X[:40])
    ray.submit(np.arange(40, 80), X[40:])  # needs many of the same parts
    found = collect_all(ray, 80)
    again = score(ray, X[::-1], 80)
    serial = SerialEvaluator(PartsToy(tmp_path / "other"), 7)
    assert_same(found, score(serial, X))
    assert_same(again, score(serial, X[::-1], 80))
    built = Counter(problem.log.read_text().split())
    assert set(built.values()) == {1}
    assert len(built) == problem.n_components == len(np.unique(X))


@pytest.mark.slow
def test_parts_held_at_the_start_are_not_built_again(make: Make, tmp_path: Path) -> None:
    problem = PartsToy(tmp_path / "log")
    X = gene_sets(30)
    problem.add_components(problem.build_components(problem.missing_components(X[:15])))
    assert_same(score(make(problem), X), expected(PartsToy(tmp_path / "b"), X))
    assert set(Counter(problem.log.read_text().split()).values()) == {1}


@pytest.mark.slow
def test_large_parts_travel_through_the_object_store(make: Make, tmp_path: Path) -> None:
    problem = PartsToy(tmp_path / "log")
    X = np.arange(30_000, dtype=float).reshape(-1, 3)
    problem.space.upper[:] = 30_000.0
    assert_same(score(make(problem), X), expected(PartsToy(tmp_path / "other"), X))


@pytest.mark.slow
def test_parts_survive_the_death_of_workers(make: Make, tmp_path: Path) -> None:
    problem = PartsToy(tmp_path / "log", seconds=0.02)
    ray, X = make(problem), gene_sets(60)
    ray.submit(np.arange(60), X)
    for pid in wait_for_pids(ray, 2):
        os.kill(pid, signal.SIGKILL)
    assert_same(collect_all(ray, 60), expected(PartsToy(tmp_path / "other"), X))


@pytest.mark.slow
def test_a_part_that_kills_its_worker_or_raises_fails_the_rows_that_need_it(make, tmp_path):
    X = gene_sets(20)
    X[[4, 9], 1], X[5, 0] = PartsToy.KILLER, PartsToy.RAISER
    found = score(make(PartsToy(tmp_path / "log")), X)
    assert sorted(found.errors) == [4, 5, 9]
    assert found.errors[4].startswith("killed its worker 3 times")
    assert found.errors[5] == "ValueError: magic part"


def test_only_the_culprit_of_a_failed_build_fails(tmp_path: Path) -> None:
    genes = np.array([[1.0, PartsToy.RAISER, 3.0]])
    problem = PartsToy(tmp_path / "log")
    parts = list(build_each(problem, problem.missing_components(genes)))
    assert [len(part.errors) for part in parts] == [1, 0, 0]


@pytest.mark.slow
def test_parts_named_beforehand_are_built_on_the_workers(make: Make, tmp_path: Path) -> None:
    problem = PartsToy(tmp_path / "log", seconds=0.001)
    ray, X = make(problem), gene_sets(40)
    problem.build_components = None  # type: ignore[assignment, method-assign]
    keys = problem.missing_components(X)
    assert sum(ray.build(keys)) == len(keys) == problem.n_components
    assert_same(score(ray, X), expected(PartsToy(tmp_path / "other"), X))
    assert set(Counter(problem.log.read_text().split()).values()) == {1}
    assert list(ray.build(keys[:0])) == []
    assert list(make(Sphere()).build(keys)) == []  # no such thing as a part


@pytest.mark.slow
def test_the_exact_front_is_the_same_and_the_driver_does_not_train(make, monkeypatch):
    monkeypatch.setattr(enumeration, "_PIECE_CHAINS", 50)  # the default would be a single piece

    def front(evaluator: Evaluator, problem: MultiStageProblem) -> tuple[Front, Exact]:
        roles = roles_of(problem, metrics=METRICS)
        algorithm = Exact(problem, roles, seed=0)
        return search(problem, algorithm, evaluator, budget=Budget(generations=1)), algorithm

    problem = multistage(max_stages=3)
    wanted, serial = front(SerialEvaluator(problem), problem)
    problem = multistage(max_stages=3)
    ray = make(problem)
    monkeypatch.setattr(MultiStageProblem, "build_components", None)
    found, algorithm = front(ray, problem)
    assert problem.n_components == 63
    assert_same(found.rows, wanted.rows)
    assert algorithm.outcome().findings == serial.outcome().findings


# Pieces of a search ---------------------------------------------------------------------------


@pytest.mark.slow
def test_pieces_come_back_in_order_although_workers_die(make: Make) -> None:
    ray = make(Sphere())
    results = ray.map(power, 3, list(range(30)))
    found = [next(results)]
    os.kill(wait_for_pids(ray, 0)[0], signal.SIGKILL)
    assert found + list(results) == [3.0**i for i in range(30)]
    for _ in ray.map(power, 5, list(range(20))):
        break  # what is under way then must not answer the next
    assert list(ray.map(power, 2, list(range(20)))) == [2.0**i for i in range(20)]


@pytest.mark.slow
def test_what_a_piece_raises_is_raised_here(make: Make) -> None:
    ray = make(Sphere())
    with pytest.raises(ValueError, match="magic exponent"):
        list(ray.map(power, 2, [1, 2, int(RAISER), 3]))
    assert list(ray.map(power, 2, [1, 2])) == [2.0, 4.0]


@pytest.mark.slow
def test_a_piece_whose_workers_are_killed_by_others_is_done_all_the_same(make: Make) -> None:
    ray = make(Sphere())
    assert list(ray.map(hunted, os.getpid(), list(range(6)))) == [0, 1, 4, 9, 16, 25]
    assert ray.incidents()["workers_lost"] >= 3


@pytest.mark.slow
def test_a_piece_that_kills_its_workers_is_an_error(make: Make) -> None:
    with pytest.raises(ClusterError, match=r"killed its worker 3 times .* a process of its own"):
        list(make(Sphere()).map(power, 2, [1, int(KILLER)]))


# Chunks ---------------------------------------------------------------------------------------


def test_short_batches_that_wait_become_one_request(make, monkeypatch):
    ray, serial = make(Sphere()), SerialEvaluator(Sphere(), 7)
    X, sizes = genomes(60), list[int]()
    score(ray, X[:20])  # what an evaluation takes is known then
    send = ray.pool._send

    def counted(slot: WorkerSlot, task: Task) -> None:
        sizes.append(len(task))
        send(slot, task)

    monkeypatch.setattr(ray.pool, "_send", counted)
    for i in range(20, 60):
        ray.submit(np.arange(i, i + 1), X[i : i + 1])
    assert_same(collect_all(ray, 40), score(serial, X[20:], 20))
    assert sum(sizes) == 40
    assert len(sizes) < 20


def test_chunks_follow_the_measured_cost() -> None:
    cost = DispatchCost()
    assert cost.chunk(300, inf) == 1  # a probe
    cost.add(0.001, 1)
    assert cost.chunk(3, 0.0) == 3  # too little to divide
    assert cost.chunk(1000, 0.5) == 200  # 200 ms
    assert cost.chunk(30, 0.015) == 15  # what the worker lacks
    assert cost.chunk(30, -0.1) == 5  # but no crumbs
    for _ in range(40):
        cost.add(1.0, 1)
    assert cost.chunk(1000, 500.0) == 1


def test_the_workers_get_the_same_amount_of_work(make, monkeypatch):
    ray = make(Sphere())
    score(ray, genomes(2))
    while len(ray.pool.ready) < 2:
        ray.pool.step(0.1)
    pool = ray.pool
    pool._costs["score"] = DispatchCost()
    pool._costs["score"].add(0.01, 1)

    def sent(slot: WorkerSlot, task: Task) -> None:
        slot.since = time.perf_counter()
        slot.requests.append((None, task))

    monkeypatch.setattr(pool, "_send", sent)

    def loads(n: int) -> list[list[int]]:
        pool.add(Task("score", (np.arange(n), genomes(n))))
        pool.dispatch()
        return [[len(task) for _, task in slot.requests] for slot in pool.ready]

    assert loads(10) == [[5], [5]]
    pool.ready[0].requests.clear()
    assert loads(21) == [[13], [5, 8]]  # the first one has less to do
    assert loads(50) == [[13, 20], [5, 8]]  # the second one has two requests, and so has the first
    for slot in pool.ready:
        slot.requests.clear()
    pool._queues["score"].clear()
    assert loads(4) == [[2], [2]]
    pool.ready[1].requests.clear()
    pool.ready[0].since -= 3.0  # nobody knows how long it will take
    assert loads(70) == [[2], [20, 20]]
    for slot in pool.ready:
        slot.requests.clear()


# Serial or Ray --------------------------------------------------------------------------------


def auto(
    problem: Problem, start: Callable[[], Evaluator], left: float | None
) -> tuple[AutoEvaluator, list[str]]:
    said: list[str] = []
    evaluator = AutoEvaluator(
        problem, 7, start_ray=start, remaining=lambda: left, report=said.append
    )
    return evaluator, said


class Locked(Sphere):
    """A problem that holds something that cannot be copied."""

    def __init__(self, lock: object) -> None:
        super().__init__()
        self._lock = lock


def never() -> Evaluator:
    raise AssertionError("Ray was started for nothing")


def test_auto_stays_serial_for_little_work() -> None:
    problem, X = Sphere(noise=0.1), genomes(300)
    evaluator, said = auto(problem, never, 0.9)
    assert_same(score(evaluator, X), expected(problem, X))
    evaluator.close()
    assert len(said) == 1
    assert said[0].startswith("scored in this process")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "why"),
    [
        (threading.Lock(), "cannot pickle '_thread.lock' object"),
        (multiprocessing.Lock(), "should only be shared between processes"),
    ],
)
def test_what_cannot_be_copied_to_workers_stays_serial(make: Make, lock: object, why: str) -> None:
    problem, X = Sphere(seconds=0.05, noise=0.1), genomes(500)
    evaluator, said = auto(problem, lambda: make(Locked(lock)), 1.0)
    found = score(evaluator, X[:3])
    evaluator._measure(np.array([90.0, 0.0]), 3)
    assert_same(found, expected(Sphere(noise=0.1), X[:3]))
    score(evaluator, X[3:5])
    evaluator.close()
    assert len(said) == 1
    assert why in said[0]
    assert "scored in this process although" in said[0]


@pytest.mark.slow
def test_auto_moves_to_ray_within_the_first_batch(make: Make) -> None:
    problem, X = Sphere(seconds=0.05, noise=0.1), genomes(500)
    evaluator, said = auto(problem, lambda: make(Sphere(noise=0.1)), 1.0)
    found = score(evaluator, X)
    assert_same(found, expected(Sphere(noise=0.1), X))
    evaluator.close()
    assert len(said) == 1
    assert said[0].startswith("scored on Ray from now on: about ")


def test_auto_reckons_with_the_budget_left(make: Make) -> None:
    problem = Sphere(seconds=0.02)
    evaluator, said = auto(problem, lambda: make(Sphere()), 0.999)
    score(evaluator, genomes(10))
    score(evaluator, genomes(10), 10)
    assert said[0].startswith("scored on Ray from now on")


@pytest.mark.parametrize(("cores", "starts"), [(1, 1), (8, 0)])
def test_auto_stays_where_work_takes_all_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, starts: int
) -> None:
    module = "framework.parallel.auto_evaluator"
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(f"{module}.process_time", lambda: cores * time.perf_counter())
    monkeypatch.setattr(f"{module}.RAY_PAYS_SECONDS", 1e-9)
    assert _to_share(30.0, 2.0, 5.0) == 15.0  # one and a half of three other cores are idle
    started = []

    def start() -> Evaluator:
        started.append(1)
        raise ClusterError("Ray cannot start on this machine")

    evaluator, _ = auto(Sphere(seconds=0.001), start, 0.9)
    score(evaluator, genomes(40))
    assert len(started) == starts


def test_auto_stays_where_ray_cannot_start() -> None:
    def broken() -> Evaluator:
        raise ClusterError("Ray cannot start on this machine")

    problem = Sphere(seconds=0.001)
    evaluator, said = auto(problem, broken, 0.99999)
    score(evaluator, genomes(40))
    evaluator.close()
    assert len(said) == 1
    assert "although" in said[0]
    assert "Ray cannot start" in said[0]


@pytest.mark.slow
def test_auto_hands_parts_and_pieces_to_ray_where_that_pays(make, tmp_path, monkeypatch):
    monkeypatch.setattr("framework.preparation._COMPONENTS_AT_ONCE", 5)
    problem, X = PartsToy(tmp_path / "log"), gene_sets(40)
    keys = problem.missing_components(X)
    evaluator, said = auto(problem, never, 1.0)
    assert list(evaluator.map(power, 2, list(range(9)))) == [2.0**i for i in range(9)]
    assert sum(evaluator.build(keys[:20])) == 20
    assert not said
    monkeypatch.setattr("framework.parallel.auto_evaluator.RAY_PAYS_SECONDS", 1e-9)
    evaluator, said = auto(problem, lambda: make(problem), 1.0)
    assert sum(evaluator.build(keys[20:])) == len(keys) - 20
    assert list(evaluator.map(power, 2, list(range(9)))) == [2.0**i for i in range(9)]
    assert len(said) == 1
    evaluator.close()
    evaluator, said = auto(problem, lambda: make(problem), 1.0)
    assert list(evaluator.map(power, 2, list(range(9)))) == [2.0**i for i in range(9)]
    assert said[0].startswith("scored on Ray from now on")
    assert set(Counter(problem.log.read_text().split()).values()) == {1}
