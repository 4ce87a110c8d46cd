"""Estimators that search: what a notebook shows, and the bar of ``fit``, one line."""

import io
import sys

import pytest
from sklearn.datasets import load_iris

from algorithms.multistage.estimator import ParetoMultiStage


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
    assert "100%" in last
    assert "8 evals" in last
    assert f"front {len(search.front_)} " in last


def test_a_notebook_shows_the_front_and_the_chosen_design():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.rename(columns={"petal width (cm)": "<width>"})
    search = ParetoMultiStage(budget=8)
    assert "ParetoMultiStage" in search._repr_html_()
    search.fit(X, y)
    shown = search._repr_html_()
    assert shown.count("<tr") >= min(len(search.front_), 10)
    assert search.model_.card().title in shown
    assert "<width>" not in shown


@pytest.mark.parametrize(
    ("seconds", "verbose", "shown"), [(0, None, True), (60, None, False), (0, False, False)]
)
def test_a_long_fit_is_shown_in_a_terminal_unless_it_is_not_wanted(
    seconds, verbose, shown, monkeypatch
):
    monkeypatch.setattr("framework.estimators.search._PATIENCE", seconds)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    ParetoMultiStage(budget=8, verbose=verbose).fit(*load_iris(return_X_y=True))
    text = terminal.getvalue()
    assert ("evals" in text) == shown
    assert text.endswith("\x1b[2K") == shown  # it was taken away


def test_a_notebook_has_lines_where_they_are_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr("framework.estimators.search._PATIENCE", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())  # as a kernel has it
    ParetoMultiStage(budget=8).fit(*load_iris(return_X_y=True))
    assert not sys.stderr.getvalue()
    ParetoMultiStage(budget=8, verbose=True).fit(*load_iris(return_X_y=True))
    (line,) = sys.stderr.getvalue().splitlines()
    assert "8 evals" in line


@pytest.mark.parametrize("verbose", [True, False, None])
def test_elsewhere_nothing_is_shown(verbose, capsys):
    ParetoMultiStage(budget=60, verbose=verbose).fit(*load_iris(return_X_y=True))
    assert capsys.readouterr() == ("", "")
