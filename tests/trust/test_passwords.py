"""Passwords of stores: in no file, no message and no table of processes."""

import json
import subprocess
import sys

import pytest
import yaml

from framework.cli.main import main
from framework.errors import InputError
from framework.experiment.run_dir import RunDir
from framework.security import expanded, public_uri, redacted, without_password
from tests.tracking import made_up
from tests.trust.test_configurations import written
from tracking.mlflow_log.store import UploadState
from tracking.mlflow_log.tracker import MlflowTracker
from tracking.mlflow_log.uploader import Uploader

NAMED = "postgresql://me:${STORE_PASSWORD}@127.0.0.1:9/db"


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
        ("postgresql+psycopg2://me:p@w:x@host:5/db", "postgresql+psycopg2://me:***@host:5/db"),
        ("https://:pw@host", "https://:***@host"),
        ("mysql://host/db?user=me&password=pw&x=1", "mysql://host/db?user=me&password=***&x=1"),
        ("http://host/x?access_token=pw", "http://host/x?access_token=***"),
        ("http://host/x?api_key=pw", "http://host/x?api_key=***"),
        ("https://host/x?account-key=1&sig=pw", "https://host/x?account-key=1&sig=***"),
        ("postgresql://me:p/w?x#y@host/db", "postgresql://me:***@host/db"),
        (NAMED, NAMED),
        (f"{NAMED}?mail=me@host", f"{NAMED}?mail=me@host"),
        ("http://host:5000/#/experiments/1?mail=me@host",) * 2,
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("http://host:5000", "http://host:5000"),
        ("http://me@host:5000", "http://me@host:5000"),
    ],
)
def test_passwords_are_hidden(uri, public):
    assert public_uri(uri) == public
    if uri == public:
        assert without_password(uri) == uri
    else:
        with pytest.raises(ValueError, match="expected no password") as caught:
            without_password(uri)
        assert not any(secret in str(caught.value) for secret in ("pw", "p/w", "p@w"))


def test_names_are_taken_from_the_environment(monkeypatch):
    monkeypatch.setenv("STORE_PASSWORD", "pw%21")
    assert expanded(NAMED) == "postgresql://me:pw%21@127.0.0.1:9/db"
    assert redacted("no pw%21 for me", NAMED) == "no *** for me"
    monkeypatch.delenv("STORE_PASSWORD")
    with pytest.raises(InputError, match="environment variable STORE_PASSWORD to be set"):
        expanded(NAMED)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "tracking.uri=postgresql://me:pw5@host/db"],
        ["--set", "tracking={uri: 'mysql://host/db?password=pw5'}"],
    ],
)
def test_a_configuration_with_a_password_is_refused_without_showing_it(arguments, tmp_path, capsys):
    assert main(["check", str(written(tmp_path)), *arguments]) == 2
    said = capsys.readouterr()
    assert "tracking.uri: expected no password in the address" in said.err
    assert "pw5" not in said.out + said.err


def test_sweeps_sync_and_ui_refuse_a_password(tmp_path, capsys):
    text = yaml.safe_load(written(tmp_path).read_text())
    text["sweep"] = {
        "search_space": {"algorithm.population": {"low": 10, "high": 20}},
        "directions": [{"metric": "hypervolume", "sense": "max"}],
        "storage": "postgresql://me:pw5@host/db",
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(text))
    run_dir = made_up.start(tmp_path / "out")
    for arguments in (
        ["sweep", str(tmp_path / "config.yaml")],
        ["sync", str(run_dir.path), "--uri", "postgresql://me:pw5@host/db"],
        ["ui", "--uri", "postgresql://me:pw5@host/db"],
    ):
        assert main(arguments) == 2, arguments
        said = capsys.readouterr()
        assert "expected no password in the address" in said.err
        assert "pw5" not in said.out + said.err


def test_what_is_written_and_said_has_the_variables_name(tmp_path, monkeypatch):
    monkeypatch.setenv("STORE_PASSWORD", "pw5")
    run_dir = made_up.start(tmp_path / "out", tracking={"uri": NAMED})
    uploader = Uploader(run_dir)
    assert uploader.location.startswith(NAMED)
    assert UploadState.load(run_dir).uri == NAMED
    assert run_dir.tracking_file.stat().st_mode & 0o077 == 0
    files = [path for path in run_dir.path.rglob("*") if path.is_file()]
    assert not any(b"pw5" in path.read_bytes() for path in files)


def test_the_logging_process_is_told_in_private(tmp_path, monkeypatch):
    """Nothing of the address in its arguments; what failed is said without the password."""
    monkeypatch.setenv("STORE_PASSWORD", "pw5")
    commands = []
    real = subprocess.Popen

    def popen(command, **options):
        commands.append(command)
        return real(command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    run_dir: RunDir = made_up.start(tmp_path / "out", tracking={"uri": NAMED})
    tracker = MlflowTracker(run_dir, NAMED, "made-up")
    tracker.on_start()
    text = tracker.on_written(timeout=240)
    assert "pw5" not in text
    assert commands[0][0] == sys.executable
    assert not any("postgresql" in word for word in commands[0])
    assert json.loads(run_dir.tracking_file.read_text())["uri"] == NAMED
