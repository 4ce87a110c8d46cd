"""MLflow's own server answers a user's CSV with the bytes of `paretolab predict`."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection

import pandas as pd
import pytest

from framework.models.walk import Chosen
from tests.command import call, environment, free_port
from tracking.mlflow_log import deploy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a run on a table of loans: categories, whole numbers, gaps."""
    folder = tmp_path_factory.mktemp("serving")
    call("init", "multistage", "--out", "mine", cwd=folder, code=0)
    budget = ["--set", "budget={evaluations: 300}", "--workers", "serial"]
    config = "mine/multistage.yaml"
    call("run", config, "--out", "run", "--no-mlflow", *budget, cwd=folder, code=0)
    deploy.save_model(folder / "run" / "model", folder / "mlflow")
    return folder


@pytest.fixture(scope="module")
def port(place):
    number = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(place / "mlflow")]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(number)]
    program = place / "bin" / "uvicorn"  # MLflow looks for it on the PATH
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m uvicorn "$@"\n')
    program.chmod(0o755)
    variables = environment(PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with open(place / "server.log", "wb") as log:
        server = subprocess.Popen(
            command, cwd=place, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 300
        while not _answers(number):
            assert server.poll() is None, (place / "server.log").read_text()
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.5)
        yield number
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def _answers(number):
    try:
        return _ask(number, "GET", "/ping")[0] == 200
    except OSError:
        return False


def _ask(number, method, path, body=None, kind="text/csv"):
    connection = HTTPConnection("127.0.0.1", number, timeout=120)
    connection.request(method, path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    return answer.status, answer.read()


def predicted(place, text):
    (place / "asked.csv").write_text(text)
    done = call("predict", "run/model", "asked.csv", cwd=place, code=0)
    return done.out


def tables(place):
    """Return a user's tables as CSV: as they came, turned round, and what the design acquires."""
    whole = pd.read_csv(place / "mine" / "loans.csv").head(40)
    turned = whole[whole.columns[::-1]].assign(further=1)
    stages = Chosen.read(place / "run" / "model").walk.stages
    acquired = whole[[name for stage in stages for name in stage.features]]
    return [table.to_csv(index=False) for table in (whole, turned, acquired)]


def test_the_server_answers_as_the_command_does(place, port):
    for text in tables(place):
        status, body = _ask(port, "POST", "/invocations", text.encode())
        assert status == 200, body
        answers = pd.DataFrame(json.loads(body)["predictions"])
        assert answers.to_csv(index=False) == predicted(place, text)
