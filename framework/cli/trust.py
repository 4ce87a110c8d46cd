"""``paretolab trust``: what files may do beyond their own folders, granted once and remembered."""

from __future__ import annotations

import argparse
from pathlib import Path

from framework import registry
from framework.cli.results import json_argument, tell
from framework.cli.tables import console, program, show_steps
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
    def run(args: argparse.Namespace) -> int:
        if args.list == bool(args.files):
            raise InputError("trust: expected a FILE or more, or --list alone")
        try:
            for name in args.files:
                _forgotten(name) if args.forget else _trusted(name)
        except OSError as error:
            raise InputError(
                f"{error.filename}: expected a file to remember it in, found: {error.strerror}"
            ) from error
        tell(
            lambda: {
                "trusted": [
                    {"file": entry.file, "may": ["=".join(effect) for effect in entry.effects]}
                    for entry in listed()
                ]
            }
        )
        if args.list:
            _show()
        return 0


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
        if directory and RunDir(path).experiment_file.is_file():
            from framework.experiment.grid_load import reload_grid

            reload_grid(RunDir(path).experiment_file)
        elif directory and RunDir(path).sweep_file.is_file():
            sweep = {"sweep": read_yaml(RunDir(path).sweep_file)}
            registry.load("commands", "sweep").plan(raw | sweep, file, overrides or [])
        elif "sweep" in raw:
            registry.load("commands", "sweep").plan(raw, file, overrides or [])
        elif "experiment" in raw:
            from framework.experiment.grid_load import load_grid

            load_grid(file, overrides or [])
        elif "library" in raw:
            _look_at_library(file, raw, overrides or [])
        else:
            load_config(file, overrides or [])
        if directory and RunDir(path).tracking_file.is_file():
            logged = read_object(RunDir(path).tracking_file, "what was logged").get("uri")
            with damaged(RunDir(path).tracking_file, "where the run is logged"):
                note_address(str(logged), "tracking.uri", TRACKING)
    return found


def show_effects(found: Received) -> None:
    """Print what a file would do, one effect a line, and whether it may."""
    missing = found.missing()
    lines, effects = [], []
    for effect in found.distinct():
        free = "free" if found.is_free(effect) else "granted"
        may = f"NOT granted: {effect.grant}" if effect in missing else free
        lines.append(("effect", f"{found.key_of(effect)}: {text_of(effect)} ({may})"))
        known = {"key": found.key_of(effect), "effect": text_of(effect)}
        effects.append(known | {"granted": effect not in missing})
    tell(lambda: {"effects": effects})
    if lines:
        show_steps(console(), lines)


def _look_at_library(file: Path, raw: dict[str, object], overrides: list[str]) -> None:
    from framework.cli.library import cluster_section, read_section
    from framework.libraries.config import BuildConfig, ImportConfig

    section = raw["library"]
    imports = isinstance(section, dict) and {"arrays", "models", "tabrepo"} & set(section)
    trained = isinstance(section, dict) and "dataset" in section
    read_section(file, overrides, ImportConfig if imports and not trained else BuildConfig)
    cluster_section(file, overrides)


def _trusted(name: str) -> None:
    out = console()
    if "=" in name and not Path(name).exists():
        grant = parse_grant(name)
        remember(None, [grant])
        out.print(f"{EVERY_FILE}: may {'='.join(grant)}", highlight=False, soft_wrap=True)
        return
    path = Path(name)
    found = effects_of(path, trusting=True)
    wanted = [effect for effect in found.distinct() if not found.is_free(effect)]
    if not wanted:
        out.print(f"{name}: does nothing that needs trust", highlight=False, soft_wrap=True)
        return
    remember(found.file, [effect[:2] for effect in wanted])
    for effect in wanted:
        out.print(f"{name}: {text_of(effect)}: trusted", highlight=False, soft_wrap=True)


def _forgotten(name: str) -> None:
    path = Path(name)
    known = str(RunDir(path).config_file) if path.is_dir() else name
    if not forget(known):
        raise InputError(
            f"{name}: expected a file that is trusted, found none of that name; "
            f"`{program()} trust --list` shows them"
        )
    console().print(f"{name}: trusted no longer", highlight=False, soft_wrap=True)


def _show() -> None:
    out, entries = console(), listed()
    for entry in entries:
        for effect in entry.effects:
            out.print(f"{entry.file}: {'='.join(effect)}", highlight=False, soft_wrap=True)
    if not entries:
        out.print("nothing is trusted")
