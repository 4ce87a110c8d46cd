"""The page to explore a front in a browser, with limits and rules to choose by.

It is a single file with the data of the front and a script that draws on canvases
(``explore.js``). The script treats everything from the run as data and text, and the page runs no
other script: its Content-Security-Policy has the digest of this one.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

import numpy as np

from framework.analysis.choose import FALSE_NEGATIVES, FALSE_POSITIVES
from framework.arrays import Array
from framework.experiment.resamples import read_resamples
from framework.experiment.run_dir import RunDir
from framework.front import FIRM, TIED, Front, expected_columns
from framework.models.walk import Walk
from tracking.figures.html_page import write_page
from tracking.figures.run_data import RunData
from tracking.figures.style import display_name
from tracking.figures.system_figures import facts

_MOST = 20_000  # solutions in a page
_GENES = 4_000_000  # values of genes in a page, at most
_MOST_CLASSES = 12  # in a table of answers


def explore_html(run_dir: RunDir, data: RunData, path: Path) -> None:
    """Write the page of a front with at least two objectives."""
    script = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
    content = json.dumps(_content(run_dir, data), ensure_ascii=True, allow_nan=False)
    for sign in "<>&":  # escaped, so that no text can end the element of the script
        content = content.replace(sign, f"\\u{ord(sign):04x}")
    body = [
        _BODY,
        f'<script type="application/json" id="front-data">{content}</script>',
        f"<script>{script}</script>",
    ]
    write_page(
        path, f"{data.title}: explore the front", data.subtitle, body, style=_STYLE, head=head
    )


def _content(run_dir: RunDir, data: RunData) -> dict[str, Any]:
    """Return the data of the script: plain texts, numbers, and columns as bytes in base64."""
    reduced = data.reduced(_MOST)
    front, roles = reduced.front, reduced.roles
    names = list(roles.metrics)
    scales = {o.metric: reduced.scale(o) for o in roles.objectives}
    senses = {o.metric: o.sense for o in roles.objectives}
    names_of, expected = expected_columns(names), front.expected or {}
    metrics = []
    for name, metric in roles.metrics.items():
        columns = [_floats(expected.get(column)) for column in names_of.get(name, ("", "", ""))]
        metrics.append(
            {
                "name": name,
                "label": display_name(name),
                "unit": metric.unit,
                "text": metric.text,
                "sense": senses.get(name, metric.sense),
                "log": scales.get(name) == "log",
                "price": metric.kind == "ratio" or metric.size,
                "values": _floats(front.rows.values[name]),
                "test": _floats((front.test or {}).get(name)),
                **dict(zip(("expected", "low", "high"), columns, strict=True)),
            }
        )
    rates = [FALSE_POSITIVES, FALSE_NEGATIVES]
    x, y = (names.index(o.metric) for o in data.roles.drawn()[:2])
    chosen = data.chosen
    return {
        "directory": str(run_dir.path),
        "n": len(front),
        "metrics": metrics,
        "objectives": [names.index(name) for name in roles.names],
        "rates": [names.index(n) for n in rates] if {*rates} <= {*names} else None,
        "x": x,
        "y": y,
        "ids": _floats(front.ids),
        "firm": _floats(expected.get(FIRM)),
        "tied": _floats(expected.get(TIED)),
        "draws": _draws(run_dir, data.front, front),
        "genes": _genes(front),
        "settings": [
            {"label": display_name(name), "values": _floats(column)}
            for name, column in front.settings.items()
        ],
        "measured": data.measured,
        "chosen": reduced.position,
        "why": "nearest to the ideal point" if run_dir.choice() is None else "as chosen",
        "model": reduced.position if chosen is not None else None,
        "walk": _walk(chosen.walk) if chosen is not None else None,
    }


def _encoded(values: Array, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def _floats(values: Array | None) -> str | None:
    return None if values is None else _encoded(values, "<f8")


def _draws(run_dir: RunDir, whole: Front, front: Front) -> dict[str, Any] | None:
    """Return the metrics in resamples of the solutions in the page."""
    draws = read_resamples(run_dir, whole)
    if draws is None:
        return None
    names = list(whole.roles.metrics)
    steps = draws.steps[:, np.searchsorted(whole.ids, front.ids)]
    return {
        "count": steps.shape[2],
        "metrics": [names.index(name) for name in draws.names],
        "low": draws.low.tolist(),
        "high": draws.high.tolist(),
        "data": _encoded(steps, "<u2"),
    }


def _genes(front: Front) -> dict[str, Any] | None:
    names = front.gene_names
    genes = [j for j, name in enumerate(names) if name not in front.settings]
    X = front.X[:, genes]
    if X.size > _GENES:
        return None
    kind, code = "float32", "<f4"
    if np.issubdtype(X.dtype, np.integer):
        small = X.min(initial=0) >= -128 and X.max(initial=0) <= 127
        kind, code = ("int8", "<i1") if small else ("int32", "<i4")
    return {"names": [names[j] for j in genes], "type": kind, "data": _encoded(X, code)}


def _walk(walk: Walk) -> dict[str, Any]:
    """Return the stages of the run's model, and its answers by true class."""
    stages = [
        {
            "features": ", ".join(stage.features) or "no further feature",
            "facts": f"costs {stage.cost_so_far:.4g} by here; of all records "
            f"{facts(stage, walk.records)}",
            "share": stage.leaving / walk.records,
        }
        for stage in walk.stages
    ]
    few = len(walk.classes) <= _MOST_CLASSES
    return {
        "stages": stages,
        "classes": list(walk.classes),
        "rejected": f"{walk.rejected / walk.records:.1%} get no answer ({walk.measured})",
        "confusions": [
            {"title": f"Answers to {walk.part_name(part)} records", "rows": rows}
            for part, rows in walk.confusions.items()
            if few
        ],
    }


