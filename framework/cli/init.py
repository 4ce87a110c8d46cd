"""``paretolab init`` and ``paretolab completion``: the commands to start with."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from framework.cli.arguments import SHIPPED, HelpAll, config_path, program
from framework.cli.results import Result, json_argument
from framework.cli.trust import effects_of
from framework.errors import InputError
from framework.registry import nearest

_FILES = frozenset({"CONFIG", "DATA", "DIR", "FILE", "FRONT.csv", "MODEL_DIR", "PATH"})


class Init:
    """Write a commented starting configuration, with its data, into a folder."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        kinds = ", ".join(_templates())
        parser.add_argument(
            "kind",
            metavar="KIND",
            nargs="?",
            help=f"one of {kinds}; or a configuration that --list names",
        )
        parser.add_argument(
            "--out", metavar="DIR", help="folder to write to (default: KIND, or that of the table)"
        )
        parser.add_argument(
            "--table",
            metavar="FILE",
            help="your own table, CSV or Parquet, in place of the template's data",
        )
        parser.add_argument("--target", metavar="COLUMN", help="with --table: column of the labels")
        parser.add_argument("--list", action="store_true", help="list templates and configurations")
        parser.add_argument("--all", action="store_true", help="with --list: all configurations")
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        kinds = _templates()
        if args.list:
            return _listed(kinds, everything=args.all)
        if (args.table is None) != (args.target is None):
            one, other = ("--target", "--table") if args.table is None else ("--table", "--target")
            raise InputError(f"init: expected {one} together with {other}, found it alone")
        if args.table is not None:
            readers = [kind for kind in kinds if "dataset:" in _text(kinds[kind], kind)]
            if args.kind not in readers:
                sentence = f"init: expected --table with one of {', '.join(readers)}"
                raise InputError(f"{sentence}, found {args.kind!r}")
        if args.kind in kinds:
            beside = args.kind if args.table is None else Path(args.table).parent
            folder = Path(args.out or beside)
            contents = {entry.name: entry.read_bytes() for entry in kinds[args.kind].iterdir()}
            file = folder / f"{args.kind}.yaml"
            if args.table is not None:
                template = _text(kinds[args.kind], args.kind)
                contents = {file.name: _with_table(template, args.table, args.target, file)}
        elif (source := Path(config_path(args.kind or ""))).suffix == ".yaml" and source.is_file():
            folder = Path(args.out or source.stem)
            contents = {source.name: source.read_bytes()}
            file = folder / source.name
        else:
            near = nearest(args.kind, [*kinds, *map(str, _configurations())])
            take = f"; for a table: {program()} init KIND --table {shlex.quote(str(source))} "
            take += "--target COLUMN"
            raise InputError(
                f"init: expected one of {', '.join(kinds)}, or a configuration that `{program()} "
                f"init --list` names, found {(args.kind and repr(args.kind)) or 'none'}{near}"
                f"{take if source.is_file() else ''}"
            )
        _write(contents, folder)
        main, commands = shlex.quote(str(file)), ["check" if args.table else _command_of(file)]
        if args.table and effects_of(file, trusting=True).missing():
            commands = ["trust", *commands]
        then = " && ".join(f"{program()} {command} {main}" for command in commands)
        lines = [
            ("written", ", ".join(sorted(contents))),
            ("change", f"{main}, where it says <-" if args.kind in kinds else main),
            ("then", then),
        ]
        return Result().add(lines, folder=folder, file=file, then=then)


def _text(template: Traversable, kind: str) -> str:
    return template.joinpath(f"{kind}.yaml").read_text(encoding="utf-8")


