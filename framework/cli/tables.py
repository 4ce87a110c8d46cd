"""The output of commands: the front as a table, and commands that the user can copy."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from framework.analysis.expectations import Expectation
from framework.analysis.front_expectations import standing_of
from framework.arrays import Array, IntArray
from framework.cli.results import tell, wants_json
from framework.experiment.certification import Certification
from framework.experiment.run_dir import RunDir
from framework.extras import installed
from framework.front import Front, Promise
from framework.models.walk import Chosen, Walk
from framework.security import terminal_text

_MOST_ROWS = 14
_MOST_FEATURES = 12
_MOST_CLASSES = 12  # the 3 largest and the 9 smallest ones


def console(stderr: bool = False) -> Console:
    """Return a console; it does not fold tables if the output is not a terminal.

    What is in brackets or between colons is printed as it is: names of columns may have such. With
    ``--json``, nothing is printed on standard output.
    """
    quiet = wants_json() and not stderr
    as_it_is = partial(_PlainConsole, stderr=stderr, quiet=quiet, markup=False, emoji=False)
    plain = as_it_is()
    return plain if plain.is_terminal else as_it_is(width=120)


class _PlainConsole(Console):
    """A console on which no text from elsewhere is a command to the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=terminal_text(part.text))


def program() -> str:
    """Return how the user can call this command: its name if it is on the path, else its path."""
    own = Path(sys.argv[0])
    found = shutil.which("paretolab")
    if own.name != "paretolab" or (found and Path(found).resolve() == own.resolve()):
        return "paretolab"
    return shlex.quote(_short(own))


def front_table(
    front: Front, *, mark: int | None = None, returned: IntArray | None = None
) -> Table:
    """Return the front as a table, at most 14 rows spread over the order of the first amount.

    Parameters
    ----------
    front : Front
    mark : int, optional
        Position of a solution to show in any case, with a star.
    returned : numpy.ndarray, shape (r,), optional
        Ids of what the method returns by its own definition: a column says which are.
    """
    names = _shown(front)
    order = np.argsort(front.rows.values[_ordering(front)], kind="stable")
    picked = _spread(order, mark)
    left = "" if len(picked) == len(front) else f", {len(picked)} of them shown"
    table = Table(
        title=f"Front: {len(front)} solutions{left}", title_justify="left", pad_edge=False
    )
    table.add_column("id", justify="right")
    for name in names:
        table.add_column(_heading(front, name), justify="right")
    tested = [name for name in names if _differs_on_test(front, name)]
    for name in tested:
        table.add_column(f"{name}\n(test)", justify="right", style="dim")
    if returned is not None:
        table.add_column("returned")
    for i in picked:
        star = " *" if i == mark else ""
        cells = [_cell(front.rows.values[name][i]) for name in names]
        cells += [_cell((front.test or {})[name][i]) for name in tested]
        if returned is not None:
            cells.append("yes" if front.ids[i] in returned else "")
        table.add_row(f"{front.ids[i]}{star}", *cells)
    return table


def expectation_table(
    front: Front, position: int, of: Mapping[str, Promise], sizes: Mapping[str, int]
) -> Table:
    """Return what the metrics of a solution claim, what to expect of them, and how they came out.

    ``of`` has them by name; ``sizes`` says how many records were ``searched`` and ``tested``. The
    last columns, the test records and their range, only inform: no choice may depend on them.
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
    """Return what is claimed, what to expect of it, and how it came out on the test records.

    ``ranges`` are of the figures on so many test records.
    """
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column("metric")
    for name in ("claimed", "expected", "95% range of\nthe expectation"):
        table.add_column(name, justify="right")
    if ranges is not None:
        table.add_column(f"95% range of\n{ranges[0]:,} records", justify="right", style="dim")
    if test is not None:
        table.add_column("test", justify="right", style="dim")
    for name, promise in of.items():
        cells = [_cell(promise.claimed), _cell(promise.expected)]
        cells.append(f"{_cell(promise.low)} to {_cell(promise.high)}")
        if ranges is not None:
            low, high = ranges[1][name]
            cells.append(f"{_cell(low)} to {_cell(high)}")
        if test is not None:
            cells.append(_cell(test[name]))
        table.add_row(name, *cells)
    return table


def show_promises(out: Console, front: Front, position: int, expected: Mapping[str, Any]) -> None:
    """Print what to expect of a solution as a front has it; why it is not known where it does not.

    ``expected`` is what the run's summary says of it.
    """
    promises = front.promises(position)
    if promises:
        out.print(expectation_table(front, position, promises, expected))
        out.print(standing_of(front, position, expected), soft_wrap=True)
    elif expected.get("unknown"):
        why = f"what to expect on new records is not known: {expected['unknown']}"
        out.print(why, markup=False, highlight=False, soft_wrap=True)


def sentence_of(known: Expectation) -> str:
    """Return how firm a rule's pick is, in words."""
    others = f"{known.others} other{'' if known.others == 1 else 's'}"
    turns = f", {others} take{'s' if known.others == 1 else ''} turns" if known.others else ""
    text = f"the rule picks this design in {100 * known.again:.0f}% of resamples{turns}"
    if known.unmet:
        text += f"; in {100 * known.unmet:.1f}% no design meets the conditions"
    part = "" if known.whole else f", of which the {known.resampled:,} likeliest were resampled"
    beside = f" and {known.beside:,} of their neighbours" if known.beside else ""
    return f"{text} ({known.designs - known.beside:,} designs evaluated{beside}{part})"


