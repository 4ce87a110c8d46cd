"""``paretolab library``: builds, imports or shows a library."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.cli.arguments import (
    add_cluster_arguments,
    config_argument,
    confirm_trust,
    overrides,
    program,
    set_argument,
    workers_argument,
    workers_of,
)
from framework.cli.results import Result, Table, json_argument
from framework.errors import InputError, listed
from framework.experiment.config import check, read_yaml
from framework.libraries.library import Library, load_library
from framework.parallel.config import ClusterConfig
from framework.run.display import Display
from framework.security import received


class LibraryCommand:
    """Make libraries of fitted models' predictions and costs, and look at them."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(metavar="ACTION", required=True)
        build = actions.add_parser(
            "build", help="train a pool of models, measure them, write their library"
        )
        _file_arguments(build)
        workers_argument(build)
        add_cluster_arguments(build)
        build.add_argument("--quiet", action="store_true", help="no progress")
        build.set_defaults(action=_build)
        bring = actions.add_parser(
            "import", help="make a library of arrays, fitted models or a TabRepo context"
        )
        _file_arguments(bring)
        bring.set_defaults(action=_import)
        show = actions.add_parser("show", help="list a library's models, scores and costs")
        show.add_argument("directory", metavar="DIR", help="directory of a library")
        show.add_argument("--by", metavar="COLUMN", help="score (default), id or a cost")
        json_argument(show)
        show.set_defaults(action=_show)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        result: Result = args.action(args)
        return result


def _file_arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser, name="file", help="YAML file with a section `library`")
    set_argument(parser, example="library.models=24")
    parser.add_argument("--out", metavar="DIR", help="directory (default: libraries/NAME)")
    json_argument(parser)


def read_sections(
    path: Path, overrides: Sequence[str], model: type[Any]
) -> tuple[Any, ClusterConfig]:
    """Return the checked sections of a file: ``library`` or ``problem.library.build``; ``cluster``.

    Raises
    ------
    InputError
        A section has mistakes; the message has a line for each.
    """
    raw, where = read_yaml(path, overrides), "library"
    section = raw.get("library")
    if section is None and isinstance(raw.get("problem"), dict):
        where = "problem.library.build"
        inner = raw["problem"].get("library")
        section = inner.get("build") if isinstance(inner, dict) else None
    elif set(raw) - {"library", "cluster"}:
        extra = sorted(set(raw) - {"library", "cluster"})[0]
        raise InputError(f"{path}: expected the key library alone, found {extra!r} beside it")
    if section is None:
        raise InputError(f"{path}: expected a section library, found none")
    base = {"base": path.parent}
    with received(path, overrides, raw):
        checked = check(model, section, f"{path}: {where}", base)
        return checked, check(ClusterConfig, raw.get("cluster", {}), f"{path}: cluster", base)


def _build(args: argparse.Namespace) -> Result:
    from framework.libraries.build import build_library
    from framework.libraries.config import BuildConfig

    config, cluster = read_sections(Path(args.file), overrides(args), BuildConfig)
    confirm_trust(cluster, args)
    folder = _target(args.out, config.name)
    with Display(quiet=args.quiet, transient=True) as display:
        library = build_library(
            config,
            folder,
            workers=workers_of(args.workers) or "auto",
            address=args.address,
            cluster=cluster,
            display=display,
        )
    return _made(library, folder, [f"warning: {note}" for note in library.notes])


def _import(args: argparse.Namespace) -> Result:
    from framework.libraries.config import ImportConfig
    from framework.libraries.importing import import_library

    config, _ = read_sections(Path(args.file), args.set, ImportConfig)
    folder = _target(args.out, config.name)
    library, notes = import_library(config, folder)
    return _made(library, folder, notes)


def _target(out: str | None, name: str) -> Path:
    return Path(out) if out else Path("libraries") / name


