"""``paretolab choose``: one solution of a front, or a mixture of several, and its model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from framework import registry
from framework.analysis.choose import (
    FALSE_POSITIVES,
    ExpectedCost,
    Mixture,
    Range,
    choose,
    mix,
    with_trivial,
)
from framework.analysis.hulls import recommend
from framework.cli.results import json_argument, model_of, records, solution, tell
from framework.cli.tables import (
    console,
    expectation_table,
    front_table,
    program,
    promises_table,
    sentence_of,
    show_model,
    show_promises,
    show_written,
)
from framework.errors import InputError, ParetolabError
from framework.experiment.choice import Pick, RunSource, asked, pick
from framework.experiment.expected import Sure, mixture_expectation
from framework.experiment.export import export, export_mixture, export_trivial
from framework.experiment.run_dir import RunDir
from framework.front import Front, Promise
from framework.problem import Problem, TrivialClassifier
from framework.security import say

_NOT_WITH_MIX = (
    "within", "sure", "knee", "weights", "costs", "prior", "per_unit", "prices", "id", "register",
)  # fmt: skip


class Choose:
    """Pick one solution of a finished run."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="directory of a run")
        parser.add_argument(
            "--where", action="append", default=[], metavar="COND", help="such as 'coverage>=0.9'"
        )
        parser.add_argument(
            "--within",
            action="append",
            default=[],
            metavar="METRIC=X",
            help="within X (0.02) or X%% of the best value left, such as accuracy=2%%",
        )
        parser.add_argument(
            "--sure",
            type=float,
            metavar="PERCENT",
            help="only solutions whose limits (--where) all hold in so many %% of resamples",
        )
        parser.add_argument("--best", metavar="METRIC", help="the best value of one metric")
        parser.add_argument(
            "--knee",
            action="store_true",
            help="nearest to the ideal (default; of a hull, its nearest corner)",
        )
        parser.add_argument(
            "--weights", metavar="M=W,M=W", help="least weighted sum of losses scaled to 0..1"
        )
        parser.add_argument(
            "--costs",
            metavar="fp=C,fn=C|CLASS=C,...",
            help="least expected cost of errors, with --prior; or of errors by true class, with "
            "which all designs are scored again",
        )
        parser.add_argument(
            "--prior",
            metavar="P|CLASS=P,...",
            help="share of positive records to come; or of each class, for all figures",
        )
        parser.add_argument(
            "--per-unit", metavar="M=C,M=C", help="cost of a unit of other metrics, with --costs"
        )
        parser.add_argument(
            "--prices",
            metavar="F=C,F=C",
            help="all designs scored again, without a search, with other prices of features",
        )
        parser.add_argument(
            "--mix",
            action="store_true",
            help="lots drawn between solutions: --where and --best are of expected values",
        )
        parser.add_argument("--id", type=int, help="the solution with this id")
        parser.add_argument(
            "--export",
            metavar="MODEL_DIR",
            help="write it as a model that runs, in a new directory",
        )
        parser.add_argument(
            "--register", metavar="NAME", help="in MLflow, as the next version of this model"
        )
        parser.add_argument("--no-mlflow", action="store_true", help="do not log the chosen model")
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        run_dir = RunDir.existing(args.directory)
        config = run_dir.config()
        if not run_dir.front_file.is_file():
            raise InputError(
                f"{args.directory}: expected a finished run, found no front.csv; run "
                f"`{program()} resume {args.directory}` first"
            )
        tracked = config.tracking is not None and run_dir.tracking_file.is_file()
        if args.register and (args.no_mlflow or not tracked):
            raise InputError(
                f"--register {args.register}: expected a run that is logged to MLflow, found that "
                f"{args.directory} is not; `{program()} sync {args.directory} --register "
                f"{args.register}` logs it"
            )
        front = run_dir.front()
        if args.mix:
            return _choose_mixture(args, run_dir, front)
        words: dict[str, Any] = {
            "costs": _numbers(args.costs, "--costs", "fp, fn or CLASS"),
            "prior": _prior(args.prior),
            "per_unit": _numbers(args.per_unit, "--per-unit", "METRIC"),
            "prices": _numbers(args.prices, "--prices", "FEATURE"),
        }
        anew, _ = asked(**words)
        if anew.words and args.register:
            options = " and ".join(f"--{word}" for word in anew.words)
            raise InputError(
                f"--register {args.register}: expected a solution as the run scored it, found "
                f"{options}; --export writes it as a model"
            )
        source = RunSource(run_dir)

        def usual(front: Front) -> int:
            return recommend(front, run_dir.anchors(), where=args.where, within=args.within)

        found = pick(
            source,
            where=args.where,
            within=args.within,
            best=args.best,
            knee=args.knee,
            weights=_numbers(args.weights, "--weights", "METRIC"),
            id=args.id,
            sure=args.sure,
            usual=usual,
            **words,
        )
        front, position, expected = found.front, found.position, found.expected
        out = console()
        if found.always is not None:
            return _choose_trivial(args, run_dir, source.problem(), found)
        returned = None if anew.words else run_dir.returned()
        out.print(front_table(front, mark=position, returned=returned))
        out.print(f"chosen (*): solution {front.ids[position]}")
        tell(lambda: {"directory": run_dir.path, **solution(front, position)})
        if found.sure is not None:
            share = found.sure.share[found.id]
            tell(lambda: {"limits_hold": share, "without_sure": front.ids[found.plain]})
            out.print(_price(found, found.sure, args.sure), soft_wrap=True)
            if found.sure.edge:
                out.print(found.sure.edge, soft_wrap=True)
        if args.id is None:
            promises = _show_expectation(source, found)
        else:  # no resample can repeat a choice by eye: what is known is that of its spot
            promises = front.promises(position)
            show_promises(out, front, position, run_dir.summary().get("expected") or {})
        if expected is not None:
            _show_costs(found, expected)
        if anew.words:  # the run, and what was chosen of it, stay as they are
            tell(lambda: {"front": records(front), "model": args.export})
            if args.export:
                about = {"run": config.name, "seed": config.seed, **anew.words}
                target = Path(args.export)
                export(source.problem(), front, position, target, about, promises, replaces=False)
                show_written(target)
            return 0
        if args.export:
            directory = Path(args.export)
            _keep(run_dir, source.problem(), position, promises, directory)
            show_written(directory)
        else:
            try:
                _keep(run_dir, source.problem(), position, promises)
            except ParetolabError as error:  # the choice stands, data or not
                say(f"its model and picture are not written: {error}", sys.stderr)
        run_dir.write_choice(int(front.ids[position]))
        tell(lambda: {"model": args.export or model_of(run_dir)})
        for name in ("chosen", "whole"):
            if name in registry.names("reports"):
                registry.load("reports", name)(run_dir)
        if tracked and not args.no_mlflow:
            code: int = registry.load("commands", "sync").upload(
                str(run_dir.path), register=args.register
            )
            return code if args.register else 0
        return 0


