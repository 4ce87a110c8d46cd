"""Configurations: what is odd, endless or larger than any machine ends in a sentence."""

import re
import time
from itertools import pairwise

import pytest
import yaml

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.config import load_config, override
from tests.command import POINT, refused

WHOLE = """
name: quick
problem:
  kind: multistage
  dataset: {{synthetic: {{samples: {samples}, features: {features}}}}}
  classifier: {classifier}
objectives: [{{metric: coverage, sense: max}}]
algorithm: {{kind: emsco, population: {population}}}
budget: {{generations: 2}}
repeats: {repeats}
tracking: null
"""


def written(tmp_path, **changes):
    usual = {
        "samples": 100,
        "features": 20,
        "classifier": "{kind: logistic_regression}",
        "population": 20,
        "repeats": 1,
    }
    path = tmp_path / "config.yaml"
    path.write_text(WHOLE.format(**{**usual, **changes}))
    return path


ODD = {
    "a date that is none": "name: 2001-99-99\n",
    "a number that is none": "name: !!int abc\n",
    "a float that is none": "name: !!float x\n",
    "binary that is none": "name: !!binary '%'\n",
    "a tag of Python's": "name: !!python/object/apply:os.system ['touch forged']\n",
    "a tag of nobody's": "name: !x y\n",
    "deep lists": "name: " + "[" * 5000 + "]" * 5000 + "\n",
    "lists deeper than anyone's": "name: " + "[" * 150 + "]" * 150 + "\n",
    "a key that is a list": "? [a, b]\n: c\n",
    "a list within itself": "name: &a [*a]\n",
    "a mapping within itself": "name: &a {x: *a}\n",
    "a billion laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{c}: &{c} [{','.join([f'*{b}'] * 9)}]\n" for b, c in pairwise("abcdefghi")),
    "merges of merges": "a: &a {k: 1, l: 2}\n"
    + "".join(f"{c}: &{c} {{<<: [{','.join([f'*{b}'] * 9)}]}}\n" for b, c in pairwise("abcdefghi")),
    "a merge of itself": f"name: &a {{<<: [{','.join(['*a'] * 4000)}], k: 1}}\n",
    "merges without end": "name: {" + "<<: {}, " * 3_000 + "}\n",
    "a number of sixties": "seed: 1" + ":59" * 90_000 + "\n",
    "a float of sixties": "seed: 1" + ":59" * 90_000 + ".5\n",
    "a path without end": "problem: {dataset: {path: " + "d/" * 490_000 + "}}\n",
    "a key without end": "? " + "k" * 900_000 + "\n: 1\n",
    "keys without end": "".join(f"k{i}: 1\n" for i in range(90_000)),
    "unknown keys": "".join(f"k{i}: 1\n" for i in range(4_000)),
    "no text": "\0\1\2",
    "an alias of nothing": "name: *a\n",
    "a merge of no mapping": "<<: 1\nname: x\n",
    "a long number": "name: x\nseed: " + "9" * 5000 + "\n",
    "a time that is none": "name: !!timestamp x\n",
    "a key twice": "name: {a: 1, a: 2}\n",
    "nothing": "",
    "a list": "[1, 2]\n",
}


LONG = ("keys without end", "merges without end")


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.slow if what in LONG else ()) for what in ODD]
)
def test_what_is_odd_ends_in_a_sentence(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yaml"
    path.write_text(ODD[what])
    before = time.process_time()
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert time.process_time() - before < 60  # it took minutes, or did not end
    assert str(caught.value).startswith(str(path))
    assert not (tmp_path / "forged").exists()


@pytest.mark.parametrize("value", ["2001-99-99", "!!int abc", "!!timestamp x", "9" * 2000])
def test_a_value_that_is_none_is_said_with_its_place(value, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"seed: 1\nname: {value}\n")
    with pytest.raises(InputError) as caught:
        load_config(path)
    said = r" \(line 2, column 7\): expected YAML, found: '.*', which is no (int|timestamp); put"
    assert re.search(said, str(caught.value))


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(InputError, match="expected YAML"):
        load_config(path)
    path.write_bytes(b"name: " + b"x" * 2_000_000)
    with pytest.raises(InputError, match="more than 1,000,000 bytes"):
        load_config(path)


PLAIN = ("binary that is none", "nothing", "a list", "unknown keys")  # but no configurations


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.slow) if what in LONG else what
        for what in ODD
        if what not in PLAIN
    ],
)
def test_odd_overrides(what):
    text = ODD[what].removeprefix("name: ")
    with pytest.raises(InputError, match=r"--set x: expected a YAML value, found .{,60}$"):
        override({}, [f"x={text}"])


