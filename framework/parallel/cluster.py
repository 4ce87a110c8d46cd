"""Where Ray runs: a cluster of our own on this machine, or one that somebody else started."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from framework.errors import ClusterError
from framework.parallel.guard import cluster_at, guarded, own_servers
from framework.parallel.session import session_folder

_OBJECT_STORE_BYTES = 256 << 20  # problems are small; Ray spills to disk what does not fit
_TCP_SECONDS = 3.0
_PROBE_SECONDS = 15.0
_PACKAGES = ("framework", "algorithms", "tracking")
_AUTH_MODE = "RAY_AUTH_MODE"
_AUTH = (_AUTH_MODE, "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_SERIAL = "or run with --workers serial"


@dataclass(frozen=True)
class Cluster:
    """A Ray that this process is connected to.

    Attributes
    ----------
    workers : int
        How many actors of one CPU each to start.
    description : str
        For the user: where Ray runs and how many workers it gives.
    """

    workers: int
    description: str


@contextmanager
def cluster(workers: int | None = None, address: str | None = None) -> Iterator[Cluster]:
    """Connect this process to Ray; on exit, end only what was started here.

    Without an address a cluster is started that only this machine and this process can reach:
    its ports are bound to loopback and guarded by a random token (unless ``RAY_AUTH_MODE`` says
    otherwise). A Ray that this process is already connected to is used and left alone.

    Parameters
    ----------
    workers : int, optional
        Actors wanted; by default one for each CPU.
    address : str, optional
        ``host:port`` of a running cluster, or ``auto``: the one that ``RAY_ADDRESS`` names or
        that runs on this machine. Its other nodes get our code, not our dependencies. It
        gets Ray's token if it asks for one, unless ``RAY_AUTH_MODE`` is ``disabled``.

    Raises
    ------
    ClusterError
        Ray cannot be started, or nothing answers at the address; or it dies meanwhile.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^A worker died or was killed")  # we log it
    if "ray" in sys.modules and _ray().is_initialized():
        count = _granted(workers)
        yield Cluster(count, f"Ray of this process, {_count(count)}")
        return
    with _join(address) if address else _start(workers) as description:
        count = _granted(workers)
        yield Cluster(count, description.format(_count(count)))


def _ray() -> Any:
    """Return ray, imported late: it takes a second."""
    import ray

    return ray


def _count(workers: int) -> str:
    return f"{workers} worker{'s' if workers != 1 else ''}"


def _granted(workers: int | None) -> int:
    """Return the number of actors that the cluster has CPUs for, at most ``workers``."""
    cpus = max(1, int(_ray().cluster_resources().get("CPU", 1)))
    return cpus if workers is None else min(workers, cpus)


@cache
def _token() -> str:
    """Return the token of this process's own clusters; Ray reads it once a process."""
    return secrets.token_hex(32)


@contextmanager
def _start(workers: int | None) -> Iterator[str]:
    """Start a cluster on this machine; on exit end it, with its logs and sockets."""
    own = {} if any(name in os.environ for name in _AUTH) else {"RAY_AUTH_TOKEN": _token()}
    with session_folder() as folder, _authenticated(own):
        with _loopback():
            _init(
                "Ray cannot start on this machine",
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder),
            )
        try:
            with guarded(own_servers()):
                yield "Ray, {}, started here"
        finally:
            _ray().shutdown()


@contextmanager
def _authenticated(variables: Mapping[str, str]) -> Iterator[None]:
    """Have Ray's variables so meanwhile; undo afterwards what it did to the whole process."""
    before = {name: os.environ.get(name) for name in _AUTH}
    os.environ.update(variables)
    _read_variables()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _read_variables()


def _read_variables() -> None:
    """Have a Ray that is imported read its variables again: by itself it does so once."""
    if "ray" in sys.modules:
        with suppress(AttributeError, TypeError):  # not public, but else the process cannot join
            raylet: Any = _ray()._raylet
            raylet.Config.initialize("")
            raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _join(address: str) -> Iterator[str]:
    """Connect to a running cluster; on exit leave it."""
    wanted = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    if wanted != "auto":
        _check_port(wanted)
    modules = [str(path) for name in _PACKAGES if (path := _folder(name))]
    with _authenticated({_AUTH_MODE: _mode_of(wanted)}):
        context = _init(
            f"cannot join the Ray cluster at {wanted}",
            address=wanted,
            runtime_env={"py_modules": modules},
        )
        try:
            with guarded(cluster_at(context.address_info["gcs_address"])):
                yield f"Ray at {wanted if wanted != 'auto' else 'this machine'}, {{}}"
        finally:
            _ray().shutdown()


def _init(failure: str, **options: Any) -> Any:
    """Call ``ray.init`` without its chatter, leaving the signal handlers as they were."""
    ray = _ray()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        return ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        ray.shutdown()
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise ClusterError(
            f"{failure} ({type(error).__name__}: {reason}); free memory, ports or disk in the "
            f"temporary directory, {_SERIAL}"
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _loopback() -> Iterator[None]:
    """Keep Ray on 127.0.0.1, as it does by itself on systems where it cannot span machines.

    Otherwise it replaces a loopback address by the machine's and listens on every interface.
    """
    constants: Any = _ray()._private.ray_constants
    name, spans = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", constants.ENABLE_RAY_CLUSTER
    before = os.environ.get(name)
    os.environ[name], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = spans
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _check_port(address: str) -> None:
    """Fail fast where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise ClusterError(f"Ray address: expected host:port or auto, found {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_TCP_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no Ray runs at {address} ({error}); start one with "
            f"`ray start --head --port={port}`, correct the address, {_SERIAL}"
        ) from error


def _mode_of(address: str) -> str:
    """Return how to talk to a cluster: ``token``, or ``disabled`` where it wants none.

    ``ray start --head`` asks for a token where it finds one on its machine, and does not say so to
    who joins by an address; who brings a token where none is asked for gets no workers. A token is
    therefore sent to a cluster that asks for it, and to no other.
    """
    refusal = _refusal(address, "disabled")
    if refusal is None:
        return "disabled"
    place = "on this machine" if address == "auto" else f"at {address}"
    if "AuthenticationError" not in refusal:
        raise ClusterError(
            f"no usable Ray {place} ({refusal}); check that it runs and its Ray version, {_SERIAL}"
        )
    unwanted = os.environ.get(_AUTH_MODE, "").lower() == "disabled"
    if not unwanted and _refusal(address, "token") is None:
        return "token"
    unset = f"unset {_AUTH_MODE} (it is 'disabled'), " if unwanted else ""
    raise ClusterError(
        f"Ray {place} asks for a token, and this process has none that it takes; {unset}copy the "
        "~/.ray/auth_token of the cluster's machine to this one, or set RAY_AUTH_TOKEN or "
        f"RAY_AUTH_TOKEN_PATH, {_SERIAL}"
    )


def _refusal(address: str, mode: str) -> str | None:
    """Ask a cluster for its health in a process of its own; return why it is of no use, if so.

    A process can be given up: Ray itself would try for minutes.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    command += [] if address == "auto" else ["--address", address]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env=os.environ | {_AUTH_MODE: mode},
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_PROBE_SECONDS:g} s"
    if not done.returncode:
        return None
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def _folder(package: str) -> Path | None:
    """Return the directory of an import package, None where it is not installed."""
    spec = find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None
