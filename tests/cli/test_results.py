"""Results: what is printed on narrow terminals, in notebooks, and as JSON."""

from io import StringIO

import pytest

from framework.cli.results import Result, Table
from framework.run.terminal import PlainConsole, console

TABLE = Table(
    "Front",
    {
        "id": ["1 *", "12"],
        **{f"rate_{k}\n(test)": ["0.2500 ± 0.1", "-"] for k in range(6)},
        "features": ["radius :cat:, [bold]", ""],
    },
)


def printed(result, width):
    stream = StringIO()
    result.show(PlainConsole(file=stream, width=width))
    return stream.getvalue()


@pytest.mark.parametrize("width", [50, 80, 120, 200])
def test_a_table_keeps_every_cell_at_any_width(width):
    shown = printed(Result([TABLE]), width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("0.2500 ± 0.1") == 6
    assert "radius :cat:, [bold]" in shown
    tables = shown.count("┏")
    assert shown.count("1 *") == tables  # each piece says of whom it is
    assert (tables == 1) == (width >= 120)


def test_a_terminal_of_no_columns_is_none(monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert console().width == 160


def test_numbers_stand_to_the_right():
    lines = printed(Result([TABLE]), 200).splitlines()
    assert any(line.startswith("│ 12 │") and line.endswith("│") for line in lines)


def test_lines_and_sentences_are_not_folded():
    result = Result().add("a " * 100, [("try it", "paretolab " * 20)], None, "", key=1)
    assert len(printed(result, 80).splitlines()) == 2
    assert result.fields == {"key": 1}


def test_a_notebook_shows_it_as_text_alone():
    shown = Result([TABLE, "<script>\x1b[2J"])._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "\x1b" not in shown
