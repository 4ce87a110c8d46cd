"""What is logged of a run: parameters, tags, the data set, metrics, the front, a description."""

from __future__ import annotations

import json
import math
import platform
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import yaml

from framework import extras
from framework.arrays import FloatArray, evenly
from framework.experiment.alternatives import read_alternatives
from framework.experiment.config import check_command, flatten, read_yaml
from framework.experiment.export import marked
from framework.experiment.grid import CasesConfig, cases_of
from framework.experiment.run_dir import RunDir, slug
from framework.front import Front, expected_columns
from framework.models.store import markdown_table
from framework.models.walk import Chosen
from framework.security import TABLE_BYTES, read_bytes
from tracking.figures.run_data import sizes_text
from tracking.figures.style import ARROWS
from tracking.mlflow_log.store import PARENT

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_VALUE = 500
_LONGEST_KEY = 250
_PACKAGES = ("paretolab", "numpy", "scikit-learn", "ray", "mlflow")
_DIGITS = 4  # MLflow's tables do not round
_DIGEST = 36  # longest digest of a data set that MLflow takes


def legal_key(name: str) -> str:
    """Return a name in which '_' replaces the characters that MLflow refuses."""
    return re.sub(r"[^\w\-. /:]", "_", name)[:_LONGEST_KEY]


def start_tags(directory: Path) -> dict[str, str]:
    """Return the versions of packages and the git revision around ``directory``, if any."""
    versions = {"python": platform.python_version()} | extras.versions(_PACKAGES)
    revision = _git_revision(directory)
    commit = {"mlflow.source.git.commit": revision} if revision else {}
    return _version_tags(versions) | commit


def _version_tags(versions: Mapping[str, Any]) -> dict[str, str]:
    return {f"version.{name}": str(text) for name, text in versions.items()}


class Subject(NamedTuple):
    """By what runs differ: the method, the name of the data, and their fingerprint if any."""

    method: str
    data: str
    fingerprint: str

    def tags(self) -> dict[str, str]:
        """Return the tags to sort and filter runs by."""
        fingerprint = {"data.fingerprint": self.fingerprint} if self.fingerprint else {}
        return {"method": _cut(self.method), "data": _cut(self.data)} | fingerprint


def winners_table(run_dir: RunDir) -> pd.DataFrame | None:
    """Return the table of the best methods of an experiment; None if it has not ended."""
    file = run_dir.path / "tables" / "winners.csv"
    if not (run_dir.experiment_file.is_file() and file.is_file()):
        return None
    import pandas as pd

    text = BytesIO(read_bytes(file, TABLE_BYTES))
    return pd.read_csv(text, dtype={"case": str, "method": str}).fillna({"best": ""})


def winners_metrics(table: pd.DataFrame) -> dict[str, float]:
    """Return the mean of each method on each case, ``INDICATOR/CASE/METHOD``."""
    return rounded(
        {
            f"{row['indicator']}/{slug(row['case'])}/{slug(row['method'])}": float(row["mean"])
            for row in table.to_dict("records")
        }
    )


def winners_text(table: pd.DataFrame) -> str:
    """Return in Markdown which method won on which case, with the table of cases by methods."""
    from framework.analysis.report import verdicts

    methods = list(dict.fromkeys(table["method"]))
    rows = []
    for case, part in table.groupby("case", sort=False):
        cells = {}
        for row in part.to_dict("records"):
            spread = f" ({row['least']:.4g} to {row['greatest']:.4g})" if row["runs"] > 1 else ""
            text = f"{row['mean']:.4g}{spread}"
            cells[row["method"]] = f"**{text}**" if row["best"] else text
        rows.append([_plain(str(case)), *(cells.get(method, "-") for method in methods)])
    headings = [str(table["indicator"].iloc[0]), *map(_plain, methods)]
    return f"{_plain(' '.join(verdicts(table)))}\n\n{markdown_table(headings, rows)}"