def _made(library: Library, folder: Path, notes: Sequence[str]) -> Result:
    lines = [*_lines(library), ("look at it", f"{program()} library show {folder}")]
    return Result([*notes, lines], _fields(library, folder))


def _show(args: argparse.Namespace) -> Result:
    library = load_library(args.directory)
    table = library_table(library, args.by or "score")
    return Result(fields=_fields(library, Path(args.directory))).add(_lines(library), table)


def _fields(library: Library, folder: Path) -> dict[str, Any]:
    """Return the fields of a library for ``--json``, with the models in the library's order."""
    name, best_first, scores = validation_scores(library)
    configs: Sequence[Mapping[str, Any]] = library.configs or [{}] * len(library)
    return {
        "directory": folder,
        "name": library.name,
        "fingerprint": library.fingerprint,
        "classes": library.classes,
        "records": {
            "validation": library.validation.shape[1],
            "test": None if library.test is None else library.test.shape[1],
        },
        "score": {"name": name.split("\n")[0], "better": "high" if best_first > 0 else "low"},
        "units": {key: cost.unit for key, cost in library.costs.items()},
        "models": [
            {
                "id": id,
                "family": config.get("family"),
                "score": score,
                "costs": {key: cost.values[i] for key, cost in library.costs.items()},
            }
            for i, (id, config, score) in enumerate(zip(library.ids, configs, scores, strict=True))
        ],
    }


def _lines(library: Library) -> list[tuple[str, str]]:
    test = "no" if library.test is None else f"{library.test.shape[1]:,}"
    labels = library.classes
    classes = "regression" if labels is None else f"classes {listed(labels)}"
    return [
        ("library", f"{library.name}: {len(library)} models, {classes}"),
        ("records", f"{library.validation.shape[1]:,} validation, {test} test"),
        (
            "costs",
            ", ".join(f"{k} ({c.unit})" if c.unit else k for k, c in library.costs.items())
            or "none",
        ),
        ("fingerprint", library.fingerprint[:16]),
    ]


def library_table(library: Library, by: str) -> Table:
    """Return one row per model: id, family, validation score, costs.

    Parameters
    ----------
    library : Library
    by : str
        The column to sort by: ``score`` (best first), ``id``, or a cost (least first).

    Raises
    ------
    InputError
        There is no such column.
    """
    name, best_first, scores = validation_scores(library)
    columns = {"score": -best_first * scores, **{k: c.values for k, c in library.costs.items()}}
    if by != "id" and by not in columns:
        raise InputError(f"--by: expected one of {', '.join(['id', *columns])}, found {by!r}")
    order = np.argsort(library.ids) if by == "id" else np.argsort(columns[by], kind="stable")
    shown = {"id": [library.ids[i] for i in order]}
    if library.configs is not None and any("family" in config for config in library.configs):
        shown["family"] = [str(library.configs[i].get("family", "")) for i in order]
    shown[name] = [f"{scores[i]:.4f}" for i in order]
    for key, cost in library.costs.items():
        heading = f"{key}\n({cost.unit})" if cost.unit else key
        shown[heading] = [f"{cost.values[i]:.4g}" for i in order]
    return Table("", shown)


def validation_scores(library: Library) -> tuple[str, int, Any]:
    """Return the name of a score, 1 if more is better or else -1, and the models' scores, (K,).

    The score is the area under the ROC curve (of several classes the mean of each against the
    rest), for regression the root of the mean squared error.
    """
    from sklearn.metrics import roc_auc_score, root_mean_squared_error

    y = library.y_validation
    if library.classes is None:
        scores = [root_mean_squared_error(y, row) for row in library.validation]
        return "RMSE\n(validation)", -1, np.array(scores)
    if len(library.classes) == 2:
        scores = [roc_auc_score(y, row) for row in library.validation]
    else:
        each = range(len(library.classes))
        scores = [
            np.mean([roc_auc_score(y == c, row[:, c]) for c in each]) for row in library.validation
        ]
    return "AUC\n(validation)", 1, np.array(scores)
