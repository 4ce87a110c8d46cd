"""The plots of a run: its front, its progress, and test metrics against validation metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from framework.experiment.run_dir import RunDir
from tracking.figures.hull_story import error_rates, read_hull
from tracking.figures.story import Story, read_story


def write_plots(run_dir: RunDir) -> list[Path]:
    """Write the plots of a run that has a front to ``plots/``; return their paths.

    ``progress`` (.png and .html, the latter in one file that needs no network) and, where there are
    test metrics, ``test.png``. Runs of problems with points of reference have ``hull``, those with
    rates of both errors ``rates.png``.
    """
    from tracking.figures import figures_html, figures_png

    story = read_story(run_dir)
    run_dir.plots.mkdir(exist_ok=True)
    drawings = {"progress.png": figures_png.progress, "progress.html": figures_html.progress}
    if story.front.test and len(story.front):
        drawings["test.png"] = figures_png.validation_and_test
    drawings |= _hulls(run_dir, story.drawn())
    for name, draw in drawings.items():
        draw(story, run_dir.plots / name)
    return [run_dir.plots / name for name in sorted(drawings)]


def _hulls(run_dir: RunDir, story: Story) -> dict[str, Callable[[Story, Path], None]]:
    """Return the drawings of the convex hull of a front, those that it has."""
    from tracking.figures import hull_html, hull_png

    drawings: dict[str, Callable[[Story, Path], None]] = {}
    if (found := read_hull(run_dir, story)) is not None:
        drawings["hull.png"] = lambda _, path: hull_png.hull(story, found, path)
        drawings["hull.html"] = lambda _, path: hull_html.hull(story, found, path)
    if (rates := error_rates(story)) is not None:
        drawings["rates.png"] = lambda _, path: hull_png.error_rates(story, rates, path)
    return drawings


def write_chosen(run_dir: RunDir) -> list[Path]:
    """Write what shows the chosen design to ``plots/``; return the paths.

    ``front`` (.png and .html) has it marked, ``system`` shows what it is, where it is the run's
    model and has stages. A front of a single objective is not drawn.
    """
    from tracking.figures import figures_html, figures_png, system_html, system_png

    story = read_story(run_dir)
    if len(story.roles.objectives) < 2 or not len(story.front):
        return []
    run_dir.plots.mkdir(exist_ok=True)
    drawings = {"front.html": figures_html.front, "front.png": figures_png.front}
    if story.chosen is not None:
        drawings |= {"system.html": system_html.system, "system.png": system_png.system}
    drawn = story.drawn()
    for name, draw in drawings.items():
        draw(drawn, run_dir.plots / name)
    return [run_dir.plots / name for name in drawings]
