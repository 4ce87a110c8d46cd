"""The loop: budgets, partial batches, looking ahead, failures, interrupts."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest

from algorithms.general.baselines import RandomSearch
from framework.batch import Evaluated
from framework.compiling import COMPILING
from framework.errors import ContractError, JournalError
from framework.front import Front
from framework.journal import Journal
from framework.problems.functions import FunctionProblem
from framework.problems.python_function import PythonFunction
from framework.run.driver import Callback, Driver
from framework.run.driver import search as run
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from framework.testing.tools import (
    BrokenProblem,
    CountingProblem,
    FailingProblem,
    ShuffledEvaluator,
    same_front,
)
from tests.conftest import roles_of

PROBLEM = FunctionProblem("zdt1", 4)
ROLES = roles_of(PROBLEM)


class Recorder(Callback):
    def __init__(self):
        self.started = 0
        self.seen = []
        self.end = None

    def on_start(self):
        self.started += 1

    def on_batch(self, progress):
        self.seen.append(progress)

    def on_end(self, progress):
        self.end = progress


class Finite(RandomSearch):
    """Random search that is done after three batches."""

    def learn(self, batch):
        self.done = batch.ids[-1] >= 29
        self.reason = "covered" if self.done else ""


def random_search(batch=10, cls=RandomSearch):
    return cls(PROBLEM, ROLES, seed=0, batch=batch)


def open_journal(path):
    return Journal(path, {}, metrics=PROBLEM.metric_names, d=4, dtype=PROBLEM.space.dtype)


def search(budget, path=None, problem=PROBLEM, evaluator=None, cls=RandomSearch, batch=10):
    """Run; return the front and what an callback saw."""
    recorder = Recorder()
    asked = PROBLEM, random_search(batch, cls), evaluator or SerialEvaluator(problem)
    go = partial(run, *asked, budget=budget, callbacks=[recorder])
    if path is None:
        return go(), recorder
    with open_journal(path) as journal:
        return go(journal=journal), recorder


# --- budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluations", [1, 10, 25, 40])
def test_evaluations_are_met_exactly(evaluations):
    _, recorder = search(Budget(evaluations=evaluations))
    assert recorder.end.evaluations == evaluations
    assert recorder.end.stopped == "evaluations"


def test_the_first_budget_to_be_spent_ends_the_run():
    _, recorder = search(Budget(evaluations=25, generations=1))
    assert (recorder.end.evaluations, recorder.end.stopped) == (20, "generations")


def test_seconds_count_all_sessions(tmp_path):
    path = tmp_path / "journal.bin"
    _, recorder = search(Budget(seconds=0.2), path)
    assert recorder.end.stopped == "seconds"
    assert 0.2 <= recorder.end.seconds < 2
    told = recorder.end.evaluations
    _, again = search(Budget(seconds=0.2), path)
    assert again.end.evaluations <= told + 4 * 10  # what it may look ahead by
    assert all(p.replayed for p in again.seen[: told // 10])


def test_compiling_does_not_count_as_searching(monkeypatch):
    COMPILING.begin()
    assert COMPILING.clock() == COMPILING.clock()
    COMPILING.end()
    monkeypatch.setattr(COMPILING, "clock", lambda: 7.0)  # all of it is compiling
    _, recorder = search(Budget(seconds=1e-9, evaluations=20))
    assert (recorder.end.stopped, recorder.end.seconds) == ("evaluations", 0.0)


class SlowProblem(CountingProblem):
    """Takes so long for each row."""

    def evaluate(self, X, streams):
        time.sleep(0.003 * len(X))
        return super().evaluate(X, streams)


@pytest.mark.quick(2)
@pytest.mark.parametrize("make", [SerialEvaluator, partial(ShuffledEvaluator, order=3)])
@pytest.mark.parametrize("cls", ["Stepwise", "Piecewise", "RandomSearch"])
def test_the_time_bounds_the_first_generation_too(tmp_path, cls, make):
    path, cls = tmp_path / "journal.bin", globals()[cls]
    problem = SlowProblem(PROBLEM)
    front, recorder = search(Budget(seconds=0.3), path, problem, make(problem, 0), cls, batch=300)
    if make is SerialEvaluator:  # the other one returns pieces of any size
        assert recorder.end.evaluations < 300
    assert recorder.end.stopped == "seconds"
    assert recorder.end.evaluations >= 1
    with Journal(path) as journal:  # which says where the batch was cut
        assert journal.n_rows == recorder.end.evaluations
        same_front(front, Front.from_journal(journal, ROLES, PROBLEM.gene_names), "journal")
    counted = sum(problem.evaluated.values())
    again, watched = search(Budget(seconds=0.3), path, problem, make(problem, 0), cls, batch=300)
    same_front(front, again, "resumed with as much time")
    assert (watched.end.evaluations, watched.end.stopped) == (recorder.end.evaluations, "seconds")
    assert sum(problem.evaluated.values()) == counted
    whole, _ = search(Budget(evaluations=600), None, PROBLEM, None, cls, batch=300)
    longer, _ = search(Budget(evaluations=600), path, PROBLEM, make(PROBLEM, 0), cls, batch=300)
    same_front(whole, longer, "resumed with more time")


def test_one_row_is_evaluated_however_short_the_time_is():
    front, recorder = search(Budget(seconds=1e-9), problem=SlowProblem(PROBLEM), batch=64)
    assert 1 <= recorder.end.evaluations < 64
    assert len(front) >= 1


def test_patience_counts_batches_without_a_change(tmp_path):
    path = tmp_path / "journal.bin"
    front, recorder = search(Budget(patience=5), path, batch=50)
    assert recorder.end.stopped == "patience"
    sizes = [(p.front_size, p.hypervolume) for p in recorder.seen]
    assert len(set(sizes[-6:])) == 1
    assert recorder.end.share is None
    again, replay = search(Budget(patience=5), path, batch=50)
    assert len(replay.seen) == len(recorder.seen)
    same_front(front, again, "replayed under patience")


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_gate_ends_a_run_at_the_same_row(tmp_path, order):
    """It sees what was told, also where more is known, and after a resume."""
    seen = []

    def gate(evaluations, front):
        seen.append((evaluations, len(front())))
        return "enough" if evaluations >= 25 else ""

    expected, _ = search(Budget(evaluations=30))
    path = tmp_path / "journal.bin"
    for _ in range(2):
        with open_journal(path) as journal:
            recorder, evaluator = Recorder(), ShuffledEvaluator(PROBLEM, 0, order)
            how = {"budget": Budget(evaluations=80), "journal": journal, "callbacks": [recorder]}
            found = run(PROBLEM, random_search(), evaluator, stopping_criterion=gate, **how)
        assert (recorder.end.evaluations, recorder.end.stopped) == (30, "enough")
        same_front(found, expected, "gate")
        assert [rows for rows, _ in seen] == [10, 20, 30]
        assert seen.pop()[1] == len(expected)
        seen.clear()


def test_the_algorithm_may_be_done_first():
    _, recorder = search(Budget(generations=100), cls=Finite)
    assert recorder.end.stopped == "covered"
    assert recorder.end.evaluations < 100


# --- failures ---------------------------------------------------------------------------------


def test_too_many_failures_stop_a_run_once_enough_rows_are_in():
    front, recorder = search(Budget(generations=100), problem=BrokenProblem(PROBLEM))
    assert recorder.end.stopped == "failures"
    assert 50 <= recorder.end.evaluations <= 50 + 4 * 10
    assert recorder.end.failed == recorder.end.evaluations
    assert len(front) == 0


def test_failures_within_the_budget_do_not(tmp_path):
    genomes = random_search().ask()
    failing = FailingProblem(PROBLEM, [genomes[0].tobytes()], [genomes[1].tobytes()])
    front, recorder = search(Budget(generations=9, max_failed_share=0.05), problem=failing)
    assert recorder.end.stopped == "generations"
    assert recorder.end.failed == 2
    assert not {0, 1} & set(front.ids.tolist())
    _, strict = search(Budget(generations=9, max_failed_share=0.0), problem=failing)
    assert strict.end.stopped == "failures"


# --- resuming ---------------------------------------------------------------------------------


def test_a_partial_batch_is_completed_when_the_budget_grows(tmp_path):
    path = tmp_path / "journal.bin"
    counting = CountingProblem(PROBLEM)
    whole, _ = search(Budget(generations=5))
    for evaluations in (3, 7, 10, 34, 60):
        front, recorder = search(Budget(evaluations=evaluations), path, counting)
        assert recorder.end.evaluations == evaluations
    same_front(whole, front, "grown bit by bit")
    assert sorted(counting.evaluated.elements()) == list(range(60))
    _, recorder = search(Budget(evaluations=20), path, counting)
    assert recorder.end.evaluations == 20
    assert sum(counting.evaluated.values()) == 60


def test_ctrl_c_keeps_what_was_told(tmp_path):
    path = tmp_path / "journal.bin"

    class Interrupted(SerialEvaluator):
        left = 3

        def collect(self, timeout=None):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().collect(timeout)

    with pytest.raises(KeyboardInterrupt):
        search(Budget(generations=5), path, evaluator=Interrupted(PROBLEM))
    with Journal(path) as journal:
        assert journal.n_batches == 3
        so_far = Front.from_journal(journal, ROLES, PROBLEM.gene_names)
    same_front(search(Budget(generations=2))[0], so_far, "interrupted")
    front, recorder = search(Budget(generations=5), path)
    assert [p.replayed for p in recorder.seen] == 3 * [True] + 3 * [False]
    same_front(search(Budget(generations=5))[0], front, "resumed")


def test_a_journal_of_other_genomes_is_refused(tmp_path):
    path = tmp_path / "journal.bin"
    search(Budget(generations=1), path)

    class Mirrored(RandomSearch):
        def propose(self):
            return 1.0 - super().propose()

    with pytest.raises(JournalError, match="at row 0"):
        search(Budget(generations=2), path, cls=Mirrored)


def test_rows_that_a_search_would_pass_over_are_named(tmp_path):
    """A search that begins at another row than its journal ends there, and does not wait."""
    path = tmp_path / "journal.bin"
    search(Budget(generations=3), path)
    with open_journal(path) as journal:
        asked = PROBLEM, random_search(), SerialEvaluator(PROBLEM)
        driver = Driver(*asked, budget=Budget(generations=9), journal=journal)
        driver.n_proposed = 10
        with pytest.raises(JournalError, match="go on after row 0, found"):
            driver.run()


def test_values_that_nobody_computes_are_not_waited_for():
    asked = PROBLEM, random_search(), SerialEvaluator(PROBLEM)
    driver = Driver(*asked, budget=Budget(generations=2))
    driver.propose_pending()
    driver._submitted = 0  # as after a resume at a wrong row
    driver.evaluator._queue.clear()
    with pytest.raises(JournalError, match="resumed at a wrong row"):
        driver.learn_oldest()


# --- evaluators -------------------------------------------------------------------------------


def test_looks_ahead_as_far_as_the_algorithm_allows():
    class Counting(SerialEvaluator):
        most = 0

        def collect(self, timeout=None):
            self.most = max(self.most, len(self._queue))
            return super().collect(timeout)

    evaluator = Counting(PROBLEM)
    search(Budget(generations=9), evaluator=evaluator)
    assert evaluator.most == 4
    evaluator = Counting(PROBLEM)
    search(Budget(generations=1), evaluator=evaluator)
    assert evaluator.most == 2


def nan_of(piece):
    return piece.values | {"f1": np.full(len(piece), np.nan)}


WRONG = {
    "an unknown row": lambda p: Evaluated(p.ids + 1000, p.X, p.values),
    "a row twice": lambda p: Evaluated(np.where(p.ids == p.ids[1], p.ids[0], p.ids), p.X, p.values),
    "other genomes": lambda p: Evaluated(p.ids, p.X[::-1], p.values),
    "NaN without an error": lambda p: Evaluated(p.ids, p.X, nan_of(p)),
    "a missing metric": lambda p: Evaluated(p.ids, p.X, {"f1": p.values["f1"]}),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_answer_is_refused_before_it_is_written(tmp_path, how):
    class Wrong(SerialEvaluator):
        def collect(self, timeout=None):
            return [WRONG[how](piece) for piece in super().collect(timeout)]

    path = tmp_path / "journal.bin"
    with pytest.raises(ContractError, match="collect: expected"):
        search(Budget(generations=2), path, evaluator=Wrong(PROBLEM))
    with Journal(path) as journal:
        assert journal.n_batches == 0


class Stepwise(RandomSearch):
    """Waits for each batch."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.max_pending = 1


