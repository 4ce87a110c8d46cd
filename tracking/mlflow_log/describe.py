"""What is logged about a run besides its numbers: parameters, tags, the data set."""

from __future__ import annotations

import math
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from framework.experiment.config import flatten, read_yaml
from framework.experiment.run_dir import RunDir
from framework.uris import public_uri

_LONGEST_VALUE = 500
_LONGEST_KEY = 250
_PACKAGES = ("paretolab", "numpy", "scikit-learn", "ray", "mlflow")
_DIGITS = 4  # MLflow's tables do not round
_DIGEST = 36  # longest digest of a data set that MLflow takes


def legal_key(name: str) -> str:
    """Return a name with whatever MLflow refuses in names replaced by '_'."""
    return re.sub(r"[^\w\-. /:]", "_", name)[:_LONGEST_KEY]


def parameters(run_dir: RunDir) -> dict[str, str]:
    """Return the resolved configuration but for MLflow's, flat, values cut to MLflow's limit.

    Of a sweep what is varied is added, but not the address of Optuna's database. Of an experiment
    it is what is compared; its cells have the rest.
    """
    tree = run_dir.config().model_dump(mode="json", exclude={"tracking"})
    if run_dir.experiment_file.is_file():
        tree = {"experiment": read_yaml(run_dir.experiment_file)["experiment"]}
    if run_dir.sweep_file.is_file():
        tree["sweep"] = read_yaml(run_dir.sweep_file) | {"storage": None}
    flat = flatten(tree)
    return {legal_key(key): _cut(str(value)) for key, value in flat.items() if value is not None}


def config_text(run_dir: RunDir) -> str:
    """Return config.yaml, without a password that a run of an earlier version has in its URI."""
    text = run_dir.config_file.read_text(encoding="utf-8")
    tracking = run_dir.config().tracking
    return text if tracking is None else text.replace(tracking.uri, public_uri(tracking.uri))


def start_tags(directory: Path) -> dict[str, str]:
    """Return versions and the revision of the working tree around ``directory``, if any."""
    tags = {"version.python": platform.python_version()}
    for package in _PACKAGES:
        try:
            tags[f"version.{package}"] = version(package)
        except PackageNotFoundError:
            continue
    revision = _revision(directory)
    return tags | ({"mlflow.source.git.commit": revision} if revision else {})


class Subject(NamedTuple):
    """What runs are told apart by: the method, the data by name, and their fingerprint if any."""

    method: str
    data: str
    fingerprint: str

    def tags(self) -> dict[str, str]:
        """Return the tags to group and filter runs by."""
        known = {"data.fingerprint": self.fingerprint} if self.fingerprint else {}
        return {"method": self.method, "data": self.data} | known


def subject(run_dir: RunDir, data_of: RunDir, kind: str) -> Subject:
    """Return the subject of a directory.

    Parameters
    ----------
    run_dir : RunDir
    data_of : RunDir
        Whose ``about.json`` tells of the data: its own, or that of the run it is a part of.
    kind : str
        ``run``, ``sweep``, ``experiment``, or a part of one: ``repeat``, ``trial``, ``cell``.
    """
    config, data = run_dir.config(), about(data_of).get("data") or {}
    method = str(config.algorithm["kind"])
    if kind == "experiment":
        method = "several"
    elif kind == "cell":  # cells/CASE/METHOD/NNN; the search for references/CASE has no label
        labelled = run_dir.path.parent.parent.parent.name == "cells"
        method = run_dir.path.parent.name if labelled else method
    name = str(data.get("name") or config.problem["kind"])
    return Subject(method, name, str(data.get("fingerprint") or ""))


def run_tags(run_dir: RunDir) -> dict[str, str]:
    """Return the tags that say where a run comes from."""
    return {
        "problem": str(run_dir.config().problem["kind"]),
        "paretolab.dir": run_dir.path.absolute().name,
        "mlflow.source.name": "paretolab",
        "mlflow.source.type": "LOCAL",
    }


def end_tags(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return what the summary says about the versions that ran, and why a run failed."""
    error = {"error": _cut(str(summary["error"]))} if "error" in summary else {}
    return error | {
        f"version.{name}": str(text) for name, text in summary.get("versions", {}).items()
    }


def end_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a summary: counts, seconds and indicators."""
    kept = {key: summary.get(key) for key in ("evaluations", "rows_failed", "wall_s", "front_size")}
    flat = kept | flatten(summary.get("indicators") or {})
    return rounded({key: value for key, value in flat.items() if _is_number(value)})


def rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the finite ones by names that MLflow takes, to four digits after the point."""
    return {
        legal_key(name): round(float(value), _DIGITS)
        for name, value in metrics.items()
        if math.isfinite(value)
    }


def dataset_input(run_dir: RunDir) -> Any:
    """Return the data set as MLflow's entity; None where the run has none."""
    data = about(run_dir).get("data") or {}
    if not {"name", "fingerprint", "source"} <= data.keys():
        return None
    import json

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


def about(run_dir: RunDir) -> dict[str, Any]:
    """Return about.json of a directory; empty where there is none."""
    return run_dir.about() if run_dir.about_file.is_file() else {}


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _revision(directory: Path) -> str | None:
    command = ["git", "-C", str(directory), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
