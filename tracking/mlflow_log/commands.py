"""`paretolab sync` and `paretolab ui`."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from framework.cli.results import json_argument, tell
from framework.errors import InputError, ParetolabError
from framework.experiment.champions import champions, write_model
from framework.experiment.run_dir import RunDir
from framework.extras import needed
from framework.files import check_database
from framework.machine import child_environment
from framework.security import (
    check_address,
    expanded,
    keep,
    public_uri,
    redacted,
    say,
    without_password,
    without_tokens,
)
from tracking.mlflow_log import store
from tracking.mlflow_log.store import sole_uploader

DEFAULT_URI = "sqlite:///mlflow.db"

_PAGE = "#/experiments?workflowType=machine_learning"  # not the one on language models
_UI_START = 180.0  # seconds that MLflow's server may take to answer
_UI_STOP = 10.0
_LOOK = 0.2  # seconds between two looks at whether the server runs


class Sync:
    """Upload what is missing in MLflow of some run directories."""

    help = "upload to MLflow what could not be logged while a run went on"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directories", metavar="DIR", nargs="+", help="directory of a run")
        parser.add_argument(
            "--uri", help="another MLflow store or server than the run was to log to"
        )
        parser.add_argument(
            "--register",
            metavar="NAME",
            help="its model becomes the next version of this one; of an experiment the model of "
            "each case's best run becomes that of NAME-CASE, its champion",
        )
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Upload each directory; return 0, or 2 if one could not be."""
        codes = {
            directory: Sync.upload(directory, args.uri, args.register)
            for directory in args.directories
        }
        tell(lambda: {"logged": {directory: code == 0 for directory, code in codes.items()}})
        return max(codes.values())

    @staticmethod
    def upload(directory: str, uri: str | None = None, register: str | None = None) -> int:
        """Upload a directory and say how that went; return 0, or 2 if it could not be."""
        try:
            say(f"{directory}: {sync(directory, uri, register)}")
        except ParetolabError as error:
            say(f"paretolab: {error}", sys.stderr)
            return 2
        return 0

    @staticmethod
    def comparison(out: Path, title: str, directory: str) -> int:
        """Log a comparison beside one of its runs; return 0, or 2 if it could not be."""
        from tracking.mlflow_log.tracker import first_line
        from tracking.mlflow_log.uploader import log_comparison

        run_dir = RunDir.existing(directory)
        try:
            say(f"{out}: logged to {log_comparison(out, title, run_dir)}")
        except Exception as error:  # MLflow may raise anything
            say(f"paretolab: {out}: not logged to MLflow ({first_line(error)})", sys.stderr)
            return 2
        return 0


def sync(directory: str, uri: str | None = None, register: str | None = None) -> str:
    """Upload one directory; return what to say about it.

    A process that is still logging a run which has ended is waited for.

    Parameters
    ----------
    directory : str
    uri : str, optional
        Another store than the run was to log to.
    register : str, optional
        The registered model that the run's becomes the next version of. Of an experiment the
        champion of each case is registered, as ``REGISTER-CASE``, with the alias ``champion``.

    Raises
    ------
    InputError
        It is not the directory of a run, or MLflow could not take it.
    """
    from tracking.mlflow_log.tracker import first_line
    from tracking.mlflow_log.uploader import Uploader

    run_dir = RunDir.existing(directory)
    if run_dir.path.absolute().parent.name in ("repeats", "trials"):
        raise InputError(
            f"{directory}: expected the directory of a whole run, found one of its parts; "
            f"give {run_dir.path.parent.parent}"
        )
    for home in run_dir.path.absolute().parents:
        if RunDir(home).experiment_file.is_file():
            raise InputError(
                f"{directory}: expected a whole experiment, found one of its runs; give {home}"
            )
    best: dict[str, RunDir] = {}
    if register and run_dir.experiment_file.is_file():
        best = champions(run_dir)
        for run in best.values():
            write_model(run)
    with sole_uploader(run_dir, wait=run_dir.summary_file.is_file()):
        uploader = Uploader(run_dir, uri)
        admit(run_dir, uploader.state.uri, typed=uri is not None)
        try:
            with without_tokens(uploader.state.uri, run_dir.path):
                ended = uploader.upload(final=True)
                version = ""
                if register and not best:
                    version = uploader.register(register)
                for case, run in best.items():
                    version += uploader.register(f"{register}-{re.sub('[/:]', '-', case)}", run)
        except ParetolabError:  # a file of the run, not MLflow
            raise
        except Exception as error:  # MLflow may raise anything
            raise InputError(
                f"{directory}: expected to log to {uploader.location}, found: "
                f"{redacted(first_line(error), uploader.state.uri)}; what "
                "is missing is kept, run the same command again when MLflow answers"
            ) from error
    if ended:
        return f"logged to {uploader.location}{version}"
    return (
        f"logged so far to {uploader.location}; the run has not ended "
        f"(`paretolab resume {directory}` goes on with it)"
    )