class Piecewise(Stepwise):
    """Counts every ten rows as a generation."""

    evaluations_per_generation = 10


class Submitted(SerialEvaluator):
    """Scores nothing at once."""

    def score(self, ids, X):
        return None


class AtOnce(SerialEvaluator):
    """Counts what it scores at once."""

    count = 0

    def score(self, ids, X):
        rows = super().score(ids, X)
        self.count += rows is not None
        return rows


@pytest.mark.parametrize("generations", [0, 1, 7])
@pytest.mark.parametrize(
    ("cls", "batch"), [(RandomSearch, 10), *((Piecewise, batch) for batch in (1, 3, 10))]
)
def test_generations_count_those_after_the_first(generations, cls, batch):
    """The first generation is number 0, and the last one is met exactly, amid a piece too."""
    _, recorder = search(Budget(generations=generations), cls=cls, batch=batch)
    if batch == 10:
        assert [p.generation for p in recorder.seen] == list(range(generations + 1))
    assert recorder.end.evaluations == 10 * (generations + 1)
    assert recorder.end.generation == generations
    assert recorder.end.stopped == "generations"
    assert recorder.end.share == 1.0


@pytest.mark.parametrize(("cls", "batch"), [(Stepwise, 10), (Stepwise, 1), (Piecewise, 3)])
@pytest.mark.parametrize(
    "budget",
    [
        Budget(evaluations=295),
        Budget(generations=20),
        Budget(evaluations=3000, patience=5),
        Budget(evaluations=900, max_failed_share=0.01),
    ],
)
def test_rows_scored_at_once_are_those_that_were_waited_for(tmp_path, cls, batch, budget):
    genomes = random_search(200).ask()[::15]
    problem = FailingProblem(PROBLEM, [x.tobytes() for x in genomes], [])
    found = []
    for kind in (AtOnce, Submitted):
        path, evaluator = tmp_path / f"{kind.__name__}.sqlite", kind(problem)
        front, recorder = search(budget, path, problem, evaluator, cls, batch)
        with Journal(path) as journal:
            rows = Evaluated.concat(list(journal.evaluations()))
        found.append((front, rows, recorder.end.stopped, recorder.end.failed))
        if kind is AtOnce:
            assert evaluator.count > 3
    (front, rows, *end), (other, others, *ended) = found
    assert end == ended
    assert rows.ids.tolist() == others.ids.tolist()
    assert np.array_equal(rows.X, others.X)
    assert rows.errors
    assert rows.errors == others.errors
    assert budget.max_failed_share > 0.01 or end == ["failures", len(rows.errors)]
    same_front(front, other, "at once and waited for")


