"""Arguments that several commands have, and other helpers that commands share."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.errors import CLOSED, FULL, TAKEN, InputError, ParetolabError, remedy_of

if TYPE_CHECKING:  # the help of the command needs none of these
    from framework.experiment.config import RunConfig
    from framework.experiment.execute import Options
    from framework.experiment.run_dir import RunDir
    from framework.parallel.config import ClusterConfig

SHIPPED = Path(__file__).parents[2] / "configs"  # in the wheel and in a clone

_SECTION = "cluster."


class HelpAll(argparse.Action):
    """The option that prints the help including rare options; see :func:`rarely`."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)
        self.rare: list[tuple[argparse.Action, str]] = []  # with the texts of their help

    def reveal(self) -> None:
        """Make the help, and scripts of completion, show the rare options from now on."""
        for action, text in self.rare:
            action.help = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        self.reveal()
        parser.print_help()
        parser.exit()


def rarely(parser: argparse.ArgumentParser) -> Callable[..., None]:
    """Return ``add_argument`` for options that only ``--help-all`` shows."""
    shown = next((action for action in parser._actions if isinstance(action, HelpAll)), None)
    if shown is None:
        text = "show all options, the rare ones too, and exit"
        parser.add_argument("--help-all", action=HelpAll, help=text)
        return rarely(parser)

    def add(*names: str, help: str, **options: Any) -> None:
        action = parser.add_argument(*names, help=argparse.SUPPRESS, **options)
        shown.rare.append((action, help))

    return add


def config_argument(
    parser: argparse.ArgumentParser, *, name: str = "config", help: str = "YAML file"
) -> None:
    """Add the argument of a configuration: a file, or one that comes with paretolab."""
    parser.add_argument(name, metavar="CONFIG", type=config_path, help=help)


def config_path(text: str) -> str:
    """Return the path of a configuration that comes with paretolab; other paths unchanged.

    If the user has a file at that path, it takes precedence.
    """
    path = Path(text)
    ours = SHIPPED.parent / path
    wanted = path.parts[:1] == (SHIPPED.name,) and ".." not in path.parts
    return str(ours) if wanted and not path.exists() and ours.is_file() else text


def model_name(text: str) -> str:
    """Return the name of a registered model; raises InputError for one that MLflow refuses."""
    if not text.strip() or {*"/:"} & {*text}:
        raise InputError(f"--register: expected a name without / and :, found {text!r}")
    return text


def config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the configuration and the options that override its keys."""
    config_argument(parser)
    set_argument(parser)
    parser.add_argument("--repeats", type=int, help="repetitions with other seeds")
    parser.add_argument("--seed", type=int, help="seed of the run, or of its first repetition")
    workers_argument(parser)


def workers_argument(parser: argparse.ArgumentParser) -> None:
    """Add --workers."""
    parser.add_argument(
        "--workers",
        metavar="auto|serial|all|N",
        help="where work is done: where it is faster, in this process, on Ray with all cores or N",
    )


def set_argument(
    parser: argparse.ArgumentParser, example: str = "algorithm.mutation_rate=0.1"
) -> None:
    """Add --set."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"override a key, such as {example}",
    )


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run searches: of the cluster, --no-mlflow, --quiet."""
    add_cluster_arguments(parser)
    parser.add_argument("--no-mlflow", action="store_true", help="do not log to MLflow")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    rarely(parser)(
        "--tracking-uri", metavar="URI", help="log there, as --set tracking.uri=URI does"
    )


def tracked_as_asked(config: RunConfig, args: argparse.Namespace) -> RunConfig:
    """Return the configuration, without tracking if ``--no-mlflow`` is given.

    It is stored in the directory of the run, so that ``resume`` does not log either.
    """
    return config.model_copy(update={"tracking": None}) if args.no_mlflow else config


def top_level(args: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the options for top-level keys of a configuration, None if not given.

    Raises InputError as :func:`workers_of`.
    """
    return {"repeats": args.repeats, "seed": args.seed, "workers": workers_of(args.workers)}


