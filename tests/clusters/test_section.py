"""The section ``cluster``: what it takes, who vouches for it, and what travels."""

from __future__ import annotations

import os
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

import pytest

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.config import load_config
from framework.parallel import shipping
from framework.parallel.config import ClusterConfig, Resources
from framework.parallel.shipping import runtime_env, user_env
from framework.security import CLUSTER_VARIABLE
from tests.command import refused, write
from tests.parallel.test_cluster import PARALLEL


@pytest.fixture(autouse=True)
def nobody_vouches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTER_VARIABLE, "")


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"resources": {"num_cpu": 1}}, "did you mean 'num_cpus'"),
        ({"resources": {"num_cpus": 0}}, "found num_cpus 0 alone"),
        ({"resources": {"custom": {"licence": 0}}}, "expected amounts above 0"),
        ({"row_timeout": 0}, "expected a number above 0"),
        ({"pip": "xgboost"}, "cluster.pip: expected"),
        ({"runtime_env": {"pip": ["x"]}}, "expected pip beside runtime_env"),
        ({"address": "auto"}, "cluster.address: unknown key"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, section: dict, sentence: str) -> None:
    path = write(tmp_path / "toy.yaml", PARALLEL | {"cluster": section})
    with pytest.raises(InputError) as raised:
        load_config(path)
    assert str(raised.value).startswith(f"{path}: cluster")
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"py_modules": ["nowhere"]}, "cluster.py_modules.0: expected a folder"),
        ({"working_dir": "nowhere"}, "cluster.working_dir: expected a folder"),
        ({"env_vars": {"A": "${SURELY_UNSET}"}}, "cluster.env_vars.A: expected the variable"),
        ({"runtime_env": {"condo": "x"}}, "found 'condo'"),
        ({"pip": ["x"], "runtime_env": {"conda": "y"}}, "expected what Ray can set up"),
    ],
)
def test_check_says_what_cannot_travel(tmp_path, section, sentence, capsys):
    path = write(tmp_path / "toy.yaml", PARALLEL | {"cluster": section})
    refused(capsys, sentence, "check", path)


def test_paths_are_those_of_the_file_and_options_those_of_the_user(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "here").mkdir()
    path = write(tmp_path / "toy.yaml", PARALLEL | {"cluster": {"py_modules": ["mine"]}})
    assert load_config(path).cluster.py_modules == [str(tmp_path / "mine")]
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "other.py").touch()
    assert main(["check", str(path), "--py-module", "other.py", "--env-var", "A=1"]) == 0
    shown = capsys.readouterr().out
    assert "other.py; env_vars: A (with --trust-cluster)" in " ".join(shown.split())


def test_what_a_file_has_run_needs_a_word(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write(
        tmp_path / "toy.yaml", PARALLEL | {"cluster": {"env_vars": {"LD_PRELOAD": "x.so"}}}
    )
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--workers", "1"]) == 2
    assert "cluster.env_vars: expected a configuration that runs nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    config = load_config(path).cluster
    with pytest.raises(InputError, match="--trust-cluster"), runtime_env(config, packages=False):
        pass
    os.environ[CLUSTER_VARIABLE] = "1"
    with runtime_env(config, packages=False) as env:
        assert env == {"env_vars": {"LD_PRELOAD": "x.so"}}


def test_variables_are_taken_from_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_MINE", "secret")
    config = ClusterConfig(env_vars={"TOKEN": "x-${KEY_OF_MINE}"})
    assert "secret" not in str(config.model_dump())
    assert user_env(config) == {"env_vars": {"TOKEN": "x-secret"}}


def test_resources_in_the_words_of_ray() -> None:
    given = Resources(num_cpus=2, num_gpus=0.25, memory=10**9, custom={"licence": 1})
    options = {"num_cpus": 2, "num_gpus": 0.25, "memory": 10**9, "resources": {"licence": 1}}
    assert given.options() == options
    assert given.shape() == {"CPU": 2, "GPU": 0.25, "memory": 1e9, "licence": 1}


def test_our_packages_and_plugins_travel_with_their_entry_points(tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "pouch-0.3.dist-info").mkdir(parents=True)
    (site / "pouch-0.3.dist-info" / "METADATA").write_text("Name: pouch\nVersion: 0.3\n")
    (site / "pouch-0.3.dist-info" / "entry_points.txt").write_text(
        "[paretolab.problems]\nlonely = lonely:Problem\n"
        "[paretolab.models]\ndeep = pouch.deep:Model\n"
    )
    (site / "lonely.py").write_text("")
    (site / "pouch" / "__pycache__").mkdir(parents=True)
    (site / "pouch" / "__init__.py").write_text("")
    (site / "pouch" / "data.txt").write_text("")
    monkeypatch.syspath_prepend(str(site))
    plugin: Distribution = PathDistribution(site / "pouch-0.3.dist-info")
    monkeypatch.setattr(shipping, "distributions", lambda: [*distributions(), plugin])
    with runtime_env(ClusterConfig(), packages=True) as env:
        there = {Path(path).name: Path(path) for path in env["py_modules"]}
        assert {"framework", "algorithms", "tracking", "paretolab"} <= set(there)
        assert sorted(path.name for path in there["pouch"].iterdir()) == ["__init__.py", "data.txt"]
        assert there["lonely.py"].is_file()
        (own,) = [path for name, path in there.items() if name.startswith("paretolab-")]
        assert "emsco" in (own / "entry_points.txt").read_text()
        found = PathDistribution(there["pouch-0.3.dist-info"])
        assert {entry.name for entry in found.entry_points} == {"lonely", "deep"}
    assert not there["pouch"].exists()
