"""Web pages of sections, tables, pictures and plotly's figures, each a single file."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framework.files import write_whole
from framework.security import JSON_BYTES, read_bytes

# without the button of plotly that uploads the figure
_PLOTLY = {"showSendToCloud": False, "displaylogo": False, "responsive": True}
_TEMPLATE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}<style>
body {{ font: 14px sans-serif; margin: 1.2rem; color: #222; }}
h1 {{ font-size: 1.3rem; margin: 0; }} h2 {{ font-size: 1rem; margin: 1.4rem 0 .3rem; }}
p, ul {{ color: #555; margin: .3rem 0; }}
{style}</style></head><body><h1>{title}</h1><p>{subtitle}</p>
{body}
</body></html>
"""
_SORTING = """<script>
document.querySelectorAll("table:not(.text)").forEach((table) => {
  const key = (row, column) => row.cells[column].textContent.trim();
  const number = (text) => parseFloat(text.replace(/,/g, ""));
  Array.from(table.rows[0].cells).forEach((cell, column) => {
    const button = document.createElement("button");
    button.append(...cell.childNodes);
    cell.append(button);
    button.onclick = () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      const rows = Array.from(table.rows).slice(1);
      const order = (a, b) => {
        const [x, y] = [number(key(a, column)), number(key(b, column))];
        if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;  // cells without a number come last
        const found = isNaN(x) ? key(a, column).localeCompare(key(b, column)) : x - y;
        return down ? -found : found;
      };
      Array.from(table.rows[0].cells).forEach((other) => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort(order).forEach((row) => row.parentNode.append(row));
    };
  });
});
const mark = () => document.querySelectorAll("div").forEach((box) => {
  box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
});
mark();
window.addEventListener("resize", mark);
</script>"""
WITHOUT = "Against what one would do without it"
_DECIMALS = 8  # at most, of a number that is written without an exponent
_REPORT = """body { max-width: 76rem; } p, ul { max-width: 60rem; } img { max-width: 100%; }
table { border-collapse: collapse; margin: .5rem 0; } td, th { padding: .2rem .6rem;
text-align: right; border-bottom: 1px solid #e5e7eb; } td { white-space: nowrap; }
td:first-child, th:first-child, .text td, .text th { text-align: left; }
td:first-child, .text td { white-space: normal; min-width: 6rem; }
div { overflow-x: auto; }
.scrolls::before { content: "wider than the page: scroll it sideways \\2192";
position: sticky; left: 0; color: #555; font-size: .85rem; }
td.best { font-weight: bold; }
h1, h2, p { overflow-wrap: anywhere; } pre { overflow-x: auto; }
@media (max-width: 40rem) { body { margin: .6rem; } td, th { padding: .2rem .4rem; }
td:first-child, th:first-child { position: sticky; left: 0; background: #fff; } }
.paper { color: #777; } abbr { text-decoration: none; cursor: help; }
th button { all: inherit; display: inline; padding: 0; border: 0; cursor: pointer; }
th button:focus-visible { outline: 2px solid #0072b2; }
th[aria-sort=ascending] button::after { content: " \\25b2"; }
th[aria-sort=descending] button::after { content: " \\25bc"; }
@media print { body { max-width: none; } div { overflow: visible; } }
"""


def write_page(
    path: Path,
    title: str,
    subtitle: str,
    sections: Sequence[str],
    *,
    style: str = "",
    head: str = "",
) -> None:
    """Write a page of sections; the file appears complete or not at all.

    Parameters
    ----------
    path : pathlib.Path
    title, subtitle : str
        Plain texts.
    sections : sequence of str
        HTML, made by :func:`section`.
    style : str
        Further CSS rules.
    head : str
        HTML for the head of the page.
    """
    page = _TEMPLATE.format(
        title=html.escape(title),
        subtitle=html.escape(subtitle),
        style=style,
        head=head,
        body="\n".join(sections),
    )
    write_whole(path, page)


def write_report_page(path: Path, title: str, subtitle: str, sections: Sequence[str]) -> None:
    """Write a page of tables and pictures; a click on a heading sorts a table by that column."""
    write_page(path, title, subtitle, [*sections, _SORTING], style=_REPORT)


def write_figures_page(
    path: Path, title: str, subtitle: str, sections: Sequence[tuple[str, str, Sequence[Any]]]
) -> None:
    """Write a page of plotly's figures; each section has a heading, a text, and its figures.

    The figures of a section have the same width and stand side by side if there is room.
    """
    bodies = [
        section(heading, text, _side_by_side(figures, first=i == 0))
        for i, (heading, text, figures) in enumerate(sections)
    ]
    style = ".narrow { display: none; } @media (max-width: 40rem) { .narrow { display: block; } }\n"
    write_page(path, title, subtitle, bodies, style=style)


