"""Runs commands in forks of a process that has imported everything, so that they begin at once.

A process that starts anew imports for a second, and dies there of most kills. Here the first
millisecond is one of the command's own. Each line of standard input is a JSON list: the folder,
then the arguments. Two lines answer it: the process id, and the exit status once it has ended.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from framework import registry
from framework.cli.main import command_parser, main


def _import_everything() -> None:
    command_parser()
    for kind in ("multistage", "ensemble", "pruning", "function"):
        registry.load("problems", kind)
    import tracking.sweep.run  # noqa: F401


def _serve() -> None:
    for line in sys.stdin:
        folder, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            code = 1
            try:
                os.chdir(folder)
                output = os.open("output.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
                os.dup2(output, 1)
                os.dup2(output, 2)
                code = main(arguments)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _import_everything()
    print("ready", flush=True)
    _serve()
