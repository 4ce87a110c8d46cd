"""``paretolab choose``: chooses a solution of a front, or a mixture, and exports its model."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from framework import registry
from framework.analysis.choose import FALSE_POSITIVES, ExpectedCost, choose, with_trivial
from framework.analysis.hulls import recommend
from framework.analysis.mixtures import Mixture, expect_mixture, mix
from framework.capabilities import TrivialClassifier
from framework.cli.arguments import finished, model_name, program, rarely
from framework.cli.results import (
    Part,
    Result,
    Table,
    figures,
    json_argument,
    model_of,
    records,
    solution,
)
from framework.cli.tables import (
    expectation_table,
    front_table,
    model,
    promises,
    promises_table,
    remains,
    sentence_of,
    written,
)
from framework.errors import InputError, ParetolabError, remedy_of
from framework.experiment.choice import Pick, RunSource, costs_asked_for, pick
from framework.experiment.expected import Sure
from framework.experiment.export import export, export_mixture, export_trivial
from framework.experiment.run_dir import RunDir
from framework.files import locked
from framework.front import Front, Promise
from framework.problem import Problem
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
        parser.add_argument("--best", metavar="METRIC", help="the best value of one metric")
        parser.add_argument(
            "--sure",
            type=float,
            metavar="PERCENT",
            help="only solutions whose limits (--where) hold on new records with this probability",
        )
        parser.add_argument(
            "--costs",
            metavar="fp=C,fn=C|CLASS=C,...",
            help="least expected cost of errors, with --prior; or of errors by true class, with "
            "which all candidates are scored again",
        )
        parser.add_argument("--id", type=int, help="the solution with this id")
        parser.add_argument(
            "--export",
            metavar="MODEL_DIR",
            help="write it as a model that runs, in a new directory",
        )
        json_argument(parser)
        more = rarely(parser)
        more(
            "--within",
            action="append",
            default=[],
            metavar="METRIC=X",
            help="within X (0.02) or X%% of the best value left, such as accuracy=2%%",
        )
        more(
            "--knee",
            action="store_true",
            help="nearest to the ideal (default; of a hull, its nearest corner)",
        )
        more("--weights", metavar="M=W,M=W", help="least weighted sum of losses scaled to 0..1")
        more(
            "--prior",
            metavar="P|CLASS=P,...",
            help="share of positives among future records; or of each class, then for all figures",
        )
        more("--per-unit", metavar="M=C,M=C", help="cost of a unit of other metrics, with --costs")
        more(
            "--prices",
            metavar="F=C,F=C",
            help="all candidates scored again, without a search, with other prices of features",
        )
        more(
            "--mix",
            action="store_true",
            help="draw lots between solutions: --where and --best apply to expected values",
        )
        more("--details", action="store_true", help="show how firm the choice is, in resamples")
        more(
            "--register",
            metavar="NAME",
            type=model_name,
            help="register it in MLflow, as a new version of NAME",
        )
        more("--no-mlflow", action="store_true", help="do not log the chosen model")

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        run_dir = finished(args.directory)
        with _alone(run_dir):
            return _chosen(args, run_dir)


@contextmanager
def _alone(run_dir: RunDir) -> Iterator[None]:
    """Keep out other choices from the run, so that choice, model and pictures are of one.

    A search may go on meanwhile. Where nothing can be written, there is nothing to keep.
    """
    if not os.access(run_dir.path, os.W_OK):
        yield
        return

    def wait() -> None:
        say(f"{run_dir.path}: waits until another choice from it is written", sys.stderr)

    with locked(run_dir.path / "choice.lock", wait):
        yield


def _chosen(args: argparse.Namespace, run_dir: RunDir) -> Result:
    """Return the result of a choice, which is written too."""
    tracked = run_dir.config().tracking is not None and run_dir.tracking_file.is_file()
    if args.register and (args.no_mlflow or not tracked):
        raise InputError(
            f"--register {args.register}: expected a run that is logged to MLflow, found that "
            f"{args.directory} is not; `{program()} sync "
            f"{shlex.join([args.directory, '--register', args.register])}` logs it"
        )
    if args.mix:
        return _mixture(args, run_dir)
    source = RunSource(run_dir)
    choice, rescoring = _picked(args, run_dir, source)
    if choice.always is not None:
        return _trivial(args, run_dir, source.problem(), choice)
    front, position = choice.front, choice.position
    result = Result(fields={"directory": run_dir.path, **solution(front, position)}).add(
        front_table(front, mark=position, returned=None if rescoring else run_dir.returned()),
        f"chosen (*): solution {front.ids[position]}",
    )
    of = _describe(result, args, run_dir, source, choice)
    if rescoring:  # the run and its choice are not changed
        if args.export:
            about, target = {**run_dir.origin(), **rescoring}, Path(args.export)
            export(source.problem(), front, position, target, about, of, replaces=False)
        return result.add(*written(args.export), front=lambda: records(front), model=args.export)
    if not _record(result, args, run_dir, source, choice, of):
        return result
    try:
        for name in ("chosen", "whole"):
            if name in registry.names("reports"):
                registry.load("reports", name)(run_dir)
    except (ParetolabError, OSError) as error:  # the choice stands
        remedy = f"; {remedy_of(error)}" if isinstance(error, OSError) else ""
        say(f"its pictures and its page are not drawn: {error}{remedy}", sys.stderr)
    if tracked and not args.no_mlflow:
        sync = registry.load("commands", "sync")
        logged: Result = sync.upload(str(run_dir.path), register=args.register)
        result.parts += logged.parts
        result.exit_code = logged.exit_code if args.register else 0
    return result


def _picked(
    args: argparse.Namespace, run_dir: RunDir, source: RunSource
) -> tuple[Pick, Mapping[str, Any]]:
    """Return the choice that the options ask for, and those that score all candidates again."""
    words: dict[str, Any] = {
        "costs": _numbers(args.costs, "--costs", "fp, fn or CLASS"),
        "prior": _prior(args.prior),
        "per_unit": _numbers(args.per_unit, "--per-unit", "METRIC"),
        "prices": _numbers(args.prices, "--prices", "FEATURE"),
    }
    rescoring = costs_asked_for(**words)[0].words
    if rescoring and args.register:
        options = " and ".join(f"--{word}" for word in rescoring)
        raise InputError(
            f"--register {args.register}: expected a solution as the run scored it, found "
            f"{options}; --export writes it as a model"
        )

    def usual(front: Front) -> int:
        return recommend(front, run_dir.anchors(), where=args.where, within=args.within)

    choice = pick(
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
    return choice, rescoring


def _describe(
    result: Result, args: argparse.Namespace, run_dir: RunDir, source: RunSource, choice: Pick
) -> Mapping[str, Promise]:
    """Add how sure the choice is and what it costs; return what to expect of it, if known."""
    front, position = choice.front, choice.position
    if choice.sure is not None:
        result.add(
            _price(choice, choice.sure, args.sure),
            choice.sure.edge,
            limits_hold=choice.sure.share[choice.id],
            without_sure=front.ids[choice.plain],
        )
    expected = run_dir.summary().get("expected") or {}
    if args.id is None:
        of = _add_expectation(result, source, choice, details=args.details)
        result.add(*(remains(expected) if of else []))
    else:  # no resample can repeat a choice by eye: what is known is that of its spot
        of = front.promises(position)
        result.add(*promises(front, position, expected, details=args.details))
    metric = front.roles.metrics.get(choice.rule["best"])
    if metric and not (metric.size or metric.name in front.roles.names):  # in no table
        value = front.rows.values[metric.name][position]
        result.add(f"best {metric.name}: {value:.4g} ({metric.text or metric.sense})")
    if choice.expected is not None:
        _add_costs(result, choice, choice.expected)
    return of


def _record(
    result: Result,
    args: argparse.Namespace,
    run_dir: RunDir,
    source: RunSource,
    choice: Pick,
    of: Mapping[str, Promise],
) -> bool:
    """Write the model and the choice; return False if the run's directory cannot be written."""
    frozen = not (args.register or os.access(run_dir.path, os.W_OK))
    targets = ([Path(args.export)] if args.export else []) + ([] if frozen else [run_dir.model])
    try:
        result.add(*_keep(run_dir, source.problem(), choice.position, of, targets))
    except ParetolabError as error:
        if args.export:
            raise
        say(f"its model and picture are not written: {error}", sys.stderr)  # the choice stands
    if frozen:
        say(f"{run_dir.path}: cannot be written, its own choice stays", sys.stderr)
        result.add(*written(args.export), model=args.export)
        return False
    run_dir.write_choice(int(choice.front.ids[choice.position]))
    result.add(*written(args.export), model=args.export or model_of(run_dir))
    return True


