"""Do fronts keep their promises? ``make promises``, or ``python scripts/promises.py --splits 40``.

Of each data set so many splits are made, and of each split one search is run for each measure:
holdout, and cross_validation over the same training and validation records. Rules pick from its
front, as ``paretolab choose`` does, and the test records say what the pick is worth: is it what was
claimed, what was expected, within the 95% range? Default credit and the synthetic set are searched
on 200 to 600 records and tested on 20,000 and more; the test records of the other sets are few, and
so ranges are also judged with the noise of the test records added to them.

``rows.jsonl`` gets one line per set, split and measure. What is there is not measured again: a call
that was stopped goes on, and one with more ``--splits`` adds to it. ``report.md`` and
``report.html`` are written anew after each line. Sets that are in neither PARETOLAB_DATA nor the
package are skipped.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.problem import MultiStageProblem
from framework.analysis.choose import choose, parse_condition
from framework.arrays import FloatArray
from framework.data.datasets import load_table
from framework.errors import InputError
from framework.estimators.search import roles_for
from framework.experiment.expected import (
    Evidence,
    evidence,
    expectation,
    sure_front,
    tightened,
    with_expected,
)
from framework.experiment.single_run import tested
from framework.files import write_whole
from framework.front import Front
from framework.journal import Journal
from framework.registry import load
from framework.run.driver import search
from framework.run.evaluator import SerialEvaluator
from framework.settings import Budget
from tracking.figures.html_page import as_table, section, write_report_page

ROOT = Path(__file__).resolve().parents[1]
OBJECTIVES = ("coverage", "accuracy", "cost")
MEASURES = ("holdout", "cross_validation")
COVERAGES = (0.7, 0.8, 0.9)  # at which accuracies are compared
LIMITS = np.arange(0.5, 0.99, 0.02)  # on coverage, of the picks that they are read between
SURE = 90
DRAWN = 200  # designs of a first generation: what they claim in excess is the luck of a split
TOO_MUCH = {True: 0.4, False: 1.5}  # points, by whether a set has many test records
HELD, BROKEN, BETTER_ON = 0.94, 0.12, 3
SECONDS, SHARE = 1.0, 0.1  # of resampling

Row = dict[str, Any]


class Case(NamedTuple):
    """A data set: its problem, the accuracy that the cheapest pick must have, many test records."""

    problem: Mapping[str, Any]
    accuracy: float
    large: bool


def _of_paper(name: str) -> Mapping[str, Any]:
    raw = yaml.safe_load((ROOT / f"configs/emsco/{name}.yaml").read_text("utf-8"))["problem"]
    return {key: value for key, value in raw.items() if key not in ("kind", "measure", "split")}


def _few(records: int) -> Mapping[str, float]:
    """Return a split with 400 records to train on and 200 to search on."""
    return {"train": 400 / records, "validation": 200 / records, "test": 1 - 600 / records}


CASES: Mapping[str, Case] = {
    "pima": Case(_of_paper("pima"), 0.77, large=False),
    "heart": Case(_of_paper("heart"), 0.85, large=False),
    "credit": Case(_of_paper("credit"), 0.88, large=False),
    "default credit": Case(
        {
            "dataset": {
                "name": "default_credit",
                "columns": [
                    "LIMIT_BAL", "EDUCATION", "AGE", "PAY_0", "PAY_2", "PAY_3", "BILL_AMT1",
                    "PAY_AMT1", "PAY_AMT2",
                ],
            },
            "split": _few(30_000),
            "max_stages": 4,
        },
        0.82,
        large=True,
    ),
    "synthetic": Case(
        {
            "dataset": {
                "synthetic": {
                    "samples": 20_600, "features": 8, "informative": 5, "class_sep": 1.5, "seed": 1
                }
            },
            "split": _few(20_600),
            "max_stages": 4,
        },
        0.87,
        large=True,
    ),
}  # fmt: skip


def rules_of(case: Case) -> dict[str, dict[str, Any]]:
    """Return what ``choose`` is asked for, by name."""
    return {
        "best accuracy": {"where": ["coverage>=0.85"], "best": "accuracy"},
        "least cost": {
            "where": [f"accuracy>={case.accuracy:g}", "coverage>=0.8"],
            "best": "cost",
        },
        "knee": {},
        "sum": {"weights": dict.fromkeys(OBJECTIVES, 1.0)},
    }


def problem_of(case: Case, split: int, measure: str) -> MultiStageProblem:
    plain = dict(case.problem)
    plain |= {"split": {**plain.get("split", {}), "seed": split}, "measure": {"kind": measure}}
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(plain))


def measured(name: str, split: int, measure: str, evaluations: int) -> Row:
    """Search one split, let each rule pick, and look at the test records."""
    case = CASES[name]
    problem = problem_of(case, split, measure)
    roles = roles_for(problem, OBJECTIVES)
    searched = load("algorithms", "emsco")(problem, roles, seed=split, population=DRAWN)
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(
            Path(folder) / "journal.sqlite",
            {"split": split},
            metrics=problem.metric_names,
            d=problem.space.d,
            dtype=problem.space.dtype,
        ) as journal,
    ):
        budget = Budget(evaluations=evaluations)
        evaluator = SerialEvaluator(problem, split)
        front = search(problem, searched, evaluator, budget=budget, journal=journal)
        front = tested(front, problem, split)
        between = time.perf_counter()
        found = evidence(journal, problem, split)
        assert found is not None
        front, _ = with_expected(front, found)
        ended = time.perf_counter()
    true = problem.evaluate_test(found.X)
    assert true is not None
    records = found.resamples.outcomes.records
    row: Row = {"set": name, "split": split, "measure": measure, "evaluations": evaluations}
    row |= {"seconds": between - started, "resampling": ended - between, "records": records}
    row |= {"designs": len(found.ids), "front": len(front), "tested": problem.data.n_test}
    rules = rules_of(case)
    row["rules"] = {key: picked(rule, front, found, true, row) for key, rule in rules.items()}
    row["equal"] = accuracies_at(front)
    drawn = found.ids < DRAWN
    row["luck"] = {
        metric: float(np.nanmean(found.values[metric][drawn] - true[metric][drawn]))
        for metric in OBJECTIVES
    }
    return row


def picked(
    rule: Mapping[str, Any],
    front: Front,
    found: Evidence,
    true: Mapping[str, FloatArray],
    row: Row,
) -> Row:
    """Return what a rule's pick promises and is worth, with and without ``--sure``.

    None stands for no pick. ``reachable`` says whether a design that was evaluated meets the limits
    on the test records, where all have the figures ``true``.
    """
    where = [parse_condition(text) for text in rule.get("where", ())]
    answer: Row = {}
    try:
        answer["pick"] = worth(choose(front, **rule), rule, front, found, row)
    except InputError:  # nothing on the front claims to meet the limits
        answer["pick"] = None
    if not where:
        return answer
    met = np.all([condition.holds(true[condition.metric]) for condition in where], axis=0)
    answer["reachable"] = bool(met.any())
    try:
        sure = sure_front(found, front, where, SURE)
        id = sure.front.ids[choose(sure.front, **rule)]
        guarded = {**rule, "where": tightened(sure, where)}
        answer["sure"] = worth(int(np.searchsorted(front.ids, id)), guarded, front, found, row)
    except InputError:
        answer["sure"] = None
    for key in ("pick", "sure"):
        values = answer[key]
        broken = values and not all(c.holds(np.array(values[c.metric][2])) for c in where)
        answer[f"{key} broken"] = bool(broken)
    return answer


def worth(
    position: int, rule: Mapping[str, Any], front: Front, found: Evidence, row: Row
) -> dict[str, list[float]]:
    """Return of each objective: claimed, expected, true, low, high, standard error of true.

    The last is that of so many test records, by the spread over resamples of the records searched.
    """
    known = expectation(found, front, position, **rule).of
    at = found.positions(front.ids[position : position + 1])
    over = found.resamples.outcomes.metrics(found.resamples.weights, at)
    fewer = math.sqrt(row["records"] / row["tested"])
    assert front.test is not None
    return {
        metric: [
            *known[metric][:2],
            float(front.test[metric][position]),
            known[metric].low,
            known[metric].high,
            float(over[metric][0].std() * fewer),
        ]
        for metric in OBJECTIVES
    }


def accuracies_at(front: Front) -> list[float | None]:
    """Return the true accuracy of picks at each of ``COVERAGES``; None where none covers so much.

    The rule for the best accuracy is asked with many limits on coverage. Between two of its picks
    lots are drawn, so that the share of right answers is linear in the coverage. Where all cover
    more than is asked for, it is that of the pick that covers least.
    """
    picks = set()
    for limit in LIMITS:
        try:
            picks.add(int(choose(front, where=[f"coverage>={limit:g}"], best="accuracy")))
        except InputError:
            break
    if not picks or front.test is None:
        return [None] * len(COVERAGES)
    at = sorted(picks)
    coverage, accuracy = front.test["coverage"][at], front.test["accuracy"][at]
    order = np.argsort(coverage, kind="stable")
    coverage, right = coverage[order], (accuracy * coverage)[order]
    at_least = np.maximum(COVERAGES, coverage[0])
    found = np.interp(at_least, coverage, right) / at_least
    known = at_least <= coverage[-1]
    return [float(a) if k else None for a, k in zip(found, known, strict=True)]


# ---- what all splits say


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


def holds(values: FloatArray, noise: bool) -> FloatArray:
    """Return which ranges hold the truth, with the noise of the test records where asked."""
    _, expected, true, low, high, error = values.T
    more = (1.96 * error) ** 2 if noise else 0.0
    low = expected - np.sqrt((expected - low) ** 2 + more)
    high = expected + np.sqrt((high - expected) ** 2 + more)
    return np.asarray((low - 1e-12 <= true) & (true <= high + 1e-12), dtype=np.float64)


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
    tables += [make(rows) for make in (promises_table, sure_table, equal_table)]
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


# ---- the experiment


def read_rows(path: Path, evaluations: int) -> list[Row]:
    """Return the rows of a file that are whole and have so many evaluations."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:  # it was being written when the call was stopped
            continue
        if row["evaluations"] == evaluations and row["set"] in CASES:
            rows.append(row)
    return rows