def admit(run_dir: RunDir, uri: str, *, typed: bool = False) -> None:
    """Decide whether a run may be logged to an address, which its directory may name.

    Raises
    ------
    InputError
        Nobody granted it.
    """
    check_address(uri, run_dir.config_file, "tracking.uri", typed=typed)
    if typed:
        keep(run_dir.path)


class Ui:
    """Show the runs in MLflow's pages."""

    help = "show logged runs in the browser, with MLflow"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--uri", default=DEFAULT_URI, help="store (default: %(default)s)")
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
        )
        parser.add_argument("--port", type=int, default=5000, help="(default: %(default)s)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Serve until Ctrl-C."""
        needed("mlflow")
        environment = _environment(args.uri)
        _check_port(args.host, args.port)
        mlflow = find_spec("mlflow")  # not imported: that starts threads
        library = Path(str(mlflow and mlflow.origin)).parent.parent
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "ui",
            "--host",
            args.host,
            "--port",
            str(args.port),
            "--workers",
            "1",
            "--uvicorn-opts",
            # else uvicorn puts the working folder before the installed packages
            f"--log-level warning --app-dir {shlex.quote(str(library))}",
        ]
        # in a session of its own, so that Ctrl-C ends it once, through us, with all it started
        server = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL
        )
        try:
            print("starting MLflow ...", flush=True)
            if _answers(server, args.host, args.port):
                home = f"http://{args.host}:{args.port}/"
                print(f"MLflow UI: {home}{_PAGE} (Ctrl-C ends it)", flush=True)
            while server.poll() is None:  # a wait without end may miss a signal to a thread
                time.sleep(_LOOK)
            return 2 if server.returncode else 0
        except KeyboardInterrupt:
            return 0
        finally:
            _stop(server)


def _environment(uri: str) -> dict[str, str]:
    """Return the server's environment, which also names the store: a URI may hold a password."""
    if uri.startswith(("http://", "https://")):
        raise InputError(
            f"--uri: expected a store such as {DEFAULT_URI}, found the address of a server; open "
            f"{public_uri(uri)} in a browser"
        )
    try:
        uri = store.absolute_uri(without_password(uri), Path.cwd())
    except ValueError as error:
        raise InputError(f"--uri: {error}") from error
    file = store.sqlite_file(uri)
    if file is not None and not file.is_file():
        raise InputError(
            f"--uri: expected the store that runs log to, found no file {file}; start a run first, "
            "go where runs were started, or give --uri sqlite:///PATH"
        )
    if file is not None:
        check_database(file.resolve())
    root = store.artifact_root(uri)
    chosen = {
        "MLFLOW_BACKEND_STORE_URI": expanded(uri),
        "PYTHONWARNINGS": "ignore",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    if root is not None:
        chosen["MLFLOW_DEFAULT_ARTIFACT_ROOT"] = f"file://{quote(root.as_posix())}"
    return child_environment(**chosen)


def _check_port(host: str, port: int) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # getaddrinfo wraps a port that is too great; bind refuses it
            probe.bind((host, port, *address[2:]))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--port: expected a free port at {host}, found that {port} cannot be used ({error}); "
            "give another with --port"
        ) from error


def _answers(server: subprocess.Popen[bytes], host: str, port: int) -> bool:
    """Wait until the server listens; return whether it does."""
    deadline = time.monotonic() + _UI_START
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=1):
                return True
        except OSError:
            time.sleep(0.2)
    return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(_UI_STOP)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
