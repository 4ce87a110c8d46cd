"""Inference time and memory of a fitted model, measured in a process of its own.

``python -m framework.libraries.measure`` reads a request from its standard input and writes one
line of JSON for each model. It loads the libraries that models need once and forks a fresh process
for each model, so that neither their imports nor another model's memory count.

- ``inference_time``: milliseconds for a batch of 1,000 records, on one thread: the processor time
  of the quickest of several batches, after one to warm up. Time on the clock would also count the
  waiting for other processes, and rank models differently on a busy machine.
- ``call_time``: the part of it that a call takes however few records it has, in the same unit; it
  follows from the time of a tenth of the batch. It is not a cost of libraries: tables of calls use
  it, where a model is asked about a few of many records.
- ``memory``: growth of the process's resident memory, in MB (1e6 bytes), from before the model is
  loaded to the peak while it predicts that batch. A peak during loading does not count. Where the
  system does not tell the peak, the memory after the prediction is taken.
- ``disk``: size of the model's file, in MB.
- ``latency_1_p50``, ``latency_1_p95``, ``latency_1000_p50``, ``latency_1000_p95``, where they are
  asked for: seconds on the clock that half of the calls, and 95% of them, do not exceed, for one
  record and for a batch of 1,000, on one thread. Other work of the machine counts, as users would
  wait for it too. ``cpu_time_1000`` is the mean processor time, in seconds, of those batches.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import ParetolabError
from framework.extras import installed, needed
from framework.libraries.members import as_taken
from framework.machine import child_environment, resident_memory
from framework.security import ESTIMATOR_BYTES, load_estimator, read_bytes

BATCH = 1000
UNITS = {"inference_time": "ms/1000 rows", "memory": "MB", "disk": "MB"}
LATENCY_UNITS = dict.fromkeys(
    ("latency_1_p50", "latency_1_p95", "latency_1000_p50", "latency_1000_p95", "cpu_time_1000"), "s"
)

_REPEATS = 7  # batches at least
_FEW = 10  # call_time is measured with this part of a batch, 1 of 10
_SECONDS = 0.15  # of repeating, for quick models
_ROUNDS = 3  # of latencies
_CALLS = {1: 100, BATCH: 20}  # in a round, by the number of records
_THREADS = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM")
_MB = 1e6


def measure(
    models: Mapping[str, Path],
    records: Any,
    *,
    values: bool,
    latency: bool = False,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each model's ``inference_time``, ``call_time``, ``memory``, ``disk`` (see the module).

    Nothing else should keep the machine busy meanwhile.

    Parameters
    ----------
    models : mapping of id to path
        Files in skops's format.
    records : ndarray or DataFrame (n, d)
        Repeated or cut to 1,000.
    values : bool
        Whether the models predict values (regression), not probabilities.
    latency : bool
        Whether latencies and processor time (``LATENCY_UNITS``) are measured too.

    Raises
    ------
    ParetolabError
        The measuring process ended early.
    """
    if not models:
        return
    with tempfile.TemporaryDirectory() as folder:
        request = {
            "records": _write_records(records, Path(folder)),
            "models": {name: str(path) for name, path in models.items()},
            "values": values,
            "latency": latency,
        }
        command = [sys.executable, "-m", "framework.libraries.measure"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(**{f"{name}_THREADS": "1" for name in _THREADS}),
            start_new_session=True,  # Ctrl-C goes to this process alone
        ) as process:
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(request))
                process.stdin.close()
                for line in process.stdout:
                    measured = json.loads(line)
                    if "error" in measured:
                        raise ParetolabError(f"model {measured['id']!r}: {measured['error']}")
                    name = measured.pop("id")
                    yield name, measured | {"disk": models[name].stat().st_size / _MB}
            except BaseException:  # also where the caller takes no further model
                process.kill()
                raise
        if process.returncode:
            raise ParetolabError(
                f"the costs of the models: the measuring process ended with code "
                f"{process.returncode}; run the command again to go on"
            )


def _write_records(records: Any, folder: Path) -> str:
    places = np.resize(np.arange(len(records)), BATCH)
    if isinstance(records, np.ndarray):
        path = folder / "records.npy"
        np.save(path, records[places], allow_pickle=False)
    else:
        path = folder / "records.parquet"
        needed("pyarrow")
        records.iloc[places].to_parquet(path, index=False)
    return str(path)


def _serve() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    examples = _examples(_read_records(request["records"]))
    for name, path in request["models"].items():
        print(json.dumps({"id": name, **_in_a_fork(path, request, examples)}), flush=True)


def _examples(records: Any) -> list[tuple[bytes, Any]]:
    """Return small fitted models, in skops's format, each with a batch to predict.

    A process that has used them has the code of the libraries in memory, also what they import
    late, so that no measured model is charged for it. Models of data frames need more such code.
    """
    from sklearn import ensemble, neighbors, neural_network, svm
    from skops import io

    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    small = [
        svm.SVC(),
        neighbors.KNeighborsClassifier(),
        neural_network.MLPClassifier((4,), max_iter=2),
        ensemble.ExtraTreesClassifier(3),
        ensemble.HistGradientBoostingClassifier(max_iter=2),
        *_boosted(),
    ]
    warnings.simplefilter("ignore")
    batch = np.zeros((BATCH, 3))
    examples = [(io.dumps(model.fit(X, y)), batch) for model in small]
    if not isinstance(records, np.ndarray):
        examples += _frame_examples(records)
    gc.collect()
    gc.freeze()
    return examples


