"""The ``paretolab`` command."""

from __future__ import annotations

import gc
import os
import signal
import sys
from io import TextIOWrapper

from paretolab.hiding import check_packages, check_working_folder

_OBJECTS = 50_000  # allocated between two garbage collections


def _leave(*_: object) -> None:
    """End the process; an exception might be swallowed or printed by a module that is loading."""
    os.write(2, b"paretolab: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command; return its exit code."""
    signal.signal(signal.SIGINT, _leave)  # until the command handles signals itself
    # imported modules are not garbage: at the usual threshold, collections take a tenth of the time
    gc.set_threshold(_OBJECTS)
    for stream in (sys.stdout, sys.stderr):  # a terminal may lack arrows and frames
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        check_working_folder()
        check_packages()
        from framework.cli.main import main as command
        from framework.machine import SAFE_PATH
    except ImportError as error:
        print(f"paretolab: {error}", file=sys.stderr)
        return 2
    os.environ.update(SAFE_PATH)  # for every process that is started, also by libraries
    return command()


if __name__ == "__main__":
    sys.exit(main())
