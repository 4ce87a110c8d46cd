"""The ``paretolab`` command, apart from the package of that name so that it can say why not."""

from __future__ import annotations

import gc
import sys

_OBJECTS = 50_000  # made between two looks for garbage


def main() -> int:
    """Run the command; return its exit code."""
    # what a command imports stays: to look through it as often as usual is a tenth of its time
    gc.set_threshold(_OBJECTS)
    try:
        import paretolab  # noqa: F401 (it looks whether all packages are ours)
    except ImportError as error:
        print(f"paretolab: {error}", file=sys.stderr)
        return 2
    from framework.cli.main import main as command

    return command()
