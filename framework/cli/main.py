"""The ``paretolab`` command.

Exit codes: 0 done, 2 bad input, 3 finished with failed rows over the limit, 130 interrupted
(resumable).

Other packages add commands by registering a class of the form
:class:`framework.cli.arguments.Command` under ``paretolab.commands``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

from framework import registry
from framework.cli.disk import refuses
from framework.errors import InputError, ParetolabError
from framework.run.signals import interruptible
from framework.security import trust

_TRUST = (
    "a class of yours, such as mine.model.Mine, that a configuration or a model may name: it is "
    "imported and run, so give none that you do not know; once for each class"
)
_OWN = ("run", "resume", "check", "list", "choose", "predict")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    with interruptible():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        args = _parser(arguments).parse_args(arguments)
        trust(args.trust)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except ParetolabError as error:
        print(f"paretolab: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("paretolab: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if not refuses(error):
            raise
        print(
            f"paretolab: {error.filename or 'the disk'}: cannot be used ({error.strerror}); let it "
            "be read and written, or make room, and run the command again",
            file=sys.stderr,
        )
        return 2


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="paretolab",
        description="Search the designs of classifier systems for the best trade-offs.",
    )
    parser.add_argument("--version", action="version", version=version("paretolab"))
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    known = commands()
    wanted = next((text for text in arguments if not text.startswith("-")), None)
    if wanted is not None and wanted not in known:
        raise InputError(
            f"expected a command, found {wanted!r}{registry.nearest(wanted, known)}; "
            "`paretolab --help` lists them"
        )
    for name, command in known.items():
        sub = subparsers.add_parser(name, help=command.help, description=command.__doc__)
        command.add_arguments(sub)
        sub.add_argument("--trust", action="append", default=[], metavar="CLASS", help=_TRUST)
        sub.set_defaults(run=command.run)
    return parser


def commands() -> dict[str, Any]:
    """Return every command by name: the framework's own, then what packages register.

    Its own ones are classes such as ``Run`` of ``framework.cli.run``.
    """
    known = {
        name: getattr(import_module(f"framework.cli.{name}"), name.capitalize()) for name in _OWN
    }
    return known | {name: registry.load("commands", name) for name in registry.names("commands")}
