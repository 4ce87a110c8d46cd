"""Intervals, rank sums and tables, against slow and obvious twins."""

import math
import re
import warnings
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from framework.analysis.alternatives import Worth
from framework.analysis.compare import ComparedRun, compare_case, compare_cases
from framework.analysis.report import (
    early_stops,
    interval,
    lead,
    means,
    pairs,
    ranks,
    tables,
    verdicts,
    winners,
    wins,
    worth,
)
from framework.analysis.statistics import rank_sum, score, verdict
from framework.cli import compare as command
from framework.cli.compare import _new_records, result_table
from framework.front import volume
from framework.roles import Metric, Objective, Roles
from tests.oracles import dominates

ROLES = Roles(
    [Metric("a", "min", "bounded"), Metric("b", "min", "bounded")],
    [Objective("a", "min"), Objective("b", "min")],
)


def exact_rank_sum(a, b):
    """Count the ways to deal the values out whose rank sum is as far from the middle."""
    order = stats.rankdata(np.concatenate([a, b]))
    middle = len(a) * (len(order) + 1) / 2
    far = abs(order[: len(a)].sum() - middle)
    deals = [abs(sum(deal) - middle) for deal in combinations(order, len(a))]
    return float(np.mean([deal >= far - 1e-9 for deal in deals]))


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 6))
def test_rank_sum_is_the_share_of_deals(seed, n, m):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.normal(0.7, size=m)
    assert rank_sum(a, b) == pytest.approx(exact_rank_sum(a, b))
    assert rank_sum(b, a) == pytest.approx(rank_sum(a, b))


def test_rank_sum_with_ties_infinities_and_too_few():
    assert rank_sum(np.array([1.0]), np.array([2.0, 3.0])) == 1.0
    assert rank_sum(np.ones(5), np.ones(5)) == 1.0
    finite = rank_sum(np.arange(5.0), np.arange(5.0) + 10)
    assert rank_sum(np.arange(5.0), np.array([10.0, 11, 12, 13, np.inf])) == finite
    tied = np.array([1.0, 1, 2, 2, 3, 3]), np.array([2.0, 3, 3, 4, 4, 4])
    assert rank_sum(*tied) == pytest.approx(stats.mannwhitneyu(*tied).pvalue)


def test_verdicts_point_to_the_smaller_values():
    low, high = np.arange(6.0), np.arange(6.0) + 100
    assert (verdict(low, high), verdict(high, low), verdict(low, low + 0.5)) == (1, -1, 0)
    assert score([1, 0, -1, 1])._asdict() == {"wins": 2, "draws": 1, "losses": 1}


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_the_interval_is_students(values):
    sample = np.array(values)
    mean, low, high = interval(sample)
    half = stats.t.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample))
    expected = sample.mean() + half * np.array([0, -1, 1])
    assert [mean, low, high] == pytest.approx(expected, abs=1e-6)


def test_there_is_no_interval_of_one_value_or_of_an_infinite_one():
    assert np.isnan(interval(np.array([1.0]))[1])
    mean, low, high = interval(np.array([1.0, np.inf]))
    assert mean == np.inf
    assert np.isnan([low, high]).all()


def corner(method, seed, at, **new):
    """Return a run that found one solution, ``at`` of the way to the worst; also on new records."""
    losses, place = np.full((1, 2), at), f"{method}/{seed}"
    there = {part: np.full((1, 2), value) for part, value in new.items()}
    return ComparedRun(method, seed, 10, 5.0, 1.0, losses, Path(), place, **there)


@pytest.fixture
def comparison():
    """Good is better than bad on all of five problems, even is as good as good."""
    cases = []
    for number in range(5):
        runs = [
            corner(method, seed, base + seed / 100 + number / 50 + (-1) ** seed * swing)
            for method, base, swing in (("bad", 0.6, 0), ("good", 0.1, 0), ("even", 0.1, 0.004))
            for seed in range(5)
        ]
        cases.append(compare_case(f"case {number}", runs, ROLES, reference=np.zeros((1, 2))))
    paper = {"case 2": {"good": {"hypervolume": 0.7}}}
    return compare_cases("made up", cases, paper=paper)


