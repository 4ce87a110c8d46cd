"""Tables and texts of fronts, solutions and models for commands, and the user's next steps."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from framework.analysis.expectations import Expectation, standing_of
from framework.arrays import Array, evenly
from framework.cli.arguments import program, short_path
from framework.cli.results import Part, Result, Table
from framework.errors import first_few
from framework.experiment.export import exported_solution, marked
from framework.experiment.run_dir import RunDir
from framework.extras import installed
from framework.front import Front, Promise, span
from framework.models.walk import Chosen, Walk

MOST_ROWS = 14
_MOST_FEATURES = 12
_MOST_CLASSES = 12  # in a table: the 3 largest and the 9 smallest ones


def front_table(front: Front, *, mark: int | None, returned: Front | None) -> Table:
    """Return the front as a table with at most 14 rows, spread evenly in the order of cost.

    Parameters
    ----------
    front : Front
    mark : int, optional
        Position of a solution that is always shown, with a star.
    returned : Front, optional
        What the method returns by its own definition; a column marks these solutions.
    """
    names = _shown(front)
    amounts = [name for name in front.roles.names if front.roles.metrics[name].kind == "ratio"]
    by = amounts[0] if amounts else front.roles.names[0]
    order = np.argsort(front.rows.values[by], kind="stable")
    shown = _spread(order, mark)
    part = "" if len(shown) == len(front) else f", {len(shown)} of them shown"
    columns = {"id": [f"{front.ids[i]}{' *' if i == mark else ''}" for i in shown]}
    for name in names:
        columns[_heading(front, name)] = [cell(front.rows.values[name][i]) for i in shown]
    for name, setting in front.settings.items():
        columns[name] = ["" if np.isnan(setting[i]) else f"{setting[i]:g}" for i in shown]
    test, dim = front.test or {}, []
    for name in names if test else ():
        if not np.array_equal(test[name], front.rows.values[name], equal_nan=True):
            heading = f"{name}\n(test)"  # a cost may not differ, and has no such column
            columns[heading] = [cell(test[name][i]) for i in shown]
            dim.append(heading)
    if returned is not None:
        columns["returned"] = ["yes" if front.ids[i] in returned.ids else "" for i in shown]
    plural = "" if len(front) == 1 else "s"
    return Table(f"Front: {len(front)} solution{plural}{part}", columns, dim)


def expectation_table(
    front: Front, position: int, of: Mapping[str, Promise], sizes: Mapping[str, int]
) -> Table:
    """Return a solution's metrics as claimed, as expected, and on test records.

    ``of`` has the promises by metric; ``sizes`` says how many records were ``searched`` and
    ``tested``. The columns on test records are dimmed: no choice may depend on them.
    """
    names = [n for n in _shown(front) if n in of and not front.roles.metrics[n].size]
    test = None if front.test is None else {n: float(front.test[n][position]) for n in names}
    title = f"Solution {front.ids[position]} on new records"
    searched, tested = (int(sizes.get(name) or 0) for name in ("searched", "tested"))
    ranges = None
    if test is not None and searched and tested:
        metrics = front.roles.metrics
        ranges = tested, {n: of[n].of_test(searched, tested, metrics[n]) for n in names}
    return promises_table(title, {name: of[name] for name in names}, test, ranges)


def promises_table(
    title: str,
    of: Mapping[str, Promise],
    test: Mapping[str, float] | None,
    ranges: tuple[int, Mapping[str, tuple[float, float]]] | None = None,
) -> Table:
    """Return metrics as claimed, as expected, and on test records.

    ``ranges`` are the number of test records and, by metric, the 95% range on as many records.
    """
    columns = {
        "metric": list(of),
        "claimed": [cell(promise.claimed) for promise in of.values()],
        "expected": [cell(promise.expected) for promise in of.values()],
        "95% range of\nthe expectation": [
            span(cell(promise.low), cell(promise.high)) for promise in of.values()
        ],
    }
    before = set(columns)
    if ranges is not None:
        columns[f"95% range of\n{ranges[0]:,} records"] = [
            span(*map(cell, ranges[1][name])) for name in of
        ]
    if test is not None:
        columns["test"] = [cell(test[name]) for name in of]
    return Table(title, columns, columns.keys() - before)


def promises(
    front: Front, position: int, expected: Mapping[str, Any], *, details: bool = False
) -> list[Part]:
    """Return what to expect of a solution of a front, or why that is not known.

    ``expected`` is the entry of the run's summary; with ``details``, how firm the choice is
    follows.
    """
    of_metrics = front.promises(position)
    if of_metrics:
        table = expectation_table(front, position, of_metrics, expected)
        firm = [standing_of(front, position, expected)] if details else []
        return [table, *firm, *remains(expected)]
    if expected.get("unknown"):
        return [f"what to expect on new records is not known: {expected['unknown']}"]
    return []


def remains(expected: Mapping[str, Any]) -> list[str]:
    """Return the known errors of the expectation, from the run's summary."""
    lines = expected.get("remains")
    return [str(line) for line in lines] if isinstance(lines, list) else []


