"""The build of a library: a pool of models is trained, and a stopped build can continue.

Meanwhile the folder holds ``build.json`` (what is built), ``models/ID`` (each complete or not there
at all, with its predictions) and ``failed/ID.json`` (models that could not be trained). At the end
the predictions become the tables of the library (:mod:`framework.libraries.library`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from framework import extras
from framework.components import is_put_off
from framework.errors import InputError, NotBuiltError
from framework.files import locked, whole_folder, write_whole
from framework.libraries.config import BuildConfig, LibrarySection
from framework.libraries.library import (
    BUILD_FILE,
    FORMAT,
    LIBRARY_FILE,
    Cost,
    Library,
    load_library,
)
from framework.libraries.measure import LATENCY_UNITS, UNITS, measure
from framework.libraries.members import (
    ABOUT_FILE,
    ENCODER_FILE,
    EXAMPLE_FILE,
    MODEL_FILE,
    MODELS,
    write_member,
)
from framework.libraries.pool import PoolPlan, plans
from framework.libraries.training import Outcome, PoolData, Trained, prepare, train_all
from framework.machine import cache_dir
from framework.parallel.config import ClusterConfig, chosen_workers
from framework.run.display import Display
from framework.security import (
    JSON_BYTES,
    check_no_links,
    mapped,
    parse_json,
    read_bytes,
    read_object,
)

FAILED = "failed"

_PACKAGES = ("lightgbm", "numpy", "scikit-learn")
_PARTS = ("validation", "test")


def obtain_library(
    section: LibrarySection,
    where: str = "problem.library",
    check_classes: Callable[[Sequence[Any] | None, str], None] = lambda classes, title: None,
) -> Library:
    """Return the library that a section of a configuration describes; build it if it is missing.

    Parameters
    ----------
    section : LibrarySection
    where : str
        Key of the section, for messages.
    check_classes : callable, optional
        Takes the classes and the title of a library before it is built, and may refuse them.

    Raises
    ------
    InputError
        There is no such library, it was changed, or it cannot be built.
    """
    if section.build is None:
        assert section.path is not None  # the section says so
        return load_library(section.path)
    workers, address = chosen_workers()  # of the run that is being set up
    return build_library(
        section.build,
        section.path,
        workers=workers,
        address=address,
        where=f"{where}.build",
        check_classes=check_classes,
    )


def build_library(
    config: BuildConfig,
    folder: Path | None = None,
    *,
    workers: str | int = "auto",
    address: str | None = None,
    cluster: ClusterConfig | None = None,
    display: Display | None = None,
    where: str = "library",
    check_classes: Callable[[Sequence[Any] | None, str], None] = lambda classes, title: None,
) -> Library:
    """Train a pool, measure it and write its library; an earlier, stopped build is continued.

    Parameters
    ----------
    folder : Path, optional
        A new folder, or one with a build of the same library, stopped or complete; if None, a
        folder of the cache that is named by what is built.
    workers, address, cluster
        Who trains: see :func:`framework.libraries.training.train_all`.
    check_classes
        See :func:`obtain_library`.

    Raises
    ------
    InputError
        The data cannot be used, the folder holds something else, or no model could be trained.
    NotBuiltError
        The library is missing, and nothing expensive may be built now
        (:func:`framework.components.is_put_off`).
    """
    prepared = prepare(config, where)
    data, notes = prepared.data, tuple(prepared.about.get("notes", ()))
    check_classes(data.classes, f"library {config.name}")
    identity = _identity(config, prepared.about)
    target = folder or _cache_folder(config.name, identity, where)
    if not (target / LIBRARY_FILE).is_file():
        description = f"the library {config.name} ({config.models} models)"
        if is_put_off(description):
            raise NotBuiltError(f"{where}: {description} is not built yet", notes)
    with closing(display or Display(transient=True)) as display, _alone(target, identity, display):
        if (target / LIBRARY_FILE).is_file():
            return replace(load_library(target), notes=notes)
        planned = plans(
            config.families, config.models, config.seed, config.task, len(data.y), config.balanced
        )
        write_whole(target / ENCODER_FILE, json.dumps(prepared.encoder.to_json()))
        write_whole(target / EXAMPLE_FILE, prepared.example.to_csv(index=False))
        train = partial(train_all, workers=workers, address=address, config=cluster)
        _train(planned, data, target, train, display)
        ready = [plan for plan in planned if (target / MODELS / plan.id).is_dir()]
        if not ready:
            raise InputError(
                f"{where}: expected a model that can be trained, found none: {_first_error(target)}"
            )
        costs = {}
        if config.measured:
            costs = _measured(ready, data, target, display, latency=config.latency)
        table = _table(config, ready, data, target, costs)
        if not config.keep_models:  # before the digests of what stays are taken
            shutil.rmtree(target / MODELS)
        library = table.save(target)
        for plan in ready if config.keep_models else ():  # the table has them now
            for part in _PARTS:
                (target / MODELS / plan.id / f"{part}.npy").unlink(missing_ok=True)
    failed = len(planned) - len(ready)
    hint = f"; {failed} could not be trained, see {target / FAILED}" if failed else ""
    display.message(f"library: {len(ready)} models in {target}{hint}")
    return replace(library, notes=notes)


def _identity(config: BuildConfig, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides the predictions; builds with equal identities make the same library."""
    return {
        "format": FORMAT,
        "name": config.name,
        "build": config.model_dump(mode="json", exclude={"dataset", "name"}),
        "data": dict(about),
        "versions": extras.versions(_PACKAGES),
    }


