"""Uploads a run directory to MLflow: one run, and below it one per repeat, trial or cell.

``tracking.json`` says how much of the directory was uploaded, so that the same code serves logging
while a run goes on, `paretolab resume` and `paretolab sync`. A *cell* is a run of an experiment.
"""

from __future__ import annotations

import getpass
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import InputError
from framework.experiment.config import TrackingConfig
from framework.experiment.run_dir import RunDir
from framework.security import check_address, without_password, without_tokens
from tracking.figures.style import COLOURS
from tracking.mlflow_log import run_content, store
from tracking.mlflow_log.run_content import description
from tracking.mlflow_log.run_upload import RunUpload
from tracking.mlflow_log.store import PARENT, RunState, UploadState

_PARAMS = 100  # in a request at most: MLflow's limit


def begin(
    run_dir: RunDir,
    uri: str | None = None,
    experiment: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> UploadState:
    """Return the state of a directory's upload; a new one if the store or experiment is another.

    Parameters
    ----------
    run_dir : RunDir
    uri, experiment : str, optional
        The store and the experiment; by default those of the last upload, or else those of the
        configuration.
    tags : mapping of str to str, optional
        Tags of the run; those of its first start are kept.
    """
    state = UploadState.load(run_dir)
    config = run_dir.config()
    tracking = config.tracking or TrackingConfig()
    chosen = uri or (state.uri if state else tracking.uri)
    try:
        wanted_uri = store.absolute_uri(without_password(chosen), Path.cwd())
    except ValueError as error:
        raise InputError(f"{run_dir.path}: {error}") from error
    wanted_name = experiment or (state.experiment if state else tracking.experiment or config.name)
    if state and (state.uri, state.experiment) == (wanted_uri, wanted_name):
        return state
    started = state.started if state else run_dir.config_file.stat().st_mtime
    run_tags = state.tags if state else dict(tags or {})
    state = UploadState(wanted_uri, wanted_name, started, run_tags)
    state.save(run_dir)
    return state


class Uploader:
    """Uploads what MLflow does not have of a run directory.

    Parameters
    ----------
    run_dir : RunDir
    uri, experiment, tags
        See :func:`begin`.

    Attributes
    ----------
    state : UploadState
    """

    def __init__(
        self,
        run_dir: RunDir,
        uri: str | None = None,
        experiment: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.run_dir = run_dir
        self.state = begin(run_dir, uri, experiment, tags)
        sweeps, compares = run_dir.sweep_file.is_file(), run_dir.experiment_file.is_file()
        self._several = sweeps or compares or run_dir.config().repeats > 1
        self._kind = "sweep" if sweeps else "experiment" if compares else "run"
        self._part = {"sweep": "trial", "experiment": "cell", "run": "repeat"}[self._kind]
        self._client: Any = None
        self._experiment_id = ""
        self._members: dict[str, RunUpload] = {}
        self._colours: dict[str, str] = {}  # by method, in MLflow's experiment

    def upload(self, *, final: bool) -> bool:
        """Send what MLflow does not have.

        Parameters
        ----------
        final : bool
            Whether nothing more will come: then files are sent, too, and runs that have a summary
            are ended. Otherwise the runs are marked as running.

        Returns
        -------
        bool
            Whether all runs have ended.

        Raises
        ------
        Exception
            Anything that MLflow raises; the next call continues after what was sent.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a user can do nothing about those of MLflow
            return self._upload(final=final)

    def _upload(self, *, final: bool) -> bool:
        self._connect()
        parent = self._member(PARENT, self.run_dir)
        if not self._several:
            return self._update(parent, final=final)
        ended = True
        for directory in self.run_dir.children():
            if directory.about_file.is_file():
                child = self._member(self._name_of(directory), directory, parent)
                ended &= self._update(child, final=final or self._is_over(directory))
        if not final:
            parent.set_status("RUNNING")
            return False
        parent.log_files()
        return parent.finish() and ended

    def _name_of(self, directory: RunDir) -> str:
        """Return the number of a repeat or trial, or CASE/METHOD/NNN of a cell."""
        if self._part != "cell":
            return directory.path.name
        return directory.path.relative_to(self.run_dir.path).as_posix().removeprefix("cells/")

    def register(self, name: str, part: RunDir | None = None) -> str:
        """Make a model the next version of a registered model; return the end of a sentence.

        Parameters
        ----------
        name : str
        part : RunDir, optional
            The cell whose model it is, which gets the alias ``champion``; by default the model of
            the run itself.

        Raises
        ------
        InputError
            The run has no model.
        """
        from tracking.mlflow_log.deploy import register

        member = PARENT if part is None else self._name_of(part)
        model_id = self.state.runs[member].artifacts.get("model_id")
        if model_id is None:
            place = self.run_dir.path if part is None else part.path
            raise InputError(
                f"--register {name}: expected a run with a model, found none in {place}"
            )
        version = register(self._client, name, model_id)
        if part is not None:
            self._client.set_registered_model_alias(name, "champion", version)
        return f"; registered as {name}, version {version}"

    def mark_killed(self) -> None:
        """Mark runs as killed that MLflow still has as running."""
        for member in self._members.values():
            if member.state.status == "RUNNING":
                member.set_status("KILLED")

    @property
    def location(self) -> str:
        """The store and the experiment, for messages."""
        return store.location(self.state.uri, self.state.experiment)

    def _is_over(self, trial: RunDir) -> bool:
        """Return whether a repeat, trial or cell has ended and will not be resumed."""
        return trial.summary().get("status") in ("done", "failed")

    def _update(self, member: RunUpload, *, final: bool) -> bool:
        if member.complete:
            return True
        if not final:
            member.set_status("RUNNING")
        member.log_progress()
        member.log_generations()
        member.log_fronts(now=final)
        if not final:
            return False
        member.log_files()
        return member.finish()

    def _connect(self) -> None:
        if self._client is None:
            client = store.connect(self.state.uri)
            self._experiment_id = store.experiment_id(client, self.state.uri, self.state.experiment)
            self._client = client

    def _member(self, name: str, run_dir: RunDir, parent: RunUpload | None = None) -> RunUpload:
        """Return the upload of a directory; its MLflow run is made if there is none."""
        if name not in self._members:
            run = self._run(name, run_dir, parent)
            self.state.runs[name] = run
            self._save()
            kind = self._kind if parent is None else self._part
            self._introduce(run, run_dir, kind)
            self._members[name] = RunUpload(
                self._client, run_dir, run, self.state.started, self._save, kind
            )
        return self._members[name]

    def _run(self, name: str, run_dir: RunDir, parent: RunUpload | None) -> RunState:
        run = self.state.runs.get(name)
        if run and self._exists(run.run_id):
            return run
        tags = self._tags(name, run_dir, parent)
        present = self._find(tags)
        if present is not None:
            batches = self._batches_there(present.info.run_id, run_dir)
            return RunState(present.info.run_id, present.info.status, batches)
        tags["mlflow.runColor"] = self._colour(tags["method"])
        created = self._client.create_run(
            self._experiment_id, int(self.state.started * 1000), tags, self._name(name, run_dir)
        )
        return RunState(created.info.run_id)

    def _batches_there(self, run_id: str, run_dir: RunDir) -> int:
        """Return how many batches of a journal MLflow has, from the last step of a metric."""
        history = self._client.get_metric_history(run_id, "search/front_size")
        evaluated = max((metric.step for metric in history), default=0)
        if not evaluated or not run_dir.journal_file.is_file():
            return 0
        with run_dir.journal() as journal:
            rows = np.cumsum([len(batch) for batch, _ in journal.batches()])
        return int(np.searchsorted(rows, evaluated)) + 1

    def _colour(self, method: str) -> str:
        """Return the colour of a method in the experiment, or one that no other method has."""
        if not self._colours:  # read once, since each cell adds runs to the experiment
            tags = [run.data.tags for run in self._client.search_runs([self._experiment_id])]
            used = {tag.get("method"): tag.get("mlflow.runColor") for tag in tags}
            self._colours = {name: colour for name, colour in used.items() if name and colour}
        if method not in self._colours:
            free = [colour for colour in COLOURS if colour not in self._colours.values()]
            self._colours[method] = (free or COLOURS)[0]
        return self._colours[method]

    def _exists(self, run_id: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False  # the store was deleted and made again
            raise
        if run.info.lifecycle_stage == "deleted":
            raise InputError(
                f"{self.run_dir.path}: expected run {run_id} in MLflow, found that it was deleted; "
                f"restore it there, or remove {self.run_dir.tracking_file} to log it anew"
            )
        return True

    def _tags(self, name: str, run_dir: RunDir, parent: RunUpload | None) -> dict[str, str]:
        kind = self._kind if parent is None else self._part
        tags = self.state.tags | run_content.run_tags(run_dir) | self._subject(run_dir, kind).tags()
        tags |= {"mlflow.user": getpass.getuser(), "kind": kind}
        if self.run_dir.about_file.is_file() and (uid := self.run_dir.about().get("uid")):
            tags["paretolab.uid"] = str(uid)
        if parent is not None:
            tags |= {kind: name, "mlflow.parentRunId": parent.state.run_id}
        return tags

    def _subject(self, run_dir: RunDir, kind: str) -> run_content.Subject:
        # cells may have different data; trials and repeats have those of the whole run
        return run_content.subject(run_dir, run_dir if kind == "cell" else self.run_dir, kind)

    def _find(self, tags: dict[str, str]) -> Any:
        """Return the MLflow run of a directory whose tracking.json was lost, if there is one."""
        names = ("paretolab.uid", "kind", "trial", "repeat", "cell")
        if "paretolab.uid" not in tags:
            return None
        wanted = [f"tags.`{name}` = '{tags[name]}'" for name in names if name in tags]
        runs = self._client.search_runs([self._experiment_id], " and ".join(wanted), max_results=1)
        return runs[0] if runs else None

    def _name(self, name: str, run_dir: RunDir) -> str:
        """Return the name of an MLflow run; MLflow's pages show its first 20 characters."""
        config = run_dir.config()
        if name == PARENT and self._kind != "run":
            return config.name
        if self._part == "cell":
            place = run_content.place_of(run_dir, "cell")
            if not place:
                return name
            several = len(run_content.cases_of(self.run_dir)) > 1
            case = f" · {place['case']}" if several else ""
            return f"{self._subject(run_dir, 'cell').method} {place['repeat']}{case}"
        subject = self._subject(run_dir, self._kind if name == PARENT else self._part)
        part = "" if name == PARENT else f"{self._part} {name} · "
        seeds = f"{config.repeats} seeds" if config.repeats > 1 else f"seed {config.seed}"
        return f"{part}{subject.method} · {subject.data} · {seeds}"

    def _introduce(self, run: RunState, run_dir: RunDir, kind: str) -> None:
        """Send the data set and the parameters that MLflow does not have; they cannot change."""
        from mlflow.entities import Param

        if "introduced" in run.artifacts:
            return
        run_id = run.run_id
        present = self._client.get_run(run_id).data.params
        subject = self._subject(run_dir, kind)
        named = {key: subject.tags()[key] for key in ("method", "data")}
        wanted = named | run_content.place_of(run_dir, kind) | run_content.parameters(run_dir)
        missing = {key: text for key, text in wanted.items() if key not in present}
        params = [Param(key, text) for key, text in missing.items()]
        for i in range(0, len(params), _PARAMS):
            self._client.log_batch(run_id, params=params[i : i + _PARAMS], synchronous=True)
        dataset = run_content.dataset_input(run_dir if kind == "cell" else self.run_dir)
        if dataset is not None:
            self._client.log_inputs(run_id, [dataset])
        text = description(run_dir, None, kind, run_id)
        self._client.set_tag(run_id, "mlflow.note.content", text)
        run.artifacts["introduced"] = True
        self._save()

    def _save(self) -> None:
        self.state.save(self.run_dir)


_FILES = ("report.html", "tables/*.csv", "plots/*.png")


def log_comparison(out: Path, title: str, first: RunDir) -> str:
    """Log the directory of a comparison to the experiment of one of its runs; return where.

    Raises
    ------
    Exception
        Anything that MLflow raises.
    """
    state = begin(first)
    check_address(state.uri, first.path, "tracking.uri")
    with without_tokens(state.uri, first.path):
        return _log_comparison(out, title, state)


def _log_comparison(out: Path, title: str, state: UploadState) -> str:
    client = store.connect(state.uri)
    tags = {"kind": "comparison", "mlflow.source.name": "paretolab", "mlflow.source.type": "LOCAL"}
    experiment = store.experiment_id(client, state.uri, state.experiment)
    run = client.create_run(experiment, tags=tags, run_name=f"comparison · {title}")
    run_id = run.info.run_id
    for pattern in _FILES:
        for path in sorted(out.glob(pattern)):
            folder = path.relative_to(out).parent.as_posix()
            client.log_artifact(run_id, str(path), None if folder == "." else folder)
    note = f"{title}. All of it: artifact `report.html`."
    if (out / "plots" / "fronts.png").is_file():
        note += f"\n\n![fronts](get-artifact?path=plots/fronts.png&run_uuid={run_id})"
    client.set_tag(run_id, "mlflow.note.content", note)
    client.set_terminated(run_id)
    return store.location(state.uri, state.experiment)
