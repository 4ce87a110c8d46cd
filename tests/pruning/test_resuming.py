"""Solves that were killed go on from what was proven, to the same answer."""

import pickle

import numpy as np
import pytest

from algorithms.pruning.branch_and_bound.instance import Instance, Requirements
from algorithms.pruning.branch_and_bound.solver import BranchAndBound, pack, unpack
from algorithms.pruning.diversity import demand_of, pair_table
from algorithms.pruning.problem import PruningProblem
from algorithms.pruning.searches import ip
from algorithms.pruning.searches.ip import IntegerProgram
from algorithms.pruning.searches.ip_front import ExactFront, Solved, from_json, to_json
from algorithms.pruning.votes import VoteTable, Weights
from framework.libraries.library import Library
from framework.preparation import Checkpoints, Preparation
from tests.conftest import pruning, roles_of
from tests.pruning.test_solver import pool


def killed(search, checkpoints, after):
    """Prepare until so many reports were made; tell whether it came to an end."""
    reports = 0

    def tell(work):
        nonlocal reports
        reports += 1
        if reports > after:
            raise KeyboardInterrupt

    try:
        search.begin(Preparation(checkpoints=checkpoints, on_progress=tell))
    except KeyboardInterrupt:
        return False
    return True


def state_of(solver):
    """Return what a solve has proven, found and left to do."""
    done = solver.bound, solver.iterations, solver.nodes, solver.programs
    return *done, len(solver._open), solver.incumbent.x.tolist()


@pytest.mark.quick(1)
@pytest.mark.parametrize("demand", [None, "f3"])
def test_a_solve_in_bytes_goes_on_as_if_it_had_not_been(demand):
    votes, y = pool(14, 120, 5)
    table, credit = VoteTable.of(votes, y), pair_table(votes != y)
    must = Requirements(credit=credit, demand=demand_of(demand, credit))
    instance = Instance.of(table, Weights(), must)
    solver, stored = (BranchAndBound(instance, looks=50) for _ in range(2))
    for step in range(80):
        solver.step()
        stored.step()
        stored, also = unpack(pack(stored, {"step": step}), lambda _: instance)
        assert also == {"step": step}
        assert state_of(stored) == state_of(solver)


class Elsewhere:
    """Workers that get copies of everything and answer in no particular order."""

    def map(self, function, shared, pieces):
        order = np.random.default_rng(len(pieces)).permutation(len(pieces))
        copies = pickle.loads(pickle.dumps((shared, list(pieces))))
        answers = {i: pickle.loads(pickle.dumps(function(copies[0], copies[1][i]))) for i in order}
        return iter([answers[i] for i in range(len(pieces))])


@pytest.mark.quick(1)
@pytest.mark.parametrize("boxes", [1, 5])
def test_a_proof_depends_on_the_boxes_of_a_round_and_not_on_who_solves_them(boxes):
    votes, y = pool(14, 120, 5)
    instance = Instance.of(VoteTable.of(votes, y), Weights())
    here, elsewhere = (BranchAndBound(instance, looks=20) for _ in range(2))
    for _ in range(40):
        here.step(boxes)
        elsewhere.step(boxes, Elsewhere())
        elsewhere, _ = unpack(pack(elsewhere), lambda _: instance)
        assert state_of(elsewhere) == state_of(here)
    assert here.programs > 40 or boxes == 1 or here.done


@pytest.mark.slow
@pytest.mark.parametrize("boxes", [2, 7])
def test_rounds_of_several_boxes_prove_the_same_value(boxes):
    for seed in range(6):
        votes, y = pool(9, 60, seed, skill=0.6)
        instance = Instance.of(VoteTable.of(votes, y), Weights())
        one, several = (BranchAndBound(instance, looks=3) for _ in range(2))
        while not one.done:
            one.step()
        while not several.done:
            several.step(boxes)
            assert several.bound >= one.incumbent.value
        assert several.incumbent.value == one.incumbent.value == several.bound


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"x" * 99])
def test_bytes_that_are_no_solve_are_refused(damage):
    votes, y = pool(8, 60, 5)
    instance = Instance.of(VoteTable.of(votes, y), Weights())
    solver = BranchAndBound(instance, looks=5)
    solver.step()
    with pytest.raises(ValueError, match="not a solve"):
        unpack(damage(pack(solver)), lambda _: instance)


def test_a_killed_solve_goes_on_from_what_was_proven(monkeypatch):
    monkeypatch.setattr(ip, "_REPORT_EVERY", 0.0)
    monkeypatch.setattr(ip, "_SAVE_EVERY", 0.0)
    votes, y = pool(16, 150, 1, skill=0.6)
    P = np.where(votes, 0.9, 0.1)
    problem = PruningProblem(Library.from_arrays([str(i) for i in range(16)], P, y * 1, [0, 1]))
    asked = roles_of(problem, metrics=["accuracy"])

    def fresh():
        return IntegerProgram(problem, asked, seed=0, looks=20, iterations=3000)

    whole = fresh()
    X = whole.ask()
    sessions, checkpoints, proven = 0, Checkpoints(), []
    while True:
        search = fresh()
        sessions += 1
        if killed(search, checkpoints, 7):
            break
        if search._solver is not None:
            proven.append(search._solver.bound)
    assert sessions > 3
    assert (np.diff(proven) <= 0).all()
    assert np.array_equal(search.ask(), X)
    a, b = whole.outcome().findings, search.outcome().findings
    assert {**a, "seconds": 0} == {**b, "seconds": 0}
    courses = [found.outcome().tables["gap"] for found in (whole, search)]
    for name in courses[0].keys() - {"seconds"}:
        assert np.array_equal(courses[0][name], courses[1][name])


def test_a_damaged_note_is_work_done_anew():
    problem = pruning(8)
    search = IntegerProgram(problem, roles_of(problem, metrics=["accuracy"]), seed=0, looks=20)
    checkpoints = Checkpoints()
    checkpoints["solve"] = b"no solve"
    search.begin(Preparation(checkpoints=checkpoints))
    assert search.outcome().findings["status"] == "optimal"


@pytest.mark.slow
def test_cells_that_were_solved_are_not_solved_again():
    problem = pruning(7)
    asked = roles_of(problem, metrics=["accuracy", "memory"])

    def fresh():
        return ExactFront(problem, asked, seed=0, looks=20, cells=6)

    X = fresh().ask()
    checkpoints = Checkpoints()
    assert not killed(fresh(), checkpoints, 3)
    assert len(checkpoints) == 4
    before = dict(checkpoints)
    search = fresh()
    reports = []
    search.begin(Preparation(checkpoints=checkpoints, on_progress=reports.append))
    assert len(reports) == 2
    assert {key: checkpoints[key] for key in before} == before
    assert np.array_equal(search.ask(), X)


@pytest.mark.parametrize("content", [b"{", b'[{"at_most": 1}]', b"[]", b"null", b"7"])
def test_a_cell_with_a_damaged_checkpoint_is_solved_again(content):
    def solved(sign, taken):
        return [Solved(3.0, 1.0, np.array([1, 0], dtype=np.int8), 1, 0.5, sign * taken, True, 7)]

    work, words = Preparation(), {"read": from_json, "write": to_json}
    first = work.map("cells", solved, 1, [1.0, 2.0], **words)
    assert [solves[0].taken for solves in first] == [1.0, 2.0]
    work.checkpoints["cells 1"] = content
    again = work.map("cells", solved, -1, [1.0, 2.0], **words)
    assert [solves[0].taken for solves in again] == [1.0, -2.0]
    assert again[0][0].x.dtype == np.int8
