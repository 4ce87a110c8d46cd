"""A process that is watched and runs one command after the other, as others ask it to.

Each line on standard input is a JSON object, ``{"arguments": [...], "folder": where}``; the answer
is another: exit code, what was printed, and every effect that led beyond its folders, those of
processes that it started among them (``watching/sitecustomize.py`` notes them). ``"without"`` names
checks that are taken out meanwhile; ``"pages"`` says whether those of runs are written.
"""

import contextlib
import io
import json
import os
import resource
import sys
import threading
import traceback
import urllib.request
from unittest import mock

_MEMORY = 12 * 10**9  # bytes of address space; a forged file that takes more ends in a traceback


@contextlib.contextmanager
def without(checks):
    """Take checks out: kinds of effects that then need no grant, or ``class``: any is imported."""
    from framework.security import policy

    free = policy.Received.is_free
    effects = mock.patch.object(
        policy.Received, "is_free", lambda received, e: e.kind in checks or free(received, e)
    )
    classes = mock.patch("framework.models.classifiers.trusted", return_value=["evil.Evil"])
    with effects, classes if "class" in checks else contextlib.nullcontext():
        yield


def ask(service, serve):
    """Serve, ask for what the service is and for an answer, and end it."""
    thread = threading.Thread(target=serve, args=[service])
    thread.start()
    try:
        for path, body in (("/health", None), ("/openapi.json", None), ("/predict", b"[{}]")):
            request = urllib.request.Request(service.address + path, body)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    print(path, answer.status, answer.read().decode())
            except urllib.error.HTTPError as error:
                print(path, error.code, error.read().decode())
    finally:
        service.should_exit = True
        thread.join()


def main(watched):
    from framework.cli.main import main as command
    from framework.models.service import Service
    from tracking.figures import comparison_report, explore, run_report
    from tracking.figures.run_data import read_run_data

    wanted = [False]
    report = run_report.write_run_page

    def explored(run_dir):
        run_dir.plots.mkdir(exist_ok=True)
        if wanted[0]:
            explore.explore_html(run_dir, read_run_data(run_dir), run_dir.plots / "explore.html")
        return []

    # without pictures, which take longer than all else
    run_report.write_plots = comparison_report.write_report = lambda *_, **__: []
    run_report.write_chosen = explored
    run_report.write_run_page = lambda run_dir: report(run_dir) if wanted[0] else []
    serve = Service.run
    Service.run = lambda service: ask(service, serve)
    answers = os.fdopen(os.dup(1), "w")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for line in sys.stdin:
        asked = json.loads(line)
        os.chdir(asked["folder"])
        wanted[0] = asked["pages"]
        out, err = io.StringIO(), io.StringIO()
        streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with streams[0], streams[1], without(asked["without"]):
            try:
                code = command(asked["arguments"])
            except SystemExit as ended:
                code = ended.code
            except BaseException:
                code = -1
                err.write(traceback.format_exc())
        said = {"code": code, "out": out.getvalue(), "err": err.getvalue()}
        effects = [json.loads(line) for line in watched]
        answers.write(json.dumps({**said, "effects": effects}) + "\n")
        answers.flush()


if __name__ == "__main__":
    with open(os.environ["WATCH_FILE"]) as watched:
        main(watched)
