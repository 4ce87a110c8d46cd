"""What is shown while an algorithm works before it asks."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from framework.cli.progress import ProgressBar, ProgressLines, describe_work
from framework.preparation import PreparationProgress
from framework.run.driver import Progress


def test_work_is_told_with_its_rate_and_the_time_left():
    text = describe_work(PreparationProgress("going through chains", 1_500_000, 6_000_000, 30.0))
    assert text == "going through chains · 1,500,000 of 6,000,000 · 50,000/s · 0:01:30 left"
    assert describe_work(PreparationProgress("training", 0, 9, 0.0)) == "training · 0 of 9"


def test_lines_come_every_few_seconds(monkeypatch):
    stream = StringIO()
    lines = ProgressLines(stream=stream)
    lines.on_preparation(PreparationProgress("training", 1, 9, 1.0))
    assert not stream.getvalue()
    monkeypatch.setattr(lines, "_every", 0.0)
    lines.on_preparation(PreparationProgress("training", 2, 9, 1.0))
    lines.on_preparation(PreparationProgress("training", 2, 9, 1.0))  # nothing new
    assert stream.getvalue() == "training · 2 of 9 · 2.0/s · 0:00:04 left\n"
    stream = StringIO()
    ProgressLines(quiet=True, stream=stream).on_preparation(
        PreparationProgress("training", 2, 9, 1.0)
    )
    assert not stream.getvalue()


def test_a_bar_fills_with_the_work():
    stream = StringIO()
    bar = ProgressBar(Console(file=stream, force_terminal=True, width=100))
    bar.on_start()
    bar.on_preparation(PreparationProgress("training", 3, 4, 1.0))
    bar._bar.refresh()
    assert [task.percentage for task in bar._bar.tasks] == [0, 75]
    bar._show(Progress(share=0.5))
    bar._show(Progress(share=0.1))  # patience begins anew
    assert [(task.percentage, task.visible) for task in bar._bar.tasks] == [(50, True), (75, False)]
    bar.on_end(Progress(stopped="done"))
    assert "training · 3 of 4" in stream.getvalue()
    assert "75%" in stream.getvalue()
