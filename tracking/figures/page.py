"""Pages of sections, tables and pictures that need no other file."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from pathlib import Path

from framework.files import write_whole

_TEMPLATE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px sans-serif; margin: 1.2rem; color: #222; max-width: 76rem; }}
h1 {{ font-size: 1.3rem; margin: 0; }} h2 {{ font-size: 1rem; margin: 1.6rem 0 .3rem; }}
p {{ color: #555; margin: .3rem 0; max-width: 60rem; }} img {{ max-width: 100%; }}
table {{ border-collapse: collapse; margin: .5rem 0; }} td, th {{ padding: .2rem .7rem;
text-align: right; border-bottom: 1px solid #e5e7eb; white-space: nowrap; }}
td:first-child, th:first-child, .text td, .text th {{ text-align: left; }}
.text td {{ white-space: normal; }}
div {{ overflow-x: auto; }} td.best {{ font-weight: bold; }}
.paper {{ color: #777; }}
</style></head><body><h1>{title}</h1><p>{subtitle}</p>
{body}
</body></html>
"""


def write_page(path: Path, title: str, subtitle: str, sections: Sequence[str]) -> None:
    """Write a page of :func:`section`; the file appears whole."""
    page = _TEMPLATE.format(
        title=html.escape(title), subtitle=html.escape(subtitle), body="\n".join(sections)
    )
    write_whole(path, page)


def section(title: str, text: str, body: str) -> str:
    """Return a section: a heading, a text, and what stands below it as HTML."""
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{body}"


def picture(path: Path, title: str) -> str:
    """Return a PNG as it stands in a page."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{content}">'


def as_table(headings: list[str], rows: list[list[str]], *, text: bool = False) -> str:
    """Return a table of texts that are HTML already; ``text`` where its lines are prose."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    kind = ' class="text"' if text else ""
    return f"<div><table{kind}><tr>{head}</tr>\n{body}</table></div>"


def digits(value: float) -> str:
    """Return a number to four digits, all of them before the point."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