_BODY = """<noscript><p>This page draws with a script of its own; it is switched off.</p></noscript>
<main><section id="controls" aria-label="Limits and rule">
<h2>Limits</h2><div id="limits"></div>
<details id="more"><summary>More metrics</summary><div id="more-limits"></div></details>
<label class="line" for="sure">
Sure of them in resamples: <span id="sure-value">off</span></label>
<input type="range" id="sure" min="0" max="99" value="0"><p class="note" id="sure-note"></p>
<h2>Rule</h2><label class="line">Of those left, choose <select id="rule"></select></label>
<div id="weights" class="amounts" hidden></div>
<div id="costs" class="amounts" hidden>
<label>a false positive costs <input type="number" min="0" step="any" value="1"
 id="cost-fp"></label>
<label>a false negative costs <input type="number" min="0" step="any" value="1"
 id="cost-fn"></label>
<label>share of positive records to come <input type="number" min="0" max="1" step="any" value="0.5"
 id="prior"></label><p class="note">Price of a unit of</p>
<div id="prices" class="amounts"></div></div>
<p><button type="button" id="reset">start again</button></p></section>
<section id="charts" aria-label="The front"><p id="count" role="status"></p>
<p class="line axes"><label>across <select id="x"></select></label>
<label>up <select id="y"></select></label></p>
<div><canvas id="scatter" role="img" aria-label="Solutions over two metrics"></canvas></div>
<p class="note">Filled: meets the limits; hollow: does not; star: chosen. Point at one to choose it;
drag over some to set limits.</p>
<div><canvas id="parallel" role="img" aria-label="A line for each solution over the metrics">
</canvas></div>
<p class="note">A line is a solution; the better end of every axis is at the top.
Drag along an axis to set limits, click it to lift them.</p>
<div id="list"></div></section>
<section id="design" aria-label="The chosen solution"><h2>The chosen solution</h2>
<div id="chosen" aria-live="polite"></div><div id="commands"></div></section></main>
"""
_STYLE = """main { display: grid; grid-template-columns: 17rem minmax(0, 1fr) minmax(0, 24rem);
gap: 1.4rem; max-width: 100rem; } section { min-width: 0; } canvas { width: 100%; display: block;
touch-action: pan-y; cursor: crosshair; } h1, h2, p, pre { overflow-wrap: anywhere; }
.limit { margin: .35rem 0 .6rem; } .limit label { display: block; font-weight: bold; }
.limit input[type=range], #sure { width: 100%; margin: .2rem 0; accent-color: #0072B2; }
.pair { display: flex; gap: .3rem; align-items: baseline; } .pair input { min-width: 0; flex: 1; }
input[type=number] { width: 6rem; font: inherit; } select { font: inherit; max-width: 100%; }
button { font: inherit; } .line { display: block; margin: .4rem 0 .1rem; }
.axes label { margin-right: 1rem; } .amounts label { display: block; margin: .2rem 0; }
[hidden] { display: none !important; }
.note { color: #555; font-size: .85rem; }
table { border-collapse: collapse; margin: .4rem 0; } td, th { padding: .15rem .5rem;
text-align: right; border-bottom: 1px solid #e5e7eb; } td:first-child, th:first-child {
text-align: left; } .wide { overflow-x: auto; } pre { background: #f3f4f6; padding: .5rem;
white-space: pre-wrap; margin: .2rem 0 .6rem; } .stage { border: 1px solid #9aa0a6;
border-radius: 4px; padding: .3rem .5rem; margin: 0 0 1rem; position: relative; }
.stage + .stage::before { content: "↓"; position: absolute; top: -1.15rem; left: 1rem; }
.stage b { margin-right: .5rem; }
.facts { display: block; color: #555; font-size: .85rem; }
.bar { display: flex; height: .5rem; background: #ECEEF1; margin-top: .2rem; } .bar i { display:
block; } .leaves { background: #0072B2; } @media (max-width: 80rem) { main { grid-template-columns:
17rem minmax(0, 1fr); } #design { grid-column: 1 / -1; } }
.scrolls::before { content: "wider than the page: scroll it sideways \\2192"; display: block;
position: sticky; left: 0; color: #555; font-size: .85rem; }
@media (max-width: 46rem) { body { margin: .6rem; } main { display: flex; flex-direction: column;
gap: 0; } #charts { order: -1; } }
@media print { #controls button, #commands button { display: none; } main { display: block; }
.leaves, .bar, canvas { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.stage, table, canvas { break-inside: avoid; } }
"""
