"""The notebooks of the documentation run, and print what they show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.blocks import missing

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
NAMES = ["early_exit", "latency_and_serving", "own_classifiers", "cascade"]


def printed(cell):
    """Return the text that a cell shows."""
    texts = []
    for output in cell.get("outputs", []):
        shown = output.get("data", {}).get("text/plain", "")
        texts.append(output.get("text", "") if output["output_type"] == "stream" else shown)
    return "\n".join(text for text in texts if not text.startswith("<Figure"))


def test_all_are_tested():
    assert sorted(path.stem for path in GALLERY.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_prints_what_it_shows(name, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    from gallery import executed

    monkeypatch.setenv("PATH", os.environ["PATH"])  # it is set there
    path = GALLERY / f"{name}.ipynb"
    shown, found = nbformat.read(path, 4), executed(path, tmp_path)
    compared = 0
    for before, after in zip(shown.cells, found.cells, strict=True):
        if "machine" in before.metadata.get("tags", []) or not printed(before):
            continue
        assert not (lost := missing(printed(before), printed(after))), f"not printed: {lost}"
        compared += 1
    assert compared or name == "latency_and_serving"