def _with_table(template: str, table: str, target: str, place: Path) -> bytes:
    """Return a template for a place and a table: what belongs to its own data becomes a comment.

    Raises InputError where the table cannot be read or lacks the column, or its path is no Unicode.
    """
    from framework.data.datasets import DatasetConfig, load_table
    from framework.data.table_files import FileOptions, read_frame
    from framework.experiment.run_dir import slug

    file = Path(table)
    read_frame(file, FileOptions(columns=(target,)))
    path = os.path.relpath(file.resolve(), place.parent.resolve())
    values = {"path": path, "target": target, "name": slug(file.stem) or place.stem}
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    lines, block, margin = [], "", 0
    for line in re.sub("It runs without changes, on [^.]*[.] ", "", template).splitlines():
        text = line.lstrip()
        indent = len(line) - len(text)
        key, _, value = text.partition(":")
        note = line[line.index("#") :] if "#" in line else ""
        if block and indent <= margin:
            block = ""
        if key == "name" or (block == "dataset" and key in quoted):
            line = f"{line[:indent]}{key}: {quoted[key]}  {note}"
        elif key == "tracking":
            line = re.sub(r"experiment: \w+", f"experiment: {quoted['name']}", line)
        elif key == "dataset" and value.strip():
            inner = f"path: {quoted['path']}, target: {quoted['target']}"
            line = f"{line[:indent]}dataset: {{{inner}}}"
        elif key in ("dataset", "costs") and not value.strip():
            block, margin = key, indent
            line = line if key == "dataset" else f"{line[:indent]}# {text}"
        elif key == "max_stages":
            with suppress(InputError):  # what is wrong with the table, `check` says
                features = load_table(DatasetConfig(path=file, target=target)).features
                line = line.replace("4", str(min(4, features.shape[1])), 1)
        elif block and not text.startswith("#"):
            line = f"{line[:indent]}# {text}"
        lines.append(line.rstrip())
    try:
        return "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError as error:
        sentence = f"--table {table!r}: expected a path in Unicode, as configurations are"
        raise InputError(f"{sentence}, found other bytes; rename it") from error


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of all its subparsers."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action


def _templates() -> dict[str, Traversable]:
    """Return the folders of the templates, by name."""
    folder = files("framework.cli").joinpath("templates")
    return {entry.name: entry for entry in sorted(folder.iterdir(), key=lambda e: e.name)}


def _configurations() -> list[Path]:
    """Return the paths of the configurations that come with paretolab, for use in commands."""
    return sorted(path.relative_to(SHIPPED.parent) for path in SHIPPED.glob("**/*.yaml"))


def _command_of(file: Path) -> str:
    """Return the command that runs a configuration."""
    text = file.read_text(encoding="utf-8", errors="replace")
    sections = {line.partition(":")[0] for line in text.splitlines()}
    commands = [name for name in ("experiment", "sweep") if name in sections]
    return commands[0] if commands else "library build" if "library" in sections else "run"


def _listed(templates: Iterable[str], *, everything: bool) -> Result:
    """Return the templates, and configurations with their commands; the first ones or all."""
    paths = _configurations()
    first = [path for path in paths if len(path.parts) == 2 or path.stem == "quickstart"]
    rest = len(paths) - len(first)
    configurations = [
        {"file": path, "command": _command_of(SHIPPED.parent / path)}
        for path in (paths if everything else first)
    ]
    return Result().add(
        f"To change, `{program()} init KIND`: {', '.join(templates)}",
        f"To run without changes; `{program()} init CONFIG` writes a copy:",
        *(f"  {program()} {config['command']} {config['file']}" for config in configurations),
        "" if everything else f"and {rest} more, most of them of papers: `init --list --all`",
        kinds=list(templates),
        configurations=configurations,
    )


def _write(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a template, or none if one of them exists."""
    if folder.suffix in (".yaml", ".yml") and not folder.is_dir():
        raise InputError(
            f"--out {folder}: expected a folder, found the name of a file; give --out "
            f"{folder.parent}, where the file has the name of its template"
        )
    present = sorted(name for name in contents if os.path.lexists(folder / name))
    if present:
        raise InputError(
            f"--out {folder}: expected a folder without {present[0]}, found one with it; choose "
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
    def run(args: argparse.Namespace) -> Result:
        import shtab

        from framework.cli.main import command_parser

        parser = command_parser()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                action.help = "command"  # shtab leaves out commands whose help is suppressed
        for action in _actions(parser):
            if isinstance(action, HelpAll):
                action.reveal()
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, args.shell))
        return Result()
