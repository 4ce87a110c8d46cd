"""Options of all commands that use a cluster: which one, and what travels to its nodes."""

from __future__ import annotations

import argparse
import json
import os

from framework.errors import InputError
from framework.parallel.config import TRUST_VARIABLE, ClusterConfig, placed

_SECTION = "cluster."


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group("cluster", "instead of what the section cluster says")
    group.add_argument("--address", metavar="ADDR", help="Ray cluster to join: auto or host:port")
    group.add_argument(
        "--py-module",
        action="append",
        default=[],
        metavar="PATH",
        help="folder of a package, .py file or wheel that workers can import; once for each",
    )
    group.add_argument(
        "--pip",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="package that is installed for the workers; once for each",
    )
    group.add_argument(
        "--env-var",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="variable of the workers' environment; once for each",
    )
    group.add_argument(
        "--working-dir", metavar="DIR", help="folder that is copied to where workers run"
    )
    group.add_argument(
        "--trust-cluster",
        action="store_true",
        help="do what the section cluster of a file says, although it may run code on workers",
    )


def overrides(args: argparse.Namespace) -> list[str]:
    """Return ``--set`` and the options of the cluster as assignments to dotted keys.

    Raises
    ------
    InputError
        An option cannot be used.
    """
    typed = {
        "py_modules": [placed(path) for path in args.py_module],
        "pip": args.pip,
        "env_vars": dict(map(_pair, args.env_var)),
        "working_dir": args.working_dir and placed(args.working_dir),
    }
    options = [f"{_SECTION}{key}={json.dumps(value)}" for key, value in typed.items() if value]
    return [*args.set, *options]


def confirm_trust(config: ClusterConfig, args: argparse.Namespace) -> None:
    """Note whether the user vouches for what a section has run on workers.

    What is typed is the user's own; what a file says may come from anyone.
    """
    keys = {text.partition("=")[0] for text in overrides(args)}
    typed = {key.removeprefix(_SECTION) for key in keys if key.startswith(_SECTION)}
    if args.trust_cluster or (typed and typed >= set(config.brings_code())):
        os.environ[TRUST_VARIABLE] = "1"


def shipped(config: ClusterConfig) -> str:
    """Return, for the user, what travels to workers; it is checked as far as it can be here.

    Raises
    ------
    InputError
        It names what is not there, or what Ray does not take.
    """
    from framework.parallel.shipping import user_env

    named = user_env(config)
    shown = {key: sorted(value) if key == "env_vars" else value for key, value in named.items()}
    text = "; ".join(f"{key}: {_listed(value)}" for key, value in shown.items())
    return f"{text} (with --trust-cluster)" if text else ""


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--env-var: expected NAME=VALUE, found {text!r}")
    return name, value
