"""The figures of a run, and its report, which contains them."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from framework.analysis.expectations import standing_of
from framework.arrays import evenly
from framework.experiment.alternatives import verdict_of
from framework.experiment.run_dir import RunDir
from framework.front import FIRM, TIED, expected_columns, span
from tracking.figures.html_page import (
    WITHOUT,
    as_table,
    digits,
    gap,
    picture,
    section,
    write_report_page,
)
from tracking.figures.run_data import RunData, read_run_data
from tracking.figures.style import display_name

PAGE = "report.html"

_MOST_ROWS = 60  # solutions in the report; front.csv has all
_PICTURES = {
    "system": "How the chosen solution answers",
    "front": "The front",
    "test": "Test records against those of the search",
    "hull": "The convex hull",
    "rates": "Rates of errors",
    "progress": "Progress",
}


def write_plots(run_dir: RunDir) -> list[Path]:
    """Write the plots of a run that has a front to ``plots/``; return their paths.

    They are ``progress.png`` of a search of several batches, ``test.png`` if there are test
    metrics, ``hull.png`` of problems with reference points, and ``rates.png`` of those with the
    rates of both errors.
    """
    from tracking.figures import hull_figures, run_figures

    data = read_run_data(run_dir)
    reduced = data.reduced()
    drawings: dict[str, Callable[[Path], None]] = {}
    if any(len(repeat["evaluations"]) > 1 for repeat in data.progress):
        drawings["progress.png"] = partial(run_figures.progress_png, data)
    if data.front.test and len(data.front):
        drawings["test.png"] = partial(run_figures.test_png, data)
    if (hull := hull_figures.read_hull(run_dir, reduced)) is not None:
        drawings["hull.png"] = partial(hull_figures.hull_png, reduced, hull)
    if (rates := hull_figures.read_error_rates(reduced)) is not None:
        drawings["rates.png"] = partial(hull_figures.rates_png, reduced, rates)
    return _drawn(run_dir, dict(sorted(drawings.items())))


def write_chosen(run_dir: RunDir) -> list[Path]:
    """Write the figures of the chosen solution to ``plots/``; return their paths.

    ``front.png`` marks it, ``explore.html`` has the whole front with limits and rules to choose by,
    and ``system.png`` shows its stages, if it has any and is the run's model. A front of a single
    objective is not drawn.
    """
    from tracking.figures import explore, run_figures, system_figures

    data = read_run_data(run_dir)
    if len(data.roles.objectives) < 2 or not len(data.front):
        return []
    whole, data = data, data.reduced()
    drawings: dict[str, Callable[[Path], None]] = {
        "explore.html": partial(explore.explore_html, run_dir, whole),
        "front.png": partial(run_figures.front_png, data),
    }
    if data.chosen is not None:
        drawings["system.png"] = partial(system_figures.system_png, data)
    return _drawn(run_dir, drawings)


def write_front(run_dir: RunDir) -> list[Path]:
    """Write only ``front.png``, for a run that is one of many; return its path."""
    from tracking.figures import run_figures

    data = read_run_data(run_dir)
    if len(data.roles.objectives) < 2 or not len(data.front):
        return []
    return _drawn(run_dir, {"front.png": partial(run_figures.front_png, data.reduced())})


def _drawn(run_dir: RunDir, drawings: Mapping[str, Callable[[Path], None]]) -> list[Path]:
    """Call the functions that draw, by name of file; return the paths."""
    run_dir.plots.mkdir(exist_ok=True)
    for name, draw in drawings.items():
        draw(run_dir.plots / name)
    return [run_dir.plots / name for name in drawings]


def write_run_page(run_dir: RunDir) -> list[Path]:
    """Write ``report.html`` of a run, with its pictures; return its path, if there is a front."""
    data = read_run_data(run_dir)
    front = data.front
    if not len(front):
        return []
    sections = [
        *_alternatives(run_dir, data),
        _chosen(run_dir, data),
        *_pictures(run_dir, set() if data.chosen is not None else {"system"}),
        _front(data),
        section("Configuration", "", f"<pre>{html.escape(run_dir.config_text())}</pre>"),
    ]
    path = run_dir.path / PAGE
    write_report_page(path, data.title, data.subtitle, sections)
    return [path]


def _alternatives(run_dir: RunDir, data: RunData) -> Iterator[str]:
    """Yield a section on whether the search was worth it, and by how much, if that is known."""
    sentence = verdict_of(run_dir, data.front)
    if sentence is None:
        return
    sentence = f"{sentence[0].upper()}{sentence[1:]}."
    if not data.alternatives:  # in a directory of repeats, where each repeat has its own
        yield section(WITHOUT, sentence, "")
        return
    rows = []
    for alternative in data.alternatives:
        for name, gain in alternative.gains.items():
            rows.append(
                [
                    html.escape(alternative.name),
                    html.escape(display_name(name)),
                    f"{gain.points} of {len(alternative.points)}",
                    digits(gain.of),
                    gap(gain.claimed, gain.of),
                    gap(gain.expected, gain.of),
                    f"{gap(gain.low, gain.of)} to {gap(gain.high, gain.of)}",
                    "" if gain.test is None else gap(gain.test, gain.of),
                ]
            )
        if not alternative.gains:
            reached = f"0 of {len(alternative.points)}"
            rows.append([html.escape(alternative.name), "", reached, *[""] * 5])
    text = (
        f"{sentence} Each point without the search is compared with the solution that is best in "
        "one objective and at least as good in all others; the gain is above 0 if the search is "
        "better. The expected gain is the claimed one less its optimism."
    )
    heading = ["without the search", "objective", "points reached", "its own", "gain claimed",
               "gain expected", "95% range", "on test records"]  # fmt: skip
    yield section(WITHOUT, text, as_table(heading, rows))


def _chosen(run_dir: RunDir, data: RunData) -> str:
    """Return the section on the chosen solution, with a line for each metric."""
    front, position = data.front, data.position
    test = front.test or {}
    promises = front.promises(position)
    expected = run_dir.summary().get("expected") or {}
    searched, tested = (int(expected.get(key) or 0) for key in ("searched", "tested"))
    ranged = bool(promises and test and searched and tested)
    rows = []
    for name, column in front.rows.values.items():
        row = [html.escape(display_name(name)), digits(float(column[position]))]
        if promises:
            promise = promises.get(name)
            row.append("" if promise is None else digits(promise.expected))
            row.append("" if promise is None else span(digits(promise.low), digits(promise.high)))
        if ranged:
            of_test = promise and promise.of_test(searched, tested, front.roles.metrics[name])
            row.append(span(*map(digits, of_test)) if of_test else "")
        rows.append([*row, digits(float(test[name][position])) if name in test else ""])
    for name, column in front.settings.items():
        if not np.isnan(column[position]):
            rows.append([html.escape(display_name(name)), _setting(column[position])])
            rows[-1] += [""] * (len(rows[0]) - 2)
    why = "nearest to the ideal point" if run_dir.choice() is None else "as chosen"
    text = f"Solution {front.ids[position]}, {why}."
    if promises:
        text += f" On new records: {standing_of(front, position, expected)}."
    elif expected.get("unknown"):
        text += f" What to expect on new records is not known: {expected['unknown']}."
    headings = ["metric", html.escape(data.measured)]
    headings += ["expected on new records", "95% range of the expectation"] if promises else []
    headings += [f"95% range of {tested:,} records"] if ranged else []
    body = as_table([*headings, "on test records"], rows)
    return section("The chosen solution", text, body)


def _pictures(run_dir: RunDir, besides: set[str]) -> Iterator[str]:
    """Yield a section for each picture: the usual ones, then those that packages have added."""
    paths = {path.stem: path for path in sorted(run_dir.plots.glob("*.png"))}
    order = [*_PICTURES, *paths]
    for name in sorted(paths.keys() - besides, key=order.index):
        title = _PICTURES.get(name, display_name(name).capitalize())
        yield section(title, "", picture(paths[name], title))


def _setting(value: float) -> str:
    return "" if np.isnan(value) else f"{value:g}"


def _front(data: RunData) -> str:
    """Return the section on the solutions, sorted by cost, with the chosen one among them."""
    front, position = data.front, data.position
    names = list(dict.fromkeys([*(o.metric for o in data.roles.drawn()), *front.roles.metrics]))
    columns = expected_columns(front.roles.metrics)
    wanted = [*(columns[name][0] for name in front.roles.names if name in columns), FIRM, TIED]
    by_column = front.expected or {}
    expected = {name: by_column[name] for name in wanted if name in by_column}
    order = np.argsort(front.rows.values[names[0]], kind="stable")
    places_shown = {*order[evenly(len(order), _MOST_ROWS)].tolist(), position}
    rows = [
        [
            f"{front.ids[i]}{' *' if i == position else ''}",
            *(digits(float(front.rows.values[name][i])) for name in names),
            *(_setting(column[i]) for column in front.settings.values()),
            *(str(v[i]) if name == TIED else digits(float(v[i])) for name, v in expected.items()),
        ]
        for i in order.tolist()
        if i in places_shown
    ]
    shown = "" if len(rows) == len(front) else f"; {len(rows)} of {len(front):,} shown"
    text = f"Values {html.escape(data.measured)}; * is the chosen solution{shown}."
    if FIRM in expected:
        text += f" {html.escape(FIRM)} is the share of resamples in which it is on the front."
    if TIED in expected:
        text += " The records show no difference between solutions tied with the same one."
    headings = [name.replace("_", " ") for name in ("id", *names, *front.settings, *expected)]
    return section("Solutions", text, as_table(list(map(html.escape, headings)), rows))