@pytest.mark.parametrize("cls", [Stepwise, Piecewise])
def test_a_wrong_answer_at_once_is_refused_before_it_is_written(tmp_path, cls):
    class Wrong(SerialEvaluator):
        def score(self, ids, X):
            rows = super().score(ids, X)
            return rows and WRONG["other genomes"](rows)

    path = tmp_path / "journal.bin"
    with pytest.raises(ContractError, match="score: expected the genomes"):
        search(Budget(generations=9), path, evaluator=Wrong(PROBLEM), cls=cls)
    with Journal(path) as journal:
        assert journal.n_rows == 10  # the first batch, which had to be waited for


def test_an_algorithm_that_waits_for_nothing_is_named():
    class Silent(RandomSearch):
        def propose(self):
            return None

    with pytest.raises(ContractError, match="nothing in flight"):
        search(Budget(generations=2), cls=Silent)


# --- callbacks --------------------------------------------------------------------------------


def test_callbacks_see_every_batch():
    front, recorder = search(Budget(generations=4))
    assert recorder.started == 1
    assert [p.evaluations for p in recorder.seen] == [10, 20, 30, 40, 50]
    assert [p.share for p in recorder.seen] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert recorder.end.front_size == len(front)
    assert recorder.end.hypervolume == pytest.approx(front.hypervolume())
    volumes = [p.hypervolume for p in recorder.seen]
    assert volumes == sorted(volumes)


