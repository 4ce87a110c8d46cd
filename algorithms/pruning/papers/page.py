"""The claims of the paper on ensemble pruning, compared with the runs of an experiment.

Cases are called ``SET K=NUMBER``, or ``SET`` if K is the number of classifiers there. The products
of a case are repetitions, over which the paper takes standard deviations (the reading that its
figures support); folds are averaged within a repetition. As in the paper, methods are ranked on
each repetition of a data set. Tests take the data sets as blocks, since repetitions of one data set
are not independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from framework.analysis.compare import Case, Claim, ComparedRun, Comparison, Page, Ranking
from framework.analysis.indicators import Indicator
from framework.analysis.statistics import rank_tests
from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.run_dir import RunDir

PROOF_GAP = Indicator(
    "gap",
    "low",
    "(bound - value) / |value| of the sum that an exact method maximised, on validation records",
    lambda judged: float(judged.findings.get("gap", np.nan)),
    on_request=True,
)

Names = Sequence[str]
OURS, RIVALS = ("F1", "F2", "F3"), ("BFT", "HC-CON", "HC-UWA", "FE")
RANKED = {"accuracy": (*OURS, *RIVALS), "balanced_accuracy": ("F1", "theta", *RIVALS)}
PRINTED: dict[str, dict[int, Sequence[float]]] = {
    "accuracy": {  # Table 4
        40: (3.82, 3.74, 3.79, 4.04, 3.71, 3.66, 5.25),
        60: (3.82, 3.70, 3.76, 4.03, 3.66, 3.66, 5.39),
        80: (3.82, 3.80, 3.75, 4.09, 3.54, 3.58, 5.42),
        100: (3.91, 3.72, 3.72, 4.07, 3.55, 3.56, 5.48),
    },
    "balanced_accuracy": {  # Table 6
        60: (2.88, 2.45, 3.97, 3.29, 3.40, 5.02),
        80: (2.92, 2.39, 3.97, 3.25, 3.38, 5.09),
        100: (2.97, 2.41, 4.00, 3.20, 3.36, 5.06),
    },
}
_BEFORE: list[tuple[str, str, str, Names, Names]] = [  # claim, printed, metric, better, worse
    ("diversity improves the rank", "3.74, 3.75 to 3.84", "accuracy", ("F2", "F3"), ("F1",)),
    ("HC-CON and HC-UWA are ahead", "3.61", "accuracy", ("HC-CON", "HC-UWA"), OURS),
    ("BFT is behind all but FE", "4.06", "accuracy", (*OURS, "HC-CON", "HC-UWA"), ("BFT",)),
    ("FE is last", "5.38", "accuracy", (*OURS, *RIVALS[:3]), ("FE",)),
    ("F1 and theta are ahead", "2.94, 2.40", "balanced_accuracy", ("F1", "theta"), RIVALS),
    ("theta is ahead of F1", "2.40 to 2.94", "balanced_accuracy", ("theta",), ("F1",)),
]
_OFTEN: list[
    tuple[str, str, str, Names, tuple[int, int]]
] = [  # claim, metric, winner, losers, how often
    ("F2 beats all benchmarks", "accuracy", "F2", RIVALS, (11, 36)),
    ("theta beats all benchmarks", "balanced_accuracy", "theta", RIVALS, (22, 36)),
]
_STEADIER: list[tuple[str, str, Names, Names]] = [  # claim, metric, less variable, more variable
    ("both HC vary more than F1 to F3", "accuracy", OURS, ("HC-CON", "HC-UWA")),
    ("diversity reduces dispersion", "accuracy", ("F2", "F3"), ("F1",)),
    ("theta varies least", "balanced_accuracy", ("theta",), ("F1", *RIVALS)),
]


def page(comparison: Comparison) -> Page:
    """Tables 4 and 6, ranks by K with tests over data sets, both samples, and the claims."""
    rows = repetitions(comparison)
    ranked = {name: _ranks(rows, name) for name in RANKED}
    numbers = ["gap", *(f"{part}{name}" for name in RANKED for part in ("validation_", ""))]
    samples = rows.groupby(["k", "method"], sort=False)[numbers].mean().reset_index()
    samples["overfitting"] = samples["validation_accuracy"] - samples["accuracy"]
    text = (
        "Mean ranks over data sets and repetitions (Tables 4 and 6) with the printed ones; tests "
        "take data sets as blocks. The last: means over all data sets, validation beside test."
    )
    return Page(
        "Ensemble pruning: ranks and claims",
        text,
        list(_claims(rows, ranked)),
        {
            "table4": ranked["accuracy"],
            "table6": ranked["balanced_accuracy"],
            "validation_and_test": samples,
        },
        {},
        {f"ranks_{name}": ranking for name in RANKED if (ranking := _ranking(rows, name)).tests},
    )


def repetitions(comparison: Comparison) -> pd.DataFrame:
    """Return a row for each data set, K, repetition and method, with means over folds.

    Columns: ``data``, ``k``, ``repetition``, ``method``, ``gap``, and accuracy and balanced
    accuracy on the records that are compared and, with ``validation_``, on validation records.
    """
    runs = pd.DataFrame([_row(case, run) for case in comparison.cases for run in case.runs])
    keys = ["data", "k", "repetition", "method"]
    return runs.groupby(keys, sort=False).mean().reset_index()


def _row(case: Case, run: ComparedRun) -> dict[str, object]:
    data, k = _data_and_k(case.scenario)
    place = RunDir(Path(run.path))  # its roles: a method's problem may have further metrics
    values = place.returned_or_front().rows.values
    row: dict[str, object] = {
        "data": data,
        "k": (place.about().get("data") or {}).get("models", 0) if k is None else k,
        "repetition": f"{case.unit} {run.seed}",
        "method": run.method,
        "gap": float(run.findings.get("gap", np.nan)),
    }
    for name in RANKED:
        row[name] = float(np.mean(run.metrics[name]))
        row[f"validation_{name}"] = float(np.mean(values[name]))
    return row


def _data_and_k(scenario: str) -> tuple[str, int | None]:
    """Return a case's data set and its number of classifiers, None if the name has no number."""
    data, marked, k = scenario.rpartition(" K=")
    return (data, int(k)) if marked and k.isdecimal() else (scenario, None)


