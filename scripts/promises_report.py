"""The pages of ``promises.py``: what all splits say, and which floors hold."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from promises_splits import CASES, COVERAGES, MEASURES, OBJECTIVES, SURE, Row, holds, rules_of

from framework.analysis.choose import parse_condition
from framework.arrays import FloatArray
from framework.files import write_whole
from tracking.figures.html_page import as_table, section, write_report_page

TOO_MUCH = {True: 0.4, False: 1.5}  # points, by whether a set has many test records
HELD, BROKEN, BETTER_ON = 0.94, 0.12, 3
SECONDS, SHARE = 1.0, 0.1  # of resampling


class Table(NamedTuple):
    """A table of texts below a heading and a sentence."""

    title: str
    text: str
    headings: list[str]
    rows: list[list[str]]


def values_of(rows: Sequence[Row], rule: str, key: str, metric: str) -> FloatArray:
    """Return what :func:`worth` says of the picks of all rows, shape (picks, 6)."""
    found = [row["rules"][rule].get(key) for row in rows]
    return np.array([values[metric] for values in found if values]).reshape(-1, 6)


def gaps(values: FloatArray, column: int, metric: str) -> FloatArray:
    """Return how much better a figure is than the truth: points, or per cent of the true cost."""
    gap = values[:, column] - values[:, 2]
    return -100 * gap / values[:, 2] if metric == "cost" else 100 * gap


def lucks(rows: Sequence[Row], rule: str, metric: str) -> FloatArray:
    """Return what designs drawn by lot claim in excess, of the rows that have a pick; as gaps."""
    found = [(row["luck"][metric], row["rules"][rule].get("pick")) for row in rows]
    luck = np.array([luck for luck, pick in found if pick])
    if metric != "cost":
        return 100 * luck
    return np.asarray(-100 * luck / values_of(rows, rule, "pick", metric)[:, 2])


def wilson(shares: FloatArray, records: FloatArray) -> FloatArray:
    """Return the width of Wilson's 95% interval of shares of so many records."""
    z = 1.96
    inner = shares * (1 - shares) / records + z**2 / (4 * records**2)
    return np.asarray(2 * z * np.sqrt(inner) / (1 + z**2 / records))


def wilson_width(rows: Sequence[Row], rule: str, metric: str) -> float:
    """Return the mean width of Wilson's intervals of what picks claim on the records searched."""
    shares = values_of(rows, rule, "pick", metric)[:, 0]
    picked_rows = [row for row in rows if row["rules"][rule].get("pick")]
    records = np.array([float(row["records"]) for row in picked_rows])
    if metric == "accuracy":
        records = np.maximum(records * values_of(rows, rule, "pick", "coverage")[:, 0], 1)
    return float(wilson(shares, records).mean()) if len(shares) else math.nan


def mean_of(values: FloatArray) -> str:
    """Return a mean with its standard error, as a text with a sign."""
    if not len(values):
        return "-"
    error = f" ± {values.std(ddof=1) / math.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{values.mean():+.2f}{error}"


def of(rows: Sequence[Row], name: str, measure: str) -> list[Row]:
    return [row for row in rows if row["set"] == name and row["measure"] == measure]


def promises_table(rows: Sequence[Row]) -> Table:
    headings = ["set, rule", "measure", "picks", "metric", "claimed - true", "expected - true"]
    headings += ["expected - true, less the luck of the split"]
    headings += ["RMSE, claimed -> expected", "range holds", "with the noise of the test"]
    headings += ["width", "Wilson's"]
    lines = []
    for name in names_of(rows):
        for rule in rules_of(CASES[name]):
            for measure in MEASURES:
                for metric in OBJECTIVES:
                    values = values_of(of(rows, name, measure), rule, "pick", metric)
                    if not len(values):
                        continue
                    both = [gaps(values, column, metric) for column in (0, 1)]
                    luck = lucks(of(rows, name, measure), rule, metric)
                    widths = (values[:, 4] - values[:, 3]) * 100
                    if metric == "cost":
                        widths, other = widths / values[:, 2], "-"
                    else:
                        plain = of(rows, name, "holdout")
                        other = f"{100 * wilson_width(plain, rule, metric):.1f}"
                    errors = [f"{np.sqrt(np.mean(gap**2)):.2f}" for gap in both]
                    lines.append(
                        [f"{name}, {rule}", measure, str(len(values)), metric]
                        + [mean_of(gap) for gap in (*both, both[1] - luck)]
                        + [" -> ".join(errors)]
                        + [f"{holds(values, noise).mean():.2f}" for noise in (False, True)]
                        + [f"{widths.mean():.1f}", other]
                    )
    text = (
        "Coverage and accuracy in points; cost in per cent of the true cost, positive where the "
        "true one is higher than was said. Means over splits ± standard error. The luck of a split "
        "is what its first designs, drawn by lot, claim in excess; what a model gains by being "
        "fitted on all records is in it too. Wilson's interval is that of what holdout's picks "
        "claim."
    )
    return Table("What picks promise", text, headings, lines)