def test_fronts_that_are_dear_to_measure_are_measured_now_and_then(monkeypatch):
    """An estimate for six objectives takes 20 ms, a batch 1 ms: 200 batches would take 4 s."""
    measured = []

    def volume(losses, roles):
        measured.append(len(losses))
        return 0.5

    monkeypatch.setattr("framework.front.volume", volume)
    monkeypatch.setattr("framework.run.driver._MEASURING_SHARE", -1.0)  # of no time at all

    def several(x):
        return [x, 1 - x, x * x, abs(x - 0.5), x**3, -x]

    problem = PythonFunction(several, {"x": (0.0, 1.0)}, ["a", "b", "c", "d", "e", "f"])
    algorithm, recorder = RandomSearch(problem, roles_of(problem), seed=0, batch=4), Recorder()
    evaluator = SerialEvaluator(problem)
    front = run(problem, algorithm, evaluator, budget=Budget(evaluations=40), callbacks=[recorder])
    assert len(measured) == 1
    assert len(recorder.seen) == 10
    assert recorder.end.front_size == measured[0] == len(front)


# --- shared parts -----------------------------------------------------------------------------


def test_callbacks_are_told_of_the_parts_that_a_batch_waits_for():
    class Slow(SerialEvaluator):
        """Says that it builds, three times, before it answers."""

        def __init__(self, problem):
            super().__init__(problem)
            self.calls = 0

        def collect(self, timeout=None):
            self.calls += 1
            return super().collect(timeout) if self.calls > 3 else []

        def components(self):
            return self.calls, 4

    class Listener(Recorder):
        def __init__(self):
            super().__init__()
            self.work = []

        def on_preparation(self, work):
            self.work.append((work.what, work.done, work.total))

    listener = Listener()
    budget = Budget(generations=2)
    run(PROBLEM, random_search(), Slow(PROBLEM), budget=budget, callbacks=[listener])
    assert listener.work == [("gen 0 · parts", done, 4) for done in (1, 2, 3)]
    assert len(listener.seen) == 3