def _numbers(text: str | None, option: str, names: str) -> dict[str, float] | None:
    """Return ``name=number,name=number`` as a mapping; None for None.

    Raises
    ------
    InputError
        The text is not of that form.
    """
    if text is None:
        return None
    found = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"{option}: expected {names}=NUMBER, found {item!r}") from None
    return found


def _prior(text: str | None) -> float | dict[str, float] | None:
    """Return the share of positive records, or that of each class.

    Raises
    ------
    InputError
        The text is neither.
    """
    if text is None or "=" in text:
        return _numbers(text, "--prior", "CLASS")
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--prior: expected a share above 0 and below 1, or CLASS=SHARE,..., found {text!r}"
        ) from None


def _show_expectation(source: RunSource, found: Pick) -> Mapping[str, Promise]:
    """Print and return what to expect of the chosen solution on new records, where it is known."""
    front, position = found.front, found.position
    try:
        told = source.evidence()
        if told is None:
            return {}
        known = found.expectation(told)
    except ParetolabError as error:  # the choice stands without
        say(f"what to expect of this rule is not known: {error}", sys.stderr)
        show_promises(console(), front, position, {})
        return front.promises(position)
    tell(
        lambda: (
            solution(front, position, known.of)
            | {"again": known.again, "others": known.others, "unmet": known.unmet}
        )
    )
    out = console()
    out.print(expectation_table(front, position, known.of, told.sizes))
    out.print(sentence_of(known), soft_wrap=True)
    return known.of