def sentence_of(expectation: Expectation) -> str:
    """Return how firm the choice of a rule is, in words."""
    others, unevaluated = expectation.others, expectation.beside
    text = f"the rule picks this solution in {100 * expectation.again:.0f}% of resamples"
    if others:
        text += ", 1 other takes turns" if others == 1 else f", {others} others take turns"
    if expectation.unmet:
        text += f"; in {100 * expectation.unmet:.1f}% no candidate meets the conditions"
    text += f" ({expectation.designs - unevaluated:,} candidates evaluated"
    text += f" and {unevaluated:,} that could have been chosen, too" if unevaluated else ""
    if not expectation.whole:
        text += f", of which the {expectation.resampled:,} likeliest were resampled"
    return f"{text})"


def walk_table(chosen: Chosen) -> Table:
    """Return the table of a system's stages: where records leave, how confident and how right."""
    walk = chosen.walk
    rows = [
        (
            str(number),
            first_few(stage.features, _MOST_FEATURES),
            f"{stage.cost_so_far:g}",
            f"{stage.entering:,}",
            f"{stage.leaving:,}",
            f"{stage.confidence:.3f}" if stage.leaving else "",
            f"{stage.accuracy:.3f}" if stage.leaving else "",
        )
        for number, stage in enumerate(walk.stages, start=1)
    ]
    rows.append(("", "no answer", "", "", f"{walk.rejected:,}", "", ""))
    headings = (
        "stage", "acquires", "cost\nso far", "records\nreach it", "leave\nhere",
        "claimed\nconfidence", "share\nright",
    )  # fmt: skip
    columns = dict(zip(headings, zip(*rows, strict=True), strict=True))
    return Table(f"Solution {chosen.solution}, {walk.measured}", columns)


def class_table(walk: Walk) -> Table:
    """Return how many records of each class get an answer, and the right one; largest first."""
    order = sorted(range(len(walk.classes)), key=lambda k: -sum(walk.confusions["validation"][k]))
    shown = order if len(order) <= _MOST_CLASSES else [*order[:3], *order[3 - _MOST_CLASSES :]]
    columns = {"class": [walk.classes[k] for k in shown]}
    for part, rows in walk.confusions.items():
        name = walk.part_name(part)
        answered = [sum(rows[k][:-1]) for k in shown]
        columns[f"{name}\nrecords"] = [f"{sum(rows[k]):,}" for k in shown]
        columns[f"{name}\nanswered"] = [f"{count:,}" for count in answered]
        columns[f"{name}\nright"] = [
            f"{rows[k][k]:,}" + (f" ({rows[k][k] / count:.3f})" if count else "")
            for k, count in zip(shown, answered, strict=True)
        ]
    more = len(order) - len(shown)
    title = "By class, records unweighted" if walk.weighted else "By class"
    return Table(title + (f" ({more} more)" if more else ""), columns)


def walk(chosen: Chosen | None) -> list[Part]:
    """Return the tables of a system with stages, and its warnings; nothing for None."""
    if chosen is None:
        return []
    tables = [walk_table(chosen), *([class_table(chosen.walk)] if chosen.walk.confusions else [])]
    return [*tables, *(f"warning: {sentence}" for sentence in chosen.walk.warnings())]


def model(directory: Path) -> list[Part]:
    """Return the walk of records through a model or, if it has no stages, its description."""
    chosen = Chosen.read(directory)
    if chosen is not None or not (directory / "model.json").is_file():
        return walk(chosen)
    from framework.models.store import load_model

    card = load_model(directory).card()
    return [card.title, card.text.strip()]


