"""A single run in its directory: from a configuration to journal, front and summary."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from framework import extras
from framework.errors import InputError
from framework.experiment.config import RunConfig
from framework.experiment.estimate import (
    candidates_of,
    estimate,
    memory_warning,
    refuse_too_large,
)
from framework.experiment.history import ProgressLog
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.journal import Journal
from framework.parallel.config import uses_ray, using_workers
from framework.preparation import Checkpoints
from framework.problem import Deployable, Problem
from framework.run.driver import Callback, Driver, Progress, StoppingCriterion
from framework.run.evaluator import Evaluator, SerialEvaluator
from framework.run.interruption import Interruption
from framework.streams import CandidateStreams

if TYPE_CHECKING:
    from framework.experiment.expected import Evidence

DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
_WORTH_REPORTING = 1e9  # bytes of memory
_LIBRARIES = ("paretolab", "numpy", "scipy", "scikit-learn", "numba", "moocore", "ray", "mlflow")


def make_problem(config: RunConfig, address: str | None = None) -> Problem:
    """Return the problem of a checked configuration, with its data loaded.

    What it needs, such as a library, is built by the configuration's workers, or those of the Ray
    cluster at ``address``.
    """
    options = config.problem
    memory = options.registered_class.memory_to_load(options)
    refuse_too_large(memory, config.memory_limit, "needed to load the table")
    with using_workers(config.workers, address):
        problem: Problem = options.registered_class.from_config(options)
    return problem


class LastProgress(Callback):
    """Keeps the last progress of a run."""

    def __init__(self) -> None:
        self.progress = Progress(share=0.0)

    def on_batch(self, progress: Progress) -> None:
        self.progress = progress

    on_end = on_batch

    def budget_left(self) -> float | None:
        """Return the share of the budget that is left; None if it is unknown."""
        share = self.progress.share
        return None if share is None else 1.0 - share


@contextmanager
def evaluator_for(
    config: RunConfig,
    problem: Problem,
    address: str | None,
    last: LastProgress,
    report: Callable[[str], None],
) -> Iterator[tuple[Evaluator, Callable[[], str]]]:
    """Start the evaluator of a run: this process, Ray, or whichever is faster; close it at the end.

    With ``workers: auto`` a run starts serially, and moves to Ray when the measured work justifies
    starting it. ``address`` is that of a running Ray cluster, which is used whatever ``workers``
    says; ``last`` is a callback of the same run; ``report`` is told which evaluator is used.

    The second thing yielded returns, after the search, which kind of worker evaluated.
    """
    workers, seed = config.workers, config.seed
    with ExitStack() as stack:
        used = ["serial"]

        def start_ray() -> Evaluator:
            from framework.parallel.cluster import cluster
            from framework.parallel.ray_evaluator import RayEvaluator

            count = workers if isinstance(workers, int) else None
            joined = stack.enter_context(cluster(count, address, config.cluster))
            used.append(joined.description)
            actors = RayEvaluator(problem, seed, workers=joined.workers, config=config.cluster)
            stack.callback(actors.close)  # before the cluster it lives on goes
            return actors

        evaluator: Evaluator
        if uses_ray(workers, address):
            evaluator = start_ray()
            report(f"evaluated by {used[-1]}")
        elif workers == "serial" or os.cpu_count() == 1 or not extras.installed("ray"):
            # one actor gains nothing
            evaluator = SerialEvaluator(problem, seed)
            report("evaluated in this process")
        else:
            from framework.parallel.auto_evaluator import AutoEvaluator

            evaluator = AutoEvaluator(
                problem, seed, start_ray=start_ray, remaining=last.budget_left, report=report
            )
        stack.callback(evaluator.close)
        yield evaluator, lambda: " then ".join(used if workers == "auto" else used[-1:])


@dataclass(eq=False, repr=False)
class SingleRun:
    """A single run in its directory, started or resumed, as a context manager.

    On entry ``config.yaml``, ``about.json`` and ``journal.bin`` are made and :attr:`driver` is
    ready to run; :meth:`conclude` writes ``front.csv`` and ``summary.json``. If the search is
    interrupted (by Ctrl-C, or an error such as a full disk), the front and the summary so far are
    written, and the exception goes on.

    Parameters
    ----------
    config : RunConfig
    problem : Problem
    run_dir : RunDir
    evaluator : Evaluator
    callbacks : sequence of Callback
    evaluated_by : callable
        Returns, after the search, which kind of worker evaluated.
    about : mapping, optional
        Further content of ``about.json``.
    report : callable
        Shows a line of text to the user.
    stopping_criterion : StoppingCriterion, optional
        May end the run before its budget does.
    alternatives : bool
        Whether its front is compared with what one would do without a search.

    Attributes
    ----------
    driver : Driver

    Raises
    ------
    InputError
        Another process runs it.
    JournalError
        The directory holds another run, or cannot be written.
    """

    config: RunConfig
    problem: Problem
    run_dir: RunDir
    evaluator: Evaluator
    _: KW_ONLY
    callbacks: Sequence[Callback] = ()
    evaluated_by: Callable[[], str] = lambda: "serial"
    about: Mapping[str, Any] = field(default_factory=dict)
    report: Callable[[str], None] = print
    stopping_criterion: StoppingCriterion | None = None
    alternatives: bool = True
    driver: Driver = field(init=False)
    _evidence: Evidence | None = field(init=False, default=None)  # of the finished search

    def __post_init__(self) -> None:
        self._roles = self.config.roles(self.problem)
        self._algorithm = self.config.algorithm.make(self.problem, self._roles, self.config.seed)
        self._stack, self._last = ExitStack(), LastProgress()

    def __enter__(self) -> SingleRun:
        config, problem, run_dir = self.config, self.problem, self.run_dir
        identity = config.identity() | {"problem.fingerprint": problem.fingerprint}
        self._report_needs()
        owner = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        with ExitStack() as stack:
            stack.enter_context(run_dir.owned())
            self._journal = stack.enter_context(
                Journal(
                    run_dir.journal_file,
                    identity,
                    metrics=problem.metric_names,
                    d=problem.space.d,
                    dtype=problem.space.dtype,
                )
            )
            checkpoints = Checkpoints(run_dir.notes_file, owner)
            self._evaluations_before = int(run_dir.summary().get("evaluations", 0))
            run_dir.summary_file.unlink(missing_ok=True)  # it is running again
            run_dir.write_config(config)
            size = {"evaluations_per_generation": self._algorithm.evaluations_per_generation}
            run_dir.write_about(problem, self._roles, **size, **self.about)
            self._report_start()
            self._interruption = stack.enter_context(closing(Interruption(self.report)))
            progress_log = ProgressLog(run_dir.progress_log_file)
            self.driver = Driver(
                problem,
                self._algorithm,
                self.evaluator,
                budget=config.budget,
                journal=self._journal,
                checkpoints=checkpoints,
                callbacks=[self._last, progress_log, *self.callbacks, self._interruption],
                stopping_criterion=self.stopping_criterion,
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            self._interruption.close()
            # of any kind: an error of Ray may come before it is known that Ray has died
            stopped = kind is not None and issubclass(kind, KeyboardInterrupt | Exception)
            # until the journal is replayed, the search has not got to where the run was
            if stopped and self.driver.replay.over and self._journal.n_batches:
                front = Front.from_journal(self._journal, self._roles, self.problem.gene_names)
                self._write(front, INTERRUPTED)

    def conclude(self, front: Front) -> dict[str, Any]:
        """Write the results of a search that has ended; return the summary."""
        progress = self._last.progress
        if progress.evaluations < self._evaluations_before:
            self.report(
                f"warning: the front is that of the first {progress.evaluations:,} of "
                f"{self._evaluations_before:,} evaluated rows: the run ends there now "
                f"({progress.stopped})"
            )
        failed = progress.stopped == "failures" or 0 < progress.evaluations == progress.failed
        status = FAILED if failed else DONE
        return self._write(completed(front, self.problem, self.config.seed), status, ended=True)

    def _write(self, front: Front, status: str, *, ended: bool = False) -> dict[str, Any]:
        config, problem, run_dir = self.config, self.problem, self.run_dir
        progress, outcome = self._last.progress, self._algorithm.outcome()
        summary: dict[str, Any] = {
            "status": status,
            "stopped": progress.stopped,
            "name": config.name,
            "algorithm": config.algorithm.kind,
            "problem": config.problem.kind,
            "problem_fingerprint": problem.fingerprint,
            "seed": config.seed,
            "generations": max(progress.generation, 0),
            "evaluations": progress.evaluations,
            "rows_failed": progress.failed,
            "wall_s": round(progress.seconds, 3),
            "evaluated_by": self.evaluated_by(),
            "indicators": {"hypervolume": front.hypervolume()},
            "front_size": len(front),
            "versions": versions(),
            "distinct_evaluations": self._journal.distinct_genomes(),
            "incidents": dict(self.evaluator.incidents()),
        }
        scoring = self.evaluator.seconds()
        if scoring is not None:
            summary |= {"evaluation_s": round(scoring, 3)}
        summary |= {"findings": dict(outcome.findings)}
        fronts = [front]
        if outcome.returned is not None:
            rows = Front.of_rows(self._journal, outcome.returned, self._roles, problem.gene_names)
            fronts.append(completed(rows, problem, config.seed))
        if ended:
            started = time.perf_counter()
            fronts, summary["expected"] = self._expected(fronts)
            summary["expected_s"] = round(time.perf_counter() - started, 3)
            if self._evidence is not None and self.alternatives:
                from framework.experiment.alternatives import with_alternatives

                evidence, report = self._evidence, self.report
                summary |= with_alternatives(problem, fronts[0], evidence, report)
        run_dir.write_front(fronts[0])
        results = [run_dir.front_file]
        if run_dir.resamples_file.is_file():
            results.append(run_dir.resamples_file)
        for name, columns in outcome.tables.items():
            results.append(run_dir.write_listing(name, columns))
        for returned in fronts[1:]:
            returned.save(run_dir.returned_file)
            results.append(run_dir.returned_file)
        run_dir.write_summary(summary, *results)
        return summary

    def _expected(self, fronts: Sequence[Front]) -> tuple[list[Front], dict[str, Any]]:
        """Return fronts with expected figures on new records, and what these rest on.

        Where they are unknown, the fronts are unchanged, and the second value says why.
        """
        from framework.experiment.expected import beside_of, evidence, with_expected
        from framework.experiment.resamples import keep_resamples

        self.run_dir.resamples_file.unlink(missing_ok=True)  # of an earlier front
        kind = self.config.problem.kind
        try:
            seed, problem = self.config.seed, self.problem
            beside = beside_of(self.config.algorithm, fronts[0], problem, seed)
            batches = self._journal.evaluations()
            self._evidence = resampled = evidence(batches, problem, seed, beside)
        except InputError as error:
            return list(fronts), {"unknown": str(error)}
        if resampled is None and not isinstance(self.problem, Deployable):
            return list(fronts), {}  # no classifiers: there are no new records
        if resampled is None:
            why = f"problem {kind!r} does not say what each record contributes to these metrics"
            why = why if len(fronts[0]) else "the front is empty"
            return list(fronts), {"unknown": why}
        first, about = with_expected(fronts[0], resampled)
        about["remains"] = [self.problem.remains] if self.problem.remains else []
        keep_resamples(self.run_dir, first, resampled)
        expected = [first]
        for front in fronts[1:]:
            inside = len(front) and np.isin(front.ids, first.ids).all()
            columns = first.take(np.searchsorted(first.ids, front.ids)).expected if inside else None
            expected.append(
                replace(front, expected=columns) if inside else with_expected(front, resampled)[0]
            )
        return expected, about

    def _report_needs(self) -> None:
        """Report what the run will need; refuse one that needs more memory than there is."""
        config, problem, report = self.config, self.problem, self.report
        candidates = candidates_of(config, self._algorithm)
        needs = estimate(problem, self._algorithm, candidates)
        refuse_too_large(needs.memory, config.memory_limit, "needed at its peak")
        if needs.memory > _WORTH_REPORTING:
            report(f"memory: about {needs.memory / 1e9:,.1f} GB at the peak")
        if warning := memory_warning(needs.more):
            report(f"warning: {warning}")
        begun = self.run_dir.journal_file.exists()
        if not begun and (line := needs.time(problem.component_name)):
            report(f"first generation: {line}")

    def _report_start(self) -> None:
        """Report what the algorithm plans, and what is unusual about data and journal."""
        if self._algorithm.plan:
            self.report(self._algorithm.plan)
        for note in self.problem.describe().get("notes", ()):
            self.report(f"warning: {note}")
        if self._journal.salvaged is not None:
            self.report(
                f"{self._journal.path} was damaged: its first {self._journal.salvaged} batches are "
                "kept, what was lost is evaluated again"
            )


def completed(front: Front, problem: Problem, seed: int) -> Front:
    """Return the front with settings, and metrics on the test records where there are some."""
    if not len(front):
        return front
    front = replace(front, settings=problem.settings(front.X))
    test = problem.evaluate_test(front.X, CandidateStreams(seed, front.ids))
    if test is None:
        return front
    return replace(front, test={name: test[name] for name in front.roles.metrics if name in test})


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    return {"python": platform.python_version()} | extras.versions(_LIBRARIES)
