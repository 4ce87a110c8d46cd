"""Connect to Ray: start a cluster on this machine, or join one that is already running.

While connected, a thread watches whether Ray is alive. When a raylet or the GCS is gone, Ray itself
ends this process ten to sixty seconds later, without an exception, so that there would be neither a
summary nor a message. A cluster started here keeps its logs and sockets in a folder that is removed
with it.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from framework.errors import ClusterError
from framework.extras import needed
from framework.files import room_in
from framework.machine import SAFE_PATH, child_environment, environment_restored
from framework.parallel.config import OR_SERIAL, ClusterConfig
from framework.parallel.nodes import Nodes, call_in_thread
from framework.parallel.shipping import runtime_env

_OBJECT_STORE_BYTES = 256 << 20  # problems are small; Ray spills to disk what does not fit
_TCP_SECONDS = 3.0  # for a connection to a port
_PROBE_SECONDS = 15.0  # for the answer of a running cluster to a health check
_START_SECONDS = 180.0  # that Ray may take to start or to join; on a busy machine it takes 60
_AUTH_MODE = "RAY_AUTH_MODE"
_AUTH = (_AUTH_MODE, "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_WATCH_SECONDS = 0.5  # between checks whether Ray is alive
_SIGNAL = signal.SIGUSR1  # wakes the main thread when it is not
_SERVERS = ("gcs_server", "raylet")
_CLUSTER_PATIENCE = 30.0  # seconds that a cluster may be away; Ray itself gives up after 60
_PREFIX = "paretolab-ray-"


@dataclass(frozen=True)
class Cluster:
    """The Ray cluster that this process is connected to.

    Attributes
    ----------
    workers : int or None
        How many workers to request; None for as many as there is room for at any time.
    description : str
        Where Ray runs and how many workers there are, for the user.
    """

    workers: int | None
    description: str


@contextmanager
def cluster(
    workers: int | None = None, address: str | None = None, config: ClusterConfig | None = None
) -> Iterator[Cluster]:
    """Connect this process to Ray; on exit, end only what was started here.

    Without an address a cluster is started that only this machine and this process can reach:
    its ports are bound to loopback and guarded by a random token (unless ``RAY_AUTH_MODE`` says
    otherwise). A Ray that this process is already connected to is used and left alone.

    Parameters
    ----------
    workers : int, optional
        How many workers to request; by default as many as there is room for. On a running cluster
        there may be no room for some of them yet: they start as nodes join.
    address : str, optional
        ``host:port`` of a running cluster, or ``auto``: the one that ``RAY_ADDRESS`` names or
        that runs on this machine. Its nodes are sent the code of paretolab and of installed
        plug-ins, but not their dependencies. It is sent Ray's token if it asks for one, unless
        ``RAY_AUTH_MODE`` is ``disabled``.
    config : ClusterConfig, optional
        What each worker takes, and what else is sent to it.

    Raises
    ------
    InputError
        The section names something that does not exist, or brings code that the user has not
        confirmed to trust.
    ClusterError
        Ray cannot be started, nothing answers at the address, this machine has no room for a
        worker, or Ray dies within the block.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^A worker died or was killed")  # we log it
    settings = config or ClusterConfig()
    if "ray" in sys.modules and _ray().is_initialized():
        yield _granted(workers, settings, "Ray of this process, {}")
        return
    if address:
        with _join(address, settings) as description:
            yield _granted(workers, settings, description)
        return
    with _start(workers, settings) as description:
        room = _room(workers, settings)
        if not room:
            raise ClusterError(
                "cluster.resources: expected what this machine has, found "
                f"{settings.resources.shape()}; take less, or join a cluster with --address, "
                f"{OR_SERIAL}"
            )
        yield Cluster(room, description.format(_count(room)))


def _ray() -> Any:
    """Return Ray, imported only where it is used: that takes a second."""
    return needed("ray")


def _count(workers: int) -> str:
    return f"{workers} worker{'s' if workers != 1 else ''}"


def _room(workers: int | None, config: ClusterConfig) -> int:
    """Return how many of the workers there is room for now."""
    capacity = Nodes(config.resources).capacity()
    return capacity if workers is None else min(workers, capacity)


def _granted(workers: int | None, config: ClusterConfig, description: str) -> Cluster:
    """Return a cluster that was there before; its description says for how many there is room."""
    room = _room(workers, config)
    text = f"{_count(room)} now" if workers is None else _count(workers)
    text += f", room for {room} now" if workers is not None and room < workers else ""
    return Cluster(workers, description.format(text))


@cache
def _token() -> str:
    """Return the token of the clusters started here; Ray reads it only once per process."""
    return secrets.token_hex(32)


