"""What a run says that it will need, before it starts."""

import mmap
from dataclasses import replace

import numpy as np
import pytest
import yaml

from algorithms.multistage.stage_classifiers import _subset, work
from framework.components import BuildCost
from framework.experiment import estimate as estimates
from framework.experiment.config import load_config
from framework.experiment.estimate import estimate
from framework.experiment.single_run import make_problem
from framework.machine import machine_memory, resident_memory
from tests.command import small, write
from tests.experiment.test_experiment import command
from tests.multistage.data import genomes, problem_of

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    "classifier",
    [{"kind": "logistic_regression"}, {"kind": "decision_tree", "max_depth": 3}],
    ids=lambda section: section["kind"],
)
def test_demand_grows_with_the_parts_and_builds_none(table_file, classifier, monkeypatch):
    problem = problem_of(table_file, classifier=classifier)
    keys = problem.missing_components(genomes(problem))
    monkeypatch.setattr("time.process_time", iter(np.arange(0.0, 100.0)).__next__)
    once, *more = (problem.build_cost(np.concatenate([keys] * times)) for times in (1, 2, 3))
    seconds = np.diff([once.seconds, *(one.seconds for one in more)])
    assert seconds[0] == pytest.approx(seconds[1])
    if classifier["kind"] == "logistic_regression":  # that on all columns, where others start
        assert once.seconds > 1.05 * seconds[0] > 0
    else:
        assert once.seconds == pytest.approx(seconds[0])
    assert once.bytes_stored == 8 * (1 + 2 * problem.data.words)  # a key, two bits a record
    assert problem.n_components == 0
    assert problem.build_cost(keys[:0]) == BuildCost(0.0, once.bytes_stored, once.bytes_building)


def test_a_rare_class_is_in_the_sample_that_is_timed(table_file):
    """To calibrate, a stage needs two records of each class, however few records are timed."""
    data = problem_of(table_file).data
    for step in (1, 7, len(data.y)):
        kept = np.bincount(_subset(data, [0], step).y, minlength=len(data.thresholds))
        assert (kept >= 2).all()
        assert kept.sum() <= len(data.y) / step + 3 * len(kept)


def test_work_grows_as_newtons_method_does(table_file):
    """Of few classes the sums over records count, of many the system that a step solves."""
    data = problem_of(table_file).data
    few = [work(data, "logistic_regression", 20, records) for records in (1e5, 1e6)]
    assert few[1] == pytest.approx(10 * few[0], rel=0.1)
    many = replace(data, thresholds=np.full(100, 0.5))
    assert work(many, "logistic_regression", 40, 5000) < 2 * work(
        many, "logistic_regression", 40, 500
    )
    assert work(many, "decision_tree", 40, 5000) == 10 * work(many, "decision_tree", 40, 500)


def test_the_first_generation_is_told_where_it_takes_long(tmp_path, monkeypatch):
    config = load_config(write(tmp_path / "small.yaml", small()))
    problem = make_problem(config)
    roles = config.roles(problem)

    def fresh():
        return config.algorithm.make(problem, roles, config.seed)

    first = fresh().ask()
    wanted = len(problem.missing_components(first))
    monkeypatch.setattr(
        type(problem), "build_cost", lambda self, keys: BuildCost(len(keys) * 5.0, 8, 0)
    )
    needs = estimate(problem, fresh(), 90)
    assert (needs.parts, needs.seconds, needs.more) == (wanted, 5.0 * wanted, 3 * 8 * wanted)
    assert needs.time("things").startswith(f"{wanted} things to build, about 0:0")
    assert not estimates.Estimate(10, 10, 5, 3.0).time("things")
    problem.add_components(problem.build_components(problem.missing_components(first)))
    assert problem.n_components == wanted
    needs = estimate(problem, fresh(), 90)  # of another repeat
    assert (needs.parts, needs.seconds, needs.more) == (0, 0.0, 0)


def test_exact_searches_are_not_asked_ahead(tmp_path):
    raw = small(algorithm={"kind": "exact"}, budget={"generations": 1})
    config = load_config(write(tmp_path / "exact.yaml", raw))
    problem = make_problem(config)
    needs = estimate(
        problem, config.algorithm.make(problem, config.roles(problem), config.seed), None
    )
    assert (needs.parts, problem.n_components) == (0, 0)


@pytest.mark.parametrize("word", ["run", "check"])
def test_a_table_that_does_not_fit_is_refused_before_it_is_read(tmp_path, word):
    made = {"samples": 10**7, "features": 50, "informative": 6}
    write(tmp_path / "large.yaml", small(problem__dataset={"synthetic": made}))
    found = command(tmp_path, word, "large.yaml", "--set", "memory_limit=8", code=2).err
    assert "expected a run that fits into the 8.0 GB that memory_limit allows, found" in found
    assert "about 20.0 GB needed to load the table" in found
    assert not list(tmp_path.glob("runs/*"))


def test_a_search_that_does_not_fit_is_refused(tmp_path):
    write(tmp_path / "small.yaml", small())
    found = command(tmp_path, "run", "small.yaml", "--set", "memory_limit=0.01", code=2).err
    assert "needed at its peak; take fewer" in found
    assert not list(tmp_path.glob("runs/*"))


def test_the_peak_of_this_process_is_what_it_had():
    before, _ = resident_memory()
    with mmap.mmap(-1, 50_000_000) as block:  # pages that no other test has left behind
        block.write(b"1" * len(block))
        assert resident_memory()[0] >= before + 45_000_000
    assert resident_memory()[1] >= before + 45_000_000


def test_the_machine_is_the_container(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr("framework.machine._MEMORY_LIMITS", (str(limit),))
    machine = machine_memory()
    limit.write_text("max\n")
    assert machine_memory() == machine
    limit.write_text("123456\n")
    assert machine_memory() == 123456


def test_the_limit_is_no_part_of_what_a_run_is(tmp_path):
    path = write(tmp_path / "small.yaml", small())
    assert load_config(path).identity() == load_config(path, ["memory_limit=3"]).identity()
    assert yaml.safe_load(path.read_text()).get("memory_limit") is None
