"""The bar of ``fit``: one line, in a terminal or a notebook alone."""

from __future__ import annotations

import io
import sys

import pytest
from sklearn.datasets import load_iris

from algorithms.multistage.estimator import ParetoMultiStage
from framework.experiment.front_estimator import FitProgress
from framework.run.driver import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_fit_fills_one_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    search = ParetoMultiStage(budget=8, verbose=True).fit(*load_iris(return_X_y=True))
    shown = terminal.getvalue()
    assert shown.count("\n") == 1
    last = shown.split("\r")[-1]
    assert last.startswith("100%")
    assert f"8 evaluations, {len(search.front_)} on the front" in last


def test_it_never_goes_back(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar, seen = FitProgress(), []
    for share in (0.2, 0.6, 0.4, None):
        bar.on_batch(Progress(evaluations=10, share=share))
        seen.append(bar._bar.n)
    bar.close()
    assert seen == [0.2, 0.6, 0.6, 0.6]


@pytest.mark.parametrize("verbose", [True, False])
def test_elsewhere_nothing_is_shown(verbose, capsys):
    ParetoMultiStage(budget=60, verbose=verbose).fit(*load_iris(return_X_y=True))
    assert capsys.readouterr() == ("", "")
