"""The plots of a sweep: what each key does to the values, and how much each key matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framework.experiment.run_dir import RunDir
from tracking.sweep.config import SweepPlan
from tracking.sweep.report import ranked
from tracking.sweep.story import SweepStory
from tracking.sweep.study import SweepStudy, importances


def write_plots(plan: SweepPlan, out: RunDir, study: SweepStudy) -> list[Path]:
    """Write ``slice`` and, where there are enough trials, ``importance`` (.png and .html).

    Nothing is written where no trial has values.
    """
    from tracking.sweep import figures

    complete = study.complete()
    if not complete:
        return []
    best = ranked(plan, complete)[0][0]
    story = SweepStory(plan, complete, best, importances(study))
    out.plots.mkdir(exist_ok=True)
    drawings: dict[str, Any] = {
        "slice.png": figures.slice_png,
        "slice.html": figures.slice_html,
    }
    if story.importances:
        drawings["importance.png"] = figures.importance_png
        drawings["importance.html"] = figures.importance_html
    for name, draw in drawings.items():
        draw(story, out.plots / name)
    return [out.plots / name for name in sorted(drawings)]
