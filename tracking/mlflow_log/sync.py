"""Uploads what MLflow does not have of a run directory, for `paretolab sync`."""

from __future__ import annotations

import re

from framework.errors import InputError, ParetolabError, command, first_line
from framework.experiment.export import champions, write_model
from framework.experiment.run_dir import RunDir
from framework.security import check_address, keep, redacted, without_tokens
from tracking.mlflow_log.store import UploadState, sole_uploader


def sync(directory: str, uri: str | None = None, register: str | None = None) -> str:
    """Upload one directory; return a sentence about it.

    If the run has ended, this waits for another process that is still logging it.

    Parameters
    ----------
    directory : str
    uri : str, optional
        The store, if it is not the one that the run logs to.
    register : str, optional
        The registered model of which the run's model becomes the next version. Of an experiment the
        champion of each case is registered, as ``REGISTER-CASE``, with the alias ``champion``.

    Raises
    ------
    InputError
        It is not the directory of a run, or it could not be logged.
    """
    from tracking.mlflow_log.uploader import Uploader

    run_dir = RunDir.existing(directory)
    if (whole := run_dir.whole) is not run_dir:
        raise InputError(
            f"{directory}: expected the directory of a whole run, found one of its parts; "
            f"give {whole.path.absolute()}"
        )
    best: dict[str, RunDir] = {}
    if register and run_dir.experiment_file.is_file():
        best = champions(run_dir)
        for run in best.values():
            write_model(run)
    with sole_uploader(run_dir, wait=run_dir.summary_file.is_file()):
        before = UploadState.load(run_dir)
        uploader = Uploader(run_dir, uri)
        try:
            # the run's directory may name any address
            check_address(uploader.state.uri, run_dir.path, "tracking.uri", typed=uri is not None)
            if uri is not None:
                keep(run_dir.path)
            with without_tokens(uploader.state.uri, run_dir.path):
                ended = uploader.upload(final=True)
                version = ""
                if register and not best:
                    version = uploader.register(register)
                for case, run in best.items():
                    version += uploader.register(f"{register}-{re.sub('[/:]', '-', case)}", run)
        except Exception as error:  # MLflow may raise anything
            if not uploader.state.runs:  # nothing has arrived there: the store before still counts
                run_dir.tracking_file.unlink(missing_ok=True)
                if before is not None:
                    before.save(run_dir)
            if isinstance(error, ParetolabError):  # of a file of the run, not of MLflow
                raise
            raise InputError(
                f"{directory}: expected to log to {uploader.location}, found: "
                f"{redacted(first_line(error)[:300], uploader.state.uri)}; what "
                "is missing is kept, run the same command again when MLflow answers"
            ) from error
    if ended:
        return f"logged to {uploader.location}{version}"
    return (
        f"logged so far to {uploader.location}; the run has not ended "
        f"({command('resume', directory)} goes on with it)"
    )
