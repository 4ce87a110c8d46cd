"""What a page that was made of a stranger's names does beyond showing text and pictures."""

import re
from html.parser import HTMLParser
from pathlib import Path

from tracking.figures import html_page


class Markup(HTMLParser):
    """Notes what a page would do beyond showing text and pictures of its own."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            own = (value or "").startswith(("#", "data:image/png;base64,", "plots/"))
            if name.startswith("on") or (name in ("src", "href", "action", "data") and not own):
                self.found.append(f"{tag} {name}={value}")
        if tag in LEADING:
            self.found.append(tag)


PLOTLY = 2_000_000  # characters: its own script is longer, figures are shorter
LEADING = {"iframe", "object", "embed", "link", "base", "form", "audio", "video", "template"}


def leading(page: str) -> list[str]:
    """Return what in a page leads elsewhere, or runs."""
    return Markup(page).found


def figure_markup(page: str) -> list[str]:
    """Return the tags that plotly would take as markup, but for bold type and ends of lines.

    Ticks of parallel coordinates are text to it.
    """
    found = []
    for script in re.findall(r"<script[^>]*>(.*?)</script>", page, re.S):
        if "Plotly.newPlot(" in script and len(script) < PLOTLY:
            figure = re.sub(r'"ticktext":\[.*?\],"', "", script)
            found += re.findall(r"\\u003c(?!(?:\\u002f)?b\\u003e|br\\u003e).{,60}", figure)
    return found


def check_page(path: Path, scripts: int = 0) -> None:
    """Fail where a page does more than show; it has so many scripts of ours.

    The page to explore has its own two; what sorts tables does not count.
    """
    page = path.read_text(encoding="utf-8").replace(html_page._SORTING, "")
    beyond = leading(page) + figure_markup(page)
    assert not beyond, f"{path}: {beyond}"
    found = re.findall(r"<script[^>]*>", page)
    data = ['<script type="application/json" id="front-data">', "<script>"]
    ours = data if path.name == "explore.html" else ["<script>"] * scripts
    assert found == ours, f"{path}: {found}"