def _numbers(text: str | None, option: str, names: str) -> dict[str, float] | None:
    """Return ``name=number,...`` as a mapping, None for None; a name may have commas and =."""
    if text is None:
        return None
    numbers = {}
    for item in re.findall(r"(.+?=[^=,]*|.+)(?:,|$)", text) or [text]:
        name, _, value = item.rpartition("=")
        try:
            numbers[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"{option}: expected {names}=NUMBER, found {item!r}") from None
    return numbers


def _prior(text: str | None) -> float | dict[str, float] | None:
    """Return the share of positive records, or that of each class; raises InputError."""
    if text is None or "=" in text:
        return _numbers(text, "--prior", "CLASS")
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--prior: expected a share above 0 and below 1, or CLASS=SHARE,..., found {text!r}"
        ) from None


def _add_expectation(
    result: Result, source: RunSource, choice: Pick, *, details: bool
) -> Mapping[str, Promise]:
    """Add, and return, what to expect of the chosen solution on new records, if it is known."""
    front, position = choice.front, choice.position
    try:
        evidence = source.evidence()
        if evidence is None:
            return {}
        expectation = choice.expectation(evidence)
    except ParetolabError as error:  # the choice is valid without
        say(f"what to expect of this rule is not known: {error}", sys.stderr)
        result.add(*promises(front, position, {}))
        return front.promises(position)
    result.add(
        expectation_table(front, position, expectation.of, evidence.sizes),
        sentence_of(expectation) if details else "",
        **solution(front, position, expectation.of),
        again=expectation.again,
        others=expectation.others,
        unmet=expectation.unmet,
    )
    return expectation.of


