"""``paretolab init`` and ``paretolab completion``: to start with."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from framework.cli.tables import console, program, show_steps
from framework.errors import InputError
from framework.registry import nearest

_FILES = frozenset({"CONFIG", "DATA", "DIR", "FILE", "FRONT.csv", "MODEL_DIR", "PATH"})


class Init:
    """Write a commented starting configuration, with its data, into a folder."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        known = ", ".join(_templates())
        parser.add_argument("kind", metavar="KIND", help=f"one of {known}")
        parser.add_argument("--out", metavar="DIR", help="folder to write to (default: KIND)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        known = _templates()
        if args.kind not in known:
            raise InputError(
                f"init: expected one of {', '.join(known)}, found {args.kind!r}"
                f"{nearest(args.kind, known)}"
            )
        folder = Path(args.out or args.kind)
        _write(known[args.kind], folder)
        main = shlex.quote(str(folder / f"{args.kind}.yaml"))
        command = "experiment" if args.kind == "experiment" else "run"
        show_steps(
            console(),
            [
                ("written", ", ".join(sorted(path.name for path in folder.iterdir()))),
                ("change", f"{main}, where it says <-"),
                ("then", f"{program()} {command} {main}"),
            ],
        )
        return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of all parsers below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action


def _templates() -> dict[str, Traversable]:
    """Return the folders that can be written, by name."""
    found = files("framework.cli").joinpath("templates")
    return {entry.name: entry for entry in sorted(found.iterdir(), key=lambda e: e.name)}


def _write(template: Traversable, folder: Path) -> None:
    """Write the files of a template; none if one of them is there."""
    contents = {entry.name: entry.read_bytes() for entry in template.iterdir()}
    there = sorted(name for name in contents if (folder / name).exists())
    if there:
        raise InputError(
            f"--out {folder}: expected a folder without {there[0]}, found one with it; choose "
            "another folder, as nothing of yours is overwritten"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from error


class Completion:
    """Print a script that completes commands and options: eval "$(paretolab completion bash)"."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=["bash", "zsh", "fish"])

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        import shtab

        from framework.cli.main import command_parser

        parser = command_parser()
        for action in _actions(parser):
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, args.shell))
        return 0
