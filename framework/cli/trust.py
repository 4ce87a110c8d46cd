"""``paretolab trust``: grants files what they do beyond their own folders, until they change."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from framework import registry
from framework.cli.arguments import program
from framework.cli.results import Result, json_argument
from framework.errors import InputError, damaged
from framework.experiment.config import load_config, read_yaml
from framework.experiment.run_dir import RunDir
from framework.security import (
    TRACKING,
    Received,
    forget,
    is_trusted,
    line_text,
    listed,
    note_address,
    read_object,
    received,
    text_of,
    trust_files,
)


class Trust:
    """Grant files the effects that they have beyond their own folders, until they change.

    `check` lists these effects. The configurations that an experiment names count as parts of it: a
    change of one of them ends the grant, too. A run that has begun keeps what it was granted.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="*",
            help="configuration, or directory of a run; where one is refused, none is trusted",
        )
        parser.add_argument("--list", action="store_true", help="show the files that are trusted")
        parser.add_argument("--forget", action="store_true", help="trust the FILEs no longer")
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        if args.list == bool(args.files):
            raise InputError("trust: expected a FILE or more, or --list alone")
        change = _forgotten if args.forget else _trusted
        try:
            lines = change(args.files)
        except OSError as error:
            raise InputError(
                f"{error.filename}: expected a file to remember it in, found: {error.strerror}"
            ) from error
        trusted = [
            {"file": file, "with": [name for name in names if name != file], "unchanged": same}
            for file, names in listed().items()
            for same in [is_trusted(Path(file), [Path(name) for name in names])]
        ]
        if args.list:
            lines = [
                f"{item['file']}{'' if item['unchanged'] else ': changed since, trusted no longer'}"
                for item in trusted
            ]
        return Result().add(*(lines or ["nothing is trusted"]), trusted=trusted)


def effects_of(path: Path, overrides: Sequence[str] = (), *, trusting: bool = False) -> Received:
    """Return the effects that a configuration, or the directory of a run, would have.

    They include those of other configurations that it names, as a case of an experiment may. These
    are only read if that was granted, or if the user is about to trust the file (``trusting``).

    Raises
    ------
    InputError
        It cannot be read, or has mistakes.
    """
    directory = path.is_dir()
    file = RunDir.existing(path).config_file if directory else path
    raw = read_yaml(file, overrides)
    with received(path, overrides, raw, decide=False, asks=not trusting) as received_file:
        grid = RunDir(path).experiment_file if directory else file
        swept = directory and RunDir(path).sweep_file.is_file()
        if "experiment" in raw or (directory and grid.is_file()):
            from framework.experiment.grid_load import load_grid

            load_grid(grid, overrides)
        elif "sweep" in raw or swept:
            sweep = {"sweep": read_yaml(RunDir(path).sweep_file)} if swept else {}
            registry.load("commands", "sweep").plan(raw | sweep, file, overrides)
        elif "library" in raw:
            _look_at_library(file, raw, overrides)
        else:
            load_config(file, overrides)
        if directory and RunDir(path).tracking_file.is_file():
            logged = read_object(RunDir(path).tracking_file, "what was logged").get("uri")
            with damaged(RunDir(path).tracking_file, "where the run is logged"):
                note_address(str(logged), "tracking.uri", TRACKING)
    return received_file


def result_of(file: Received) -> Result:
    """Return the effects of a file, a line each, and whether they are granted."""
    missing = file.missing()
    lines, effects = [], []
    for effect in file.distinct():
        key, text, granted = file.key_of(effect), text_of(effect), effect not in missing
        may, grant = "free" if file.is_free(effect) else "granted", line_text(effect.grant)
        lines.append(
            ("effect", f"{line_text(key)}: {text} ({may if granted else f'NOT granted: {grant}'})")
        )
        effects.append({"key": key, "effect": text, "granted": granted})
    return Result().add(lines, effects=effects)


def _look_at_library(file: Path, raw: dict[str, object], overrides: Sequence[str]) -> None:
    from framework.cli.library import read_sections
    from framework.libraries.config import BuildConfig, ImportConfig

    section = raw["library"]
    imports = isinstance(section, dict) and {"arrays", "models", "tabrepo"} & set(section)
    trained = isinstance(section, dict) and "dataset" in section
    read_sections(file, overrides, ImportConfig if imports and not trained else BuildConfig)


def _trusted(names: Sequence[str]) -> list[str]:
    """Trust files, all of them or none; return a line for each effect."""
    try:
        files = [(name, effects_of(Path(name), trusting=True)) for name in names]
    except InputError as error:
        none = "" if len(names) == 1 else f"\nnone of them is trusted: {', '.join(names)}"
        raise InputError(f"{error}{none}") from error
    lines, with_effects = [], []
    for name, file in files:
        effects = [effect for effect in file.distinct() if not file.is_free(effect)]
        with_effects += [file] if effects else []
        for effect in effects:
            how = "with --trust-cluster alone" if effect.kind == "cluster" else "trusted"
            lines.append(f"{name}: {text_of(effect)}: {how}")
        lines += [] if effects else [f"{name}: does nothing that needs trust"]
    trust_files(with_effects)
    return lines


def _forgotten(names: Sequence[str]) -> list[str]:
    missing = [name for name in names if not forget(Path(name))]
    if missing:
        others = "; the others are trusted no longer" if len(missing) < len(names) else ""
        raise InputError(
            f"{', '.join(missing)}: expected a file that is trusted, found none of that name; "
            f"`{program()} trust --list` shows them{others}"
        )
    return [f"{name}: trusted no longer" for name in names]
