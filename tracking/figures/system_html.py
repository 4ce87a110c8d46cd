"""The chosen system as a page: its stages beside the front; it needs no network."""

from __future__ import annotations

import html
from pathlib import Path

from framework.files import write_whole
from framework.models.routing import StageWalk, Walk, shares
from tracking.figures.figures_html import CONFIG, GREY, points
from tracking.figures.story import Story
from tracking.figures.system_png import ANSWERS, values_of

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 14px sans-serif; margin: 1.2rem; color: #222; }}
h1 {{ font-size: 1.3rem; margin: 0; }} p {{ color: #555; margin: .3rem 0; }}
h2 {{ font-size: 1rem; margin: 1rem 0 .3rem; }}
.both {{ display: flex; flex-wrap: wrap; gap: 1.5rem; }}
.system {{ flex: 3 1 34rem; min-width: 0; }} .front {{ flex: 2 1 26rem; min-width: 0; }}
.stage {{ border: 1px solid #D5D9DE; border-radius: 6px; padding: .5rem .7rem; }}
.stage b {{ margin-right: .6rem; }} .cost {{ color: #555; }}
.down {{ color: #777; font-size: .85rem; padding: .15rem .7rem; }}
.chip {{ display: inline-block; background: #EEF2F6; border-radius: 4px; padding: .05rem .4rem;
margin: .12rem .2rem .12rem 0; }}
.bar {{ display: flex; height: 1rem; background: #ECEEF1; margin: .35rem 0 .2rem; }}
.bar span {{ display: block; }}
.end {{ border-style: dashed; }} .beware {{ color: #8A3800; }}
table {{ border-collapse: collapse; margin: .3rem 0 1rem; font-size: .9rem; }}
th, td {{ padding: .2rem .6rem; text-align: right; border: 1px solid #D5D9DE; }}
th {{ font-weight: normal; color: #555; background: #F6F7F9; }} .wide {{ overflow-x: auto; }}
.key b {{ font-weight: normal; white-space: nowrap; }}
.key span {{ display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .8rem; }}
</style></head><body><h1>{title}</h1><p>{subtitle}</p>
<div class="both"><div class="system"><h2>Where records leave</h2>
<p>Bars are shares of the {records:,} validation records; the light part goes on.</p>
{system}
{confusions}</div>
<div class="front"><h2>The front, this system marked</h2>
<p>Point at a solution to see all of it.</p>
{front}</div></div>
</body></html>
"""


def system(story: Story, path: Path) -> None:
    """Write the stages from the top, beside the front with the system marked."""
    assert story.chosen is not None
    unseen = f" · on test records: {values_of(story, True)}" if story.front.test else ""
    front = points(story, background=False)
    page = _PAGE.format(
        title=html.escape(f"{story.title}: the chosen system"),
        subtitle=html.escape(
            f"Solution {story.chosen.solution} · on validation records: {values_of(story)}{unseen}"
        ),
        records=story.chosen.walk.records,
        system=_stages(story.chosen.walk),
        confusions="".join(
            _confusion(story.chosen.walk, part) for part in story.chosen.walk.confusions
        ),
        front=front.to_html(full_html=False, include_plotlyjs=True, config=CONFIG),
    )
    write_whole(path, page)


def _stages(walk: Walk) -> str:
    names, rows = shares(walk, len(ANSWERS))
    boxes, gone = [_key(names)], 0.0
    for number, (stage, row) in enumerate(zip(walk.stages, rows, strict=True), start=1):
        boxes.append(_box(number, stage, walk, _bar(gone, row)))
        gone += sum(row)
        left = stage.entering - stage.leaving
        boxes.append(
            f'<div class="down">↓ {left:,} records ({left / walk.records:.1%}) go on</div>'
        )
    share = walk.rejected / walk.records
    boxes[-1] = '<div class="down">↓</div>'
    boxes.append(
        f'<div class="stage end"><b>End</b> {walk.rejected:,} records ({share:.1%}) are rejected: '
        f'no stage is sure enough of them<div class="bar"><span style="width:{1 - share:.3%};'
        f'background:white">'
        f'</span><span style="width:{share:.3%};background:{GREY}"></span></div></div>'
    )
    boxes += [f'<p class="beware">Beware, {html.escape(line)}.</p>' for line in walk.warnings()]
    return "\n".join(boxes)


def _confusion(walk: Walk, part: str) -> str:
    """Return the answers by true class; the darker a cell, the larger its share of the row."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in walk.classes)
    rows = []
    for k, (name, row) in enumerate(zip(walk.classes, walk.confusions[part], strict=True)):
        total = max(sum(row), 1)
        cells = [
            f'<td style="background:{_shade(count / total, j == k, j == len(walk.classes))}" '
            f'title="{count / total:.1%} of class {html.escape(name)}">{count:,}</td>'
            for j, count in enumerate(row)
        ]
        rows.append(f"<tr><th>{html.escape(name)}</th>{''.join(cells)}</tr>")
    return (
        f"<h2>Answers to the {part} records, by true class</h2>"
        f'<div class="wide"><table><tr><th>true class</th>{head}<th>no answer</th></tr>'
        f"{''.join(rows)}</table></div>"
    )


def _shade(share: float, right: bool, none: bool) -> str:
    """Return blue for right answers, orange for wrong ones, grey for none; paler for few."""
    red, green, blue = (119, 119, 119) if none else (0, 114, 178) if right else (213, 94, 0)
    return f"rgba({red},{green},{blue},{0.7 * share:.2f})"


def _key(names: list[str]) -> str:
    marks = [
        f'<b><span style="background:{colour}"></span>answer {html.escape(name)}</b>'
        for name, colour in zip(names, ANSWERS, strict=False)
    ]
    return f'<p class="key">{" ".join(marks)}</p>'


def _bar(gone: float, row: list[float]) -> str:
    parts = [f'<span style="width:{gone:.3%};background:white"></span>']
    parts += [
        f'<span style="width:{share:.3%};background:{colour}"></span>'
        for share, colour in zip(row, ANSWERS, strict=False)
    ]
    return f'<div class="bar">{"".join(parts)}</div>'


def _box(number: int, stage: StageWalk, walk: Walk, bar: str) -> str:
    chips = "".join(f'<span class="chip">{html.escape(name)}</span>' for name in stage.features)
    return (
        f'<div class="stage"><b>Stage {number}</b><span class="cost">acquires, for {stage.cost:g}; '
        f"cost so far {stage.cost_so_far:g}</span><div>{chips}</div>{bar}{_leaving(stage, walk)}"
        "</div>"
    )


def _leaving(stage: StageWalk, walk: Walk) -> str:
    if not stage.leaving:
        return "Nobody leaves here."
    by_answer = ", ".join(
        f"{html.escape(name)} {count:,}" for name, count in stage.answers.items() if count
    )
    return (
        f"{stage.leaving:,} records ({stage.leaving / walk.records:.1%}) leave: {by_answer}. "
        f'<span class="cost">Claimed {stage.confidence:.3f}, right {stage.accuracy:.3f}.</span>'
    )