def _price(choice: Pick, sure: Sure, percent: float) -> str:
    """Return how surely the limits hold, and what ``--sure`` costs in other metrics."""
    front, position, plain = choice.front, choice.position, choice.plain
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
    of: Mapping[str, Promise],
    targets: Sequence[Path],
) -> list[Part]:
    """Write the model of the chosen solution into directories, the run's own may be one of them.

    Return the description of the model, empty if the solution is none; then a directory other than
    the run's raises InputError, as it does if it has another model.
    """
    from framework.models.store import check_target  # it needs data frames

    front, about = run_dir.front(), run_dir.origin()
    for target in targets:  # none is written if one cannot be
        check_target(target)
    for target in targets:
        ours = target == run_dir.model  # only the run's own model may be overwritten
        if not export(problem, front, position, target, about, of, replaces=ours):
            if ours:
                return []
            raise InputError(
                "--export: expected a solution that is a model to deploy, found one of problem "
                f"{run_dir.config().problem.kind} that has no format to be written in"
            )
    return model(targets[-1]) if targets else []


def _trivial(args: argparse.Namespace, run_dir: RunDir, problem: Problem, choice: Pick) -> Result:
    """Return that a trivial classifier costs least, and export it; the run's choice stays.

    It cannot be registered: MLflow's versions are solutions.
    """
    always, front, expected = choice.always, choice.front, choice.expected
    assert always is not None
    assert expected is not None
    if args.register:
        raise InputError(
            f"--register {args.register}: expected a solution of the run, found that "
            f"{always.name!r} costs least; --export writes it as a model"
        )
    costs = expected.of(choice.candidates.rows.values)
    why = f"{always.name!r} ({always.label}) costs least, {costs[choice.position]:.6g} a record"
    best = None
    try:
        best = choose(front, where=args.where, within=args.within, expected=expected)
        why += f"; the best solution, {front.ids[best]}, costs {costs[best]:.6g}"
    except InputError:  # no solution meets the conditions
        why += "; no solution meets the conditions"
    result = Result().add(
        front_table(front, mark=best, returned=run_dir.returned()),
        f"no solution is chosen: {why}",
        directory=run_dir.path,
        solution=None,
        trivial={"name": always.name, "label": always.label},
        why=why,
        model=args.export,
    )
    _add_costs(result, choice, expected)
    if args.export:
        about = run_dir.origin()
        reason = f"Of run {about['run']}: {why}."
        export_trivial(problem, always, Path(args.export), about, note=reason)
    return result.add(*written(args.export))


