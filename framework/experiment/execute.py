"""Executes a configuration in a directory: one run, or its repeats with other seeds."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from framework import extras, registry
from framework.errors import InputError, command
from framework.experiment.config import RunConfig, load_config
from framework.experiment.export import export, exported_solution, marked
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import (
    LastProgress,
    SingleRun,
    evaluator_for,
    make_problem,
)
from framework.files import LOCK, remove_directory, room_in, write_whole
from framework.problem import Deployable, Problem
from framework.run.display import Display
from framework.run.driver import Callback
from framework.security import check_no_links, forget, keep

_LENGTHS = frozenset({"generations", "evaluations", "seconds"})
_BOUNDS = (*sorted(_LENGTHS), "patience")
_PREFIX = "budget."


@dataclass(frozen=True)
class Options:
    """How runs, experiments and sweeps are executed; nothing here changes a front.

    Attributes
    ----------
    address : str or None
        Address of a running Ray cluster.
    report : callable
        Shows a line of text to the user.
    display : Display
        Shows the progress.
    ended : callable
        Takes each run of an experiment, or trial of a sweep, that has ended.
    plots : bool
        Whether the registered reports of a run, pictures and pages, are made at the end.
    """

    address: str | None
    report: Callable[[str], None]
    display: Display = field(default_factory=lambda: Display(quiet=True))
    ended: Callable[[Any], None] = lambda ended: None
    plots: bool = True


@contextmanager
def new_run(config: RunConfig, out: str | None, **more: str) -> Iterator[RunDir]:
    """Make the directory of a new run: ``out``, or the first free one of ``runs/NAME-001``, ...

    It appears complete or not at all, with everything that is needed to resume the run, and this
    process holds its lock. It is removed again at the end if no search has begun in it.

    Parameters
    ----------
    config : RunConfig
    out : str, optional
    **more
        Contents of further files that it has from the start, by the attribute of
        :class:`RunDir` that names them: ``sweep_file``, ``experiment_file``.

    Raises
    ------
    InputError
        ``out`` holds a run already, or cannot be written.
    """
    path = None if out is None else Path(out)
    if path is not None and RunDir(path).config_file.is_file():
        raise _occupied(path)
    files = {getattr(RunDir(""), key).name: text for key, text in more.items()}
    files[RunDir("").config_file.name] = config.dump()  # last: with it, a folder is a run's
    with ExitStack() as stack:
        try:
            if path is not None and path.exists():
                run_dir = stack.enter_context(_begun_in(path, files))
            else:
                run_dir = stack.enter_context(_made(path, config.name, files))
        except OSError as error:
            raise InputError(
                f"--out {path or 'runs'}: expected a directory that can be written, found: "
                f"{error.strerror}; give another --out"
            ) from error
        keep(run_dir.path)
        yield run_dir


@contextmanager
def _made(path: Path | None, name: str, files: Mapping[str, str]) -> Iterator[RunDir]:
    """Make a directory, the first free one of a name where no path is given."""
    near = Path("runs") if path is None else path.parent
    numbered = (near / f"{name}-{number:03d}" for number in count(1))
    places = [path] if path is not None else (free for free in numbered if not free.exists())

    def place(whole: Path) -> Path:
        for free in places:
            try:
                return whole.rename(free)
            except OSError:
                if not free.exists():
                    raise
        raise _occupied(near / name if path is None else path)  # another process was quicker

    missing = [above for above in (near, *near.parents) if not above.exists()]
    try:
        with room_in(near) as room:
            for file, content in files.items():
                write_whole(room / file, content)
            folder = place(room)
            run_dir = RunDir(folder, owned=True)
            try:
                yield run_dir
            finally:
                if not run_dir.has_begun:
                    remove_directory(folder)
    finally:
        with suppress(OSError):  # something is in it
            for above in missing:
                above.rmdir()


@contextmanager
def _begun_in(path: Path, files: Mapping[str, str]) -> Iterator[RunDir]:
    """Begin a run in a directory that exists, and will not be removed."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "Permission denied")
    check_no_links(path, "a run", written=True)
    run_dir = RunDir(path)
    with run_dir.owned():
        if run_dir.config_file.is_file():
            raise _occupied(path)
        for name, content in files.items():
            write_whole(path / name, content)
        try:
            yield run_dir
        finally:
            if not run_dir.has_begun:
                forget(path)
                for name in (*files, run_dir.about_file.name, LOCK):
                    (path / name).unlink(missing_ok=True)


