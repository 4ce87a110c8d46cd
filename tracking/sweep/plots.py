"""The page and the pictures of a sweep: how it went, what each key does, how much each matters."""

from __future__ import annotations

from framework.experiment.run_dir import RunDir
from tracking.sweep.config import SweepPlan
from tracking.sweep.ranking import ranked
from tracking.sweep.story import SweepStory
from tracking.sweep.study import SweepStudy, importances


def write_plots(plan: SweepPlan, out: RunDir, study: SweepStudy) -> None:
    """Write ``sweep.html``, and to ``plots/`` ``history``, ``slice`` and ``importance.png``.

    Importances need some trials; nothing is written where no trial has values.
    """
    from tracking.sweep import figures, page

    complete = study.complete()
    if not complete:
        return
    best = ranked(plan, complete)[0][0]
    story = SweepStory(plan, complete, best, importances(study), study.pruned())
    out.plots.mkdir(exist_ok=True)
    figures.history_png(story, out.plots / "history.png")
    figures.slice_png(story, out.plots / "slice.png")
    if story.importances:
        figures.importance_png(story, out.plots / "importance.png")
    page.write_sweep_page(story, study.study, out.path / page.PAGE)