def _side_by_side(figures: Sequence[Any], *, first: bool) -> str:
    """Return figures in rows; ``meta`` of the first one is their least width in pixels.

    A figure that is wider than a narrow page can be scrolled.
    """
    width = int(figures[0].layout.meta or 0)
    note = (
        '<p class="narrow">scroll the figure sideways &rarr;</p>'
        if width and len(figures) == 1
        else ""
    )
    columns = f"repeat(auto-fill, minmax({f'{width}px' if width else '100%'}, 1fr))"
    boxes = "".join(
        f"<div>{figure_html(figure, first=first and not i)}</div>"
        for i, figure in enumerate(figures)
    )
    style = f"display: grid; grid-template-columns: {columns}; overflow-x: auto"
    return f'{note}<div style="{style}">{boxes}</div>'


def figure_html(figure: Any, *, first: bool = True) -> str:
    """Return a figure of plotly as HTML; the first one of a page includes plotly's script.

    Texts are escaped, since plotly interprets tags, and even links, in a name. Exceptions are hover
    texts, which contain markup and escaped names, and the ticks of parallel coordinates, in which
    plotly interprets no tags.
    """
    from plotly.io import to_html

    shown = _as_text(figure.to_plotly_json())
    return str(
        to_html(shown, full_html=False, include_plotlyjs=first, config=_PLOTLY, validate=False)
    )


def _as_text(content: Any) -> Any:
    """Return a part of a figure with its texts escaped, with the exceptions named above."""
    if isinstance(content, str):
        return html.escape(content, quote=False)  # plotly knows no &quot;
    if isinstance(content, dict):
        plain = {"hovertext", "ticktext"} if "label" in content else {"hovertext"}
        return {k: v if k in plain else _as_text(v) for k, v in content.items()}
    if isinstance(content, list | tuple) or getattr(content, "dtype", "") == "O":
        return [_as_text(part) for part in content]
    return content


def section(title: str, text: str, body: str) -> str:
    """Return a section: a heading, a plain text, and a body of HTML."""
    return f"<h2>{html.escape(title)}</h2><p>{prose(text)}</p>{body}"


def prose(text: str) -> str:
    """Return a plain text as HTML: text in backticks becomes code, in double asterisks bold."""
    marked = re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"[*]{2}([^*]+)[*]{2}", r"<b>\1</b>", marked)


def picture(path: Path, title: str) -> str:
    """Return the HTML of a PNG file, which is included in the page."""
    content = base64.b64encode(read_bytes(path, JSON_BYTES)).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{content}">'


def as_table(headings: list[str], rows: list[list[str]], *, text: bool = False) -> str:
    """Return a table of cells that are HTML; ``text`` aligns them as prose, not as numbers."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    kind = ' class="text"' if text else ""
    return f"<div><table{kind}><tr>{head}</tr>\n{body}</table></div>"


def as_list(sentences: Sequence[str]) -> str:
    """Return a list of plain sentences; an empty text if there are none."""
    items = "".join(f"<li>{prose(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def digits(value: float) -> str:
    """Return a number with four significant digits, and all digits before the point."""
    if math.isnan(value):
        return "-"
    value += 0.0  # -0.0 is 0
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def gap(value: float, of: float) -> str:
    """Return a signed difference, rounded to four digits of the number that it is a change of."""
    size = abs(of) if of and math.isfinite(of) else 1.0
    rounded = round(value, 3 - math.floor(math.log10(size)))
    return f"{'+' if rounded > 0 else ''}{digits(rounded)}"


def spread(value: float, more_or_less: float) -> str:
    """Return a number and its spread with equally many decimals, ``590.8 ± 130.2``.

    There are enough decimals for two digits of the spread and four digits of the number.
    """
    if not math.isfinite(value) or not math.isfinite(more_or_less) or more_or_less <= 0:
        return digits(value)
    two = 1 - math.floor(math.log10(more_or_less))
    four = 3 - math.floor(math.log10(abs(value))) if value else two
    decimals = max(two, four, 0)
    if decimals > _DECIMALS or abs(value) >= 1e15:
        return f"{value:.4g} ± {more_or_less:.2g}"
    return f"{value:,.{decimals}f} ± {more_or_less:,.{decimals}f}"