@contextmanager
def _start(workers: int | None, config: ClusterConfig) -> Iterator[str]:
    """Start a cluster on this machine; on exit end it, with its logs and sockets."""
    token = {} if any(name in os.environ for name in _AUTH) else {"RAY_AUTH_TOKEN": _token()}
    over = threading.Event()
    with session_folder() as folder, _authenticated(SAFE_PATH | token):
        with _loopback(), _no_server(), runtime_env(config, packages=False) as env:
            _init(
                "Ray cannot start on this machine",
                over,
                address="local",
                num_cpus=None
                if workers is None
                else ceil(workers * config.resources.num_cpus) or 1,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _node_ip_address="127.0.0.1",
                runtime_env=env,
                _temp_dir=str(folder / "r"),  # Ray opens it to all users, its parent stays private
            )
        try:
            with guarded(own_servers()):
                yield "Ray, {}, started here"
        finally:
            _ray().shutdown()
            over.set()


@contextmanager
def _authenticated(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for Ray within the block; then restore them, and those that Ray changes."""
    try:
        with environment_restored((*_AUTH, *variables)):
            os.environ.update(variables)
            _read_variables()
            yield
    finally:
        _read_variables()


def _read_variables() -> None:
    """Make Ray, if it is imported, read its variables again: by itself it reads them only once."""
    if "ray" in sys.modules:
        with suppress(AttributeError, TypeError):  # private, but there is no public way
            raylet: Any = _ray()._raylet
            raylet.Config.initialize("")
            raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _join(address: str, config: ClusterConfig) -> Iterator[str]:
    """Connect to a running cluster; on exit leave it."""
    wanted = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    if wanted != "auto":
        _check_port(wanted)
    with _authenticated({_AUTH_MODE: _auth_mode_of(wanted)}):
        with runtime_env(config, packages=True) as env:
            context = _init(
                f"cannot join the Ray cluster at {wanted}", address=wanted, runtime_env=env
            )
        try:
            with guarded(cluster_at(context.address_info["gcs_address"])):
                yield f"Ray at {wanted if wanted != 'auto' else 'this machine'}, {{}}"
        finally:
            _ray().shutdown()


def _job_config() -> Any:
    """Return a job whose workers import from the working folder only if this process does.

    By default Ray's workers import from the working folder first. If somebody else made that
    folder, a file in it that is called like a module would run in the workers.
    """
    from ray.job_config import JobConfig

    class Paths(list[str]):
        def extend(self, folders: Iterable[str]) -> None:
            here = os.path.realpath(os.curdir)
            ours = "" in sys.path or here in map(os.path.realpath, sys.path)
            super().extend(folder for folder in folders if ours or os.path.realpath(folder) != here)

    job = JobConfig()
    job._py_driver_sys_path = Paths()
    return job


def _init(failure: str, over: threading.Event | None = None, **options: Any) -> Any:
    """Call ``ray.init`` silently and with a time limit, and leave the signal handlers unchanged.

    It is called in another thread, which lives until ``over`` is set: Ray's servers end with the
    thread that has started them. ``failure`` begins the message if Ray does not start.
    """
    ray = _ray()
    before = psutil.Process().children(recursive=True)

    def start() -> Any:
        return ray.init(
            log_to_driver=False, logging_level=logging.ERROR, job_config=_job_config(), **options
        )

    try:
        return call_in_thread(start, _START_SECONDS, over)
    except (TimeoutError, KeyboardInterrupt) as error:
        for process in set(psutil.Process().children(recursive=True)) - set(before):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ClusterError(
            f"{failure}: Ray has not answered for {_START_SECONDS:g} s; try again, free processors "
            f"and memory, {OR_SERIAL}"
        ) from error
    except Exception as error:
        ray.shutdown()
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise ClusterError(
            f"{failure} ({type(error).__name__}: {reason}); free memory, ports or disk in the "
            f"temporary directory, {OR_SERIAL}"
        ) from error


@contextmanager
def _loopback() -> Iterator[None]:
    """Keep Ray on 127.0.0.1, as it does by itself on systems where it supports only one machine.

    Otherwise it replaces a loopback address by the machine's and listens on every interface.
    """
    constants: Any = _ray()._private.ray_constants
    name, spans = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", constants.ENABLE_RAY_CLUSTER
    with environment_restored([name]):
        os.environ[name], constants.ENABLE_RAY_CLUSTER = "0", False
        try:
            yield
        finally:
            constants.ENABLE_RAY_CLUSTER = spans


@contextmanager
def _no_server() -> Iterator[None]:
    """Start no server of the dashboard, which Ray does also where the dashboard is left out.

    It would ask the addresses of clouds whose machine this is, even if no usage is reported.
    """
    node: Any = _ray()._private.node.Node
    start = node.start_api_server
    node.start_api_server = lambda self, **_: setattr(self, "_webui_url", "")
    try:
        yield
    finally:
        node.start_api_server = start


def _check_port(address: str) -> None:
    """Raise ClusterError at once if nothing listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise ClusterError(f"Ray address: expected host:port or auto, found {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_TCP_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no Ray runs at {address} ({error}); start one with "
            f"`ray start --head --port={port}`, correct the address, {OR_SERIAL}"
        ) from error


def _auth_mode_of(address: str) -> str:
    """Return Ray's authentication mode for a cluster: ``token``, or ``disabled`` if it wants none.

    ``ray start --head`` asks for a token if it finds one on its machine, without saying so to a
    process that joins by an address; a process that sends a token to a cluster which does not ask
    for one gets no workers. So the token is sent only to a cluster that asks for it.
    """
    refusal = _refusal(address, "disabled")
    if refusal is None:
        return "disabled"
    place = "on this machine" if address == "auto" else f"at {address}"
    if "AuthenticationError" not in refusal:
        raise ClusterError(
            f"no usable Ray {place} ({refusal}); check that it runs and its Ray version, "
            f"{OR_SERIAL}"
        )
    unwanted = os.environ.get(_AUTH_MODE, "").lower() == "disabled"
    if not unwanted and _refusal(address, "token") is None:
        return "token"
    unset = f"unset {_AUTH_MODE} (it is 'disabled'), " if unwanted else ""
    raise ClusterError(
        f"Ray {place} asks for a token, and this process has none that it takes; {unset}copy the "
        "~/.ray/auth_token of the cluster's machine to this one, or set RAY_AUTH_TOKEN or "
        f"RAY_AUTH_TOKEN_PATH, {OR_SERIAL}"
    )


def _refusal(address: str, mode: str) -> str | None:
    """Check the health of a cluster; return why it cannot be used, or None if it can.

    This is done in another process, which can be ended: Ray itself would try for minutes.
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
            env=child_environment(**{_AUTH_MODE: mode}),
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_PROBE_SECONDS:g} s"
    if not done.returncode:
        return None
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]


@contextmanager
def guarded(dead: Callable[[], str]) -> Iterator[None]:
    """Raise ClusterError in the main thread, whatever it waits for, once Ray has died.

    Nothing is watched if the caller is not the main thread.

    Parameters
    ----------
    dead : callable
        Returns a clause that says what has died, or an empty string. Called from another thread.

    Raises
    ------
    ClusterError
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over, cause = threading.Event(), ""

    def watch() -> None:
        nonlocal cause
        while not over.wait(_WATCH_SECONDS):
            cause = dead()
            if cause:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
                return

    def failure() -> ClusterError:
        return ClusterError(
            f"{cause}; all results so far are kept: go on with `paretolab resume`, on another "
            "cluster or with --workers serial if it happens again"
        )

    def give_up(number: int, frame: FrameType | None) -> None:
        if not over.is_set():
            raise failure()

    before = signal.signal(_SIGNAL, give_up)
    thread = threading.Thread(target=watch, name="guard of Ray", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        if not cause or isinstance(error, ClusterError):
            raise
        raise failure() from error  # an error of Ray, or ours wrapped by Ray's code
    finally:
        over.set()
        thread.join()
        signal.signal(_SIGNAL, before)


def own_servers() -> Callable[[], str]:
    """Return a check whether the Ray servers that this process has started are alive."""
    servers = [p for p in psutil.Process().children(recursive=True) if p.name() in _SERVERS]

    def dead() -> str:
        for server in servers:
            if not _is_alive(server):
                return (
                    f"Ray's process {server.pid} has died (out of memory? killed?), and with it "
                    "the workers"
                )
        return ""

    return dead


def cluster_at(address: str) -> Callable[[], str]:
    """Return a check whether a running cluster still answers at ``host:port``."""
    host, _, port = address.rpartition(":")
    since = time.monotonic()

    def dead() -> str:
        nonlocal since
        try:
            place = (host.strip("[]"), int(port))
            socket.create_connection(place, timeout=_TCP_SECONDS).close()
        except OSError as error:
            away = time.monotonic() - since
            if away > _CLUSTER_PATIENCE:
                return f"the Ray cluster at {address} is gone ({error})"
            return ""
        since = time.monotonic()
        return ""

    return dead


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def session_folder() -> AbstractContextManager[Path]:
    """Give a new folder for a Ray cluster, where Ray makes its own: sockets need a short path."""
    usual = tempfile.gettempdir() if sys.platform == "linux" else "/tmp"
    return room_in(Path(os.environ.get("RAY_TMPDIR") or usual), _PREFIX, mode=0o700)
