"""The ``paretolab`` command.

Exit codes: 0 done, 2 bad input, 3 finished with failed rows over the limit or an empty front, 130
interrupted (resumable).

Other packages add commands by registering a class under ``paretolab.commands``: it has a docstring,
which is the description in the help, a line ``help``, ``add_arguments(parser)`` and ``run(args)``,
which returns the :class:`~framework.cli.results.Result`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, TextIO

from framework import registry
from framework.cli.arguments import place_of, rarely, refuses
from framework.errors import InputError, ParetolabError, remedy_of
from framework.extras import missing

_TRUST = (
    "your class, such as mine.model.Mine, that a configuration or a model may name: it is imported "
    "and run, so name only classes that you know; once for each class"
)
_ALLOW = (
    "let a file do this: host=NAME (connect), variable=NAME (send it), read=PATH or write=PATH; "
    "`paretolab check FILE` lists what a file does"
)
# Name, module and class, and line of help of each command, in the order in which a user needs them.
# Its module is only imported when it is called.
_OWN = {
    "init": ("init:Init", "write a starting configuration to change"),
    "check": ("check:Check", "show what a configuration would run, and its mistakes"),
    "run": ("run:Run", "search as a configuration says"),
    "resume": (
        "run:Resume",
        "go on with a run that was stopped; more budget by --set budget.KEY=VALUE",
    ),
    "choose": ("choose:Choose", "pick one solution of a run's front, and export it as a model"),
    "predict": ("predict:Predict", "answer the records of a table with an exported model"),
    "serve": ("predict:Serve", "answer records over HTTP with an exported model"),
    "runs": ("list:Runs", "list the runs that are here, with their state and recommended solution"),
    "compare": ("compare:Compare", "compare runs: indicators, ranks, tests, one page"),
    "experiment": (
        "experiment:Experiment",
        "run methods on cases, several times each, and compare them",
    ),
    "library": ("library:LibraryCommand", "build, import or show a library of fitted models"),
    "certify": (
        "certify:Certify",
        "prove on fresh records which solutions of a front meet limits",
    ),
    "list": ("list:List", "list algorithms, problems, functions, datasets or metrics"),
    "trust": (
        "trust:Trust",
        "grant a file its effects beyond its folder, until it changes; --list, --forget",
    ),
    "schema": ("schema:Schema", "print the JSON schema of configurations, for editors"),
    "completion": (
        "init:Completion",
        "print the script with which your shell completes commands and options",
    ),
}
_RARE = ("library", "certify", "list", "sync", "trust", "schema", "completion")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _open_streams()
    try:
        name = _called(arguments)
        if name is None:  # help, or the sentence that a command is missing
            command_parser([]).parse_args(arguments)
            raise AssertionError
        from framework.cli.results import answering
        from framework.run.interruption import interruptible
        from framework.security import allowing, check_working_folder, trust

        check_working_folder()  # before the command imports libraries that read settings from it
        args, rest = command_parser([name]).parse_known_args(arguments)
        if rest:
            lists = f"{name}: expected arguments that `paretolab {name} --help-all` lists"
            raise InputError(f"{lists}, found {rest[0]!r}")
        if "" in arguments:  # such as a variable of the shell that is not set
            raise InputError(f"{name}: expected a text for each argument, found an empty one")
        with interruptible():
            trust(args.trust)
            wanted = getattr(args, "json", False)
            with allowing(args.allow), answering(name, as_json=wanted) as show:
                return show(args.run(args))
    except ParetolabError as error:
        return _refused(f"paretolab: {error}", error.exit_code)
    except ModuleNotFoundError as error:
        sentence = missing(error)
        if sentence is None:
            return _unexpected(error)
        return _refused(f"paretolab: {sentence}", sentence.exit_code)
    except KeyboardInterrupt as error:  # it has a sentence if something can be resumed
        return _refused(str(error.args[0]) if error.args else "paretolab: interrupted", 130)
    except BrokenPipeError:  # the reader of the output has ended, such as `head`
        _discard(sys.stdout)
        return 0
    except MemoryError as error:
        text = f"paretolab: this machine's memory does not suffice ({error})"
        return _refused(f"{text}; take fewer candidates at a time, less data or another machine", 2)
    except OSError as error:
        if not refuses(error):
            return _unexpected(error)
        text = (
            f"paretolab: {place_of(error) or 'the disk'}: cannot be used ({error.strerror}); "
            f"{remedy_of(error)} and run the command again"
        )
        try:
            sys.stdout.flush()
        except OSError:  # standard output is full, and Python would write the rest at its end
            _discard(sys.stdout)
        return _refused(text, 2)
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """Return the exit code of an error that hides an interruption; raise any other again.

    Compiled modules make another error of an interruption while they are imported.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        raise error
    return _refused("paretolab: interrupted", 130)