def _add_costs(result: Result, choice: Pick, expected: ExpectedCost) -> None:
    """Add the expected cost of the choice, and which solution is best for which prior and costs."""
    front, trivial = choice.candidates, choice.trivial
    cost = expected.of(front.rows.values)[choice.position]
    result.add(f"expected cost of a record: {cost:.6g}", expected_cost=cost)
    if not front.roles.metrics[FALSE_POSITIVES].mixes:
        result.add("rates are of the answered records: what an unanswered one costs is not in it")
    for key, what, ranges in (
        ("best_by_prior", "share of positive records", expected.by_prior(front)),
        ("best_by_cost_ratio", "cost ratio fn / fp", expected.by_ratio(front)),
    ):
        pieces: list[dict[str, Any]] = [
            {"low": best.low, "high": best.high, "best": _named(front, best.position, trivial)}
            for best in ranges
        ]
        lines = (f"  {part['low']:.4g} to {part['high']:.4g}: {part['best']}" for part in pieces)
        result.add("\n".join([f"best by {what}:", *lines]), **{key: pieces})


def _named(front: Front, position: int, trivial: Sequence[TrivialClassifier]) -> str:
    id = int(front.ids[position])
    return trivial[-1 - id].name if id < 0 else f"solution {id}"


def _mixture(args: argparse.Namespace, run_dir: RunDir) -> Result:
    """Return the best mixture, and export it with ``--export``; the run's choice stays."""
    for option in _NOT_WITH_MIX:
        value = getattr(args, option)
        if value not in (None, []) and value is not False:  # 0 is a value
            shown = "--" + option.replace("_", "-")
            raise InputError(
                f"{shown}: cannot go with --mix, which takes --where and --best"
                + ("; least expected cost needs no mixture" if option == "costs" else "")
            )
    if args.best is None:
        raise InputError("--mix: expected --best METRIC too, found none")
    front = run_dir.front()
    mix(front, best=args.best)  # raises for metrics that cannot be mixed, before data are loaded
    source = RunSource(run_dir)
    trivial = source.trivial()
    candidates = with_trivial(front, trivial)
    mixture = mix(candidates, best=args.best, where=args.where)
    names = [_named(candidates, position, trivial) for position in mixture.positions]
    if args.export:
        directory, about = Path(args.export), run_dir.origin()
        if not export_mixture(source.problem(), candidates, trivial, mixture, directory, about):
            raise InputError(
                f"--export: solutions of {run_dir.path} are no models that can be mixed"
            )
    promises, unmet = _mixture_promises(source, candidates, trivial, mixture, args)
    test = {
        name: float(mixture.chances @ column[mixture.positions])
        for name, column in (candidates.test or {}).items()
    }
    result = Result().add(_mixture_table(candidates, mixture, names))
    if promises:
        result.add(promises_table("The mixture on new records", promises, test or None))
    if unmet:
        result.add(f"in {100 * unmet:.1f}% of resamples no mixture meets the conditions")
    return result.add(
        *written(args.export),
        directory=run_dir.path,
        mixture=[
            {"name": name, "chance": chance}
            for name, chance in zip(names, mixture.chances, strict=True)
        ],
        metrics={
            name: figures(claimed, promises.get(name), test.get(name))
            for name, claimed in mixture.expected.items()
        },
        model=args.export,
    )


def _mixture_promises(
    source: RunSource,
    candidates: Front,
    trivial: Sequence[TrivialClassifier],
    mixture: Mixture,
    args: argparse.Namespace,
) -> tuple[Mapping[str, Promise], float]:
    """Return what to expect of a mixture, and the share of resamples without one; {} if unknown."""
    try:
        evidence = source.evidence()
        if evidence is not None:
            positions = evidence.positions(candidates.ids[candidates.ids >= 0])
            about, spread = (candidates, positions, mixture), evidence.spreads(candidates)
            rule = args.best, args.where
            return expect_mixture(evidence.resamples, *about, *rule, spread, trivial)
    except ParetolabError as error:  # the mixture is valid without
        say(f"what to expect of this mixture is not known: {error}", sys.stderr)
    return {}, 0.0


def _mixture_table(front: Front, mixture: Mixture, names: Sequence[str]) -> Table:
    """Return the members with their chances and claimed metrics, and those of the mixture."""
    columns = {
        "member": [*names, "together"],
        "chance": [*(f"{chance:.4f}" for chance in mixture.chances), "1"],
    }
    for name, together in mixture.expected.items():
        values = [*front.rows.values[name][list(mixture.positions)], together]
        columns[name] = [f"{value:.4g}" for value in values]
    return Table("Mixture", columns)