def members_table(rows: Sequence[Row]) -> Table:
    headings = ["set", "measure", "metric", "claimed - true", "expected - true"]
    headings += ["expected - true, less the luck of the split", "range holds"]
    headings += ["with the noise of the test", "width"]
    lines = []
    for name in names_of(rows):
        for measure in MEASURES:
            own = of(rows, name, measure)
            for metric in OBJECTIVES:
                values = np.array([row["members"][metric] for row in own]).reshape(-1, 8)
                both = [gaps(values, column, metric) for column in (0, 1)]
                luck = 100 * np.array([row["luck"][metric] for row in own])
                widths = 100 * (values[:, 4] - values[:, 3])
                if metric == "cost":
                    luck, widths = -luck / values[:, 2], widths / values[:, 2]
                lines.append(
                    [name, measure, metric]
                    + [mean_of(gap) for gap in (*both, both[1] - luck)]
                    + [f"{values[:, column].mean():.2f}" for column in (6, 7)]
                    + [f"{widths.mean():.1f}"]
                )
    text = (
        "All solutions of a front, each by its own expected figures and range: the mean over a "
        "front, and over the splits. Units as above."
    )
    return Table("What all solutions of a front promise", text, headings, lines)


def sure_table(rows: Sequence[Row]) -> Table:
    headings = ["set, rule", "measure", "reachable", "broken without", "broken"]
    headings += ["broken beyond noise", "broken in truth, about", "without a pick"]
    headings += ["price: true accuracy, points", "true cost, per cent"]
    lines = []
    for name in names_of(rows):
        for rule, asked in rules_of(CASES[name]).items():
            if "where" not in asked:
                continue
            for measure in MEASURES:
                own = [row["rules"][rule] for row in of(rows, name, measure)]
                own = [answer for answer in own if answer["reachable"]]
                both = [(a["pick"], a["sure"]) for a in own if a["pick"] and a["sure"]]
                accuracy = [100 * (b["accuracy"][2] - a["accuracy"][2]) for a, b in both]
                cost = [100 * (b["cost"][2] / a["cost"][2] - 1) for a, b in both]
                lines.append(
                    [f"{name}: {', '.join(asked['where'])}; {rule}", measure, str(len(own))]
                    + [_share(own, f"{key} broken") for key in ("pick", "sure")]
                    + [_far_broken(own, asked["where"])]
                    + [f"{truly_broken(own, asked['where']):.2f}" if own else "-"]
                    + [f"{np.mean([not a['sure'] for a in own]):.2f}" if own else "-"]
                    + [mean_of(np.array(accuracy)), mean_of(np.array(cost))]
                )
    text = (
        f"--sure {SURE}, of the runs in which some design that was evaluated meets the limits on "
        "the test records. Beyond noise: by more than 1.64 standard errors of that many test "
        "records. In truth: the share of a normal distribution beyond the limit, with the mean of "
        "the picks on the test records, and their variance less that of the test records. The "
        "price is that against the pick without --sure, where both exist."
    )
    return Table("Limits that hold", text, headings, lines)


def _share(own: Sequence[Row], key: str) -> str:
    """Return the share of runs that have a pick which breaks a limit."""
    return f"{np.mean([answer[key] for answer in own]):.2f}" if own else "-"