def _discard(stream: TextIO) -> None:
    """Send what a stream still holds, and what follows, to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_streams() -> None:
    """Open the null device for closed streams (``>&-``), so that no file takes their place."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")


def _refused(text: str, code: int) -> int:
    from framework.security import say

    try:
        say(text, sys.stderr)
    except OSError:  # standard error is full
        _discard(sys.stderr)
    return code


def _called(arguments: Sequence[str]) -> str | None:
    """Return the name of the command, or None without one; raises InputError for unknown names."""
    name = next((text for text in arguments if not text.startswith("-")), None)
    if name is not None and name not in (commands := _names()):
        raise InputError(
            f"expected a command, found {name!r}{registry.nearest(name, commands)}; "
            "`paretolab --help` lists them"
        )
    return name


def command_parser(called: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Parameters
    ----------
    called : collection of str, optional
        The commands whose arguments the parser has, by default all. If there are any, it does not
        know other commands; if it is empty, the parser knows names and help of all commands.
    """
    usual = [name for name in _names() if name not in _RARE]
    listed = [("commands:", usual), ("more:", [name for name in _RARE if name in _names()])]
    parser = _Parser(
        prog="paretolab",
        usage="paretolab [-h] [--version] COMMAND ...",
        description="Search the designs of classifier systems for the best trade-offs.",
        epilog="\n\n".join(_listed(*part) for part in listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("paretolab"))
    subparsers = parser.add_subparsers(
        prog="paretolab", metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    for name in _names():
        if called and name not in called:
            continue
        sub = subparsers.add_parser(name, help=_help(name))
        if called is None or name in called:
            command = _load(name)
            sub.description = command.__doc__
            command.add_arguments(sub)
            more = rarely(sub)
            more("--trust", action="append", default=[], metavar="CLASS", help=_TRUST)
            more("--allow", action="append", default=[], metavar="KIND=TARGET", help=_ALLOW)
            sub.set_defaults(run=command.run)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose help fails where it cannot be written; argparse's own says nothing of it."""

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file or sys.stderr, flush=True)


def _names() -> list[str]:
    """Return the name of every command: the framework's own, then what packages register."""
    return [*_OWN, *(name for name in registry.names("commands") if name not in _OWN)]


def _listed(title: str, names: Sequence[str]) -> str:
    """Return a list of commands with their lines of help."""
    width = min(shutil.get_terminal_size().columns - 2, 100)
    lines = [
        textwrap.fill(f"  {name:12}{_help(name)}", width, subsequent_indent=" " * 14)
        for name in names
    ]
    return "\n".join([title, *lines])


def _help(name: str) -> str:
    return _OWN[name][1] if name in _OWN else str(_load(name).help)


def _load(name: str) -> Any:
    if name not in _OWN:
        return registry.load("commands", name)
    module, _, attribute = _OWN[name][0].partition(":")
    return getattr(import_module(f"framework.cli.{module}"), attribute)