def _check(cases: Mapping[str, RunConfig]) -> None:
    """Raise InputError if a case is of another kind of problem."""
    for name, config in cases.items():
        if config.problem.kind != "pruning":
            raise InputError(
                f"experiment.pages: expected cases of kind pruning for the page pruning, found "
                f"{config.problem.kind} ({name}); leave the page out"
            )


page.check = _check  # type: ignore[attr-defined]


def _table(rows: pd.DataFrame, name: str, index: list[str], methods: Names) -> pd.DataFrame:
    """Return a row per block and a column per method; blocks without some method are left out."""
    table = rows.pivot_table(index=index, columns="method", values=name, aggfunc="mean")
    return table.reindex(columns=list(methods)).dropna()


def _ranks(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the mean ranks by K, and those that the paper prints."""
    methods, lines = RANKED[name], []
    for k, part in rows.groupby("k"):
        table = _table(part, name, ["data", "repetition"], methods)
        if table.empty:
            continue
        means = table.rank(axis=1, ascending=False).mean()
        lines.append({"K": k, "figures": f"here, {len(table)} blocks", **means})
        printed = PRINTED[name].get(int(str(k)))
        if printed:
            lines.append({"K": k, "figures": "paper", **dict(zip(methods, printed, strict=True))})
    return pd.DataFrame(lines, columns=["K", "figures", *methods])


def _ranking(rows: pd.DataFrame, name: str) -> Ranking:
    tests = {}
    for k, part in rows.groupby("k"):
        losses = -_table(part, name, ["data"], RANKED[name]).to_numpy(dtype=np.float64)
        if len(losses) > 1:
            tests[f"K = {k}"] = rank_tests(losses)
    return Ranking(RANKED[name], tests, "data sets")


def _claims(rows: pd.DataFrame, ranked: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    """Yield the claims that these runs can confirm or refute."""
    for said, printed, name, first, then in _BEFORE:
        measured = ranked[name][ranked[name]["figures"] != "paper"]
        if len(measured):
            ranks = measured[list(RANKED[name])].mean()
            here = ", ".join(f"{m} {ranks[m]:.2f}" for m in (*first, *then))
            holds = bool(ranks[list(first)].max() < ranks[list(then)].min())
            yield Claim(f"{said} ({name.replace('_', ' ')})", f"mean rank {printed}", here, holds)
    for said, name, method, others, (times, of) in _OFTEN:
        table = _table(rows, name, ["data", "k"], (method, *others))
        if len(table):
            won = int((table[method] > table[list(others)].max(axis=1)).sum())
            holds = won / len(table) >= times / of
            yield Claim(said, f"{times} of {of}", f"{won} of {len(table)}", holds)
    loss = _table(rows, "validation_accuracy", ["data", "k"], ("F1", "F3"))
    if len(loss):
        lost = float((loss["F1"] - loss["F3"]).mean())
        here = f"{lost:.2%} of accuracy in the mean"
        yield Claim("diversity hardly costs validation accuracy", "negligible", here, lost < 0.001)
    largest = rows[rows["k"] == rows["k"].max()]
    gaps = _table(largest, "gap", ["data"], ("F1", "F3"))
    if len(gaps):
        wider = list(gaps.index[gaps["F3"] - gaps["F1"] > 0.01])
        here = ", ".join(map(str, wider)) or "on none"
        yield Claim("F3's gap is wider on DRD alone", "4.3% to 6.1%", here, wider == ["DRD"])
    for said, name, first, then in _STEADIER:
        spread = rows.groupby(["data", "k", "method"])[name].std().reset_index()
        table = _table(spread, name, ["data", "k"], (*first, *then))
        if len(table):
            means = table.mean()
            here = ", ".join(f"{m} {means[m]:.4f}" for m in (*first, *then))
            holds = bool(means[list(first)].max() < means[list(then)].min())
            yield Claim(said, "standard deviation over repetitions", here, holds)
