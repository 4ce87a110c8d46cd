"""Nodes of a Ray cluster as users have them: real raylets in an environment without paretolab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.command import call, environment, until
from tests.parallel.test_cluster import closed, free_port

_OURS = ("paretolab", "framework", "algorithms", "tracking", "__editable__")


def bare_python(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """Make an environment that has what this one has, but not paretolab; return its Python.

    Its packages are links, so that no ``.pth`` of an editable installation is followed.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    hidden = (*_OURS, *without)
    for place in sys.path:
        if Path(place).name not in ("site-packages", "dist-packages"):
            continue
        for entry in Path(place).iterdir():
            here = site / entry.name
            if not entry.name.startswith(hidden) and entry.suffix != ".pth" and not here.exists():
                here.symlink_to(entry)
    return folder / "bin" / "python"


def lacks(python: Path, module: str) -> bool:
    """Tell whether an environment has no such module."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is not None)"
    done = subprocess.run([python, "-P", "-c", code], cwd="/", env=_plain({}), check=False)
    return done.returncode == 0


class Machines:
    """A head that takes no work, and nodes that come and go.

    Parameters
    ----------
    room : Path
        A folder of a short name: Ray keeps sockets there.
    python : Path
        Of the nodes.
    dashboard : int, optional
        Port of the head's dashboard; none by default.
    env : dict, optional
        More variables of the head's environment.
    """

    def __init__(
        self,
        room: Path,
        python: Path,
        dashboard: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.room, self.python, self.dashboard, self._env = room, python, dashboard, env
        self.options: tuple[str, ...] = ()  # more of the head's
        self.port = free_port() if dashboard is None else free_port(dashboard + 1)
        self.address = f"127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Machines:
        options = ["--head", f"--port={self.port}", "--num-cpus=0", f"--temp-dir={self.room}"]
        shown = self.dashboard is not None
        options += [f"--include-dashboard={str(shown).lower()}"]
        if self.dashboard is not None:  # the agent's port is one for all heads of a machine, else
            options += [f"--dashboard-port={self.dashboard}"]
            options += [f"--dashboard-agent-listen-port={free_port(self.port + 1)}"]
        self._start([*options, *self.options], env=self._env)
        until(lambda: not closed(self.port), 90)
        return self

    def join(
        self,
        cpus: int = 1,
        *,
        python: Path | None = None,
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        address: str | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a node; return its process, the leader of a group with all that it starts."""
        arguments = [f"--address={address or self.address}", f"--num-cpus={cpus}"]
        before = self._raylets()
        process = self._start([*arguments, *options], python=python, env=env, prefix=prefix)
        # two that start at once take the same names of sockets
        until(lambda: self._raylets() > before, 90)
        return process

    def _raylets(self) -> int:
        """Return how many raylets there have been."""
        return len(list(self.room.glob("session_latest/sockets/raylet*")))

    def _start(
        self,
        arguments: list[str],
        python: Path | None = None,
        env: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> subprocess.Popen[bytes]:
        command = [*prefix, str(python or self.python), "-P", "-m", "ray.scripts.scripts", "start"]
        command += ["--block", f"--object-store-memory={100 << 20}", *arguments]
        with (self.room / "nodes.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd="/",
                env=_plain(env or {}),
                start_new_session=True,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def call(
        self, *arguments: Any, cwd: Path, env: dict[str, str] | None = None, code: int | None = None
    ) -> Any:
        """Run the command on this cluster; it has to end with ``code``, if that is given."""
        variables = {"RAY_AUTH_MODE": "disabled", **(env or {})}
        # a worker takes up to a minute to start where the machine is busy
        address = ("--address", self.address)
        return call(*arguments, *address, cwd=cwd, env=variables, timeout=900, code=code)

    def alive(self) -> bool:
        """Tell whether the head is."""
        return self._processes[0].poll() is None

    def clear(self) -> None:
        """Lose all nodes but the head."""
        for process in self._processes[1:]:
            self.lose(process)
        del self._processes[1:]

    def lose(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a node at once, raylet, workers and all."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def __exit__(self, *exception: object) -> None:
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 5
        for process in reversed(self._processes):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.lose(process)


def _plain(variables: dict[str, str]) -> dict[str, str]:
    """Return an environment that points to nothing of ours."""
    kept = {
        name: value
        for name, value in environment().items()
        if not name.startswith(("RAY_", "PYTHON", "PARETOLAB", "VIRTUAL_ENV"))
    }
    return {**kept, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", **variables}
