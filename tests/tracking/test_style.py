"""Names in scripts that the usual font of pictures has not."""

import warnings
from io import BytesIO

import pytest
from matplotlib.figure import Figure

from tracking.figures import style
from tracking.figures.style import readable


@pytest.fixture(autouse=True)
def afresh():
    for function in (style._fonts_for, style._warn_missing):
        function.cache_clear()


def drawn(*names):
    figure = Figure()
    axes = figure.subplots()
    axes.barh(names, range(len(names)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with readable(figure):
            figure.savefig(BytesIO(), format="png")
    return {label.get_text(): label.get_fontfamily() for label in axes.get_yticklabels()}


def test_another_font_of_the_machine_is_taken(capsys):
    rare = "\u2a53"  # STIX, which matplotlib brings, has it; take it from DejaVu
    usual = style._glyphs
    fonts_without = lambda path: usual(path) - {rare} if "DejaVu" in path else usual(path)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "_glyphs", fonts_without)
        families = drawn("plain", f"name {rare}")
    assert any(family.startswith("STIX") for family in families[f"name {rare}"])
    assert families["plain"] == ["sans-serif"]
    assert capsys.readouterr().err == ""


def test_what_no_font_has_is_said_once(capsys):
    private = "\U0010fffd"
    for _ in range(2):
        drawn("plain", f"name {private}", "café")
    said = capsys.readouterr().err
    assert said.count("pictures have boxes for") == 1
    assert "é" not in said


def test_plain_names_cost_nothing(monkeypatch):
    monkeypatch.setattr(style, "_fonts_for", lambda wanted: pytest.fail("looked for fonts"))
    assert set(map(tuple, drawn("plain", "café", "زهرة").values())) == {("sans-serif",)}


@pytest.mark.parametrize("name", ["$50_$", "$0-$50", "$\\frac{$", "$\\mathdefault{\\frac{$"])
def test_dollar_signs_are_no_formulas(name):
    """Names with two of them ended in a traceback, or lost what is between."""
    figure = Figure()
    axes = figure.subplots()
    axes.semilogy([1, 1000], [1, 1000], label=name)
    axes.set_xticks([1, 1000], [name, "plain"])
    with readable(figure):
        figure.savefig(BytesIO(), format="png")
    assert not axes.get_xticklabels()[0].get_parse_math()
    numbers = [label for label in axes.get_yticklabels() if "$" in label.get_text()]
    assert numbers
    assert all(label.get_parse_math() for label in numbers)
