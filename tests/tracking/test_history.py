import io

import numpy as np
import pandas as pd
import pytest

from framework.batch import Evaluated
from framework.front import Front
from framework.problems.functions import FunctionProblem
from framework.roles import Objective, Roles
from tests.tracking import made_up
from tracking.mlflow_log.history import History

GENES = tuple(f"x{i}" for i in range(made_up.GENES))


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    found = made_up.start(tmp_path_factory.mktemp("history") / "out")
    made_up.search(found, 0, 30)
    return found


@pytest.fixture(scope="module")
def history(run_dir):
    history = History(made_up.roles(), GENES)
    with run_dir.journal() as journal:
        history.generations = [history.add(batch, s) for batch, s in journal.batches()]
    return history


@pytest.mark.parametrize("generation", [0, 1, 7, 28, 29])
def test_front_of_a_generation_is_the_journals(run_dir, history, generation):
    text = history.frame().to_csv(index=False)
    frame = pd.read_csv(io.StringIO(text))
    with run_dir.journal() as journal:
        expected = Front.from_journal(journal, made_up.roles(), GENES, upto=generation + 1)
    pd.testing.assert_frame_equal(
        made_up.front_at(frame, generation), expected.frame(), check_dtype=False, check_exact=True
    )


def test_metrics_of_a_generation(run_dir, history):
    with run_dir.journal() as journal:
        front = Front.from_journal(journal, made_up.roles(), GENES, upto=11)
    found = history.generations[10]
    assert (found.number, found.seconds) == (10, 5.5)
    assert found.metrics == {
        "evaluations": 220.0,
        "rows_failed": 11.0,
        "front_size": float(len(front)),
        "hypervolume": pytest.approx(front.hypervolume()),
        "best_coverage": front.rows.values["coverage"].max(),
        "best_accuracy": front.rows.values["accuracy"].max(),
        "best_cost": front.rows.values["cost"].min(),
    }


def test_rows_that_all_failed_leave_an_empty_front():
    history = History(made_up.roles(), GENES)
    nothing = {m.name: np.array([np.nan]) for m in made_up.METRICS}
    X = np.zeros((1, made_up.GENES), dtype=np.int8)
    found = history.add(Evaluated(np.array([0]), X, nothing, {0: "no"}), 0.1)
    nothing = {"front_size": 0.0, "hypervolume": 0.0}
    assert found.metrics == {"evaluations": 1.0, "rows_failed": 1.0, **nothing}
    assert len(made_up.front_at(history.frame(), 0)) == 0


@pytest.mark.parametrize("rows", [1, 7, 50, 10**6])
def test_pieces_of_generations_in_any_order_end_in_the_same_front(run_dir, history, rows):
    with run_dir.journal() as journal:
        everything = Evaluated.concat(list(journal.evaluations()))
        expected = Front.from_journal(journal, made_up.roles(), GENES)
    pieces = History(made_up.roles(), GENES, rows)
    order = np.random.default_rng(rows).permutation(len(everything))
    found = [pieces.add(everything.take(np.sort(part)), 1.0) for part in np.array_split(order, 90)]
    found = [g for g in [*found, pieces.close()] if g is not None]
    assert [g.number for g in found] == list(range(len(found)))
    assert found[-1].batches == 90
    assert found[-1].metrics == pytest.approx(history.generations[-1].metrics)
    text = pieces.frame().to_csv(index=False)
    last = made_up.front_at(pd.read_csv(io.StringIO(text)), found[-1].number)
    pd.testing.assert_frame_equal(last, expected.frame(), check_dtype=False, check_exact=True)


def test_of_many_single_rows_only_some_are_looked_at():
    """Points that dominate none of each other: each enters the front."""
    n, problem = 3000, FunctionProblem("zdt1", 2)
    roles = Roles(problem.metrics, [Objective("f1", "min"), Objective("f2", "min")])
    f1 = np.random.default_rng(0).permutation(np.linspace(0.0, 1.0, n))
    X = np.zeros((n, 2))
    rows = Evaluated(np.arange(n), X, {"f1": f1, "f2": 1 - f1})
    history = History(roles, ("x0", "x1"))
    found = [history.add(rows.take(np.array([i])), float(i)) for i in range(n)]
    found = [*found, history.close()]
    assert all(found[:64])
    logged = [generation for generation in found if generation is not None]
    assert len(logged) < 400
    for generation in logged[::50]:
        assert generation.batches == generation.number + 1
        assert generation.metrics["front_size"] == generation.number + 1
        there = made_up.front_at(history.frame(), generation.number)
        assert there["id"].tolist() == list(range(generation.number + 1))
    assert logged[-1].number == n - 1
    assert logged[-1].metrics["hypervolume"] == pytest.approx(Front(rows, roles, ()).hypervolume())
