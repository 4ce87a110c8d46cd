"""The plots of a run: its front, its progress, and test metrics against validation metrics."""

from __future__ import annotations

from pathlib import Path

from framework.experiment.run_dir import RunDir
from tracking.figures.story import read_story


def write_plots(run_dir: RunDir) -> list[Path]:
    """Write the plots of a run that has a front to ``plots/``; return their paths.

    ``front``, ``progress`` (.png and .html, the latter in one file that needs no network) and,
    where there are test metrics, ``test.png``. A front of a single objective is not drawn.
    """
    from tracking.figures import figures_html, figures_png

    story = read_story(run_dir)
    run_dir.plots.mkdir(exist_ok=True)
    drawings = {"progress.png": figures_png.progress, "progress.html": figures_html.progress}
    if len(story.roles.objectives) > 1 and len(story.front):
        drawings |= {"front.png": figures_png.front, "front.html": figures_html.front}
    if story.front.test and len(story.front):
        drawings["test.png"] = figures_png.validation_and_test
    for name, draw in drawings.items():
        draw(story, run_dir.plots / name)
    return [run_dir.plots / name for name in sorted(drawings)]


def write_system(run_dir: RunDir) -> list[Path]:
    """Write ``system.png`` and ``system.html``, the chosen system; return their paths.

    Nothing where the run has no chosen system, or its front a single objective.
    """
    from tracking.figures import system_html, system_png

    story = read_story(run_dir)
    if story.chosen is None or len(story.roles.objectives) < 2:
        return []
    run_dir.plots.mkdir(exist_ok=True)
    paths = [run_dir.plots / "system.html", run_dir.plots / "system.png"]
    for draw, path in zip((system_html.system, system_png.system), paths, strict=True):
        draw(story, path)
    return paths