def _cache_folder(name: str, identity: Mapping[str, Any], where: str) -> Path:
    cache = cache_dir()
    if cache is None:
        raise InputError(
            f"{where}: expected a place for the library, found PARETOLAB_CACHE=off; give path "
            "beside build, or build it with `paretolab library build`"
        )
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache / "libraries" / f"{name}-{digest[:16]}"


@contextmanager
def _alone(target: Path, identity: Mapping[str, Any], display: Display) -> Iterator[None]:
    """Hold the lock of a build's folder; a process that builds the same library waits for it."""

    def wait() -> None:
        display.message(f"library: another process builds {target}; waiting for it")

    try:
        target.mkdir(parents=True, exist_ok=True)
        _check_target(target, identity)  # before a lock is left in a folder of others
        with locked(target / ".lock", wait):
            _check_target(target, identity)
            if not (target / BUILD_FILE).is_file():
                write_whole(target / BUILD_FILE, json.dumps(identity, indent=1))
            yield
    except OSError as error:
        raise InputError(
            f"{target}: expected a folder for a library, found: {error.strerror or error}"
        ) from error


def _check_target(target: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a folder that holds anything but a build of the same library.

    A build writes ``build.json`` first. So a folder with other files and without that one is not
    the folder of a build, not even of one that another process has just begun.
    """
    check_no_links(target, "a library", written=True)
    path = target / BUILD_FILE
    others = [file for file in target.iterdir() if not file.name.startswith(".")]
    if path.is_file():
        try:
            present = parse_json(read_bytes(path, JSON_BYTES))
        except (OSError, ValueError):
            present = None
        if present != identity:
            raise InputError(
                f"{target}: expected a new folder or one with a build of the same, found a build "
                f"that differs in {_difference(present, identity)}; choose another folder"
            )
    elif others:
        raise InputError(f"{target}: expected a new folder, found other files; choose another")


def _difference(present: Any, identity: Mapping[str, Any]) -> str:
    if not isinstance(present, Mapping):
        return "its format"
    for part in ("data", "versions", "build"):
        if present.get(part) != identity[part]:
            keys = [k for k, v in identity[part].items() if present.get(part, {}).get(k) != v]
            return f"its {part} ({', '.join(keys)})"
    return "its name" if present.get("format") == identity["format"] else "its format"


def _train(
    planned: Sequence[PoolPlan],
    data: PoolData,
    target: Path,
    train: Callable[..., Iterator[Outcome]],
    display: Display,
) -> None:
    for folder in (MODELS, FAILED):
        (target / folder).mkdir(exist_ok=True)
    remaining = [
        plan
        for plan in planned
        if not (target / MODELS / plan.id).is_dir()
        and not (target / FAILED / f"{plan.id}.json").is_file()
    ]
    done = len(planned) - len(remaining)
    for plan, outcome in train(remaining, data, report=display.message):
        if isinstance(outcome, str):
            note = {"id": plan.id, **plan.config, "error": outcome}
            write_whole(target / FAILED / f"{plan.id}.json", json.dumps(note, indent=1))
            display.message(f"{plan.id} cannot be trained and is left out: {outcome}")
        else:
            _keep(plan, outcome, target / MODELS / plan.id)
        done += 1
        _show(display, "trained", done, len(planned), plan.id)


def _show(display: Display, what: str, done: int, total: int, name: str) -> None:
    display.step(f"library: {done} of {total} models {what} · {name}", done, total)


def _keep(plan: PoolPlan, trained: Trained, place: Path) -> None:
    """Write a model's folder, which is there complete or not at all."""
    with whole_folder(place, place.parent.parent) as room:
        np.save(room / "validation.npy", trained.validation, allow_pickle=False)
        np.save(room / "test.npy", trained.test, allow_pickle=False)
        about = {"id": plan.id, **plan.config, "training_seconds": trained.seconds}
        write_member(room, trained.content, about)


def _measured(
    ready: Sequence[PoolPlan],
    data: PoolData,
    target: Path,
    display: Display,
    *,
    latency: bool,
) -> dict[str, Cost]:
    """Measure the models after training, except those that a stopped build has measured."""

    def about_file(name: str) -> Path:
        return target / MODELS / name / ABOUT_FILE

    by_model = {
        plan.id: read_object(about_file(plan.id), "what is known of a model") for plan in ready
    }
    unmeasured = {
        name: target / MODELS / name / MODEL_FILE
        for name, about in by_model.items()
        if "costs" not in about
    }
    records = data.test if len(data.test) else data.design
    measured = measure(unmeasured, records, values=data.classes is None, latency=latency)
    for i, (name, costs) in enumerate(measured, start=len(ready) - len(unmeasured) + 1):
        by_model[name]["costs"] = costs
        write_whole(about_file(name), json.dumps(by_model[name], indent=1))
        _show(display, "measured", i, len(ready), name)
    return {
        key: Cost(np.array([by_model[plan.id]["costs"][key] for plan in ready]), unit)
        for key, unit in (UNITS | (LATENCY_UNITS if latency else {})).items()
    }


def _table(
    config: BuildConfig,
    ready: Sequence[PoolPlan],
    data: PoolData,
    target: Path,
    costs: Mapping[str, Cost],
) -> Library:
    def stacked(part: str) -> Any:
        return np.stack([mapped(target / MODELS / p.id / f"{part}.npy") for p in ready])

    labels = np.asarray(data.classes, dtype=object) if data.classes is not None else None
    tested = len(data.y_test) > 0
    return Library.from_arrays(
        [plan.id for plan in ready],
        stacked("validation"),
        data.y_table if labels is None else labels[data.y_table],
        data.classes,
        costs,
        test=stacked("test") if tested else None,
        y_test=(data.y_test if labels is None else labels[data.y_test]) if tested else None,
        configs=[plan.config for plan in ready],
        name=config.name,
        units=data.units,
    )


def _first_error(target: Path) -> str:
    for path in sorted((target / FAILED).glob("*.json")):
        return f"{path.stem}: {read_object(path, 'what failed').get('error')}"
    return "none was wanted"
