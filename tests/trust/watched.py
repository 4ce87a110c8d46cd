"""A process that is watched and runs one command after the other, as others ask it to.

Each line on standard input is a JSON object, ``{"arguments": [...], "folder": where}``; the answer
is another: exit code, what was printed, and every effect that led beyond its folders.
"""

import contextlib
import io
import json
import os
import resource
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "watching"))
import sitecustomize as watching  # type: ignore[import-not-found]

_MEMORY = 12 * 10**9  # bytes of address space; a forged file that takes more ends in a traceback


def main():
    from framework.cli.main import main as command

    drawn = ("run_report.write_plots", "run_report.write_chosen", "run_report.write_run_page")
    for name in (*drawn, "comparison_report.write_report"):
        module, _, attribute = name.rpartition(".")
        __import__(f"tracking.figures.{module}")
        setattr(sys.modules[f"tracking.figures.{module}"], attribute, lambda *_, **__: [])
    answers = os.fdopen(os.dup(1), "w")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    watch = watching.start()
    for line in sys.stdin:
        asked = json.loads(line)
        os.chdir(asked["folder"])
        watch.effects = []
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = command(asked["arguments"])
            except SystemExit as ended:
                code = ended.code
            except BaseException:
                code = -1
                err.write(traceback.format_exc())
        said = {"code": code, "out": out.getvalue(), "err": err.getvalue()}
        answers.write(json.dumps({**said, "effects": watch.effects}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
