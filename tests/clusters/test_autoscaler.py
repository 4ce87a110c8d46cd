"""Workers that have no room are demand that a real autoscaler sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

from framework.batch import Evaluated
from tests.clusters.machines import Machines
from tests.clusters.test_elastic import collect_until, evaluator_on, rest
from tests.parallel.asking import assert_same, expected, genomes
from tests.ray_toys import Sphere

_EMPTY = ("setup_commands", "head_setup_commands", "worker_setup_commands", "rsync_filter")
_EMPTY += ("initialization_commands", "head_start_ray_commands", "worker_start_ray_commands")
_EMPTY += ("cluster_synced_files", "rsync_exclude")


def autoscaler(file: Path, address: str) -> tuple[str, ...]:
    """Write Ray's own test provider, which starts raylets here, as a configuration."""
    config = {
        "cluster_name": "made-up",
        "max_workers": 3,
        "idle_timeout_minutes": 1,
        "upscaling_speed": 20,
        "provider": {
            "type": "fake_multinode",
            "gcs_address": address,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
            "small": {
                "resources": {"CPU": 1, "object_store_memory": 80 << 20},
                "node_config": {},
                "min_workers": 0,
                "max_workers": 2,
            },
        },
        "head_node_type": "ray.head.default",
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        **{name: [] for name in _EMPTY},
    }
    file.write_text(yaml.safe_dump(config))
    return (f"--autoscaling-config={file}",)


@pytest.mark.slow
def test_an_autoscaler_sees_what_is_asked_for(room, bare, shipped):
    env = {
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
    }
    machines = Machines(room, bare, env=env)
    machines.options = autoscaler(room / "autoscaler.yaml", machines.address)
    X = genomes(60)
    with machines, evaluator_on(machines, Sphere(seconds=0.1), 2, shipped) as evaluator:
        assert not evaluator.pool.ready
        evaluator.submit(np.arange(60), X)
        pieces: list[Evaluated] = []
        print(f"two nodes came after {collect_until(evaluator, pieces, 2):.1f} s")
        batch = rest(evaluator, pieces, 60)
        assert len({slot.node for slot in evaluator.pool.ready}) == 2
    assert_same(batch, expected(Sphere(), X))