def test_overrides_of_more_levels_than_anyones():
    with pytest.raises(InputError, match="expected a key of at most 100 levels, found more"):
        override({}, [".".join("a" * 30_000) + "=1"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"population": 10**9}, "algorithm.population: expected at most 1,000,000, found 1,000,0"),
        ({"repeats": 10**9}, "repeats: expected at most 10,000, found 1,000,000,000"),
        ({"samples": 10**9}, "samples: expected at most 10,000,000, found 1,000,000,000"),
        ({"samples": 10**7, "features": 10**4}, "expected at most 500,000,000 values"),
        ({"classifier": "{kind: random_forest, n_jobs: 9999}"}, "n_jobs: expected at most 1,024"),
        ({"classifier": "{kind: lightgbm, n_estimators: 1000000}"}, "tors: expected at most 100,0"),
        ({"classifier": "{kind: mlp, hidden_layer_sizes: [9, 1000000]}"}, "sizes.1: expected at m"),
        ({"features": "20, weights: [1e9, 1e9]"}, "weights.0: expected a number of at most 1"),
        ({"features": "20, weights: [0.7, 0.7]"}, "of together at most 1, found 1.4"),
        ({"classifier": "{kind: os.system}"}, "problem.classifier.kind: expected one of logistic_"),
        ({"classifier": "{kind: ../../x}"}, "found '../../x'"),
        ({"classifier": "{kind: random_forest, criterion: !!set {x}}"}, "criterion: expected a n"),
    ],
)
def test_check_refuses_and_says_what_is_allowed(changes, sentence, tmp_path, capsys):
    assert main(["check", str(written(tmp_path, **changes))]) == 2
    said = capsys.readouterr()
    assert sentence in said.err, said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("d", "key", "sentence"),
    [
        (10**9, "population", "problem.d: expected at most 1,000,000, found 1,000,000,000"),
        (10**5, "population", "algorithm.population: expected at most 5,000 for 100,000 genes"),
        (10**5, "batch", "algorithm.batch: expected at most 5,000 for 100,000 genes"),
    ],
)
def test_candidates_of_more_genes_than_fit_in_memory_are_refused(
    d, key, sentence, tmp_path, capsys
):
    raw = {**POINT, "problem": {**POINT["problem"], "d": d}, "budget": {"generations": 1}}
    kind = "random" if key == "batch" else "nsga2"
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**raw, "algorithm": {"kind": kind, key: 10**6}}))
    refused(capsys, sentence, "check", path)


@pytest.mark.parametrize(
    ("command", "key", "sentence"),
    [
        ("sweep", "sweep.trials", "sweep: trials: expected at most 100,000"),
        ("sweep", "algorithm.population", "algorithm.population: expected at most 1,000,000"),
        ("experiment", "experiment.repeats", "experiment: repeats: expected at most 10,000"),
        ("experiment", "experiment.methods.large.population", "population: expected at most 1,0"),
        ("library", "library.models", "library: models: expected at most 10,000"),
        ("library", "library.dataset.synthetic.samples", "samples: expected at most 10,000,000"),
    ],
)
def test_set_goes_through_the_same_limits(command, key, sentence, tmp_path, capsys):
    raw = yaml.safe_load(written(tmp_path).read_text())
    data = raw["problem"]["dataset"]
    if command == "library":
        raw = {"library": {"name": "little", "dataset": data}}
    elif command == "sweep":
        space = {"algorithm.mutation_rate": {"low": 0.1, "high": 0.2}}
        aim = {"metric": "hypervolume", "sense": "max"}
        raw[command] = {"search_space": space, "directions": [aim]}
    else:
        raw[command] = {"methods": {"usual": raw.pop("algorithm"), "large": {"kind": "emsco"}}}
        del raw["repeats"]
    path, place = tmp_path / "config.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(raw))
    words = ["library", "build"] if command == "library" else [command]
    refused(capsys, sentence, *words, path, "--set", f"{key}=1000000000", "--out", place)
    assert not place.exists()