def test_means_by_case(comparison):
    table = means(comparison).set_index(["case", "method", "indicator"])
    row = table.loc["case 2", "good", "hypervolume"]
    volumes = (1 - (0.1 + np.arange(5) / 100 + 2 / 50)) ** 2
    assert row["mean"] == pytest.approx(volumes.mean())
    assert row["high"] - row["mean"] == pytest.approx(stats.t.ppf(0.975, 4) * stats.sem(volumes))
    assert row["paper"] == 0.7
    assert table["paper"].notna().sum() == 1


def test_the_interval_of_a_share_stays_between_0_and_1():
    runs = [corner("any", seed, at) for seed, at in enumerate((0.0, 0.9, 1.0))]
    case = compare_case("one", runs, ROLES, reference=np.zeros((1, 2)))
    table = means(compare_cases("one", [case])).set_index("indicator")
    assert table.loc["hypervolume", ["low", "high"]].tolist() == [0, 1]
    assert table.loc["share", ["low", "high"]].tolist() == [0, 1]
    assert table.loc["igd_plus", "high"] > 1


def test_ranks_and_pairs_are_over_cases(comparison):
    table = ranks(comparison).set_index(["indicator", "method"])["mean_rank"]
    assert table["hypervolume"].to_dict() == {"bad": 3.0, "good": 1.0, "even": 2.0}
    assert table["igd_plus"].to_dict() == {"bad": 3.0, "good": 1.0, "even": 2.0}
    volumes = comparison.frame.groupby(["case", "method"])["hypervolume"].mean().unstack()
    expected = stats.friedmanchisquare(*(volumes[name] for name in volumes)).pvalue
    assert ranks(comparison)["friedman_p"].iloc[0] == pytest.approx(expected)
    found = pairs(comparison).set_index(["indicator", "method", "other"])["wilcoxon_holm_p"]
    each = [stats.wilcoxon(volumes[i] - volumes[j]).pvalue for i, j in combinations(volumes, 2)]
    assert found["hypervolume", "bad", "good"] == pytest.approx(min(1.0, 3 * min(each)))


def test_wins_draws_and_losses(comparison):
    table = wins(comparison).set_index(["indicator", "method", "other"])
    counts = {key: tuple(row) for key, row in table.loc["hypervolume"].iterrows()}
    assert counts["good", "bad"] == (5, 0, 0)
    assert counts["bad", "good"] == (0, 0, 5)
    assert counts["good", "even"] == counts["even", "good"] == (0, 5, 0)


def test_wins_of_scenarios_are_over_their_cases_however_many_runs_these_have():
    cases = []
    for k in range(6):
        runs = [corner("good", 0, k / 50), corner("bad", 0, 0.5 + k / 50)]
        runs += [corner("bad", 1, 0.5)] * (k == 0)  # one case has a second run of one method
        cases.append(compare_case(f"case {k}", runs, ROLES, scenario=f"half {k % 2}"))
    table = wins(compare_cases("made up", cases)).set_index(["indicator", "method", "other"])
    assert table.loc["hypervolume", "good", "bad"].to_list() == [2, 0, 0]


def test_a_case_that_a_method_lacks_is_no_block(comparison):
    cases = list(comparison.cases)
    own = tuple(run for run in cases[0].runs if run.method != "even")
    cases[0] = compare_case("case 0", own, ROLES)
    found = compare_cases("made up", cases)
    assert found.tests["hypervolume"].blocks == 4
    table = wins(found).set_index(["indicator", "method", "other"])
    assert table.loc["hypervolume", "even", "bad"].to_list() == [4, 0, 0]


def test_one_method_with_one_run_needs_no_tests():
    case = compare_case("alone", [corner("only", 0, 0.5)], ROLES)
    assert set(tables(compare_cases("alone", [case]))) == {"runs", "seconds", "means"}


