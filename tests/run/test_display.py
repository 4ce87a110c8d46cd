"""Progress: a bar on a terminal, lines elsewhere, nothing where it is not wanted."""

from __future__ import annotations

from io import StringIO

import pytest

from framework.preparation import PreparationProgress
from framework.run import display as module
from framework.run.display import Display, describe_work
from framework.run.driver import Progress
from framework.run.terminal import PlainConsole


def shown(terminal=False, **words):
    """Return a display, and what it writes to."""
    stream = StringIO()
    console = PlainConsole(file=stream, force_terminal=terminal, width=100)
    return Display(console=console, **words), stream


def follow(display):
    """Have a display follow a short search."""
    display.on_start()
    display.on_preparation(PreparationProgress("training", 3, 4, 1.0))
    display.on_batch(Progress(evaluations=10, share=0.5))
    display.on_end(Progress(evaluations=20, stopped="evaluations"))


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(module, "_LINE_EVERY", 0.0)
    monkeypatch.setattr(module, "_BAR_EVERY", 0.0)


def test_work_is_described_with_its_rate_and_the_time_left():
    text = describe_work(PreparationProgress("going through chains", 1_500_000, 6_000_000, 30.0))
    assert text == "going through chains · 1,500,000 of 6,000,000 · 50,000/s · 0:01:30 left"
    assert describe_work(PreparationProgress("training", 0, 9, 0.0)) == "training · 0 of 9"


def test_lines_come_every_few_seconds():
    display, stream = shown()
    follow(display)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("gen -1 · 20 evals")
    assert line.endswith("ended by evaluations")


def test_a_line_comes_where_something_has_changed(often):
    display, stream = shown()
    for done in (2, 2, 3):
        display.on_preparation(PreparationProgress("training", done, 9, 1.0))
    display.step("1/2 runs", 1, 2, "1/2 runs: failed")
    assert stream.getvalue().splitlines() == [
        "training · 2 of 9 · 2.0/s · 0:00:04 left",
        "training · 3 of 9 · 3.0/s · 0:00:02 left",
        "1/2 runs: failed",
    ]


def test_a_bar_never_goes_back(often):
    display, stream = shown(terminal=True)
    display.on_start()
    display.on_preparation(PreparationProgress("training", 3, 4, 1.0))
    display._bar.refresh()
    assert [task.percentage for task in display._bar.tasks] == [0, 75]
    for share in (0.5, 0.1):  # patience begins anew
        display.on_batch(Progress(share=share))
        tasks = [(task.percentage, task.visible) for task in display._bar.tasks]
        assert tasks == [(50, True), (75, False)]
    display.on_end(Progress(stopped="done"))
    assert "training · 3 of 4" in stream.getvalue()
    assert "100%" in stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_silent(terminal, often):
    display, stream = shown(terminal, quiet=True)
    follow(display)
    display.step("1/2", 1, 2, "1/2 runs")
    display.message("a line")
    assert not stream.getvalue()


def test_a_bar_that_was_not_asked_for_waits_and_goes(often):
    display, stream = shown(terminal=True, delay=60)
    follow(display)
    assert not stream.getvalue()
    display, stream = shown(terminal=True, transient=True)
    follow(display)
    assert "20 evals" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")  # the line is erased


def test_a_terminal_without_the_signs_has_others():
    class Old(StringIO):
        encoding = "latin-1"

    console = PlainConsole(file=Old())
    assert console.words("cost ↓ · 0.5 ± 0.1") == "cost v | 0.5 +- 0.1"
    assert shown()[0]._console.words("↓") == "↓"


def test_a_reader_that_has_left_is_told_to_the_command():
    class Left(StringIO):
        def write(self, text):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        PlainConsole(file=Left()).say("a line")