def _boosted() -> list[Any]:
    """Return a small model of LightGBM's, where that is installed."""
    if not installed("lightgbm"):
        return []
    import lightgbm

    return [lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1)]


def _frame_examples(frame: Any) -> list[tuple[bytes, Any]]:
    """Return examples that take data frames: of numbers, and of numbers and texts."""
    import pandas as pd
    from sklearn import compose, ensemble, linear_model, pipeline, preprocessing
    from skops import io

    numbers = frame.select_dtypes(["number", "bool"]).fillna(0).astype(np.float64)
    numbers["number"] = 0.0  # at least one column
    words = frame.select_dtypes(["object", "string", "category"]).astype(str).astype(object)
    words["word"] = "a"
    plain = pd.concat([numbers, words], axis=1)
    y = np.arange(len(frame)) % 2
    columns = compose.make_column_transformer(
        (preprocessing.StandardScaler(), list(numbers)),
        (preprocessing.OneHotEncoder(handle_unknown="ignore"), list(words)),
    )
    small: list[tuple[Any, Any]] = [
        (pipeline.make_pipeline(columns, linear_model.LogisticRegression()), plain),
        (linear_model.LogisticRegression(), numbers),
        (ensemble.HistGradientBoostingClassifier(max_iter=2), numbers),
        *((model, numbers) for model in _boosted()),
    ]
    return [(io.dumps(model.fit(X[:60], y[:60])), X) for model, X in small]


def _in_a_fork(
    path: str, request: Mapping[str, Any], examples: Sequence[tuple[bytes, Any]]
) -> dict[str, Any]:
    """Measure a model in a child process, which starts as a copy of this one."""
    if not hasattr(os, "fork"):
        return _attempt(path, request, examples)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(_attempt(path, request, examples)).encode())
        finally:  # the parent's clean-up must not run here, whatever happens
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"error": f"its process ended with status {status}"}


def _attempt(
    path: str, request: Mapping[str, Any], examples: Sequence[tuple[bytes, Any]]
) -> dict[str, Any]:
    try:
        return _costs(path, request, examples)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _costs(
    path: str, request: Mapping[str, Any], examples: Sequence[tuple[bytes, Any]]
) -> dict[str, float]:
    from threadpoolctl import threadpool_limits

    records = _read_records(request["records"])
    with threadpool_limits(1):
        for example, batch in examples:
            load_estimator(example, "example").predict(batch)
        _tidy()
        before, _ = resident_memory()
        model = load_estimator(read_bytes(Path(path), ESTIMATOR_BYTES), path)
        _tidy()
        loaded, peak_loaded = resident_memory()
        records = as_taken(model, records)
        predict = model.predict if request["values"] else model.predict_proba
        predict(records)
        after, peak = resident_memory()
        seconds = _least_seconds(lambda: predict(records))
        # seconds(n) = call + n * each: from n records and n / 10 of them follows the call alone
        few = as_taken(model, records[: len(records) // _FEW])
        call = (_FEW * _least_seconds(lambda: predict(few)) - seconds) / (_FEW - 1)
        latencies = _latencies(predict, records) if request["latency"] else {}
    grown = (peak if peak > peak_loaded else max(loaded, after)) - before
    return {
        "inference_time": seconds * 1e6 / len(records),
        "call_time": min(max(call, 0.0), seconds) * 1e6 / len(records),
        "memory": max(0.0, grown / _MB),
        **latencies,
    }


def _tidy() -> None:
    """Give freed memory back, which the model would fill unseen, and reset the peak."""
    gc.collect()
    with suppress(OSError, AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):  # a system that keeps no peak, or does not let it be reset
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _least_seconds(call: Callable[[], object]) -> float:
    """Return the processor time of the quickest of several calls."""
    took: list[float] = []
    begin = time.perf_counter()
    while len(took) < _REPEATS or time.perf_counter() - begin < _SECONDS:
        start = time.process_time()
        call()
        took.append(time.process_time() - start)
    return min(took)


def _latencies(predict: Callable[[Any], object], records: Any) -> dict[str, float]:
    """Return the costs of ``LATENCY_UNITS``, each the median of several rounds.

    The median keeps a disturbance that lasts one round from deciding. Calls with one record each
    take another one, and records are cut out before the clock starts.
    """
    by_name: dict[str, list[float]] = {name: [] for name in LATENCY_UNITS}
    for size, calls in _CALLS.items():
        batches = [records[i : i + 1] for i in range(calls)] if size == 1 else [records] * calls
        predict(batches[0])
        for _ in range(_ROUNDS):
            took, begin = [], time.process_time()
            for batch in batches:
                start = time.perf_counter()
                predict(batch)
                took.append(time.perf_counter() - start)
            if size == BATCH:
                by_name[f"cpu_time_{size}"].append((time.process_time() - begin) / calls)
            # a time that was measured, not one between two
            middle, late = np.quantile(took, [0.5, 0.95], method="inverted_cdf").tolist()
            by_name[f"latency_{size}_p50"].append(middle)
            by_name[f"latency_{size}_p95"].append(late)
    return {name: float(np.median(values)) for name, values in by_name.items()}


def _read_records(path: str) -> Any:
    if path.endswith(".npy"):
        return np.load(path, allow_pickle=False)
    import pandas as pd

    return pd.read_parquet(path)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the process that asked has gone
        _serve()
