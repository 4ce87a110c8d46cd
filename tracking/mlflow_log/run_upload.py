"""Uploads a directory of a run, repeat, trial or cell to an MLflow run; nothing is sent twice."""

from __future__ import annotations

import json
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from framework import extras
from framework.arrays import FloatArray
from framework.experiment.history import read_progress_log
from framework.journal import Journal
from tracking.mlflow_log import run_content
from tracking.mlflow_log.history import Generation, History
from tracking.mlflow_log.run_content import FrontResults, RunContent
from tracking.mlflow_log.store import RunState

FRONTS, COURSE = "fronts.csv", "course"

_CONFIG = "config.yaml"
_EXPERIMENT = "experiment.yaml"
_CHUNK = 1000  # metrics in a request at most: MLflow's limit
_PARAMS = 100  # parameters in a request at most
_SEARCH = "search/"
_FILES = (
    "front.csv",
    "returned.csv",
    "summary.json",
    "trials.csv",
    "best.yaml",
    "report.html",
    "sweep.html",
    "tables/*.csv",
    "plots/*.png",
)
_FRONTS_EVERY = 30.0  # seconds between versions of fronts.csv while a run goes on
_FRONTS_SHARE = 0.05  # of the time that is spent on writing them, at most

_STATUS = {"done": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


class RunUpload:
    """Uploads one directory to one MLflow run.

    Parameters
    ----------
    client : mlflow.MlflowClient
    content : RunContent
    state : RunState
        Updated after each upload.
    started : float
        Seconds since the epoch, from which the times of generations are counted.
    save : callable
        Stores the state; called after each upload.
    """

    def __init__(
        self,
        client: Any,
        content: RunContent,
        state: RunState,
        started: float,
        save: Callable[[], None],
    ) -> None:
        self.client, self.content, self.run_dir = client, content, content.run_dir
        self.state, self.started, self.save = state, started, save
        self._ended: list[Any] | None = None
        self._history: History | None = None
        self._fronts_due = time.monotonic() + _FRONTS_EVERY

    def introduce(self) -> None:
        """Send the data set and the parameters that MLflow does not have; they cannot change."""
        from mlflow.entities import Param

        if "introduced" in self.state.artifacts:
            return
        run_id = self.state.run_id
        present = self.client.get_run(run_id).data.params
        wanted = self.content.parameters()
        params = [Param(key, text) for key, text in wanted.items() if key not in present]
        for i in range(0, len(params), _PARAMS):
            self.client.log_batch(run_id, params=params[i : i + _PARAMS], synchronous=True)
        dataset = self.content.dataset()
        if dataset is not None:
            self.client.log_inputs(run_id, [dataset])
        self._describe(None)
        self._arrived("introduced", True)

    def upload(self, *, final: bool) -> bool:
        """Send what MLflow does not have; see :meth:`Uploader.upload`."""
        written = self._written()
        if self._ended == written:
            return True  # nothing was written since this object has ended the MLflow run
        if not final:
            self.set_status("RUNNING")
        self._log_progress()
        self._log_generations()
        self._log_fronts(now=final)
        if not final:
            return False
        self._log_files()
        self._ended = written if self._finish() else None
        return self._ended is not None

    def _log_generations(self) -> None:
        """Send the metrics of every complete generation that MLflow does not have."""
        if not self.run_dir.journal_file.exists():
            return
        with self.run_dir.journal() as journal:
            while journal.n_batches > self.state.batches:
                chunk = self._next_chunk(journal)
                if not chunk:  # the next generation is not complete
                    break
                self._send(chunk)

    def _log_progress(self) -> None:
        """Send the progress of a search that prepares for long; the steps are pieces done."""
        points = read_progress_log(self.run_dir.progress_log_file)
        sent = self.state.artifacts.get(COURSE, 0)
        metrics = [
            (f"{_SEARCH}{name}", value, int(point.time * 1000), point.done)
            for point in points[sent:]
            for name, value in point.values.items()
        ]
        self._send_metrics(metrics)
        if metrics:
            self._arrived(COURSE, len(points))

    def _log_fronts(self, *, now: bool) -> None:
        """Send ``fronts.csv`` if it has grown and is due, or if it has grown and ``now``."""
        if self.state.batches == self.state.artifacts.get(FRONTS, 0):
            return
        if not now and time.monotonic() < self._fronts_due:
            return
        begun = time.monotonic()
        with self.run_dir.journal() as journal:
            history = self._caught_up(journal)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / FRONTS
            history.frame().to_csv(path, index=False)
            self.client.log_artifact(self.state.run_id, str(path))
        self._arrived(FRONTS, self.state.batches)
        spent = time.monotonic() - begun
        self._fronts_due = time.monotonic() + max(_FRONTS_EVERY, spent / _FRONTS_SHARE)

    def _log_files(self) -> None:
        """Send the files of the directory that are new or have changed, and the model."""
        self._log_text(_CONFIG, self.run_dir.config_text())
        if self.content.kind == "experiment":
            self._log_text(_EXPERIMENT, self.content.experiment_text())
        self._draw_front()
        for pattern in _FILES:
            for path in sorted(self.run_dir.path.glob(pattern)):
                name = path.relative_to(self.run_dir.path).as_posix()
                signature = _signature(path)
                if self.state.artifacts.get(name) != signature:
                    folder = name.rpartition("/")[0] or None
                    self.client.log_artifact(self.state.run_id, str(path), folder)
                    self._arrived(name, signature)

    def _draw_front(self) -> None:
        """Draw the front of a repeat, trial or cell, which are not drawn when they run."""
        picture = self.run_dir.plots / "front.png"
        if not self.content.is_part or picture.exists() or extras.absent("plots"):
            return
        if self.run_dir.front_file.is_file():
            from tracking.figures.run_report import write_front

            write_front(self.run_dir)

    def _finish(self) -> bool:
        """Send the summary and end the MLflow run; return whether there is a summary."""
        ended = self._end()
        summary = self.run_dir.summary()
        status = _STATUS.get(str(summary.get("status")))
        if status is None:
            return False
        self._log_summary(summary, ended)
        self._log_results(ended=status != "KILLED")
        if self.state.status != status:
            self.client.set_terminated(self.state.run_id, status, ended)
            self.state.status = status
            self.save()
        return True

    def set_status(self, status: str) -> None:
        """Tell MLflow that the run is running again (RUNNING) or was killed (KILLED)."""
        if self.state.status != status:
            self.client.update_run(self.state.run_id, status)
            self.state.status = status
            self.save()

    def _end(self) -> int:
        """Return when the summary was written, in milliseconds; 0 if there is none."""
        file = self.run_dir.summary_file
        return int(file.stat().st_mtime * 1000) if file.is_file() else 0

    def _written(self) -> list[Any]:
        """Return when the summary was written, and which model, page and pictures there are."""
        there = [(self.run_dir.path / name).exists() for name in ("model", "report.html")]
        return [self._end(), *there, *sorted(path.name for path in self.run_dir.plots.glob("*"))]

    def _next_chunk(self, journal: Journal) -> list[Generation]:
        """Return generations that MLflow does not have, as many as fit into a request."""
        history = self._caught_up(journal)
        chunk: list[Generation] = []
        n = 0
        for batch, seconds in journal.batches(history.n_batches):
            generation = history.add(batch, seconds)
            if generation is not None:
                chunk.append(generation)
                n += len(generation.metrics)
                if n + len(generation.metrics) > _CHUNK:
                    return chunk
        rest = history.close() if self._end() else None  # the run has ended
        return chunk if rest is None else [*chunk, rest]

    def _caught_up(self, journal: Journal) -> History:
        """Return the history of exactly the batches that MLflow has."""
        history = self._history
        if history is None or history.formed > self.state.batches:
            about = self.run_dir.about()
            names, rows = tuple(about["gene_names"]), about.get("evaluations_per_generation")
            history = self._history = History(self.run_dir.roles(), names, rows)
        missing = self.state.batches - history.n_batches
        if missing > 0:
            for batch, seconds in islice(journal.batches(history.n_batches), missing):
                history.add(batch, seconds)
            history.close()  # MLflow has only complete generations
        return history

    def _send(self, chunk: list[Generation]) -> None:
        metrics: list[tuple[Any, ...]] = []
        for item in chunk:
            values = {**item.metrics, "generation": float(item.number)}
            step = int(values.pop("evaluations"))
            millis = int((self.started + item.seconds) * 1000)
            metrics += [(f"{_SEARCH}{name}", value, millis, step) for name, value in values.items()]
        self._send_metrics(metrics)
        self.state.batches = chunk[-1].batches
        self.save()

    def _log_summary(self, summary: Mapping[str, Any], ended: int) -> None:
        from mlflow.entities import Metric, RunTag

        case = self.content.case()
        if case is None and self.content.has_cases():  # means over different data say nothing
            summary = {**summary, "indicators": {}}
        values = run_content.end_metrics(summary)
        if case is not None and "hypervolume" in values:
            values[f"hypervolume/{case}"] = values["hypervolume"]
        if (winners := run_content.winners_table(self.run_dir)) is not None:
            values |= run_content.winners_metrics(winners)
        texts = run_content.end_tags(summary)
        # going on with a finished run adds to its time alone, which is no news
        mark = zlib.crc32(repr([values | {"wall_s": 0.0}, texts]).encode())
        if self.state.artifacts.get("end") == mark:
            return
        metrics = [Metric(name, value, ended, 0) for name, value in values.items()]
        tags = [RunTag(key, text) for key, text in texts.items()]
        self.client.log_batch(self.state.run_id, metrics=metrics, tags=tags, synchronous=True)
        self._arrived("end", mark)

    def _log_text(self, name: str, text: str) -> None:
        if self.state.artifacts.get(name) != zlib.crc32(text.encode()):
            self.client.log_text(self.state.run_id, text, name)
            self._arrived(name, zlib.crc32(text.encode()))

    def _log_results(self, *, ended: bool) -> None:
        """Send the chosen solution, the description and, if the search has ``ended``, the front."""
        results = FrontResults.read(self.run_dir)
        # going on with a finished run writes the same front again, which is no further one
        front = None if results is None else zlib.crc32(self.run_dir.front_file.read_bytes())
        mark = [*self._written(), self.run_dir.choice(), front]
        if self.state.artifacts.get("results") != mark:
            self._describe(results)
            if self.content.kind == "experiment":  # its data are known once its runs have begun
                for key, value in self.content.subject().tags().items():
                    self.client.set_tag(self.state.run_id, key, value)
            if results is not None:
                self._log_confusions(results)
                self._log_chosen(results)
            self._arrived("results", mark)
        logged, *_ = self.state.artifacts.get("points", [None])
        if results is not None and ended and logged != front:
            case = self.content.case()
            place = "front/" if case is None else f"front/{case}/"
            points = {f"{place}{name}": column for name, column in results.points().items()}
            self._arrived("points", [front, self._log_points(points)])

    def _describe(self, results: FrontResults | None) -> None:
        text = self.content.description(results, self.state.run_id)
        self.client.set_tag(self.state.run_id, "mlflow.note.content", text)

    def _log_confusions(self, results: FrontResults) -> None:
        tables = results.confusions()
        for name, text in tables.items():
            self.client.log_text(self.state.run_id, text, name)
        if tables:
            listed = [{"path": name, "type": "table"} for name in tables]
            self.client.set_tag(self.state.run_id, "mlflow.loggedArtifacts", json.dumps(listed))

    def _log_chosen(self, results: FrontResults) -> None:
        """Send the metrics of the chosen solution, and its model if there is one."""
        from tracking.mlflow_log.deploy import log_model

        model = self.run_dir.model
        files = sorted(path for path in model.rglob("*") if path.is_file())
        signature = [_signature(path) for path in files]
        if files and self.state.artifacts.get("model") != signature:
            run_id = self.state.run_id
            part = self.content.is_part
            self.state.artifacts["model_id"] = log_model(self.client, run_id, model, part)
            self._arrived("model", signature)
        model_id, now = self.state.artifacts.get("model_id"), int(time.time() * 1000)
        values = results.chosen()
        mark = zlib.crc32(repr([values, model_id]).encode())
        if self.state.artifacts.get("chosen") != mark:
            self._send_metrics([(name, value, now, 0, model_id) for name, value in values.items()])
            self._arrived("chosen", mark)

    def _log_points(self, points: Mapping[str, FloatArray]) -> int:
        """Send a front after earlier ones, unless it is the last there; return the next step."""
        there, now = {}, int(time.time() * 1000)
        for name in points:
            history = self.client.get_metric_history(self.state.run_id, run_content.legal_key(name))
            there[name] = [metric.value for metric in sorted(history, key=lambda m: m.step)]
        columns = {name: column.tolist() for name, column in points.items()}
        first, n = min(map(len, there.values())), len(next(iter(points.values())))
        if all(there[name][-n:] == column for name, column in columns.items()):
            return first  # it was sent, but tracking.json was lost
        rows = [(name, v, now, first + i) for name, c in columns.items() for i, v in enumerate(c)]
        self._send_metrics(rows)
        return first + n

    def _send_metrics(self, metrics: Sequence[tuple[Any, ...]]) -> None:
        """Send metrics, each a name, a value, a time in milliseconds, a step and maybe a model."""
        from mlflow.entities import Metric

        for i in range(0, len(metrics), _CHUNK):
            part = [
                Metric(run_content.legal_key(name), *rest)
                for name, *rest in metrics[i : i + _CHUNK]
            ]
            self.client.log_batch(self.state.run_id, metrics=part, synchronous=True)

    def _arrived(self, name: str, signature: Any) -> None:
        self.state.artifacts[name] = signature
        self.save()


def _signature(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]