def next_steps(run_dir: RunDir, front: Front, *, tracked: bool) -> list[tuple[str, str]]:
    """Return what to look at and what to do after a run: (label, text) pairs."""
    command, place = program(), shlex.quote(short_path(run_dir.path))
    steps = [("run directory", short_path(run_dir.path))]
    report = run_dir.path / "report.html"
    if report.is_file():
        steps.append(("report", short_path(report)))
    pages = sorted(run_dir.plots.glob("*.html"))
    if pages:
        names = ", ".join(page.name for page in pages)
        steps.append(("plots", f"{short_path(run_dir.plots)} ({names})"))
    if (run_dir.model / "model.json").is_file():
        held, choice = exported_solution(run_dir.model), run_dir.choice()
        mine = choice is not None and held == choice
        why = "as you chose" if mine else "nearest to the ideal point"
        mark = "*" if held == front.ids[marked(run_dir, front)] else f"solution {held}"
        label = "chosen" if mine else "recommended"
        steps.append((label, f"{short_path(run_dir.model)} ({mark}, {why})"))
    example = _example(front, run_dir.config().name)
    if not run_dir.model.is_dir():
        example = example.partition(" --export")[0]
    steps.append(("choose another", f"{command} choose {place} {example}"))
    if tracked and installed("mlflow"):
        steps.append(("MLflow pages", f"{command} ui"))
    return steps


def checked(lines: list[tuple[str, str]], verdict: str = "nothing is wrong with it") -> Result:
    """Return the result of a check: facts, by labels that may occur several times."""
    facts: dict[str, list[str]] = {}
    for label, text in lines:
        facts.setdefault(label.replace(", ", "_").replace(" ", "_"), []).append(text)
    warnings = facts.pop("warning", [])
    return Result().add(
        lines,
        verdict,
        facts={key: texts[0] if len(texts) == 1 else texts for key, texts in facts.items()},
        warnings=warnings,
    )


def written(directory: str | None) -> list[Part]:
    """Return where a model was written, and how to try it; nothing for None."""
    if directory is None:
        return []
    from framework.models.store import EXAMPLE_FILE

    example = Path(directory, EXAMPLE_FILE)
    data = shlex.quote(str(example)) if example.is_file() else "DATA.csv"
    command = f"{program()} predict {shlex.quote(directory)} {data}"
    return [f"model written to {directory}", [("try it", command)]]


def _example(front: Front, name: str) -> str:
    """Return example options of `choose` that suit this front, with a new folder for the model."""
    path = Path("models", name)
    numbers = count(2)
    while path.exists():
        path = path.with_name(f"{name}-{next(numbers)}")
    rates = [o for o in front.roles.objectives if front.roles.metrics[o.metric].kind == "bounded"]
    if not rates:
        return f"--best {front.roles.names[0]} --export {path}"
    first = rates[0]
    median = float(np.median(front.rows.values[first.metric]))
    sign = ">=" if first.sense == "max" else "<="
    bound = np.floor(median * 100) / 100 if sign == ">=" else np.ceil(median * 100) / 100
    best = next((name for name in front.roles.names if name != first.metric), first.metric)
    return f"--where '{first.metric}{sign}{bound:g}' --best {best} --export {path}"


def _shown(front: Front) -> list[str]:
    """Return the metrics to show: objectives, then constraints, then sizes of a solution."""
    names = [*front.roles.names, *(c.metric for c in front.roles.constraints)]
    names += [name for name, metric in front.roles.metrics.items() if metric.size]
    return list(dict.fromkeys(names))


def _spread(order: Array, mark: int | None) -> list[int]:
    picked = {*order[evenly(len(order), MOST_ROWS)].tolist(), mark}
    return [i for i in order.tolist() if i in picked]


def _heading(front: Front, name: str) -> str:
    senses = {o.metric: o.sense for o in front.roles.objectives}
    arrow = {"max": " ↑", "min": " ↓"}.get(senses.get(name, ""), "")
    unit = front.roles.metrics[name].unit
    return f"{name}{arrow}" + (f"\n({unit})" if unit else "")


def cell(value: Any) -> str:
    """Return a number as text for a table; NaN, of a metric that some records lack, as a dash."""
    number = float(value) + 0.0  # -0.0 is 0
    if math.isnan(number):
        return "-"
    if number.is_integer() and abs(number) < 1e6:
        return f"{int(number)}" if number > 1 else f"{number:.3f}".rstrip("0").rstrip(".")
    if abs(number) < 0.01:
        return f"{number:.2g}"
    return f"{number:.4f}" if abs(number) < 1 else f"{number:,.2f}"