def _price(found: Pick, sure: Sure, percent: float) -> str:
    """Return how sure the limits are, and what that costs against the rule without it."""
    front, position, plain = found.front, found.position, found.plain
    share = 100 * sure.share[int(front.ids[position])]
    text = f"its limits hold together in {share:.0f}% of the resamples"
    if plain == position:
        return f"{text}; the rule picks it without --sure {percent:g} too"
    before = 100 * sure.share[int(front.ids[plain])]
    changes = ", ".join(
        f"{name} {front.rows.values[name][plain]:.4g} -> {front.rows.values[name][position]:.4g}"
        for name in front.roles.names
    )
    return (
        f"{text}; without --sure {percent:g} it would be solution {front.ids[plain]}, with "
        f"{before:.0f}%; the price: {changes}"
    )


def _keep(
    run_dir: RunDir,
    problem: Problem,
    position: int,
    promises: Mapping[str, Promise],
    directory: Path | None = None,
) -> None:
    """Write the model of the solution that becomes the run's; a copy to ``directory``.

    Raises
    ------
    InputError
        A copy is wanted of what is no model, or where another model is.
    """
    config = run_dir.config()
    front = run_dir.front()
    about = {"run": config.name, "seed": config.seed}
    for target in [run_dir.model] if directory is None else [directory, run_dir.model]:
        ours = target == run_dir.model  # what was chosen last; elsewhere nothing is overwritten
        if not export(problem, front, position, target, about, promises, replaces=ours):
            if directory is None:
                return
            raise InputError(
                "--export: expected a solution that is a model to deploy, found one of problem "
                f"{config.problem.kind} that has no format to be written in"
            )
    show_model(console(), run_dir.model)


def _choose_trivial(
    args: argparse.Namespace, run_dir: RunDir, problem: Problem, found: Pick
) -> int:
    """Say that no solution is worth its cost, and export what is; the run's own choice stays.

    Raises
    ------
    InputError
        It shall be registered: MLflow's versions are of solutions.
    """
    always, front, expected = found.always, found.front, found.expected
    assert always is not None
    assert expected is not None
    if args.register:
        raise InputError(
            f"--register {args.register}: expected a solution of the run, found that "
            f"{always.name!r} costs least; --export writes it as a model"
        )
    costs = expected.of(found.candidates)
    sentence = f"{always.name!r} ({always.label}) costs least, {costs[found.position]:.6g} a record"
    best = None
    try:
        best = choose(front, where=args.where, within=args.within, expected=expected)
        sentence += f"; the best solution, {front.ids[best]}, costs {costs[best]:.6g}"
    except InputError:  # none meets the conditions
        sentence += "; no solution meets the conditions"
    out = console()
    out.print(front_table(front, mark=best, returned=run_dir.returned()))
    tell(
        lambda: {
            "directory": run_dir.path,
            "solution": None,
            "trivial": {"name": always.name, "label": always.label},
            "why": sentence,
            "model": args.export,
        }
    )
    out.print(f"no solution is chosen: {sentence}", markup=False, highlight=False, soft_wrap=True)
    _show_costs(found, expected)
    if args.export:
        directory, config = Path(args.export), run_dir.config()
        about = {"run": config.name, "seed": config.seed}
        reason = f"Of run {config.name}: {sentence}."
        export_trivial(problem, always, directory, about, note=reason)
        show_written(directory)
    return 0


def _show_costs(found: Pick, expected: ExpectedCost) -> None:
    """Print what the choice costs, and which one is best for which prior and costs."""
    front, trivial, position = found.candidates, found.trivial, found.position
    cost = expected.of(front)[position]
    tell(
        lambda: {
            "expected_cost": cost,
            "best_by_prior": _best_by(expected.by_prior(front), front, trivial),
            "best_by_cost_ratio": _best_by(expected.by_ratio(front), front, trivial),
        }
    )
    print(f"expected cost of a record: {cost:.6g}")
    if not front.roles.metrics[FALSE_POSITIVES].mixes:
        print("rates are of the answered records: what an unanswered one costs is not in it")
    for what, ranges in (
        ("share of positive records", expected.by_prior(front)),
        ("cost ratio fn / fp", expected.by_ratio(front)),
    ):
        print(f"best by {what}:")
        for piece in ranges:
            name = _named(front, piece.position, trivial)
            print(f"  {piece.low:.4g} to {piece.high:.4g}: {name}")