def test_indicators_shown_are_those_asked_for(comparison):
    found = compare_cases("made up", comparison.cases, shown=["distinct", "igd_plus"])
    assert list(found.indicators) == ["distinct", "igd_plus"]
    assert found.first == "distinct"
    assert "hypervolume" not in found.frame
    assert found.tests["distinct"].ranks.tolist() == [2.0, 2.0, 2.0]


def rows(case, best, others, chance):
    common = {"case": case, "indicator": "hypervolume", "runs": 5}
    yield common | {"method": best, "best": "yes", "chance": ""}
    for method in others:
        yield common | {"method": method, "best": "", "chance": chance}


def test_verdicts_say_who_won_on_which_case_and_what_chance_may_explain():
    cases = [
        *rows("pima", "EMSCO", ["random"], "no"),
        *rows("heart", "EMSCO", ["random"], "yes"),
        *rows("credit", "random", ["EMSCO"], "unknown"),
    ]
    table = pd.DataFrame(cases)
    assert " ".join(verdicts(table)) == (
        "Best mean hypervolume: EMSCO on 2 of 3 (pima, heart); random on 1 of 3 (credit). "
        "More than chance, against every other method: on pima. Chance may explain the lead, over "
        "the methods in brackets: on heart (random). Too few runs to tell from chance: on credit. "
        "(Ranges in brackets: 95%, over runs with other seeds, not over other records; more than "
        "chance is what lies above 0. Not corrected for the number of pairs and cases.)"
    )


def test_winners_have_mean_range_and_chance():
    runs = [corner("good", s, 0.1 + s / 100) for s in range(5)]
    runs += [corner("bad", s, 0.5 + s / 100) for s in range(5)]
    case = compare_case("one", runs, ROLES)
    table = winners(compare_cases("both", [case], shown=["hypervolume"])).set_index("method")
    assert table["best"].tolist() == ["yes", ""]
    assert table["chance"].tolist() == ["", "no"]
    assert (table["least"] < table["mean"]).all()
    assert (table["mean"] < table["greatest"]).all()
    few = compare_case("one", [runs[0], runs[5]], ROLES)
    found = winners(compare_cases("few", [few], shown=["hypervolume"]))
    assert found["chance"].tolist() == ["", "unknown"]
    assert "Too few runs to tell from chance: on one." in verdicts(found)


