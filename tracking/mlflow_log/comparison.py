"""A comparison of runs as an MLflow run: its page with all fronts, its tables and figures."""

from __future__ import annotations

from pathlib import Path

from framework.experiment.run_dir import RunDir
from tracking.mlflow_log import store
from tracking.mlflow_log.uploader import begin

_FILES = ("report.html", "tables/*.csv", "plots/*.png")


def log_comparison(out: Path, title: str, first: RunDir) -> str:
    """Log the directory of a comparison to the experiment of one of its runs; return where.

    Raises
    ------
    Exception
        Whatever MLflow raises.
    """
    state = begin(first)
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
    return store.place(state.uri, state.experiment)
