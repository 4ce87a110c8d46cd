"""A single run in its directory: from a configuration to journal, front and summary."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from typing import Any

from framework import registry
from framework.algorithm import Algorithm, make
from framework.builders import built_by
from framework.errors import ParetolabError
from framework.experiment.config import RunConfig, check, parameters
from framework.experiment.course import Course
from framework.experiment.estimate import (
    candidates_of,
    estimate,
    memory_warning,
    refuse_too_large,
)
from framework.experiment.run_dir import RunDir
from framework.front import Front
from framework.journal import Journal
from framework.preparation import Checkpoints
from framework.problem import Problem
from framework.roles import Roles
from framework.run.driver import Callback, Driver, Progress, StoppingCriterion
from framework.run.evaluator import Evaluator
from framework.run.interruption import Interruption
from framework.streams import CandidateStreams

DONE, FAILED, INTERRUPTED = "done", "failed", "interrupted"
_WORTH_SAYING = 1e9  # bytes
_LIBRARIES = ("paretolab", "numpy", "scipy", "scikit-learn", "numba", "moocore", "ray", "mlflow")


def make_problem(config: RunConfig, address: str | None = None) -> Problem:
    """Return the problem of a checked configuration, with its data loaded.

    What it is made of, a library say, is built by the configuration's workers, or those of the
    Ray cluster at ``address``.
    """
    raw = dict(config.problem)
    cls = registry.load("problems", str(raw.pop("kind", None)))
    section = check(parameters(cls), raw, "problem")
    refuse_too_large(cls.memory_to_load(section), config.memory_limit, "needed to load the table")
    with built_by(config.workers, address):
        problem: Problem = cls.from_config(section)
    return problem


def make_roles(config: RunConfig, problem: Problem) -> Roles:
    """Return the roles that a configuration gives the problem's metrics."""
    return Roles(problem.metrics, config.objective_roles(), config.constraint_roles())


def make_algorithm(config: RunConfig, problem: Problem, roles: Roles) -> Algorithm:
    """Return the algorithm of a checked configuration, in its initial state."""
    raw = dict(config.algorithm)
    cls = registry.load("algorithms", raw.pop("kind"))
    return make(cls, problem, roles, seed=config.seed, **raw)


class _Last(Callback):
    """Keeps the last progress, for the summary."""

    def __init__(self) -> None:
        self.progress = Progress()

    def on_batch(self, progress: Progress) -> None:
        self.progress = progress

    on_end = on_batch