def _named(front: Front, position: int, trivial: Sequence[TrivialClassifier]) -> str:
    id = int(front.ids[position])
    return trivial[-1 - id].name if id < 0 else f"solution {id}"


def _best_by(
    ranges: Iterable[Range], front: Front, trivial: Sequence[TrivialClassifier]
) -> list[dict[str, Any]]:
    return [
        {"low": piece.low, "high": piece.high, "best": _named(front, piece.position, trivial)}
        for piece in ranges
    ]


def _choose_mixture(args: argparse.Namespace, run_dir: RunDir, front: Front) -> int:
    """Show the best mixture, and export it where asked; the run's own choice stays.

    Raises
    ------
    InputError
        Options that do not go with --mix, or no such mixture.
    """
    for option in _NOT_WITH_MIX:
        if getattr(args, option):
            shown = "--" + option.replace("_", "-")
            raise InputError(
                f"{shown}: cannot go with --mix, which takes --where and --best"
                + ("; least expected cost needs no mixture" if option == "costs" else "")
            )
    if args.best is None:
        raise InputError("--mix: expected --best METRIC too, found none")
    mix(front, best=args.best)  # what cannot be mixed is refused before data are loaded
    source = RunSource(run_dir)
    trivial = source.trivial()
    candidates = with_trivial(front, trivial)
    found = mix(candidates, best=args.best, where=args.where)
    out = console()
    out.print(_mixture_table(candidates, trivial, found))
    _show_mixture_expectation(source, candidates, found, args)
    tell(
        lambda: {
            "directory": run_dir.path,
            "mixture": [
                {"name": _named(candidates, position, trivial), "chance": chance}
                for position, chance in zip(found.positions, found.chances, strict=True)
            ],
            "metrics": found.expected,
            "model": args.export,
        }
    )
    if not args.export:
        return 0
    directory = Path(args.export)
    config = run_dir.config()
    about = {"run": config.name, "seed": config.seed}
    if not export_mixture(source.problem(), candidates, trivial, found, directory, about):
        raise InputError(f"--export: solutions of {run_dir.path} are no models that can be mixed")
    show_written(directory)
    return 0


def _show_mixture_expectation(
    source: RunSource, candidates: Front, mixture: Mixture, args: argparse.Namespace
) -> None:
    """Print what to expect of a mixture on new records, where it is known."""
    try:
        found = source.evidence()
        if found is None:
            return
        of, unmet = mixture_expectation(found, candidates, mixture, args.best, args.where)
    except ParetolabError as error:  # the mixture stands without
        say(f"what to expect of this mixture is not known: {error}", sys.stderr)
        return
    test = {
        name: float(mixture.chances @ column[mixture.positions])
        for name, column in (candidates.test or {}).items()
    }
    out = console()
    out.print(promises_table("The mixture on new records", of, test or None))
    if unmet:
        out.print(f"in {100 * unmet:.1f}% of resamples no mixture meets the conditions")


def _mixture_table(front: Front, trivial: Sequence[TrivialClassifier], mixture: Mixture) -> Table:
    """Return the members with their chances, and what all claim together, as lots fall."""
    table = Table(title="Mixture", title_justify="left", pad_edge=False)
    for heading in ("id", "chance", *mixture.expected):
        table.add_column(heading, justify="right")
    for position, chance in zip(mixture.positions, mixture.chances, strict=True):
        values = (f"{front.rows.values[name][position]:.4g}" for name in mixture.expected)
        id = int(front.ids[position])
        name = trivial[-1 - id].name if id < 0 else str(id)
        table.add_row(name, f"{chance:.4f}", *values, end_section=False)
    table.add_section()
    table.add_row("together", "1", *(f"{value:.4g}" for value in mixture.expected.values()))
    return table