def _occupied(path: Path) -> InputError:
    return InputError(
        f"--out {path}: expected a new directory, found a run in it; {command('resume', path)} "
        "goes on with that one"
    )


def execute(
    config: RunConfig, run_dir: RunDir, options: Options, problem: Problem | None = None
) -> dict[str, Any]:
    """Start or resume a run and its repeats; return the summary.

    Without ``problem`` it is made from the configuration. Repeats that are finished are not run
    again. If anything fails, the journals contain every batch that was evaluated before.

    Raises
    ------
    InputError
        Another process runs it.
    """
    with run_dir.owned():
        problem = make_problem(config, options.address) if problem is None else problem
        if isinstance(problem, Deployable) and problem.has_models:
            from framework.models.store import check_target  # it needs data frames

            check_target(run_dir.model)  # before anything is changed
        about = {
            "uid": uid_of(run_dir),
            "data": dict(problem.describe()),
            "repeats": config.repeats,
        }
        display = options.display
        with followed(config, run_dir, options) as callbacks, closing(display):
            if config.repeats == 1:
                last = LastProgress()
                evaluated_by = evaluator_for(config, problem, options.address, last, options.report)
                with (
                    evaluated_by as (evaluator, description),
                    SingleRun(
                        config,
                        problem,
                        run_dir,
                        evaluator,
                        callbacks=[last, *callbacks, display],
                        evaluated_by=description,
                        about=about,
                        report=options.report,
                    ) as run,
                ):
                    summary = run.conclude(run.driver.run())
            else:
                from framework.experiment.many_runs import run_repeats  # it needs data frames

                for repeat in run_dir.children():
                    if repeat.about_file.is_file():
                        repeat.check_problem(problem)
                run_dir.write_config(config)
                run_dir.write_about(problem, config.roles(problem), **about)
                for follower in callbacks:
                    follower.on_start()
                summary = run_repeats(
                    config, problem, run_dir, address=options.address, report=options.report
                )
            display.close()
            conclude(problem, run_dir, summary, options)
    return summary


@contextmanager
def followed(
    config: RunConfig, run_dir: RunDir, options: Options, *, start: bool = False
) -> Iterator[list[Callback]]:
    """Yield the registered callbacks that follow a run; report their last lines at the end.

    Each entry of ``paretolab.callbacks`` is called with the run's directory and configuration and
    returns a callback or None. With ``start`` they are started here: for an experiment or a sweep
    there is no driver to do it.
    """
    makers = [registry.load("callbacks", name) for name in registry.names("callbacks")]
    callbacks = [callback for make in makers if (callback := make(run_dir, config)) is not None]
    for callback in callbacks if start else ():
        callback.on_start()
    try:
        yield callbacks
    finally:
        for line in [callback.on_written() for callback in callbacks]:
            if line:
                options.report(line)


def conclude(problem: Problem, run_dir: RunDir, summary: dict[str, Any], options: Options) -> None:
    """Write what follows from a finished front: model and reports.

    The model is that of the solution which the user chose before, else the recommended one.
    """
    if not summary.get("front_size"):  # repeats on different splits have no common front
        return
    front = run_dir.front()
    chosen = run_dir.choice()
    if isinstance(problem, Deployable) and not problem.has_models:
        options.report("no model is written: the library has its models' predictions alone")
    elif chosen is None or exported_solution(run_dir.model) != chosen:
        export(problem, front, marked(run_dir, front), run_dir.model, run_dir.origin())
    elif chosen not in front.ids:
        options.report(
            f"solution {chosen}, which you chose, is no longer on the front: others are better in "
            f"everything; {run_dir.model} still holds it, `paretolab choose` replaces it"
        )
    if options.plots and not (absent := extras.absent("plots")):
        for name in registry.names("reports"):
            registry.load("reports", name)(run_dir)
    elif options.plots:
        options.report(f"no pictures and no report: {absent}")
    elif run_dir.plots.is_dir():
        options.report(f"{run_dir.plots}: drawn before this run went on")


