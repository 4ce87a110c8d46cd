"""``paretolab trust``: what files may do beyond their own folders, granted once and remembered."""

from __future__ import annotations

import argparse
from pathlib import Path

from framework import registry
from framework.cli.arguments import program
from framework.cli.results import Result, json_argument
from framework.errors import InputError, damaged
from framework.experiment.config import load_config, read_yaml
from framework.experiment.run_dir import RunDir
from framework.security import (
    EVERY_FILE,
    TRACKING,
    Received,
    forget,
    listed,
    note_address,
    parse_grant,
    read_object,
    received,
    remember,
    text_of,
)


class Trust:
    """Let files do what they do beyond their own folders, from now on.

    A file stays trusted while it is edited, as long as it does nothing new.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="*",
            help="configuration or directory of a run; or KIND=TARGET, such as "
            "host=mlflow.example.org, for every file",
        )
        parser.add_argument("--list", action="store_true", help="show what is trusted")
        parser.add_argument("--forget", action="store_true", help="trust the FILEs no longer")
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        if args.list == bool(args.files):
            raise InputError("trust: expected a FILE or more, or --list alone")
        change = _forgotten if args.forget else _trusted
        try:
            lines = [line for name in args.files for line in change(name)]
        except OSError as error:
            raise InputError(
                f"{error.filename}: expected a file to remember it in, found: {error.strerror}"
            ) from error
        trusted = [
            {"file": entry.file, "may": ["=".join(effect) for effect in entry.effects]}
            for entry in listed()
        ]
        if args.list:
            lines = [f"{one['file']}: {effect}" for one in trusted for effect in one["may"]]
        return Result().add(*(lines or ["nothing is trusted"]), trusted=trusted)


def effects_of(
    path: Path, overrides: list[str] | None = None, *, trusting: bool = False
) -> Received:
    """Return what a configuration, or the directory of a run, would do; nothing of it is done.

    A configuration that it names elsewhere, as an experiment's case may be, is read only where
    that was granted, or where the user trusts the file: what is in it counts as well.

    Raises
    ------
    InputError
        It cannot be read, or something is wrong with it.
    """
    directory = path.is_dir()
    file = RunDir.existing(path).config_file if directory else path
    raw = read_yaml(file)
    with received(file, overrides or [], raw, decide=False, asks=not trusting) as found:
        grid = RunDir(path).experiment_file if directory else file
        if "experiment" in raw or (directory and grid.is_file()):
            from framework.experiment.grid_load import load_grid

            load_grid(grid, overrides or [])
        elif directory and RunDir(path).sweep_file.is_file():
            sweep = {"sweep": read_yaml(RunDir(path).sweep_file)}
            registry.load("commands", "sweep").plan(raw | sweep, file, overrides or [])
        elif "sweep" in raw:
            registry.load("commands", "sweep").plan(raw, file, overrides or [])
        elif "library" in raw:
            _look_at_library(file, raw, overrides or [])
        else:
            load_config(file, overrides or [])
        if directory and RunDir(path).tracking_file.is_file():
            logged = read_object(RunDir(path).tracking_file, "what was logged").get("uri")
            with damaged(RunDir(path).tracking_file, "where the run is logged"):
                note_address(str(logged), "tracking.uri", TRACKING)
    return found


def result_of(found: Received) -> Result:
    """Return what a file would do, one effect a line, and whether it may."""
    missing = found.missing()
    lines, effects = [], []
    for effect in found.distinct():
        key, text, granted = found.key_of(effect), text_of(effect), effect not in missing
        may = "free" if found.is_free(effect) else "granted"
        lines.append(
            ("effect", f"{key}: {text} ({may if granted else f'NOT granted: {effect.grant}'})")
        )
        effects.append({"key": key, "effect": text, "granted": granted})
    return Result().add(lines, effects=effects)


def _look_at_library(file: Path, raw: dict[str, object], overrides: list[str]) -> None:
    from framework.cli.library import cluster_section, read_section
    from framework.libraries.config import BuildConfig, ImportConfig

    section = raw["library"]
    imports = isinstance(section, dict) and {"arrays", "models", "tabrepo"} & set(section)
    trained = isinstance(section, dict) and "dataset" in section
    read_section(file, overrides, ImportConfig if imports and not trained else BuildConfig)
    cluster_section(file, overrides)


def _trusted(name: str) -> list[str]:
    """Let a file do what it does; return a line for each thing."""
    if "=" in name and not Path(name).exists():
        grant = parse_grant(name)
        remember(None, [grant])
        return [f"{EVERY_FILE}: may {'='.join(grant)}"]
    found = effects_of(Path(name), trusting=True)
    wanted = [effect for effect in found.distinct() if not found.is_free(effect)]
    if not wanted:
        return [f"{name}: does nothing that needs trust"]
    remember(found.file, [effect[:2] for effect in wanted])
    return [f"{name}: {text_of(effect)}: trusted" for effect in wanted]


def _forgotten(name: str) -> list[str]:
    path = Path(name)
    known = str(RunDir(path).config_file) if path.is_dir() else name
    if not forget(known):
        raise InputError(
            f"{name}: expected a file that is trusted, found none of that name; "
            f"`{program()} trust --list` shows them"
        )
    return [f"{name}: trusted no longer"]
