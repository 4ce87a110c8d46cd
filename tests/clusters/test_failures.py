"""A failure of a node is never a result: it is tried elsewhere, counted, and tried again later."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import ray

from framework.errors import ClusterError
from framework.parallel.cluster import cluster
from framework.parallel.config import ClusterConfig
from framework.parallel.ray_evaluator import RayEvaluator
from framework.parallel.worker import Worker
from tests.clusters.machines import Machines, bare_python, lacks
from tests.clusters.test_bare_nodes import COMPARED, SWEPT, fronts
from tests.clusters.test_elastic import evaluator_on, rest
from tests.command import call, until, write
from tests.parallel.asking import assert_same, expected, genomes
from tests.ray_toys import Needy, Orphan, Sphere

pytestmark = pytest.mark.slow

# a machine of its own disks: it does not see the driver's folder, and has little room
_HIDE = (
    'mount -t tmpfs -o size=%s tmpfs "$1" && mkdir "$1/tmp" && export TMPDIR="$1/tmp" && shift '
    '&& exec "$@"'
)


@pytest.fixture(scope="module")
def lame(room: Path) -> Path:
    """Return the Python of an environment that also lacks scikit-learn."""
    python = bare_python(room / "lame", without=("sklearn", "scikit_learn"))
    assert lacks(python, "sklearn")
    return python


@pytest.fixture
def full(tmp_path: Path) -> tuple[str, ...]:
    """Return what a command is started with to see a full disk in place of ``tmp_path``."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("no mount namespaces here")
    return hidden_by(tmp_path, "64k")


def hidden_by(folder: Path, room: str) -> tuple[str, ...]:
    """Return what starts a command that sees an empty disk with so much room as a folder."""
    return ("unshare", "-m", "sh", "-c", _HIDE % room, "sh", str(folder))


def assert_done_by_a_later_node(
    machines: Machines, shipped: ClusterConfig, workers: int, n: int
) -> None:
    """Check that a node which joins does the candidates on which the first one fails."""
    X = genomes(n)
    with evaluator_on(machines, Needy(seconds=0.05), workers, shipped) as evaluator:
        wait_for_nodes(2)
        machines.join(1)
        wait_for_nodes(3)
        evaluator.submit(np.arange(n), X)
        batch = rest(evaluator, [], n)
        assert evaluator.incidents()["environment_failures"] >= 1
    assert_same(batch, expected(Sphere(), X))


def test_a_node_that_lacks_a_library(machines, shipped, lame):
    machines.join(2, python=lame)
    assert_done_by_a_later_node(machines, shipped, 3, 80)


def test_where_every_node_lacks_it(machines: Machines, shipped: ClusterConfig, lame: Path) -> None:
    machines.join(2, python=lame)
    with evaluator_on(machines, Needy(), 2, shipped) as evaluator:
        evaluator.submit(np.arange(5), genomes(5))
        with pytest.raises(ClusterError, match=r"no node can do the work \(ModuleNotFoundError"):
            rest(evaluator, [], 5)


def test_a_problem_that_no_node_can_load(machines: Machines, shipped: ClusterConfig) -> None:
    machines.join(1)
    machines.join(1)
    with evaluator_on(machines, Orphan(), 2, shipped) as evaluator:
        evaluator.submit(np.arange(5), genomes(5))
        with pytest.raises(ClusterError, match="no such data on this machine"):
            rest(evaluator, [], 5)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a lost node"])
def test_an_environment_that_cannot_be_set_up(machines, shipped, beside):
    """Nobody waits for a node that seemed better and is gone."""
    config = shipped.model_copy(update={"pip": ["/nowhere/to/be-found-1.0-py3-none-any.whl"]})
    with cluster(1, machines.address, config):
        wait_for_nodes(1)
        if beside:
            lost = machines.join(1)
            wait_for_nodes(2)
            machines.lose(lost)  # which Ray does not notice at once
        evaluator = RayEvaluator(Sphere(), 7, workers=1, config=config)
        machines.join(1)
        evaluator.submit(np.arange(5), genomes(5))
        with pytest.raises(ClusterError, match="no Ray worker can be started"):
            rest(evaluator, [], 5)
        evaluator.close()


def test_a_worker_waits_for_room_on_a_node_that_has_not_failed(machines, shipped, lame):
    with cluster(1, machines.address, shipped):
        wait_for_nodes(1)
        machines.join(1, python=lame)
        machines.join(1, options=('--resources={"better": 1}',))
        wait_for_nodes(3)
        tenant = ray.remote(num_cpus=1, resources={"better": 1})(Worker).remote([ray.put(None)])
        ray.get(tenant.ready.remote())
        evaluator = RayEvaluator(Needy(), 7, workers=1, config=shipped)
        evaluator.submit(np.arange(5), genomes(5))
        while not evaluator.incidents():
            assert evaluator.collect(0.5) == []
        assert evaluator.collect(5.0) == []
        ray.kill(tenant)
        assert_same(rest(evaluator, [], 5), expected(Sphere(), genomes(5)))
        assert evaluator.incidents() == {"environment_failures": 1}
        evaluator.close()


def test_rows_at_a_full_disk(machines, shipped, full):
    machines.join(1, prefix=full)
    assert_done_by_a_later_node(machines, shipped, 2, 40)


@pytest.mark.parametrize(("command", "config"), [("sweep", SWEPT), ("experiment", COMPARED)])
def test_whole_runs_at_a_full_disk(machines, tmp_path, room, full, command, config):
    """Where that is all there is they say so, and `resume` does exactly those on a better node."""
    write(tmp_path / "config.yaml", config)
    # Python takes another folder for temporary files where it cannot write to the one that is named
    (stubborn := room / "stubborn").mkdir(exist_ok=True)
    (stubborn / "sitecustomize.py").write_text(
        "import os, tempfile; tempfile.tempdir = os.environ['TMPDIR']"
    )
    smaller = hidden_by(tmp_path, "16k")  # not even one journal fits
    node = machines.join(2, prefix=smaller, env={"PYTHONPATH": str(stubborn)})
    words = (command, "config.yaml", "--out", "far", "--workers", 2)
    done = machines.call(*words, cwd=tmp_path, code=3)
    assert "could not be run" in done.err
    assert "resume" in done.err
    assert "Traceback" not in done.err
    summary = json.loads((tmp_path / "far" / "summary.json").read_text())
    assert summary["status"] != "done"
    assert summary["incidents"]["environment_failures"] >= 3
    machines.lose(node)
    machines.join(2)
    machines.call("resume", "far", "--workers", 2, cwd=tmp_path, code=0)
    call(command, "config.yaml", "--out", "near", "--workers", "serial", cwd=tmp_path, code=0)
    assert fronts(tmp_path / "far") == fronts(tmp_path / "near")


def wait_for_nodes(n: int) -> None:
    """Wait until so many nodes are there, the head included."""
    # those lost before are noticed late
    until(lambda: sum(node["Alive"] for node in ray.nodes()) == n, 120)
