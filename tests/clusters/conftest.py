"""Environments and machines for the tests on clusters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests
from framework.parallel.config import ClusterConfig
from framework.security import CLUSTER_VARIABLE
from tests.clusters.machines import Machines, bare_python


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    """A folder with a short path, as Ray wants it."""
    with tempfile.TemporaryDirectory(prefix="plc", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def bare(room: Path) -> Path:
    """Return the Python of an environment that lacks paretolab."""
    return bare_python(room / "bare")


@pytest.fixture(scope="module")
def head(room: Path, bare: Path) -> Iterator[Machines]:
    """A head that takes no work."""
    with Machines(room, bare) as made:
        yield made


@pytest.fixture
def machines(head: Machines) -> Iterator[Machines]:
    """The head; nodes are for the test to add."""
    yield head
    head.clear()


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> ClusterConfig:
    """Return the section that takes the tests' problems along."""
    monkeypatch.setenv(CLUSTER_VARIABLE, "1")
    return ClusterConfig(py_modules=[str(Path(tests.__file__).parent)])
