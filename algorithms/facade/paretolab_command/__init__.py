"""The ``paretolab`` command, apart from the package of that name so that it can say why not."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command; return its exit code."""
    try:
        import paretolab  # noqa: F401 (it looks whether all packages are ours)
    except ImportError as error:
        print(f"paretolab: {error}", file=sys.stderr)
        return 2
    from framework.cli.main import main as command

    return command()
