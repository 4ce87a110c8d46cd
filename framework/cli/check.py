"""``paretolab check``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from framework import registry
from framework.algorithm import Algorithm, fitting
from framework.cli.arguments import (
    add_cluster_arguments,
    config_arguments,
    overrides,
    shipped,
    top_level,
)
from framework.cli.results import Result, json_argument
from framework.cli.tables import checked
from framework.cli.trust import effects_of, result_of
from framework.components import building_nothing
from framework.errors import InputError, NotBuiltError, ParetolabError, listed
from framework.experiment.config import RunConfig, load_config, read_yaml
from framework.experiment.estimate import built_first, candidates_of, estimate, memory_warning
from framework.experiment.single_run import make_problem
from framework.problem import Problem

_ROWS_A_WORKER = 4  # max_pending per worker, below which workers wait for each other
_PARTS = ("train", "validation", "out_of_fold", "test")  # of the records
_MOST_OF_BUDGET = 0.01  # the share of a budget that may be pending without loss of quality


class Check:
    """Say what a run, an experiment or a sweep would do, without running it; nothing is trained."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        config_arguments(parser)
        add_cluster_arguments(parser)
        json_argument(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> Result:
        effects = result_of(effects_of(Path(args.config), overrides(args)))
        try:
            summary = _checked(args)
        except ParetolabError:  # for example, an effect is not granted
            effects.show()
            raise
        return effects.add(*summary.parts, **summary.fields)


def _checked(args: argparse.Namespace) -> Result:
    """Return what a configuration would run; raises InputError for its mistakes."""
    raw = read_yaml(Path(args.config))
    if "experiment" in raw:
        from framework.cli.experiment import Experiment

        return Experiment.check(args)
    if "sweep" in raw:
        result: Result = registry.load("commands", "sweep").check(args)
        return result
    config = load_config(args.config, overrides(args), **top_level(args))
    ships = shipped(config.cluster)
    with building_nothing() as put_off:
        try:
            problem, algorithm = _made(config)
        except NotBuiltError as error:
            notes = [("warning", note) for note in error.notes]
            return checked(
                [("name", config.name), *notes, *built_first(put_off)],
                "nothing is wrong with it, as far as can be checked before that",
            )
    kind = config.algorithm.kind
    data = problem.describe()
    lines = [("name", config.name)]
    if data:
        parts = [f"{data[key]:,} {key.replace('_', '-')}" for key in _PARTS if key in data]
        lines += [
            ("data", f"{data['name']}: {data['source']}"),
            ("records", f"{data['records']:,} ({', '.join(parts)})"),
        ]
        if "measure" in data:
            lines.append(("measured", f"{data['measured']} ({data['measure']})"))
        classes = f"; classes {listed(data['classes'])}" if data.get("classes") else ""
        lines += [(key, f"{data[key]:,}{classes}") for key in ("features", "models") if key in data]
    lines += [("costs", text) for text in data.get("costs", ())]
    candidates = candidates_of(config, algorithm)
    needs, memory = estimate(problem, algorithm, candidates), problem.memory(candidates)[1]
    doubts = [*data.get("notes", ()), memory_warning(needs.more)]
    lines += [("warning", doubt) for doubt in doubts if doubt]
    lines += built_first(put_off)
    size, resources = problem.space.size, config.cluster.resources.shape()
    limits = algorithm.roles.limits_of_constraints()
    lines += [
        ("candidates", f"{problem.space!r}" + (f", {_number(size)} in all" if size else "")),
        ("objectives", ", ".join(f"{o.metric} ({o.sense})" for o in config.objectives)),
        ("constraints", ", ".join(f"{m} {sign} {x:g}" for m, sign, x in limits) or "none"),
        ("algorithm", ", ".join(f"{k}={v}" for k, v in config.algorithm)),
        ("others fit", ", ".join(n for n in fitting(problem) if n != kind) or "none"),
        ("plan", algorithm.plan or "as the budget goes"),
        ("budget", ", ".join(f"{k}={v}" for k, v in config.budget if v is not None)),
        ("memory", memory or "little"),
        ("at the peak", f"about {needs.memory / 1e9:,.1f} GB in this process"),
        ("first answers", needs.time(problem.component_name) or "within seconds"),
        ("seed, repeats", f"{config.seed}, {config.repeats}"),
        ("workers", str(config.workers)),
        ("each takes", ", ".join(f"{v:g} {k}" for k, v in resources.items())),
        ("to workers", ships or "nothing beside what is installed here"),
        ("tracking", config.tracking.uri if config.tracking else "none"),
    ]
    for advice in _max_pending_advice(config, candidates):
        lines.append(("max_pending", advice))
    return checked(lines)


def _made(config: RunConfig) -> tuple[Problem, Algorithm]:
    """Return problem and algorithm; raises InputError with a line for each mistake of them."""
    kind = config.algorithm.kind
    try:
        problem = make_problem(config)
    except InputError as error:
        raise InputError("\n".join([str(error), *_misspelt(config)])) from error
    try:
        roles = config.roles(problem)
    except InputError as error:
        lines = [str(error)]
        if kind not in (others := fitting(problem)):
            lines.append(
                f"algorithm.kind: expected one that searches this problem ({', '.join(others)}), "
                f"found {kind!r}"
            )
        raise InputError("\n".join(lines)) from error
    return problem, config.algorithm.make(problem, roles, config.seed)


def _misspelt(config: RunConfig) -> Iterator[str]:
    """Yield a message for each misspelt name of a metric, without the problem itself.

    A problem may have metrics that its class does not list, so a name only counts as misspelt if it
    is very similar to a listed one.
    """
    metrics = config.problem.registered_class.known_metrics
    names = [metric.name for metric in metrics]
    for place, used in (("objectives", config.objectives), ("constraints", config.constraints)):
        for role in used:
            near = registry.nearest(role.metric, names, 0.8)
            if role.metric not in names and near:
                yield f"{place}: expected a metric of the problem, found {role.metric!r}{near}"


def _max_pending_advice(config: RunConfig, rows: int | None) -> Iterator[str]:
    """Yield reasons against the max_pending of a configuration."""
    max_pending = getattr(config.algorithm, "max_pending", None)
    if not isinstance(max_pending, int):
        return
    if isinstance(config.workers, int) and max_pending < _ROWS_A_WORKER * config.workers:
        yield (
            f"{config.workers} workers would often wait; give "
            f"{_ROWS_A_WORKER * config.workers} or more, or fewer workers"
        )
    if rows is not None and max_pending > _MOST_OF_BUDGET * rows:
        yield (
            f"more than 1% of the {rows:,} evaluations, which can cost quality; give less, or more "
            "evaluations"
        )


def _number(size: int) -> str:
    """Return a number as text, or only its order of magnitude if it is large."""
    return f"{size:,}" if size < 10**15 else f"about 10^{math.log10(size):.0f}"