def run_single(
    config: RunConfig,
    problem: Problem,
    run_dir: RunDir,
    evaluator: Evaluator,
    *,
    callbacks: Sequence[Callback] = (),
    evaluated_by: Callable[[], str] = lambda: "serial",
    about: Mapping[str, Any] | None = None,
    report: Callable[[str], None] = print,
    stopping_criterion: StoppingCriterion = lambda evaluations, front: "",
) -> dict[str, Any]:
    """Start or resume a single run in its directory; return its summary.

    It writes ``config.yaml``, ``about.json``, ``journal.sqlite``, ``front.csv`` and
    ``summary.json``. If it is interrupted (by Ctrl-C, or an error such as a full disk), it writes
    the front and the summary so far and raises the exception again.

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
    stopping_criterion : StoppingCriterion
        May end the run before its budget does.

    Raises
    ------
    JournalError
        The directory holds another run, or cannot be written.
    """
    roles = make_roles(config, problem)
    algorithm = make_algorithm(config, problem, roles)
    identity = config.identity() | {"problem.fingerprint": problem.fingerprint}
    space = problem.space
    _tell_needs(config, problem, roles, report, begun=run_dir.journal_file.exists())
    owner = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    with (
        Journal(
            run_dir.journal_file,
            identity,
            metrics=problem.metric_names,
            d=space.d,
            dtype=space.dtype,
        ) as journal,
        closing(Checkpoints(run_dir.notes_file, owner)) as checkpoints,
    ):
        told_before = int(run_dir.summary().get("evaluations", 0))
        run_dir.summary_file.unlink(missing_ok=True)  # it is running again
        run_dir.write_config(config)
        known = {
            "evaluations_per_generation": algorithm.evaluations_per_generation,
            **(about or {}),
        }
        run_dir.write_about(problem, roles, **known)
        last = _Last()
        if algorithm.plan:
            report(algorithm.plan)
        for note in problem.describe().get("notes", ()):
            report(f"beware: {note}")
        if journal.salvaged is not None:
            report(
                f"{journal.path} was damaged: its first {journal.salvaged} batches are kept, what "
                "was lost is evaluated again"
            )

        def conclude(front: Front, status: str) -> dict[str, Any]:
            summary = summarise(config, problem, front, last.progress, status, evaluated_by())
            summary |= {"distinct_evaluations": journal.distinct_genomes()}
            summary |= {"incidents": dict(evaluator.incidents())}
            scoring = evaluator.seconds()
            if scoring is not None:
                summary |= {"evaluation_s": round(scoring, 3)}
            outcome = algorithm.outcome()
            summary |= {"findings": dict(outcome.findings)}
            run_dir.write_front(front)
            for name, columns in outcome.tables.items():
                run_dir.write_listing(name, columns)
            if outcome.returned is not None:
                rows = Front.of_rows(journal, outcome.returned, roles, problem.gene_names)
                tested(rows, problem, config.seed).save(run_dir.returned_file)
            run_dir.write_summary(summary)
            return summary

        try:
            with closing(Interruption(report)) as interruption:
                front = Driver(
                    problem,
                    algorithm,
                    evaluator,
                    budget=config.budget,
                    journal=journal,
                    checkpoints=checkpoints,
                    callbacks=[last, Course(run_dir.course_file), *callbacks, interruption],
                    stopping_criterion=stopping_criterion,
                ).run()
        except (KeyboardInterrupt, ParetolabError):
            if journal.n_batches:
                front = Front.from_journal(journal, roles, problem.gene_names)
                conclude(front, INTERRUPTED)
            raise
        if last.progress.evaluations < told_before:
            report(
                f"beware: the front is that of the first {last.progress.evaluations:,} of "
                f"{told_before:,} evaluated rows: the run ends there now ({last.progress.stopped})"
            )
        status = FAILED if last.progress.stopped == "failures" else DONE
        return conclude(tested(front, problem, config.seed), status)


def _tell_needs(
    config: RunConfig,
    problem: Problem,
    roles: Roles,
    report: Callable[[str], None],
    *,
    begun: bool,
) -> None:
    """Say what a run will need; refuse one that the machine has not the memory for."""
    algorithm = make_algorithm(config, problem, roles)  # one to be asked, and left
    needs = estimate(problem, algorithm, candidates_of(config, algorithm))
    refuse_too_large(needs.memory, config.memory_limit, "needed at its peak")
    if needs.memory > _WORTH_SAYING:
        report(f"memory: about {needs.memory / 1e9:,.1f} GB at the peak")
    if warning := memory_warning(needs.more):
        report(f"beware: {warning}")
    if not begun and (line := needs.time(problem.component_name)):
        report(f"first generation: {line}")


def tested(front: Front, problem: Problem, seed: int) -> Front:
    """Return the front with its metrics on the test records, where the problem has some."""
    if not len(front):
        return front
    test = problem.evaluate_test(front.X, CandidateStreams(seed, front.ids))
    if test is None:
        return front
    ordered = {name: test[name] for name in front.roles.metrics if name in test}
    return Front(front.rows, front.roles, front.gene_names, ordered)


def summarise(
    config: RunConfig,
    problem: Problem,
    front: Front,
    progress: Progress,
    status: str,
    evaluated_by: str,
) -> dict[str, Any]:
    """Return the content of ``summary.json``."""
    return {
        "status": status,
        "stopped": progress.stopped,
        "name": config.name,
        "algorithm": config.algorithm["kind"],
        "problem": config.problem["kind"],
        "problem_fingerprint": problem.fingerprint,
        "seed": config.seed,
        "generations": max(progress.generation, 0),
        "evaluations": progress.evaluations,
        "rows_failed": progress.failed,
        "wall_s": round(progress.seconds, 3),
        "evaluated_by": evaluated_by,
        "indicators": {"hypervolume": front.hypervolume()},
        "front_size": len(front),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES}