def certified_table(front: Front, found: Certification) -> Table:
    """Return the solutions that are certified, at most the last 14: as measured and as claimed."""
    names = list(found.certified[0].measured)
    shown = found.certified[-_MOST_ROWS:]
    part = "" if len(shown) == len(found.certified) else f", the last {len(shown)} of them shown"
    table = Table(
        title=f"Certified: {len(found.certified)} of the front's {len(front)} solutions{part}",
        title_justify="left",
        pad_edge=False,
    )
    table.add_column("id", justify="right")
    for name in names:
        table.add_column(f"{name}\n(fresh)", justify="right")
        table.add_column(f"{name}\n(claimed)", justify="right")
    if found.best not in names:
        table.add_column(f"{found.best}\n(claimed)", justify="right")
    table.add_column("p", justify="right")
    for one in shown:
        claimed = {
            name: float(front.rows.values[name][one.position]) for name in (*names, found.best)
        }
        cells = [_cell(v) for name in names for v in (one.measured[name], claimed[name])]
        if found.best not in names:
            cells.append(_cell(claimed[found.best]))
        star = " *" if one.position == found.chosen else ""
        table.add_row(f"{front.ids[one.position]}{star}", *cells, f"{one.p:.2g}")
    return table


def walk_table(chosen: Chosen) -> Table:
    """Return where the records of a search leave a system, and whether its confidences hold."""
    walk = chosen.walk
    table = Table(
        title=f"Solution {chosen.solution}, {walk.measured}",
        title_justify="left",
        pad_edge=False,
    )
    table.add_column("stage", justify="right")
    table.add_column("acquires", max_width=48)
    for name in (
        "cost\nso far",
        "records\nreach it",
        "leave\nhere",
        "claimed\nconfidence",
        "share\nright",
    ):
        table.add_column(name, justify="right")
    for number, stage in enumerate(walk.stages, start=1):
        claims = [f"{stage.confidence:.3f}", f"{stage.accuracy:.3f}"] if stage.leaving else []
        table.add_row(
            str(number),
            _listed(stage.features),
            f"{stage.cost_so_far:g}",
            f"{stage.entering:,}",
            f"{stage.leaving:,}",
            *claims,
        )
    table.add_row("", "no answer", "", "", f"{walk.rejected:,}")
    return table


def class_table(walk: Walk) -> Table:
    """Return how many records of each class get an answer and the right one, most records first."""
    table = Table(title="By class", title_justify="left", pad_edge=False)
    table.add_column("class")
    order = sorted(range(len(walk.classes)), key=lambda k: -sum(walk.confusions["validation"][k]))
    shown = order if len(order) <= _MOST_CLASSES else [*order[:3], *order[3 - _MOST_CLASSES :]]
    for part in walk.confusions:
        for name in (f"{walk.part_name(part)}\nrecords", "with an\nanswer", "right"):
            table.add_column(name, justify="right")
    for k in shown:
        cells = []
        for rows in walk.confusions.values():
            answered = sum(rows[k][:-1])
            share = f" ({rows[k][k] / answered:.3f})" if answered else ""
            cells += [f"{sum(rows[k]):,}", f"{answered:,}", f"{rows[k][k]:,}{share}"]
        table.add_row(walk.classes[k], *cells)
    if len(shown) < len(order):
        table.add_row(f"{len(order) - len(shown)} more")
    return table


def show_walk(out: Console, chosen: Chosen | None) -> None:
    """Print the table of a chosen system, and a line for each stage not to be believed."""
    if chosen is None:
        return
    out.print(walk_table(chosen))
    if chosen.walk.confusions:
        out.print(class_table(chosen.walk))
    for sentence in chosen.walk.warnings():
        out.print(f"warning: {sentence}", markup=False, highlight=False, soft_wrap=True)


def show_model(out: Console, directory: Path) -> None:
    """Print how records go through a model; its card where it has no stages (its members, say)."""
    chosen = Chosen.read(directory)
    if chosen is not None:
        show_walk(out, chosen)
    elif (directory / "model.json").is_file():
        from framework.models.store import load_model

        card = load_model(directory).card()
        for text in (card.title, card.text.strip()):
            out.print(text, highlight=False, soft_wrap=True)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_FEATURES])
    more = len(names) - _MOST_FEATURES
    return f"{shown}, and {more} more" if more > 0 else shown