def uid_of(run_dir: RunDir) -> str:
    """Return the unique id under which a run is logged; a resumed run keeps it."""
    if run_dir.about_file.is_file():
        about = run_dir.about()
        with run_dir.remade(run_dir.about_file, "the id of a run"):
            return str(about["uid"])
    return uuid.uuid4().hex


def resumed_config(
    run_dir: RunDir,
    overrides: Sequence[str] = (),
    *,
    workers: str | int | None = None,
    report: Callable[[str], None],
) -> RunConfig:
    """Return the configuration with which a run goes on.

    If an override sets generations, evaluations or seconds of the budget, a bound that had ended
    the run and is not overridden no longer counts: otherwise nothing would be evaluated.

    Parameters
    ----------
    run_dir : RunDir
    overrides : sequence of 'dotted.key=value'
    workers : 'auto', 'serial', 'all' or int, optional
    report : callable
        Called with a sentence for each bound that no longer counts.

    Raises
    ------
    InputError
        An override cannot be used, or makes the budget smaller than what is spent of it.
    """
    config = load_config(run_dir.config_file, overrides, workers=workers)
    refuse_smaller(config, run_dir)
    keys = {text.partition("=")[0].strip().removeprefix(_PREFIX) for text in overrides}
    if not keys & _LENGTHS:
        return config
    met = {str(run.summary().get("stopped", "")).partition(" (")[0] for run in run_dir.runs()}
    budget = config.budget
    for name in _BOUNDS:
        if name in met - keys and getattr(budget, name) is not None:
            report(
                f"budget.{name} ({getattr(budget, name):,}), which had ended the run, no longer "
                "counts"
            )
            budget = budget.model_copy(update={name: None})
    return config.model_copy(update={"budget": budget})


def refuse_smaller(config: RunConfig, run_dir: RunDir) -> None:
    """Refuse a bound that is smaller than before and than what is done: the front would shrink.

    So it would with fewer repeats; and a run that began alone is none of several.
    """
    before = run_dir.config().budget
    if config.repeats > 1 and run_dir.journal_file.is_file():
        raise InputError(
            f"repeats: expected 1, as {run_dir.path} was begun as a single run, found "
            f"{config.repeats}; `paretolab run` with --repeats {config.repeats} makes several"
        )
    if config.repeats < (repeats := len(run_dir.children())):
        raise InputError(
            f"repeats: expected no fewer than the {repeats} that are there, found "
            f"{config.repeats}: the front would lose what it owes to the others"
        )
    for name in ("generations", "evaluations"):
        new, old = getattr(config.budget, name), getattr(before, name)
        if new is None or (old is not None and new >= old):
            continue
        spent = max(_spent(run)[name] for run in run_dir.runs())
        if new < spent:
            raise InputError(
                f"{_PREFIX}{name}: expected no fewer than the {spent:,} {name} that are done, "
                f"found {new:,}: the front would lose what it owes to the others; `paretolab run` "
                "with this budget makes a run of its own"
            )


def _spent(run: RunDir) -> dict[str, int]:
    """Return how many generations and evaluations a run has done; it may have been killed."""
    summary = run.summary()
    if summary:
        return {name: int(summary.get(name, 0)) for name in ("generations", "evaluations")}
    if not run.journal_file.is_file():
        return {"generations": 0, "evaluations": 0}
    with run.journal() as journal:
        batches, rows = journal.n_batches, journal.n_rows
    size = run.about().get("evaluations_per_generation")
    return {"generations": (rows // size if size else batches) - 1, "evaluations": rows}