def workers_of(text: str | None) -> str | int | None:
    """Return the value of --workers, with a number as int; raises InputError."""
    if text is None or text in ("auto", "serial", "all"):
        return text
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise InputError(f"--workers: expected auto, serial, all or 1 or more, found {text!r}")
    return int(text)


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --address, and the options for keys of the section cluster."""
    parser.add_argument("--address", metavar="ADDR", help="Ray cluster to join: auto or host:port")
    more = rarely(parser)
    for name, metavar, text in (
        ("--py-module", "PATH", "folder of a package, .py file or wheel that workers can import"),
        ("--pip", "PACKAGE", "package that is installed for the workers"),
        ("--env-var", "NAME=VALUE", "variable of the workers' environment"),
    ):
        text = f"{text}; once for each"
        more(name, action="append", default=[], metavar=metavar, help=text)
    more("--working-dir", metavar="DIR", help="folder that is copied to where workers run")
    more(
        "--trust-cluster",
        action="store_true",
        help="do what the section cluster of a file says, although it may run code on workers",
    )


def overrides(args: argparse.Namespace) -> list[str]:
    """Return ``--set`` and options of the cluster as ``dotted.key=value``; raises InputError."""
    from framework.parallel.config import placed

    typed = {
        "py_modules": [placed(path) for path in args.py_module],
        "pip": args.pip,
        "env_vars": dict(map(_pair, args.env_var)),
        "working_dir": args.working_dir and placed(args.working_dir),
    }
    options = [f"{_SECTION}{key}={json.dumps(value)}" for key, value in typed.items() if value]
    uri = getattr(args, "tracking_uri", None)
    options += [] if uri is None else [f"tracking.uri={json.dumps(uri)}"]
    return [*args.set, *options]


def confirm_trust(config: ClusterConfig, args: argparse.Namespace) -> None:
    """Trust the section cluster if the user has confirmed it.

    That is the case with ``--trust-cluster``, or if the user typed all keys by which code may run
    on workers: the file may come from anyone.
    """
    from framework.security import trust_cluster

    keys = {text.partition("=")[0] for text in overrides(args)}
    typed = {key.removeprefix(_SECTION) for key in keys if key.startswith(_SECTION)}
    if args.trust_cluster or (typed and typed >= set(config.brings_code())):
        trust_cluster()


def shipped(config: ClusterConfig) -> str:
    """Return a text on what is sent to workers; raises InputError if it does not exist."""
    from framework.parallel.shipping import user_env

    named = user_env(config)
    shown = {key: sorted(value) if key == "env_vars" else value for key, value in named.items()}
    texts = {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in shown.items()}
    text = "; ".join(f"{key}: {value}" for key, value in texts.items())
    return f"{text} (with --trust-cluster)" if text else ""


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--env-var: expected NAME=VALUE, found {text!r}")
    return name, value


def refuses(error: OSError) -> bool:
    """Return whether the disk is full, or a file may not be used, or a folder is in its place."""
    return error.errno in (*FULL, *CLOSED, *TAKEN)


def place_of(error: OSError) -> Any:
    """Return the path that cannot be used, None if unknown; of a renaming, the new name."""
    return error.filename2 or error.filename


@contextmanager
def running(
    config: RunConfig, run_dir: RunDir, args: argparse.Namespace, **more: Any
) -> Iterator[Options]:
    """Yield the options of what runs in a directory, whose progress is shown.

    ``more`` are further ones. An interruption becomes a sentence that says how to go on.

    Raises
    ------
    ParetolabError
        The disk is full, or a file cannot be written.
    KeyboardInterrupt
        The user pressed Ctrl-C; its argument is the sentence.
    """
    from framework.experiment.execute import Options
    from framework.run.display import Display
    from framework.run.terminal import console

    confirm_trust(config.cluster, args)
    errors = console(stderr=True)
    errors.say(f"{config.name}: {run_dir.path}")
    again = f"{program()} resume {shlex.quote(str(run_dir.path))}"
    try:
        yield Options(args.address, errors.say, Display(quiet=args.quiet, console=errors), **more)
    except KeyboardInterrupt:
        begun = run_dir.has_begun
        text = (
            f"interrupted; go on with: {again}" if begun else "interrupted before the search began"
        )
        raise KeyboardInterrupt(text) from None
    except OSError as error:
        if not refuses(error):
            raise
        where = place_of(error) or run_dir.path
        raise ParetolabError(
            f"{where}: cannot write ({error.strerror}); no evaluation that was written is lost: "
            f"{remedy_of(error)} and run `{again}`"
        ) from error


def finished(directory: str) -> RunDir:
    """Return the directory of a run that has a front.

    Raises
    ------
    InputError
        It is not the directory of a run, or the run has not ended.
    """
    from framework.experiment.run_dir import RunDir

    return RunDir.finished(directory, f"run `{program()} resume {shlex.quote(directory)}` first")


def program() -> str:
    """Return how the user can call paretolab: by name if it is on the path, or else by its path."""
    script = Path(sys.argv[0])
    installed = shutil.which("paretolab")
    if script.name != "paretolab" or (installed and Path(installed).resolve() == script.resolve()):
        return "paretolab"
    return shlex.quote(short_path(script))


def short_path(path: Path) -> str:
    """Return the shorter of the path and its form relative to the current directory."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):  # not below it, or there is no current directory
        return str(path)