def next_steps(run_dir: RunDir, front: Front, tracked: bool) -> list[tuple[str, str]]:
    """Return what to look at and what to do after a run: (label, text) pairs."""
    command, place = program(), shlex.quote(_short(run_dir.path))
    steps = [("run directory", _short(run_dir.path))]
    report = run_dir.path / "report.html"
    if report.is_file():
        steps.append(("report", _short(report)))
    pages = sorted(run_dir.plots.glob("*.html"))
    if pages:
        steps.append(("plots", f"{_short(run_dir.plots)} ({', '.join(p.name for p in pages)})"))
    if (run_dir.model / "model.json").is_file():
        ours = run_dir.choice() is None
        label = "recommended" if ours else "chosen"
        why = "nearest to the ideal point" if ours else "as you chose"
        steps.append((label, f"{_short(run_dir.model)} (*, {why})"))
    example = _example(front, run_dir.config().name)
    steps.append(("choose another", f"{command} choose {place} {example}"))
    if tracked and installed("mlflow"):
        steps.append(("MLflow pages", f"{command} ui"))
    return steps


def show_steps(out: Console, steps: list[tuple[str, str]]) -> None:
    """Print label and text in two columns, a line each, nothing folded."""
    width = max(len(label) for label, _ in steps)
    for label, text in steps:
        out.print(f"{label:<{width}}  ", end="", style="bold", highlight=False)
        out.print(text, markup=False, highlight=False, soft_wrap=True)


def show_facts(lines: list[tuple[str, str]]) -> None:
    """Print what a check found out; tell it by label, what has several lines as a list."""
    facts: dict[str, Any] = {}
    for label, text in lines:
        facts.setdefault(label.replace(", ", "_").replace(" ", "_"), []).append(text)
    warnings = facts.pop("warning", [])
    tell(
        lambda: {
            "facts": {key: texts[0] if len(texts) == 1 else texts for key, texts in facts.items()},
            "warnings": warnings,
        }
    )
    show_steps(console(), lines)


def show_written(directory: Path) -> None:
    """Print where a model was written, and how to try it."""
    from framework.models.store import EXAMPLE_FILE

    out = console()
    out.print(f"model written to {directory}", markup=False, highlight=False, soft_wrap=True)
    example = directory / EXAMPLE_FILE
    data = shlex.quote(str(example)) if example.is_file() else "DATA.csv"
    show_steps(out, [("try it", f"{program()} predict {shlex.quote(str(directory))} {data}")])


def _example(front: Front, name: str) -> str:
    """Return options of `choose` that leave something of this front, and a place for its model."""
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
    """Objectives first, then constrained metrics, then how large a solution is."""
    names = [*front.roles.names, *(c.metric for c in front.roles.constraints)]
    names += [name for name, metric in front.roles.metrics.items() if metric.size]
    return list(dict.fromkeys(names))


def _differs_on_test(front: Front, name: str) -> bool:
    """Tell whether test records say something that validation does not (a cost may not)."""
    if front.test is None:
        return False
    return not np.array_equal(front.test[name], front.rows.values[name], equal_nan=True)


def _ordering(front: Front) -> str:
    amounts = [n for n in front.roles.names if front.roles.metrics[n].kind == "ratio"]
    return amounts[0] if amounts else front.roles.names[0]


def _spread(order: Array, mark: int | None) -> list[int]:
    if len(order) <= _MOST_ROWS:
        return [int(i) for i in order]
    places = np.unique(np.linspace(0, len(order) - 1, _MOST_ROWS).round().astype(int))
    picked = set(order[places].tolist()) | (set() if mark is None else {mark})
    return [int(i) for i in order if int(i) in picked]


def _heading(front: Front, name: str) -> str:
    senses = {o.metric: o.sense for o in front.roles.objectives}
    arrow = {"max": " ↑", "min": " ↓"}.get(senses.get(name, ""), "")
    unit = front.roles.metrics[name].unit
    return f"{name}{arrow}" + (f"\n({unit})" if unit else "")


def _cell(value: Any) -> str:
    number = float(value)
    if number == int(number) and abs(number) < 1e6:
        return f"{int(number)}" if number > 1 else f"{number:.3f}".rstrip("0").rstrip(".")
    if abs(number) < 0.01:
        return f"{number:.2g}"
    return f"{number:.4f}" if abs(number) < 1 else f"{number:,.2f}"


def _short(path: Path) -> str:
    """Return the shorter of the path and its form relative to the current directory."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):  # it is elsewhere; or there is none, of a job on Ray
        return str(path)
