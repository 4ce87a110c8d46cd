"""The files of ``scripts/cluster``: as far as they can be checked without a cloud."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml

from framework.experiment.config import RunConfig, check
from tests.clusters.machines import Machines
from tests.command import environment, run_program, write
from tests.parallel.test_cluster import PARALLEL, closed, free_port

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "cluster"
BIN = Path(sys.executable).parent

SRUN = """#!/bin/bash
# Does here what SLURM would do on the nodes of a list, once for each.
while [[ $1 == --* ]]; do
    [[ $1 == --nodelist=* ]] && list=${1#--nodelist=}
    shift
done
IFS=, read -ra nodes <<< "$list"
for node in "${nodes[@]}"; do "$@" & done
trap 'kill $(jobs -p)' TERM
wait
"""


@pytest.mark.parametrize("name", ["slurm.sh", "job.sh"])
def test_shell_can_read_it(name: str) -> None:
    subprocess.run(["bash", "-n", SCRIPTS / name], check=True)


def test_ray_up_takes_its_file() -> None:
    schema = json.loads((Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    config = yaml.safe_load((SCRIPTS / "ray-up.yaml").read_text())
    jsonschema.validate(config, schema)
    assert config["available_node_types"][config["head_node_type"]]["resources"]["CPU"] == 0


def test_the_manifest_has_a_configuration_that_runs(tmp_path: Path) -> None:
    _, configs, job = yaml.safe_load_all((SCRIPTS / "kuberay.yaml").read_text())
    (name,) = configs["data"]
    assert f"/configs/{name}" in job["spec"]["entrypoint"]
    check(RunConfig, yaml.safe_load(configs["data"][name]), tmp_path / name)
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == ray.__version__


@pytest.mark.slow
def test_the_slurm_script_with_a_stand_in_for_srun(room: Path, tmp_path: Path) -> None:
    """Two nodes, which are this machine; run, then queued again."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "srun").write_text(SRUN)
    (tools / "scontrol").write_text("#!/bin/bash\nprintf '%s\\n' 127.0.0.1 127.0.0.2\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    config = write(tmp_path / "toy.yaml", PARALLEL)
    env = environment(
        PATH=os.pathsep.join([str(tools), str(BIN), os.environ["PATH"]]),
        SLURM_JOB_ID=str(os.getpid()),
        SLURM_JOB_NODELIST="node[1-2]",
        SLURM_CPUS_PER_TASK="1",
        PARETOLAB_OUT=str(tmp_path / "out"),
        TMPDIR=str(room),
    )
    for more in ([], ["--set", "budget.generations=4"]):
        done = run_program(
            ["bash", SCRIPTS / "slurm.sh", config, *more], env=env, cwd=tmp_path, timeout=400
        )
        assert done.returncode == 0, done.stderr
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert summary["evaluated_by"].startswith("Ray at 127.0.0.1:")
    assert summary["evaluations"] == 100
    assert not list(room.glob("ray.*"))


@pytest.mark.slow
def test_a_ray_job(room: Path, tmp_path: Path) -> None:
    """Submitted to the dashboard of a real head."""
    if importlib.util.find_spec("aiohttp_cors") is None:
        pytest.skip("ray[default] is not installed")
    write(tmp_path / "toy.yaml", PARALLEL)
    port = free_port()
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    with Machines(room, Path(sys.executable), dashboard=port, env={"PATH": path}) as machines:
        machines.join(2)
        while closed(port):
            assert machines.alive()
        deadline, command = time.monotonic() + 120, ["bash", SCRIPTS / "job.sh"]
        command += [f"http://127.0.0.1:{port}", tmp_path / "toy.yaml", tmp_path / "far"]
        while True:
            done = run_program(command, env=environment(PATH=path), timeout=400)
            if "No available agent" not in done.stderr or time.monotonic() > deadline:
                break
            time.sleep(2)  # the head's agent takes some seconds more than its dashboard
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout
    summary = json.loads((tmp_path / "far" / "summary.json").read_text())
    assert summary["evaluated_by"].startswith("Ray at ")