def _far_broken(own: Sequence[Row], where: Sequence[str]) -> str:
    """Return the share of runs whose sure pick breaks a limit by more than the test's noise."""
    broken = []
    for answer in own:
        far = False
        for condition in map(parse_condition, where) if answer["sure"] else ():
            true, error = (answer["sure"][condition.metric][i] for i in (2, 5))
            far |= bool(true + 1.64 * error < condition.value)
        broken.append(far)
    return f"{np.mean(broken):.2f}" if own else "-"


def truly_broken(own: Sequence[Row], where: Sequence[str]) -> float:
    """Return about how many of the runs have a sure pick that breaks a limit in truth.

    Of several limits the shares are added. The noise of few test records breaks limits too: it is
    taken out as if the true figures of the picks were normal.
    """
    picks = [answer["sure"] for answer in own if answer["sure"]]
    total = 0.0
    for condition in map(parse_condition, where) if picks else ():
        figures = np.array([pick[condition.metric] for pick in picks])
        margin = figures[:, 2] - condition.value
        spread = math.sqrt(2 * max(margin.var() - np.mean(figures[:, 5] ** 2), 1e-8))
        total += 0.5 * math.erfc(margin.mean() / spread)
    return total * len(picks) / max(len(own), 1)


def equal_gains(rows: Sequence[Row], name: str) -> list[FloatArray]:
    """Return cross_validation's gain over holdout on each split, points, at each coverage."""
    of_split = {
        measure: {row["split"]: row["equal"] for row in of(rows, name, measure)}
        for measure in MEASURES
    }
    splits = sorted(of_split["holdout"].keys() & of_split["cross_validation"].keys())
    gains = []
    for i in range(len(COVERAGES)):
        pairs = [[of_split[measure][split][i] for measure in MEASURES] for split in splits]
        known = [100 * (b - a) for a, b in pairs if a is not None and b is not None]
        gains.append(np.array(known))
    return gains


def equal_table(rows: Sequence[Row]) -> Table:
    lines = []
    for name in names_of(rows):
        gains = equal_gains(rows, name)
        lines.append([name] + [f"{mean_of(gain)} ({len(gain)} splits)" for gain in gains])
    text = (
        "True accuracy of cross_validation's picks less that of holdout's, in points, paired over "
        "splits, where the picks of both reach that coverage on the test records."
    )
    headings = ["set", *(f"at coverage {c:g}" for c in COVERAGES)]
    return Table("Accuracy at equal coverage", text, headings, lines)


def floors_table(rows: Sequence[Row], measure: str) -> Table:
    """Return for each floor and set what was found and whether it holds."""
    lines: dict[str, list[str]] = {}
    names = names_of(rows)
    for name in names:
        for floor, (found, good) in floors_of(rows, name, measure).items():
            lines.setdefault(floor, []).append(f"{found}: {'yes' if good else '**no**'}")
    text = "Means over splits ± standard error; of several rules the worst one, unless said."
    if measure == "cross_validation":
        gains = [np.concatenate(equal_gains(rows, name)) for name in names]
        means = [float(gain.mean()) if len(gain) else math.nan for gain in gains]
        cells = [f"{m:+.2f} points: {'yes' if m >= 0 else '**no**'}" for m in means]
        lines["true accuracy at equal coverage is no lower than with holdout"] = cells
        text += (
            f" Accuracy at equal coverage is higher than with holdout on "
            f"{sum(mean > 0 for mean in means)} of {len(means)} sets (floor: {BETTER_ON})."
        )
    body = [[floor, *cells] for floor, cells in lines.items()]
    return Table(f"Floors: {measure}", text, ["floor", *names], body)