def available(names: Sequence[str]) -> list[str]:
    """Return the sets that can be loaded; say of the others why not."""
    found = []
    for name in names:
        config = MultiStageConfig.model_validate(dict(CASES[name].problem)).dataset
        try:
            load_table(config)
        except InputError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
        else:
            found.append(name)
    return found


def alone() -> None:
    """Keep a worker to one thread, and what it trains to itself: no split comes twice."""
    os.environ |= {"PARETOLAB_CACHE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--evaluations", type=int, default=4000)
    parser.add_argument("--data", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/promises"), help="(%(default)s)")
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "rows.jsonl"
    rows = read_rows(path, args.evaluations)
    done = {(row["set"], row["split"], row["measure"]) for row in rows}
    names = available(args.data)
    todo = [
        (name, split, measure)
        for split in range(args.splits)
        for name in names
        for measure in MEASURES
        if (name, split, measure) not in done
    ]
    print(f"{len(done)} of {len(done) + len(todo)} are done", flush=True)
    started = time.monotonic()
    with (
        ProcessPoolExecutor(args.jobs, get_context("spawn"), alone) as workers,
        path.open("a", encoding="utf-8") as file,
    ):
        tasks = [workers.submit(measured, *task, args.evaluations) for task in todo]
        for number, task in enumerate(as_completed(tasks), start=1):
            row = task.result()
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows.append(row)
            rows.sort(key=lambda row: (row["split"], row["measure"]))
            write_pages(rows, args.out)
            left = (time.monotonic() - started) / number * (len(todo) - number)
            print(
                f"{row['set']}, split {row['split']}, {row['measure']}: {left:,.0f} s", flush=True
            )
    if rows:
        write_pages(rows, args.out)
        print(f"{args.out / 'report.md'}, {args.out / 'report.html'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