@given(
    st.integers(0, 10_000),
    st.integers(1, 7),
    st.sampled_from([0, 1, 50]),
    st.floats(0, 0.1),
    st.sampled_from([0.0, 0.01, 0.1]),
)
def test_verdict_wins_and_bracket_say_the_same(seed, n, shift, gap, noise):
    """Paired over equal seeds or not, of fewer runs or more, with noise or without."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.05, n)
    runs = []
    for k, method in enumerate("abc"):
        own = np.clip(0.4 + gap * k + common + rng.normal(0, noise, n), 0, 1)
        runs += [corner(method, s + (shift if k else 0), value) for s, value in enumerate(own)]
    comparison = compare_cases("one", [compare_case("here", runs, ROLES)], shown=["hypervolume"])
    table = winners(comparison)
    said = verdicts(table)
    rest = table[table["best"] != "yes"]
    if len(rest) < 2:
        return
    told = [text for text in said if text.endswith("on here.") or " on here (" in text]
    bracket = next((t for t in said if t.startswith("here: ")), "")
    low = rest["lead_low"]
    expected = "More than chance" if (low > 0).all() else "Chance may explain"
    expected = "Too few runs" if low.isna().any() else expected
    assert [text.startswith(expected) for text in told if not text.startswith("Best")] == [True]
    if expected == "More than chance":
        assert not re.search(r"\(-0\.(?!0000)", bracket)
    best = table.loc[table["best"] == "yes", "method"].iloc[0]
    counts = wins(comparison).set_index(["method", "other"]) if n > 1 else None
    for row in rest.to_dict("records") if n > 1 else ():
        assert counts.loc[(best, row["method"]), "wins"] == (row["chance"] == "no")


def test_of_one_case_no_other_test_tells_pairs_apart():
    """Six seeds: a paired lead of almost nothing that is always there, and Wilcoxon beside it."""
    runs = [corner("a", s, 0.1 + s / 10) for s in range(6)]
    runs += [corner("b", s, 0.1 + s / 10 + 1e-3 * (1 + s)) for s in range(6)]
    comparison = compare_cases("one", [compare_case("here", runs, ROLES)])
    assert not any("Wilcoxon" in line for _, line in command.test_lines(comparison))


def test_fronts_on_new_records_are_those_of_the_definitions():
    """Optimistic: what none dominates on test; pessimistic: what dominates none (2212.04183)."""
    rng = np.random.default_rng(3)
    runs = []
    for seed in range(6):
        losses = rng.integers(0, 6, (12, 2)) / 6
        expected, test = rng.integers(0, 6, (2, 12, 2)) / 6
        test[1] = test[0]  # equal ones do not dominate each other
        place = f"m/{seed}"
        runs.append(
            ComparedRun("m", seed, 10, 12, 1.0, losses, Path(), place, expected=expected, test=test)
        )
    nothing = np.zeros((0, 2))
    runs.append(ComparedRun("empty", 0, 10, 12, 1.0, nothing, Path(), "empty/0"))
    frame = compare_case("one", runs, ROLES).frame

    for run, row in zip(runs[:-1], frame.to_dict("records"), strict=False):
        test, expected = run.test, run.expected
        best = [a for a in test if not any(dominates(b, a) for b in test)]
        worst = [a for a in test if not any(dominates(a, b) for b in test)]
        kept = [a for a in expected if not any(dominates(b, a) for b in expected)]
        assert row["hypervolume_optimistic"] == volume(np.array(best), ROLES)
        assert row["hypervolume_pessimistic"] == volume(np.array(worst), ROLES)
        assert row["hypervolume_expected"] == volume(np.array(kept), ROLES)
        assert row["front_test"] == len(best) / 12
        assert row["front_expected"] == len(kept) / 12
    last = frame.iloc[-1]
    assert last[["hypervolume_expected", "hypervolume_pessimistic"]].tolist() == [0, 0]
    assert math.isnan(last["front_test"])


def test_the_command_says_of_each_search_what_its_front_is_worth_on_new_records():
    losses, test = np.array([[0.2, 0.5], [0.5, 0.2]]), np.array([[0.5, 0.5], [0.4, 0.4]])
    known = ComparedRun("a", 0, 10, 2, 1.0, losses, Path(), "a", expected=losses, test=test)
    comparison = compare_cases("one", [compare_case("one", [known], ROLES)])
    ((method, line),) = _new_records(comparison)
    assert method == "a"
    assert line == (
        "hypervolume 0.5500, expected 0.5500, on test records 0.2500 to 0.3600, "
        "50% of its solutions non-dominated there"
    )
    plain = compare_case("one", [corner("a", 0, 0.5)], ROLES)
    assert _new_records(compare_cases("one", [plain])) == []


def test_runs_that_ended_before_their_budget_are_named_with_the_reason(comparison):
    assert early_stops(comparison) == []
    first, *others = comparison.cases
    method = first.runs[0].method
    why = "elite fills the population; raise algorithm.population"
    stopped = [
        replace(run, stopped=f"{why} (gap {i})" if run.method == method else "seconds")
        for i, run in enumerate(first.runs)
    ]
    cases = (replace(first, runs=tuple(stopped)), *others)
    here = sum(run.method == method for run in first.runs)
    total = sum(run.method == method for case in cases for run in case.runs)
    (said,) = early_stops(replace(comparison, cases=cases))
    assert said == (
        f"Ended before the budget, {method} in {here} of {total} runs (on {first.name}): {why}."
    )
    alike = replace(first, runs=tuple(replace(run, stopped=why) for run in first.runs))
    (once,) = early_stops(replace(comparison, cases=(alike, *others)))  # the reason, not the method
    assert once.startswith(f"Ended before the budget, {', '.join(comparison.methods)} in {here} of")
    worths = (Worth(("a guess",), ()), Worth((), ("a guess",)))
    cases = tuple(
        replace(case, runs=tuple(replace(r, worth=worths[r.method == method]) for r in case.runs))
        for case in cases
    )
    told = worth(replace(comparison, cases=cases))
    assert told.endswith(f"in {total} it does not ({method} in {total} of {total}, a guess).")


def test_leads_are_the_gap_and_its_interval_by_seed_or_by_welch():
    rng = np.random.default_rng(1)
    a, b = rng.normal(1.0, 0.2, 6), rng.normal(0.7, 0.3, 6)
    first, other = pd.Series(a, index=range(6)), pd.Series(b, index=range(6))
    gap, low, high = lead(first, other.sample(frac=1, random_state=0))  # by seed, in any order
    paired = stats.ttest_rel(a, b).confidence_interval()
    assert (gap, low, high) == pytest.approx((np.mean(a - b), paired.low, paired.high))
    gap, low, high = lead(first, pd.Series(b, index=range(10, 16)))
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (gap, low, high) == pytest.approx((np.mean(a) - np.mean(b), welch.low, welch.high))
    assert math.isnan(lead(first[:1], other[:1])[1])
    assert math.isnan(lead(first[:1], other[3:5])[2])


def test_leads_of_equal_and_of_infinite_values_warn_of_nothing():
    always, never = pd.Series([0.5] * 3), pd.Series([math.inf, 1])
    with warnings.catch_warnings(action="error"):
        half = stats.t.ppf(0.975, 1) * 0.05  # the variance of the second ones alone
        assert lead(always, pd.Series([0.4, 0.3]))[1:] == pytest.approx((0.15 - half, 0.15 + half))
        assert lead(always, always[:2] - 0.25) == (0.25, 0.25, 0.25)
        assert np.isnan([lead(never, never), lead(never, never.repeat(2))]).all()


def test_a_lead_is_told_with_its_range_expected_and_on_test():
    def run(method, seed, value):
        return corner(method, seed, value, expected=value + 0.01, test=value + 0.02)

    runs = [run("good", s, 0.1 + s / 100) for s in range(5)]
    runs += [run("bad", s, 0.3 + s / 50) for s in range(5)]
    runs += [run("worst", s, 0.6 + s / 100) for s in range(5)]
    table = winners(compare_cases("one", [compare_case("here", runs, ROLES)]))
    rows = table.set_index("method")
    for name, shift in (("lead", 0.0), ("expected_lead", 0.01), ("test_lead", 0.02)):
        seeds = np.arange(5)
        gaps = (0.9 - shift - seeds / 100) ** 2 - (0.7 - shift - seeds / 50) ** 2
        assert rows.loc["bad", name] == pytest.approx(gaps.mean())
        assert rows.loc["bad", f"{name}_low"] == pytest.approx(interval(gaps)[1])
    (said,) = [sentence for sentence in verdicts(table) if sentence.startswith("here: ")]
    assert said.startswith("here: good before bad by +0.3")
    assert "; expected on new records +0.3" in said
    assert "; on test records +0.3" in said
    comparison = compare_cases("one", [compare_case("here", runs, ROLES)])
    order = sorted(comparison.indicators, key=lambda name: name != "hypervolume_expected")
    by_new = winners(
        replace(comparison, indicators={name: comparison.indicators[name] for name in order})
    )
    assert "expected_lead" not in by_new  # it is the mean itself
    assert by_new["lead"].dropna().tolist() == table["expected_lead"].dropna().tolist()


def test_the_terminal_shows_data_by_methods(comparison):
    table = result_table(comparison)
    names = list(table.columns)
    cases = [case.name for case in comparison.cases]
    assert set(names[1:]) in ({*comparison.methods}, {*cases})
    cells = [cell for name in names[1:] for cell in table.columns[name]]
    stars = sum(cell.endswith(" *") for cell in cells)
    assert stars >= len(cases)
    assert len(cells) == len(cases) * len(comparison.methods)
