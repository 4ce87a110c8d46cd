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
from framework.security import address_of, check_address, without_password, without_tokens
from tracking.figures.style import COLOURS
from tracking.mlflow_log import store
from tracking.mlflow_log.run_content import RunContent
from tracking.mlflow_log.run_upload import RunUpload
from tracking.mlflow_log.store import PARENT, RunState, UploadState


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
        address_of(wanted_uri)
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
        self._client: Any = None
        self._experiment_id = ""
        self._uploads: dict[str, RunUpload] = {}
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
            self._connect()
            whole = self._upload_of(self.run_dir)
            ended = True
            for part in self.run_dir.children():
                if part.about_file.is_file():
                    over = part.summary().get("status") in ("done", "failed")  # and not resumed
                    ended &= self._upload_of(part).upload(final=final or over)
            return whole.upload(final=final) and ended

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

        run_dir = part or self.run_dir
        key = RunContent(run_dir, self.run_dir).key
        model_id = self.state.runs[key].artifacts.get("model_id")
        if model_id is None:
            raise InputError(
                f"--register {name}: expected a run with a model, found none in {run_dir.path}"
            )
        version = register(self._client, name, model_id)
        if part is not None:
            self._client.set_registered_model_alias(name, "champion", version)
        return f"; registered as {name}, version {version}"

    def mark_killed(self) -> None:
        """Mark runs as killed that MLflow still has as running."""
        for upload in self._uploads.values():
            if upload.state.status == "RUNNING":
                upload.set_status("KILLED")

    @property
    def location(self) -> str:
        """The store and the experiment, for messages."""
        return store.location(self.state.uri, self.state.experiment)

    def _connect(self) -> None:
        if self._client is None:
            client = store.connect(self.state.uri)
            self._experiment_id = store.experiment_id(client, self.state.uri, self.state.experiment)
            self._client = client

    def _upload_of(self, run_dir: RunDir) -> RunUpload:
        """Return the upload of a directory; its MLflow run is made if there is none."""
        content = RunContent(run_dir, self.run_dir)
        key = content.key
        if key not in self._uploads:
            run = self.state.runs[key] = self._run(content)
            self._save()
            upload = RunUpload(self._client, content, run, self.state.started, self._save)
            upload.introduce()
            self._uploads[key] = upload
        return self._uploads[key]

    def _run(self, content: RunContent) -> RunState:
        run = self.state.runs.get(content.key)
        if run and self._exists(run.run_id):
            return run
        tags = self.state.tags | content.tags() | {"mlflow.user": getpass.getuser()}
        if content.is_part:
            tags["mlflow.parentRunId"] = self.state.runs[PARENT].run_id
        present = self._find(tags)
        if present is not None:
            batches = self._batches_there(present.info.run_id, content.run_dir)
            return RunState(present.info.run_id, present.info.status, batches)
        tags["mlflow.runColor"] = self._colour(tags["method"])
        created = self._client.create_run(
            self._experiment_id, int(self.state.started * 1000), tags, content.name()
        )
        return RunState(created.info.run_id)

    def _batches_there(self, run_id: str, run_dir: RunDir) -> int:
        """Return how many batches of a journal MLflow has, from the last step of a metric."""
        history = self._client.get_metric_history(run_id, "search/front_size")
        evaluated = max((metric.step for metric in history), default=0)
        if not evaluated or not run_dir.journal_file.is_file():
            return 0
        with run_dir.journal() as journal:
            rows = np.cumsum([len(batch) for batch in journal.evaluations()])
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

    def _find(self, tags: dict[str, str]) -> Any:
        """Return the MLflow run of a directory whose tracking.json was lost, if there is one."""
        names = ("paretolab.uid", "kind", "trial", "repeat", "cell")
        if "paretolab.uid" not in tags:
            return None
        wanted = [f"tags.`{name}` = '{tags[name]}'" for name in names if name in tags]
        runs = self._client.search_runs([self._experiment_id], " and ".join(wanted), max_results=1)
        return runs[0] if runs else None

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
    tags = {"kind": "comparison", "mlflow.source.name": "paretolab", "mlflow.source.type": "LOCAL"}
    note = f"{title}. All of it: artifact `report.html`."
    with without_tokens(state.uri, first.path):
        client = store.connect(state.uri)
        experiment = store.experiment_id(client, state.uri, state.experiment)
        run = client.create_run(experiment, tags=tags, run_name=f"comparison · {title}")
        run_id = run.info.run_id
        for pattern in _FILES:
            for path in sorted(out.glob(pattern)):
                folder = path.relative_to(out).parent.as_posix()
                client.log_artifact(run_id, str(path), None if folder == "." else folder)
        if (out / "plots" / "fronts.png").is_file():
            note += f"\n\n![fronts](get-artifact?path=plots/fronts.png&run_uuid={run_id})"
        client.set_tag(run_id, "mlflow.note.content", note)
        client.set_terminated(run_id)
    return store.location(state.uri, state.experiment)
