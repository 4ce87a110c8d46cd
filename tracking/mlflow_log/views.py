"""Views of an experiment in MLflow's pages: which columns and charts they open with.

MLflow keeps a view that a user shares in a tag of the experiment. Ours are written the same way, as
the pages of MLflow 3.17 write and read them; where another version does not know a part of one, it
shows its own columns and charts.
"""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from framework.roles import Roles
from tracking.mlflow_log import run_content

RESULTS, CHARTS, TRIALS = "paretolab-results", "paretolab-charts", "paretolab-trials"
TAG = "mlflow.sharedViewState."

_NAMES = {
    RESULTS: "paretolab: results",
    CHARTS: "paretolab: fronts and progress",
    TRIALS: "paretolab: trials of the latest sweep",
}
_MOST_CASES = 12  # that have charts
_WIDTH = 170  # pixels of a column that has a long name
_NAMESPACE = uuid.UUID("6f0d3c52-6a0e-4e0b-9a51-7f1c1d2f6d11")  # parts of a view have lasting ids


def address(experiment_id: str, view: str = RESULTS) -> str:
    """Return the part of the address of MLflow's pages, from ``#`` on, that opens a view."""
    query = {"workflowType": "machine_learning", "viewStateShareKey": view}
    if view == CHARTS:
        query["compareRunsMode"] = "CHART"
    return f"#/experiments/{experiment_id}/runs?{urlencode(query)}"


def experiment_tags(
    roles: Roles,
    created: int,
    varied: Sequence[str] = (),
    cases: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> dict[str, str]:
    """Return the tags that hold the views.

    Parameters
    ----------
    roles : Roles
        Whose objectives get columns and charts.
    created : int
        Milliseconds since the epoch.
    varied : sequence of str
        The keys that a sweep varies: its trials get a view, in which they are no longer folded.
    cases : sequence of str
        Of an experiment: where there are several, each has charts of its own, as what differs in
        data cannot be compared; of the first twelve.
    methods : sequence of str
        Of an experiment: its runs are folded, one row per case and method with means over its runs.
    """
    states = dict.fromkeys((RESULTS, CHARTS), _state(roles, cases=cases))
    if methods:
        states[RESULTS] = states[RESULTS] | _grouped(states[RESULTS], cases, methods)
    if varied:
        keys = [f"params.`{run_content.legal_key(key)}`" for key in varied]
        states[TRIALS] = _state(roles, keys) | {"searchFilter": "tags.kind = 'trial'"}
    tags = {}
    for view, content in states.items():
        name, state = _NAMES[view], json.dumps(content, sort_keys=True).encode()
        packed = "deflate;" + base64.b64encode(zlib.compress(state)).decode()
        view_tag = {"name": name, "createdAt": created, "updatedAt": created, "state": packed}
        tags[f"{TAG}{view}"] = json.dumps(view_tag)
    return tags


_SINGLE = ("params.`method`", "params.`data`", "params.`seed`")


_RUN_NAME = "attributes.`Run Name`"  # of a group: its case and method


def _grouped(state: dict[str, Any], cases: Sequence[str], methods: Sequence[str]) -> dict[str, Any]:
    """Return what a view needs to show who won on which case: the best group of each goes first."""
    first = "metrics.`hypervolume`"
    varied = [key for key in state["selectedColumns"] if key.startswith("params.")]
    shown = [key for key in state["selectedColumns"] if key not in (first, *varied)]
    columns = [first, *shown, "params.`repeat`", *varied]
    keys = [{"mode": "param", "groupByData": name} for name in ("case", "method")]
    return {
        "selectedColumns": columns,
        "columnOrder": [_RUN_NAME, *columns],
        "columnWidths": state["columnWidths"] | {_RUN_NAME: 2 * _WIDTH, first: _WIDTH},
        "groupBy": {"aggregateFunction": "average", "groupByKeys": keys},
        "groupsExpanded": {
            f"param.case.{case},param.method.{method}": False
            for case in cases
            for method in methods
        },
        "orderByKey": first,
        "orderByAsc": False,
    }


def _state(
    roles: Roles, first: Sequence[str] = _SINGLE, cases: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what a view opens with; its first columns say what differs between runs."""
    names = [run_content.legal_key(objective.metric) for objective in roles.drawn()]
    columns = [
        *first,
        "metrics.`hypervolume`",
        *(f"metrics.`chosen/{part}_{name}`" for name in names for part in ("val", "test")),
        *(f"metrics.`{name}`" for name in ("front_size", "evaluations", "wall_s")),
    ]
    several = len(cases) > 1
    charts, sections = _charts(names, cases[:_MOST_CASES] if several else [""])
    return {
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {name: _WIDTH for name in columns if "chosen/" in name},
        "runsHiddenMode": "SHOW_ALL",  # MLflow's own draws ten runs
        "compareRunCharts": charts,
        "compareRunSections": sections,
        "isAccordionReordered": True,
        "orderByKey": "params.`data`" if several else "metrics.`hypervolume`",
        "orderByAsc": several,
    }


def _charts(
    names: list[str], cases: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the charts, fronts first, and their sections; what MLflow adds is folded away.

    Fronts and hypervolumes have a chart for each case.
    """
    fronts, progress, ends = (_id(part) for part in ("fronts", "progress", "ends"))
    x, *others = names if len(names) > 1 else [*names, *names]
    charts = []
    for case in cases:
        place, title = (f"front/{case}", f"front of {case}") if case else ("front", "front")
        charts += [
            {
                **_line(f"{place}/{y}", f"{title}: {y} over {x}", fronts),
                "xAxisKey": "metric",
                "selectedXAxisMetricKey": f"{place}/{x}",
                "useGlobalXaxisKey": False,
                "displayPoints": True,
            }
            for y in others
        ]
    for name in ("hypervolume", "front_size") if cases == [""] else ("front_size",):
        charts.append(_line(f"search/{name}", f"{name} by evaluations", progress))
    volumes = [f"hypervolume/{case}" if case else "hypervolume" for case in cases]
    for name in (*volumes, "wall_s", "evaluations"):
        title = name.replace("hypervolume/", "hypervolume on ")
        charts.append(_chart("BAR", name, title, ends) | {"metricKey": name})
    titles = {fronts: "Fronts", progress: "Progress by evaluations", ends: "At the end"}
    sections = [
        {"uuid": id, "name": title, "display": True, "isReordered": True, "isGenerated": False}
        for id, title in titles.items()
    ]
    hidden = (
        "",
        "chosen",
        "front",
        "hypervolume",
        "search",
        "system",
    )  # MLflow's own: a section a prefix
    sections += [
        {"uuid": _id(f"own {name}"), "name": name, "display": False, "isReordered": True}
        for name in hidden
    ]
    return charts, [{"deleted": False, **section} for section in sections]


def _line(metric: str, title: str, section: str) -> dict[str, Any]:
    return _chart("LINE", metric, title, section) | {
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "yAxisKey": "metric",
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "useGlobalXaxisKey": True,
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "range": {},
        "yAxisExpressions": [],
        "ignoreOutliers": False,
    }


def _chart(kind: str, name: str, title: str, section: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": _id(f"{kind} {name} {section}"),
        "metricSectionId": section,
        "displayName": title,
        "deleted": False,
        "isGenerated": False,
        "runsCountToCompare": 100,
    }


def _id(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))
