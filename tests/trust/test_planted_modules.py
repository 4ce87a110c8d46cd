"""A folder that someone sent, with files called like modules: nobody imports them."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from tests.command import free_port, run_program, start
from tests.libraries import builds
from tests.tracking import sweeps
from tests.trust.watch import EVIL, RUN
from tracking.mlflow_log.store import connect

MODULES = """
alembic algorithms anyio cloudpickle click fastapi filelock flask framework graphene h11 httptools
huey jinja2 joblib matplotlib mlflow numba numpy optuna pandas psutil pyarrow pydantic ray requests
rich scipy setproctitle sitecustomize skops sklearn sqlalchemy starlette tracking urllib3
usercustomize uvicorn uvloop websockets yaml
""".split()  # noqa: SIM905
TRACKED = {"uri": "sqlite:///mlflow.db"}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a folder in which each of the modules leaves its name where it is imported."""
    for name in MODULES:
        leave = f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n"
        (tmp_path / f"{name}.py").write_text(leave)
    return tmp_path


def check_nothing_imported(folder: Path) -> None:
    left = folder / "imported"
    assert not left.exists(), left.read_text()


@contextmanager
def serving(folder: Path, words: Sequence[object], page: str) -> Iterator[str]:
    """Start a command that serves, wait for its address, and end it."""
    process = start(*words, cwd=folder)
    try:
        address = None
        while address is None:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
        with urlopen(address[0] + page, timeout=30) as answer:
            assert answer.status == 200
        yield address[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.mark.slow
def test_mlflows_pages_import_nothing_of_the_folder(planted):
    connect(f"sqlite:///{planted}/mlflow.db").search_experiments()
    with serving(planted, ["ui", "--port", free_port()], "/"):
        check_nothing_imported(planted)


COMMANDS = {
    "run, logged": ("run", {**RUN, "tracking": TRACKED}),
    "run on Ray": ("run", {**RUN, "workers": 2}),
    "sweep": ("sweep", {**sweeps.raw(trials=2), "tracking": TRACKED}),
    "sweep on Ray": ("sweep", {**sweeps.raw(trials=2), "workers": 2}),
    "library": ("library build", {"library": builds.config().model_dump(mode="json")}),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", COMMANDS)
def test_commands_and_their_processes_import_nothing_of_the_folder(what, planted):
    command, content = COMMANDS[what]
    (planted / "config.yaml").write_text(yaml.safe_dump(content))
    calls = [[*command.split(), "config.yaml", "--out", "out"]]
    calls += [["sync", "out"]] if "tracking" in content else []  # waits for it where it is slow
    for words in calls:
        process = start(*words, cwd=planted)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    check_nothing_imported(planted)


@pytest.mark.slow
def test_asking_a_cluster_imports_nothing_of_the_folder(planted):
    """Nobody answers there, which a process of Ray's finds out."""
    (planted / "config.yaml").write_text(yaml.safe_dump({**RUN, "workers": 2}))
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = start("run", "config.yaml", "--address", address, cwd=planted)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, "no usable Ray" in err) == (2, True), err
    check_nothing_imported(planted)


def test_plug_ins_of_the_folder_are_not_loaded(tmp_path):
    """Python looks for packages there where a path is relative, as editable installs leave one."""
    about = tmp_path / "nowhere" / "evil-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[paretolab.commands]\nevil = evil:Evil\n")
    (about.parent / "evil.py").write_text(EVIL)
    code = "import sys; sys.path.append('nowhere')\nfrom paretolab.__main__ import main\n"
    command = [sys.executable, "-P", "-c", f"{code}sys.exit(main())", "--help"]
    done = run_program(command, cwd=tmp_path)
    assert not (tmp_path / "forged").exists()
    assert (done.returncode, f"expected no '{about.parent}'" in done.stderr) == (2, True), done


def test_the_modules_would_be_imported(planted):
    """Else the tests above could not fail."""
    subprocess.run([sys.executable, "-m", "click"], cwd=planted, check=False)
    assert (planted / "imported").read_text() == "click "
