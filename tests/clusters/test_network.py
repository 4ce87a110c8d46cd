"""A node behind a network of its own, which can be cut without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import numpy as np
import pytest

from framework.batch import Evaluated
from tests.clusters.test_elastic import SECONDS, collect_until, evaluator_on, rest
from tests.parallel.asking import assert_same, expected, genomes
from tests.ray_toys import Sphere

pytestmark = pytest.mark.slow


def ip(*arguments: str, check: bool = True) -> bool:
    """Call ``ip``; tell whether it worked."""
    return not subprocess.run(["ip", *arguments], capture_output=True, check=check).returncode


@pytest.fixture
def network() -> Iterator[tuple[str, str, str, str]]:
    """Make a namespace with a cable to this machine; return its name, cable and both addresses."""
    number = os.getpid() % 200 + 20
    name, here, there = f"plt{number}", f"plh{number}", f"pln{number}"
    if shutil.which("ip") is None or not ip("netns", "add", name, check=False):
        pytest.skip("this machine allows no network namespaces")
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"10.213.{number}.1/24", "dev", here)
        ip("link", "set", here, "up")
        inside = ("netns", "exec", name, "ip")
        ip(*inside, "addr", "add", f"10.213.{number}.2/24", "dev", there)
        ip(*inside, "link", "set", there, "up")
        ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "route", "add", "default", "via", f"10.213.{number}.1")
        yield name, here, f"10.213.{number}.1", f"10.213.{number}.2"
    finally:
        ip("netns", "del", name, check=False)
        ip("link", "del", here, check=False)


def test_a_node_that_is_cut_off(machines, shipped, network, caplog):
    """It is named soon, and its work is done by others."""
    name, cable, here, there = network
    machines.join(
        2,
        prefix=("ip", "netns", "exec", name),
        address=f"{here}:{machines.port}",
        options=(f"--node-ip-address={there}",),
    )
    n, X = 300, genomes(300)
    with evaluator_on(machines, Sphere(seconds=SECONDS), 3, shipped) as evaluator:
        evaluator.submit(np.arange(n), X)
        pieces: list[Evaluated] = []
        collect_until(evaluator, pieces, 2)
        machines.join(1)
        collect_until(evaluator, pieces, 3)
        ip("link", "set", cable, "down")
        cut = time.time()
        batch = rest(evaluator, pieces, n)
        print(f"after a node was cut off: {dict(evaluator.incidents())}")
    named = [record for record in caplog.records if f"({there}) has not answered" in record.message]
    assert len(named) == 1
    assert named[0].created - cut < 30.0  # ten on a machine that has nothing else to do
    assert_same(batch, expected(Sphere(), X))