def end_tags(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a summary: versions of packages, and why a run failed."""
    error = {"error": _cut(str(summary["error"]))} if "error" in summary else {}
    return error | _version_tags(summary.get("versions", {}))


def end_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a summary: counts, seconds and indicators."""
    figures = {
        key: summary.get(key) for key in ("evaluations", "rows_failed", "wall_s", "front_size")
    }
    flat = figures | flatten(summary.get("indicators") or {})
    gains = defaultdict[str, list[float]](list)
    for alternative in read_alternatives(summary):  # the least gain is that over the strongest
        for name, gain in alternative.gains.items():
            gains[f"gain/{name}"].append(gain.expected)
    flat |= {name: min(each) for name, each in gains.items()}
    numbers = {k: v for k, v in flat.items() if isinstance(v, int | float)}
    return rounded({k: v for k, v in numbers.items() if not isinstance(v, bool)})


def rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the finite metrics, rounded to four decimals, by names that MLflow accepts."""
    return {
        legal_key(name): round(float(value), _DIGITS)
        for name, value in metrics.items()
        if math.isfinite(value)
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _git_revision(directory: Path) -> str | None:
    command = ["git", "-C", str(directory), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


PICTURES = ("front.png", "fronts.png", "system.png")  # in a description, if they exist

_MOST_POINTS = 300  # of a front that are sent as metrics: MLflow's charts draw no more


@dataclass(frozen=True)
class FrontResults:
    """The front of a directory and its chosen solution.

    Attributes
    ----------
    run_dir : RunDir
    front : Front
        A front with at least one solution.
    position : int
        Position of the chosen solution on the front.
    """

    run_dir: RunDir
    front: Front
    position: int

    @classmethod
    def read(cls, run_dir: RunDir) -> FrontResults | None:
        """Return the results of a directory; None if there is no front, or an empty one."""
        if not run_dir.front_file.is_file():
            return None
        front = run_dir.front()
        return cls(run_dir, front, marked(run_dir, front)) if len(front) else None

    def chosen(self) -> dict[str, float]:
        """Return the metrics of the chosen solution.

        They are ``solution/val_NAME``, ``solution/test_NAME``, and what to expect on new records:
        ``solution/expected_NAME``, ``solution/low_NAME`` and ``solution/high_NAME``.
        """
        parts = {"val": self.front.rows.values, "test": self.front.test or {}, **self._expected()}
        return rounded(
            {
                f"solution/{part}_{name}": float(column[self.position])
                for part, columns in parts.items()
                for name, column in columns.items()
            }
        )

    def _expected(self) -> dict[str, dict[str, FloatArray]]:
        """Return what to expect on new records: ``expected``, ``low`` and ``high`` by metric."""
        names, columns = expected_columns(self.front.roles.metrics), self.front.expected or {}
        return {
            part: {name: columns[parts[i]] for name, parts in names.items() if parts[i] in columns}
            for i, part in enumerate(("expected", "low", "high"))
        }

    def points(self) -> dict[str, FloatArray]:
        """Return the points of each objective, at most 300 from low cost to high.

        The cost is the first objective of `Roles.drawn`; every other objective has the best value
        that is possible for at most that cost. With two objectives, the points are the front. With
        more, there is a line for each objective, and the points need not be solutions.
        """
        roles, losses = self.front.roles, self.front.losses
        x = roles.names.index(roles.drawn()[0].metric)
        others = [j for j in range(len(roles.names)) if j != x]
        losses = losses[np.argsort(losses[:, x], kind="stable")]
        losses[:, others] = np.minimum.accumulate(losses[:, others])
        columns = roles.natural(losses[evenly(len(losses), _MOST_POINTS)])
        return {name: columns[:, j] for j, name in enumerate(roles.names)}

    def confusions(self) -> dict[str, str]:
        """Return the answers by true class, for each set of records as a table of MLflow."""
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
        """Return a table in Markdown with the metrics of the chosen solution."""
        senses = {o.metric: ARROWS[o.sense] for o in self.front.roles.objectives}
        names = [*senses, *(name for name in self.front.roles.metrics if name not in senses)]
        parts = {"validation": self.front.rows.values, **self._expected()}
        parts["test"] = self.front.test or {}
        headings = ["", *(f"{_plain(name)} {senses.get(name, '')}".strip() for name in names)]
        rows = []
        for part, columns in parts.items():
            cells = [f"{columns[n][self.position]:.4g}" if n in columns else "" for n in names]
            rows += [[part, *cells]] if columns else []
        return markdown_table(headings, rows)


@dataclass(frozen=True)
class RunContent:
    """What is logged of a directory: a whole run, or one of its repeats, trials or cells.

    Attributes
    ----------
    run_dir : RunDir
    home : RunDir
        The directory of the whole run; ``run_dir`` itself if it is that.
    """

    run_dir: RunDir
    home: RunDir

    @property
    def is_part(self) -> bool:
        """Whether the directory is one of many of a whole run."""
        return self.run_dir.path != self.home.path

    @cached_property
    def kind(self) -> str:
        """``run``, ``sweep``, ``experiment``, or a part of one: ``repeat``, ``trial``, ``cell``."""
        if self.home.sweep_file.is_file():
            return "trial" if self.is_part else "sweep"
        if self.home.experiment_file.is_file():
            return "cell" if self.is_part else "experiment"
        return "repeat" if self.is_part else "run"

    @property
    def key(self) -> str:
        """The directory's name in :attr:`tracking.mlflow_log.store.UploadState.runs`."""
        return re.sub(r"^(repeats|trials|cells)/", "", "/".join(self._place)) or PARENT

    @property
    def _place(self) -> tuple[str, ...]:
        """The folders below ``home``, such as cells/CASE/METHOD/NNN or references/CASE."""
        return self.run_dir.path.relative_to(self.home.path).parts

    def name(self) -> str:
        """Return the name of the MLflow run; MLflow's pages show its first 20 characters."""
        config, subject = self.run_dir.config(), self.subject()
        if self.kind in ("sweep", "experiment"):
            return config.name
        if self.kind == "cell":
            case = f" · {self.case()}" if self.case() else ""
            repeat = self.numbered().get("repeat")
            return f"{subject.method} {repeat}{case}" if repeat else self.key
        part = f"{self.kind} {self.key} · " if self.is_part else ""
        seeds = f"{config.repeats} seeds" if config.repeats > 1 else f"seed {config.seed}"
        return f"{part}{subject.method} · {subject.data} · {seeds}"

    def tags(self) -> dict[str, str]:
        """Return the tags of a run's origin and subject."""
        tags = {
            "problem": self.run_dir.config().problem.kind,
            "paretolab.dir": self.run_dir.path.absolute().name,
            "mlflow.source.name": "paretolab",
            "mlflow.source.type": "LOCAL",
            "kind": self.kind,
        }
        if self.home.about_file.is_file() and (uid := self.home.about().get("uid")):
            tags["paretolab.uid"] = str(uid)
        return tags | self.subject().tags() | ({self.kind: self.key} if self.is_part else {})

    def subject(self) -> Subject:
        """Return by what this run differs from others."""
        config, data = self.run_dir.config(), self._data()
        method = config.algorithm.kind
        if self.kind == "experiment":
            grid = self._grid()
            data_sets = [child.data() for child in self.run_dir.children()]
            names = dict.fromkeys(str(about["name"]) for about in data_sets if about.get("name"))
            fingerprints = {str(about.get("fingerprint") or "") for about in data_sets}
            methods = ", ".join(map(str, grid["methods"]))
            fingerprint = fingerprints.pop() if len(fingerprints) == 1 else ""
            on = ", ".join(names or self._cases().cases) or config.problem.kind
            return Subject(methods, on, fingerprint)
        if self._place[:1] == ("cells",):  # references/CASE has no name of a method
            method = self._place[2]
        name = str(data.get("name") or config.problem.kind)
        return Subject(method, name, str(data.get("fingerprint") or ""))

    def _data(self) -> Mapping[str, Any]:
        """Return the description of the data; those of trials and repeats are the whole run's."""
        return (self.run_dir if self.kind == "cell" else self.home).data()

    def _grid(self) -> dict[str, Any]:
        """Return the section ``experiment`` of an experiment's directory."""
        raw = read_yaml(self.home.experiment_file)
        check_command(raw, self.home.experiment_file, "experiment")
        return dict(raw["experiment"])

    def _cases(self) -> CasesConfig:
        """Return the keys of an experiment that make its cases, checked."""
        return cases_of(self._grid(), f"{self.home.experiment_file}: experiment")

    def experiment_text(self) -> str:
        """Return the content of experiment.yaml without the folder in which its paths start."""
        tree = read_yaml(self.home.experiment_file)
        tree["experiment"].pop("folder", None)
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)

    def has_cases(self) -> bool:
        """Return whether this is an experiment with several cases, or a cell of one."""
        if self.kind not in ("experiment", "cell"):
            return False
        made = self._cases()
        return max(map(len, [made.cases, *made.product.values(), *made.folds.values()])) > 1

    def case(self) -> str | None:
        """Return the case of a cell, if the experiment has several cases; None for other runs.

        The case becomes a part of the names of metrics, so that no chart mixes different data.
        """
        return self._place[1] if self.is_part and self.has_cases() else None

    def numbered(self) -> dict[str, str]:
        """Return the case and the repeat, counted from 1, of a cell; nothing for other runs."""
        if self._place[:1] != ("cells",) or not self._place[3].isdigit():
            return {}
        return {"case": _cut(self._place[1]), "repeat": str(int(self._place[3]) + 1)}

    def parameters(self) -> dict[str, str]:
        """Return method, data and configuration by dotted keys, with texts cut to MLflow's limit.

        The section ``tracking`` is left out. A sweep has its section, too, but not the address of
        Optuna's database. An experiment has only its section; the rest is logged for its cells.
        """
        tree = self.run_dir.config().model_dump(mode="json", exclude={"tracking"})
        if self.kind == "experiment":
            tree = {"experiment": self._grid() | dict.fromkeys(("cases", "folder", "files"))}
        if self.kind == "sweep":
            tree["sweep"] = read_yaml(self.run_dir.sweep_file) | {"storage": None}
        flat = {key: value for key, value in flatten(tree).items() if value is not None}
        tags = self.subject().tags()
        named = {key: tags[key] for key in ("method", "data")} | self.numbered()
        return named | {legal_key(key): _cut(str(value)) for key, value in flat.items()}

    def dataset(self) -> Any:
        """Return the data set as an entity of MLflow; None if the run has none."""
        data = self._data()
        if not {"name", "fingerprint", "source"} <= data.keys():
            return None
        from mlflow.entities import Dataset, DatasetInput, InputTag

        shape = {"num_rows": data.get("records"), "num_features": data.get("features")}
        dataset = Dataset(
            name=data["name"],
            digest=data["fingerprint"][:_DIGEST],
            source_type="external",
            source=json.dumps({"uri": data["source"]}),
            profile=json.dumps(shape),
        )
        return DatasetInput(dataset, [InputTag("mlflow.data.context", "search")])

    def description(self, results: FrontResults | None, run_id: str) -> str:
        """Return the description of a run for MLflow, in Markdown."""
        parts = [self._search_text()]
        winners = winners_table(self.run_dir)
        if winners is not None:
            parts.append(winners_text(winners))
        summary = self.run_dir.summary()
        if summary:
            parts.append(_summary_text(summary))
        if results is not None:
            ours = self.run_dir.choice() is None
            which = "Recommended (nearest to the ideal point)" if ours else "Chosen"
            parts.append(f"{which}: solution {results.front.ids[results.position]}.")
            parts.append(results.table())
        parts += [
            f"![{name}](get-artifact?path=plots/{name}&run_uuid={run_id})"
            for name in PICTURES
            if (self.run_dir.plots / name).is_file()
        ]
        return "\n\n".join(parts)

    def _search_text(self) -> str:
        """Return a sentence about the search, its data and its objectives."""
        config, sizes = self.run_dir.config(), sizes_text(self.run_dir)
        on = _plain(str(self.run_dir.data().get("name") or config.problem.kind))
        on += f" ({sizes})" if sizes else ""
        goals = ", ".join(f"{_plain(o.metric)} {ARROWS[o.sense]}" for o in config.objectives)
        method = _plain(config.algorithm.kind)
        if self.kind == "experiment":
            grid = self._grid()
            methods = ", ".join(map(_plain, grid["methods"]))
            cases = map(_plain, self._cases().cases or [self.subject().data])
            return f"Compares {methods} on {', '.join(cases)}."
        if self.kind == "sweep":
            space = read_yaml(self.run_dir.sweep_file)["search_space"]
            keys = ", ".join(f"`{key}`" for key in space)
            return f"Sweep of **{method}** on **{on}** over {keys}; its runs aim at {goals}."
        several = f", {config.repeats} times with other seeds" if config.repeats > 1 else ""
        return f"**{method}** searched **{on}** for {goals}{several}; seed {config.seed}."


def _summary_text(summary: Mapping[str, Any]) -> str:
    """Return a sentence about how the run ended and what it evaluated."""
    texts = []
    if summary.get("front_size") is not None:
        texts.append(f"{summary['front_size']:,} solutions on the front")
    if summary.get("evaluations") is not None:
        texts.append(f"{summary['evaluations']:,} evaluations")
    texts += [
        f"{_plain(name)} {value:.4g}"
        for name, value in (summary.get("indicators") or {}).items()
        if isinstance(value, int | float)
    ]
    if summary.get("wall_s") is not None:
        texts.append(f"{summary['wall_s']:.1f} s")
    return f"{str(summary.get('status', '')).capitalize()}: {', '.join(texts)}."


def _plain(text: str) -> str:
    """Return a text with the special characters of Markdown escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)
