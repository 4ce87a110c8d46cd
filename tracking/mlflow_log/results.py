"""What a front is in MLflow: metrics of its points and of the chosen design, tables, a description.

The chosen design is the solution that the user chose, else the recommended one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.arrays import FloatArray
from framework.experiment.config import read_yaml
from framework.experiment.export import marked
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.models.routing import Chosen
from tracking.mlflow_log import describe

# that a description shows, where there are
PICTURES = ("front.png", "fronts.png", "system.png", "history.png", "slice.png")

_MOST_POINTS = 300  # of a front, as metrics: what MLflow's charts draw of a series


@dataclass(frozen=True)
class Results:
    """The front of a directory and the design that is chosen on it.

    Attributes
    ----------
    run_dir : RunDir
    front : Front
        With at least one solution.
    position : int
        Of the chosen design on it.
    """

    run_dir: RunDir
    front: Front
    position: int

    @classmethod
    def read(cls, run_dir: RunDir) -> Results | None:
        """Return them; None where there is no front yet, or an empty one."""
        if not run_dir.front_file.is_file():
            return None
        front = run_dir.front()
        return cls(run_dir, front, marked(run_dir, front)) if len(front) else None

    def chosen(self) -> dict[str, float]:
        """Return the metrics of the chosen design, ``chosen/val_NAME`` and ``chosen/test_NAME``."""
        parts = {"val": self.front.rows.values, "test": self.front.test or {}}
        return describe.rounded(
            {
                f"chosen/{part}_{name}": float(column[self.position])
                for part, columns in parts.items()
                for name, column in columns.items()
            }
        )

    def points(self) -> dict[str, FloatArray]:
        """Return ``front/NAME`` of each objective: at most 300 points, from low cost to high.

        The cost is the first of `Roles.drawn`; every other objective has the best value that is
        to be had for at most that cost. Two objectives give the front itself, more of them lines
        that can be read side by side, whose points need not be solutions.
        """
        roles, losses = self.front.roles, self.front.losses
        x = roles.names.index(roles.drawn()[0].metric)
        others = [j for j in range(len(roles.names)) if j != x]
        losses = losses[np.argsort(losses[:, x], kind="stable")]
        losses[:, others] = np.minimum.accumulate(losses[:, others])
        kept = np.linspace(0, len(losses) - 1, min(len(losses), _MOST_POINTS)).round().astype(int)
        columns = roles.natural(losses[kept])
        return {f"front/{name}": columns[:, j] for j, name in enumerate(roles.names)}

    def confusions(self) -> dict[str, str]:
        """Return the answers by true class, a table of MLflow's kind for each set of records."""
        chosen = Chosen.read(self.run_dir.model)
        if chosen is None or chosen.solution != int(self.front.ids[self.position]):
            return {}
        columns = ["true class", *chosen.walk.classes, "no answer"]
        return {
            f"confusion_{part}.json": json.dumps(
                {
                    "columns": columns,
                    "data": [
                        [name, *row] for name, row in zip(chosen.walk.classes, rows, strict=True)
                    ],
                }
            )
            for part, rows in chosen.walk.confusions.items()
        }

    def table(self) -> str:
        """Return the chosen design's metrics as a table in Markdown."""
        senses = {o.metric: _ARROWS[o.sense] for o in self.front.roles.objectives}
        names = [*senses, *(name for name in self.front.roles.metrics if name not in senses)]
        parts = {"validation": self.front.rows.values, "test": self.front.test or {}}
        lines = ["", *(f"{_plain(name)} {senses.get(name, '')}".strip() for name in names)]
        rows = [lines, ["---"] * len(lines)]
        for part, columns in parts.items():
            cells = [f"{columns[n][self.position]:.4g}" if n in columns else "" for n in names]
            rows += [[part, *cells]] if columns else []
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def description(run_dir: RunDir, results: Results | None, kind: str, run_id: str) -> str:
    """Return what MLflow shows first of a run, in Markdown."""
    parts = [_searched(run_dir, kind)]
    summary = run_dir.summary()
    if summary:
        parts.append(_found(summary))
    if results is not None:
        ours = run_dir.choice() is None
        which = "Recommended (nearest to the ideal point)" if ours else "Chosen"
        parts.append(f"{which}: solution {results.front.ids[results.position]}.")
        parts.append(results.table())
    parts += [
        f"![{name}](get-artifact?path=plots/{name}&run_uuid={run_id})"
        for name in PICTURES
        if (run_dir.plots / name).is_file()
    ]
    return "\n\n".join(parts)


_ARROWS = {"max": "↑", "min": "↓"}


def _searched(run_dir: RunDir, kind: str) -> str:
    """Say what was searched, for what, and where it lies."""
    config = run_dir.config()
    data = describe.about(run_dir).get("data") or {}
    sizes = [f"{data[k]:,} {k}" for k in ("records", "features", "models") if data.get(k)]
    on = _plain(str(data.get("name") or config.problem["kind"]))
    on += f" ({', '.join(sizes)})" if sizes else ""
    goals = ", ".join(f"{_plain(o.metric)} {_ARROWS[o.sense]}" for o in config.objectives)
    method = _plain(str(config.algorithm["kind"]))
    if kind == "experiment":
        grid = read_yaml(run_dir.experiment_file)
        methods = ", ".join(map(_plain, grid["experiment"]["methods"]))
        return f"Compares {methods} on {', '.join(map(_plain, grid['cases']))}."
    if kind == "sweep":
        keys = ", ".join(f"`{key}`" for key in read_yaml(run_dir.sweep_file)["search_space"])
        return f"Sweep of **{method}** on **{on}** over {keys}; its runs aim at {goals}."
    several = f", {config.repeats} times with other seeds" if config.repeats > 1 else ""
    return f"**{method}** searched **{on}** for {goals}{several}; seed {config.seed}."


def _found(summary: Mapping[str, Any]) -> str:
    """Say how it ended and how much was evaluated."""
    said = []
    if summary.get("front_size") is not None:
        said.append(f"{summary['front_size']:,} solutions on the front")
    if summary.get("evaluations") is not None:
        said.append(f"{summary['evaluations']:,} evaluations")
    said += [
        f"{_plain(name)} {value:.4g}"
        for name, value in (summary.get("indicators") or {}).items()
        if isinstance(value, int | float)
    ]
    if summary.get("wall_s") is not None:
        said.append(f"{summary['wall_s']:.1f} s")
    return f"{str(summary.get('status', '')).capitalize()}: {', '.join(said)}."


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)
