"""Machine code of packages that travelled to a node is kept between sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from framework.jit import SHIPPED

_KERNEL = """
from framework.jit import njit

@njit
def twice(x):
    return x + x
"""
_ASK = """
import toyship.kernel as kernel
assert kernel.twice(21) == 42
hits = sum(kernel.twice.stats.cache_hits.values())
print("loaded" if hits else "compiled")
"""


@pytest.fixture
def ask(tmp_path: Path):
    """Return a function that calls a kernel in a session of its own, and says where it was from."""

    def asked(session: str, shipped: str, source: str = _KERNEL) -> str:
        package = tmp_path / session / "toyship"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "kernel.py").write_text(source)
        path = os.pathsep.join([str(package.parent), str(Path(__file__).parents[1])])
        env = {
            **os.environ,
            "PYTHONPATH": path,
            "PARETOLAB_CACHE": str(tmp_path / "cache"),
            SHIPPED: shipped,
        }
        command = [sys.executable, "-c", _ASK]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, check=True
        ).stdout.strip()

    return asked


def test_a_second_session_loads_what_the_first_compiled(ask, tmp_path):
    assert ask("first", "d1 toyship") == "compiled"
    assert ask("second", "d1 toyship") == "loaded"
    assert (tmp_path / "cache" / "kernels" / "d1" / "toyship.kernel").is_dir()
    assert ask("third", "d1 toyship", _KERNEL.replace("x + x", "2 * x")) == "compiled"


@pytest.mark.slow
@pytest.mark.parametrize("other", ["d2 toyship", "d1 other"])
def test_another_version_and_a_package_that_did_not_travel_are_compiled_anew(ask, other):
    assert ask("first", "d1 toyship") == "compiled"
    assert ask("second", other) == "compiled"