def floors_of(rows: Sequence[Row], name: str, measure: str) -> dict[str, tuple[str, bool]]:
    """Return by floor what was found on a set, and whether it holds."""
    case, own = CASES[name], of(rows, name, measure)
    rules, plain = rules_of(case), of(rows, name, "holdout")
    most, noise = TOO_MUCH[case.large], not case.large
    found: dict[str, tuple[str, bool]] = {}
    for metric in OBJECTIVES:
        claimed, expected = (
            [g for rule in rules if len(g := gaps(values_of(own, rule, "pick", metric), i, metric))]
            for i in (0, 1)
        )
        if not expected:
            continue
        if metric == "cost":
            before, after = (np.mean([abs(g.mean()) for g in part]) for part in (claimed, expected))
            floor = "cost is corrected too: rules' mean error, claimed -> expected"
            found[floor] = f"{before:.2f} -> {after:.2f} per cent", bool(after <= before)
            continue
        worst = max(expected, key=lambda gap: abs(gap.mean()))
        least, large = TOO_MUCH[False], TOO_MUCH[True]
        floor = f"expected - true {metric}: {large:g} points (small test sets: {least:g})"
        found[floor] = mean_of(worst), bool(abs(worst.mean()) <= most)
    for metric in OBJECTIVES:
        values = np.concatenate([values_of(own, rule, "pick", metric) for rule in rules])
        if not len(values):
            continue
        held = float(holds(values, noise).mean())
        found[f"95% ranges of {metric} hold in {HELD:.0%}"] = f"{held:.1%}", held >= HELD
        if metric == "accuracy":
            width = 100 * float(np.mean(values[:, 4] - values[:, 3]))
            other = 100 * float(np.nanmean([wilson_width(plain, rule, metric) for rule in rules]))
            floor = "their width is no more than Wilson's on one split"
            found[floor] = f"{width:.1f} against {other:.1f} points", width <= other
    answers = [row["rules"][rule] for row in own for rule in rules if "where" in rules[rule]]
    reached = [answer for answer in answers if answer["reachable"]]
    if reached:
        broken = float(np.mean([answer["sure broken"] for answer in reached]))
        floor = f"--sure {SURE} breaks limits in at most {BROKEN:.0%} of runs that can reach them"
        truly = np.mean(
            [
                truly_broken([a for a in asked if a["reachable"]], rules[rule]["where"])
                for rule in rules
                if "where" in rules[rule] and (asked := [row["rules"][rule] for row in own])
            ]
        )
        text = f"{broken:.0%} of {len(reached)} (in truth about {truly:.0%})"
        found[floor] = text, broken <= BROKEN
    if own:
        spent = float(np.median([row["resampling"] for row in own]))
        whole = float(np.median([row["resampling"] + row["seconds"] for row in own]))
        floor = f"resampling takes {SHARE:.0%} of a run or {SECONDS:g} s (median)"
        found[floor] = f"{spent:.1f} s", spent <= max(SECONDS, SHARE * whole)
    return found


def names_of(rows: Sequence[Row]) -> list[str]:
    there = {row["set"] for row in rows}
    return [name for name in CASES if name in there]


def write_pages(rows: Sequence[Row], out: Path) -> None:
    """Write ``report.md`` and ``report.html``."""
    tables = [floors_table(rows, measure) for measure in reversed(MEASURES)]
    tables += [make(rows) for make in (promises_table, members_table, sure_table, equal_table)]
    splits = ", ".join(
        f"{name} {len({row['split'] for row in rows if row['set'] == name})}"
        for name in names_of(rows)
    )
    title = "Do fronts keep their promises?"
    evaluations = sorted({row["evaluations"] for row in rows})
    text = (
        f"EMSCO, {' and '.join(f'{n:,}' for n in evaluations)} evaluations, at most four stages. "
        f"Splits: {splits}. Splits of one set share records, so that standard errors are somewhat "
        "too small."
    )
    paragraphs = [f"# {title}", text]
    for table in tables:
        paragraphs += [f"## {table.title}", table.text, markdown(table)]
    write_whole(out / "report.md", "\n\n".join(paragraphs) + "\n")
    sections = []
    for table in tables:
        cells = [[html.escape(cell.replace("**", "")) for cell in row] for row in table.rows]
        sections.append(section(table.title, table.text, as_table(table.headings, cells)))
    write_report_page(out / "report.html", title, text, sections)


def markdown(table: Table) -> str:
    rows = [table.headings, ["---"] * len(table.headings), *table.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
