"""The report of one run: what was found, the chosen design, its pictures, how it was done."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from framework.experiment.run_dir import RunDir
from framework.front import Front
from tracking.figures.page import as_table, digits, picture, section, write_page
from tracking.figures.story import Story, read_story, spoken
from tracking.mlflow_log.describe import config_text

PAGE = "report.html"

_MOST_ROWS = 60  # of the front; front.csv has all
_PICTURES = {
    "system": "The chosen system",
    "front": "The front",
    "test": "Test records against validation records",
    "hull": "The convex hull",
    "rates": "Rates of errors",
    "progress": "Progress",
}


def write_run_page(run_dir: RunDir) -> list[Path]:
    """Write ``report.html`` of a run that has a front, with its pictures in it; return its path."""
    story = read_story(run_dir)
    front = story.front
    if not len(front):
        return []
    sections = [
        _chosen(run_dir, front, story.position),
        *_pictures(run_dir, set() if story.chosen is not None else {"system"}),
        _front(story),
        section("Configuration", "", f"<pre>{html.escape(config_text(run_dir))}</pre>"),
    ]
    path = run_dir.path / PAGE
    write_page(path, story.title, story.subtitle, sections)
    return [path]


def _chosen(run_dir: RunDir, front: Front, position: int) -> str:
    """Return the metrics of the chosen design, a line each."""
    test = front.test or {}
    rows = [
        [
            html.escape(spoken(name)),
            digits(float(column[position])),
            digits(float(test[name][position])) if name in test else "",
        ]
        for name, column in front.rows.values.items()
    ]
    why = "nearest to the ideal point" if run_dir.choice() is None else "as chosen"
    text = f"Solution {front.ids[position]}, {why}."
    body = as_table(["metric", "on validation records", "on test records"], rows)
    return section("The chosen design", text, body)


def _pictures(run_dir: RunDir, besides: set[str]) -> Iterator[str]:
    """Yield a section a picture: ours in the order of reading, then what a package adds."""
    there = {path.stem: path for path in sorted(run_dir.plots.glob("*.png"))}
    order = [*_PICTURES, *there]
    for name in sorted(there.keys() - besides, key=order.index):
        title = _PICTURES.get(name, spoken(name).capitalize())
        yield section(title, "", picture(there[name], title))


def _front(story: Story) -> str:
    """Return the solutions by what they cost; the chosen one among them."""
    front, position = story.front, story.position
    names = list(dict.fromkeys([*(o.metric for o in story.axes()), *front.roles.metrics]))
    order = np.argsort(front.rows.values[names[0]], kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(len(order), _MOST_ROWS)).round())
    kept = {*order[places.astype(int)].tolist(), position}
    rows = [
        [
            f"{front.ids[i]}{' *' if i == position else ''}",
            *(digits(float(front.rows.values[name][i])) for name in names),
        ]
        for i in order.tolist()
        if i in kept
    ]
    shown = "" if len(rows) == len(front) else f"; {len(rows)} of {len(front):,} shown"
    text = f"Values on validation records; * is the chosen design{shown}."
    return section("Solutions", text, as_table(["id", *map(html.escape, names)], rows))
