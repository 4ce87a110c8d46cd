"""Configurations: what is right is read, and each mistake is one line that says what to do."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

from algorithms.general.baselines import RandomSearch
from framework.errors import InputError
from framework.experiment.config import changed, check, flatten, load_config
from framework.experiment.options import AlgorithmOptions, parameters

GOOD = {
    "name": "try",
    "problem": {"kind": "function", "name": "zdt1", "d": 5},
    "objectives": [{"metric": "f1", "sense": "min"}, {"metric": "f2", "sense": "min"}],
    "algorithm": {"kind": "random", "batch": 10},
    "budget": {"generations": 3},
}


@pytest.fixture
def write(tmp_path):
    """Write a configuration, changed by a function, and return its path."""

    def write(change=lambda raw: None, text=None):
        raw = copy.deepcopy(GOOD)
        change(raw)
        path = tmp_path / "try.yaml"
        path.write_text(yaml.safe_dump(raw) if text is None else text, encoding="utf-8")
        return path

    return write


def put(key, value):
    """Return a function that sets a dotted key of a configuration."""

    def change(raw):
        *path, last = key.split(".")
        for step in path:
            raw = raw[int(step)] if isinstance(raw, list) else raw[step]
        raw[last] = value

    return change


def drop(key):
    return lambda raw: raw.pop(key)


def complaint(path, *overrides):
    with pytest.raises(InputError) as error:
        load_config(path, overrides)
    return str(error.value).replace(f"{path}", "try.yaml")


# --- what is right ----------------------------------------------------------------------------


def test_defaults_are_filled_in(write):
    config = load_config(write())
    assert dict(config.problem) == {"kind": "function", "name": "zdt1", "d": 5, "noise": 0.0}
    assert dict(config.algorithm) == {"kind": "random", "batch": 10, "sampling": "uniform"}
    assert (config.seed, config.repeats, config.workers) == (0, 1, "auto")


@pytest.mark.parametrize("workers", ["auto", "serial", "all", 1, 64])
def test_workers(write, workers):
    assert load_config(write(put("workers", workers))).workers == workers


def test_overrides_are_yaml(write):
    plain = ["algorithm.batch=7", "objectives.1.sense=max", "tracking.uri=sqlite:///x"]
    config = load_config(write(), [*plain, "budget={seconds: 2}"], seed=4, repeats=None)
    assert config.algorithm.batch == 7
    assert config.objectives[1].sense == "max"
    assert config.tracking.uri == "sqlite:///x"
    assert (config.budget.seconds, config.budget.generations) == (2.0, None)
    assert (config.seed, config.repeats) == (4, 1)


def test_a_text_is_short_for_a_kind(write):
    short, long = write(put("algorithm", "random")), {"kind": "random"}
    assert load_config(short).algorithm == check(AlgorithmOptions, long, "algorithm")
    assert load_config(short, ["algorithm.batch=7"]).algorithm.batch == 7
    words = ["measure=holdout", "classifier=random_forest", "classifier.n_estimators=7"]
    problem = load_config("configs/quickstart.yaml", [f"problem.{word}" for word in words]).problem
    assert (problem.measure.kind, problem.classifier.parameters["n_estimators"]) == ("holdout", 7)


def test_options_are_those_of_the_class_and_travel_to_workers(write):
    config = load_config(write())
    assert config.algorithm.registered_class is RandomSearch
    assert config.algorithm.as_arguments() == {"batch": 10, "sampling": "uniform"}
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert type(again.algorithm) is type(config.algorithm)


def test_other_values_are_checked(write):
    config = changed(load_config(write()), {"algorithm.kind": "emsco", "seed": 3}, Path("x"))
    assert (config.algorithm.kind, config.algorithm.population, config.seed) == ("emsco", 300, 3)
    with pytest.raises(InputError, match=r"^x: algorithm.batch: expected a whole number"):
        changed(config, {"algorithm.kind": "random", "algorithm.batch": "a"}, Path("x"))


def test_identity_leaves_out_what_changes_no_row(write):
    def identity(**top):
        return load_config(write(), **top).identity()

    assert identity() == identity(workers=3, repeats=2, name="other")
    assert identity() != identity(seed=1)
    assert identity()["algorithm.batch"] == 10
    assert identity()["objectives.0.metric"] == "f1"


def test_flatten_keeps_plain_lists_whole():
    assert flatten({"a": {"b": [1, 2]}, "c": [{"d": 1}]}) == {"a.b": [1, 2], "c.0.d": 1}


# --- one mistake, one line --------------------------------------------------------------------

WORKERS = "workers: expected 'auto', 'serial', 'all'"
MISTAKES = [
    # unknown keys
    (put("budgett", 1), "budgett: unknown key; expected one of name, ", "mean 'budget'?"),
    (put("int", 1), "int: unknown key; expected one of name, ", "found 'int'"),
    (put("tracking", {"[/bold]": 1}), "tracking.[/bold]: unknown key;", "found '[/bold]'"),
    (put("budget.generation", 1), "budget.generation: unknown key;", "mean 'generations'?"),
    (
        put("algorithm.bach", 1),
        "algorithm.bach: unknown key; expected one of batch, sampling;",
        "'batch'?",
    ),
    (put("problem.nois", 1), "problem.nois: unknown key;", "mean 'noise'?"),
    (put("objectives.0.sens", 1), "objectives.0.sens: unknown key;", "mean 'sense'?"),
    (put("algorithm.kind", "randon"), "algorithm.kind: expected one of ", "mean 'random'?"),
    # missing
    (drop("budget"), "budget: expected a value, found nothing", ""),
    (drop("algorithm"), "algorithm: expected one of ", "; add a line such as `algorithm: KIND`"),
    (put("objectives", [{"sense": "min"}]), "objectives.0.metric: expected a value, found no", ""),
    (put("algorithm", {}), "algorithm.kind: expected one of ", "found nothing"),
    (put("budget", {}), "budget: expected one of generations, evaluations,", "found none"),
    (put("budget", None), "budget: expected a section (keys and values), found nothing", ""),
    (put("objectives", []), "objectives: expected at least 1 of them, found []", ""),
    (put("constraints", [{"metric": "f1"}]), "constraints.0: expected at_most or at_least", ""),
    # wrong type
    (put("algorithm.batch", "many"), "algorithm.batch: expected a whole number, found 'many'", ""),
    (put("budget.evaluations", 1e308), "budget.evaluations: expected a whole number, found", ""),
    (put("algorithm.batch", 2.5), "algorithm.batch: expected a whole number, found 2.5", ""),
    (put("algorithm.batch", None), "algorithm.batch: expected a whole number, found nothing", ""),
    (put("algorithm.batch", True), "algorithm.batch: expected another value than true", "True"),
    (put("algorithm", 5), "algorithm: expected a section (keys and values), found 5", ""),
    (put("algorithm", "randon"), "algorithm.kind: expected one of ", "mean 'random'?"),
    (put("algorithm", {"kind": [1]}), "algorithm.kind: expected one of ", "found '[1]'"),
    (put("objectives", {}), "objectives: expected a list, found {}", ""),
    (put("name", 3), "name: expected a text, found 3", ""),
    (put("problem.noise", float("inf")), "problem.noise: expected a finite number", "found inf"),
    # out of range
    (put("algorithm.batch", 0), "algorithm.batch: expected a number of at least 1, found 0", ""),
    (put("seed", -1), "seed: expected a number of at least 0, found -1", ""),
    (
        put("budget.max_failed_share", 2),
        "budget.max_failed_share: expected a number of at most 1, found 2",
        "",
    ),
    (
        put("objectives.0.sense", "mini"),
        "objectives.0.sense: expected 'min' or 'max', found 'm",
        "",
    ),
    (
        put("problem.name", "zdt9"),
        "problem.name: expected one of dtlz2, lotz, zdt1, zdt2, zed1, ",
        "found 'zdt9'; did you mean 'zdt2'?",
    ),
    (put("problem.d", 1), "problem: expected d of at least 2 for zdt1, found 1", ""),
    (put("name", "a b"), "name: expected letters, digits, ", "found 'a b'"),
    # unions
    (put("workers", 0), f"{WORKERS} or a number of at least 1, found 0", ""),
    (put("workers", "two"), f"{WORKERS} or a whole number, found 'two'", ""),
    (put("workers", None), f"{WORKERS} or a whole number, found nothing", ""),
    (put("tracking", 5), "tracking: expected a section (keys and values), found 5", ""),
]


@pytest.mark.parametrize(("change", "start", "end"), MISTAKES)
def test_a_mistake_is_one_line(write, change, start, end):
    message = complaint(write(change))
    assert "\n" not in message
    assert message.startswith(f"try.yaml: {start}")
    assert message.endswith(end)


def test_options_of_a_search_inherit():
    class Narrow(RandomSearch):
        def __init__(self, problem, roles, *, width: int = 3, batch: float = 0.5, **options: Any):
            super().__init__(problem, roles, **options)

    fields = parameters(Narrow).model_fields
    assert list(fields) == ["batch", "sampling", "width"]
    assert fields["batch"].default == 0.5
    assert fields["sampling"].default == "uniform"
    with pytest.raises(InputError, match=r"samplin: unknown key.*one of batch, sampling, width"):
        check(parameters(Narrow), {"samplin": "uniform"}, "algorithm")


def test_several_mistakes_are_all_named(write):
    def change(raw):
        raw["seedd"] = 1
        raw["budget"]["generations"] = -1
        raw["algorithm"]["bach"] = 1
        raw["problem"]["d"] = "x"
        del raw["objectives"]

    keys = [line.split(": ")[1] for line in complaint(write(change)).splitlines()]
    wrong = ["algorithm.bach", "budget.generations", "objectives", "problem.d", "seedd"]
    assert sorted(keys) == wrong


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("foo", "--set: expected KEY=VALUE, found 'foo'"),
        ("=3", "--set: expected KEY=VALUE, found '=3'"),
        ("seed=[", "--set seed: expected a YAML value, found '['"),
        ("objectives.5.sense=max", "--set objectives.5.sense: expected a key or a list position"),
        ("objectives.x.sense=max", "--set objectives.x.sense: expected a key or a list position"),
        ("objectives.7=1", "--set objectives.7: expected a key or a list position at '7'"),
        ("objectives.²=1", "--set objectives.²: expected a key or a list position at '²'"),
        ("name.y.z=3", "--set name.y.z: expected a key or a list position at 'y'"),
        ("name.y=3", "--set name.y: expected a section above 'y', found a plain value"),
        ("algorithm.bach=3", "try.yaml: algorithm.bach: unknown key"),
        ("budget.generations=ten", "try.yaml: budget.generations: expected a whole number"),
    ],
)
def test_a_bad_override_is_one_line(write, override, message):
    found = complaint(write(), override)
    assert "\n" not in found
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [1, 2", "try.yaml (line 1, column 12): expected YAML"),
        ("name: x\n\tseed: 1\n", "try.yaml (line 2, column 1): expected YAML"),
        ("name: x\nseed: 1\nname: y\n", "try.yaml (line 3, column 1): expected YAML, found: key"),
        ("", "try.yaml: expected keys and values, found nothing"),
        ("- 1", "try.yaml: expected keys and values, found [1]"),
        ("name: !!python/object:os.system {}", "try.yaml (line 1, column 7): expected YAML"),
    ],
)
def test_bad_yaml_is_one_line(write, text, message):
    found = complaint(write(text=text))
    assert "\n" not in found
    assert found.startswith(message)


def test_a_missing_file_is_said(tmp_path):
    assert "cannot read the configuration" in complaint(tmp_path / "none.yaml")
    assert "cannot read the configuration" in complaint(tmp_path)
    (tmp_path / "config.yaml").touch()
    assert "`resume` goes on with it" in complaint(tmp_path)
