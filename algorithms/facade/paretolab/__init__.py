"""paretolab: search the designs of classifier systems for the best trade-offs.

Every public name in one import. Each is loaded when it is first used, so that importing this
package costs next to nothing.

Examples
--------
>>> import paretolab
>>> problem = paretolab.FunctionProblem("lotz", 8)
>>> roles = paretolab.Roles(
...     problem.metrics, [paretolab.Objective("f1", "max"), paretolab.Objective("f2", "max")]
... )
>>> algorithm = paretolab.NSGAII(problem, roles, seed=0, population=20)
>>> front = paretolab.search(
...     problem,
...     algorithm,
...     paretolab.SerialEvaluator(problem),
...     budget=paretolab.Budget(generations=20),
... )
>>> best = paretolab.choose(front, where=["f1>=4"], best="f2")
>>> float(front.rows.values["f2"][best])
4.0
"""

from __future__ import annotations

from importlib import import_module

from paretolab.hiding import check_packages

TYPE_CHECKING = False  # that of typing takes ten milliseconds, in which Ctrl-C is Python's own
if TYPE_CHECKING:
    from algorithms.cascade.calling import CalledModel as CalledModel
    from algorithms.cascade.estimator import ParetoCascade as ParetoCascade
    from algorithms.cascade.model import CascadeClassifier as CascadeClassifier
    from algorithms.cascade.problem import CascadeProblem as CascadeProblem
    from algorithms.ensembling.estimator import ParetoEnsemble as ParetoEnsemble
    from algorithms.ensembling.problem import EnsembleProblem as EnsembleProblem
    from algorithms.general.baselines import GridSearch as GridSearch
    from algorithms.general.baselines import RandomSearch as RandomSearch
    from algorithms.general.local_search import ParetoLocalSearch as ParetoLocalSearch
    from algorithms.general.nsga2 import NSGAII as NSGAII
    from algorithms.hull.estimator import ROCHull as ROCHull
    from algorithms.hull.network import NetworkProblem as NetworkProblem
    from algorithms.hull.operating_points import OperatingPoint as OperatingPoint
    from algorithms.multistage.emsco import EMSCO as EMSCO
    from algorithms.multistage.estimator import ParetoMultiStage as ParetoMultiStage
    from algorithms.multistage.exact.search import Exact as Exact
    from algorithms.multistage.model import MultiStageClassifier as MultiStageClassifier
    from algorithms.multistage.problem import MultiStageProblem as MultiStageProblem
    from algorithms.pruning.estimator import PrunedVoting as PrunedVoting
    from algorithms.pruning.problem import PruningProblem as PruningProblem
    from framework import testing as _testing
    from framework.algorithm import Algorithm as Algorithm
    from framework.algorithm import Outcome as Outcome
    from framework.analysis.choose import choose as choose
    from framework.analysis.compare import Page as Page
    from framework.analysis.indicators import Indicator as Indicator
    from framework.analysis.indicators import Judged as Judged
    from framework.answering import AnsweringProblem as AnsweringProblem
    from framework.answers import Answers as Answers
    from framework.answers import Records as Records
    from framework.answers import Size as Size
    from framework.batch import Evaluated as Evaluated
    from framework.errors import InputError as InputError
    from framework.errors import ParetolabError as ParetolabError
    from framework.experiment.comparison import compare as compare
    from framework.experiment.config import RunConfig as RunConfig
    from framework.experiment.config import load_config as load_config
    from framework.front import Front as Front
    from framework.journal import Journal as Journal
    from framework.libraries import importing as _importing
    from framework.libraries.call_files import calls_of as calls_of
    from framework.libraries.call_files import read_calls as read_calls
    from framework.libraries.calls import CallTable as CallTable
    from framework.libraries.importing import measured_costs as measured_costs
    from framework.libraries.library import Cost as Cost
    from framework.libraries.library import Library as Library
    from framework.libraries.library import load_library as load_library
    from framework.measures import Ratio as Ratio
    from framework.measures import Tables as Tables
    from framework.models.model import Card as Card
    from framework.models.model import DeployableModel as DeployableModel
    from framework.models.store import load_model as load_model
    from framework.models.store import save_model as save_model
    from framework.problem import Deployable as Deployable
    from framework.problem import Problem as Problem
    from framework.problems.functions import Function as Function
    from framework.problems.functions import FunctionProblem as FunctionProblem
    from framework.roles import Constraint as Constraint
    from framework.roles import Metric as Metric
    from framework.roles import Objective as Objective
    from framework.roles import Roles as Roles
    from framework.run.driver import Callback as Callback
    from framework.run.driver import Progress as Progress
    from framework.run.driver import search as search
    from framework.run.evaluator import Evaluator as Evaluator
    from framework.run.evaluator import SerialEvaluator as SerialEvaluator
    from framework.settings import Budget as Budget
    from framework.settings import Section as Section
    from framework.space import Bits as Bits
    from framework.space import Box as Box
    from framework.space import Counts as Counts
    from framework.space import Integers as Integers
    from framework.space import Partition as Partition
    from framework.space import Space as Space
    from framework.testing import check_algorithm as check_algorithm
    from framework.testing import check_evaluator as check_evaluator
    from framework.testing import check_model as check_model
    from framework.testing import check_problem as check_problem
    from paretolab.minimizing import Minimized as Minimized
    from paretolab.minimizing import minimize as minimize
    from paretolab.runs import RunResult as RunResult
    from paretolab.runs import resume as resume
    from paretolab.runs import run as run

    __version__: str
    check_certificates = _testing.certificates_hold
    library_from_models = _importing.from_models

# the public names by module, as in the imports above, which only type checkers and editors read
_NAMES = {
    "algorithms.cascade.calling": "CalledModel",
    "algorithms.cascade.estimator": "ParetoCascade",
    "algorithms.cascade.model": "CascadeClassifier",
    "algorithms.cascade.problem": "CascadeProblem",
    "algorithms.ensembling.estimator": "ParetoEnsemble",
    "algorithms.ensembling.problem": "EnsembleProblem",
    "algorithms.general.baselines": "GridSearch RandomSearch",
    "algorithms.general.local_search": "ParetoLocalSearch",
    "algorithms.general.nsga2": "NSGAII",
    "algorithms.hull.estimator": "ROCHull",
    "algorithms.hull.network": "NetworkProblem",
    "algorithms.hull.operating_points": "OperatingPoint",
    "algorithms.multistage.emsco": "EMSCO",
    "algorithms.multistage.estimator": "ParetoMultiStage",
    "algorithms.multistage.exact.search": "Exact",
    "algorithms.multistage.model": "MultiStageClassifier",
    "algorithms.multistage.problem": "MultiStageProblem",
    "algorithms.pruning.estimator": "PrunedVoting",
    "algorithms.pruning.problem": "PruningProblem",
    "framework.algorithm": "Algorithm Outcome",
    "framework.analysis.choose": "choose",
    "framework.analysis.compare": "Page",
    "framework.analysis.indicators": "Indicator Judged",
    "framework.answering": "AnsweringProblem",
    "framework.answers": "Answers Records Size",
    "framework.batch": "Evaluated",
    "framework.errors": "InputError ParetolabError",
    "framework.experiment.comparison": "compare",
    "framework.experiment.config": "RunConfig load_config",
    "framework.front": "Front",
    "framework.journal": "Journal",
    "framework.libraries.call_files": "calls_of read_calls",
    "framework.libraries.calls": "CallTable",
    "framework.libraries.importing": "measured_costs",
    "framework.libraries.library": "Cost Library load_library",
    "framework.measures": "Ratio Tables",
    "framework.models.model": "Card DeployableModel",
    "framework.models.store": "load_model save_model",
    "framework.problem": "Deployable Problem",
    "framework.problems.functions": "Function FunctionProblem",
    "framework.roles": "Constraint Metric Objective Roles",
    "framework.run.driver": "Callback Progress search",
    "framework.run.evaluator": "Evaluator SerialEvaluator",
    "framework.settings": "Budget Section",
    "framework.space": "Bits Box Counts Integers Partition Space",
    "framework.testing": "check_algorithm check_evaluator check_model check_problem",
    "paretolab.minimizing": "Minimized minimize",
    "paretolab.runs": "RunResult resume run",
}
_HOMES = {
    **{name: f"{module}:{name}" for module, names in _NAMES.items() for name in names.split()},
    "check_certificates": "framework.testing:certificates_hold",
    "library_from_models": "framework.libraries.importing:from_models",
}

if not TYPE_CHECKING:  # else type checkers take every misspelled name for a public one
    __all__ = sorted(["__version__", *_HOMES])

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used (PEP 562)."""
        if name == "__version__":
            value = import_module("importlib.metadata").version("paretolab")
        elif name in _HOMES:
            check_packages()
            module, _, attribute = _HOMES[name].partition(":")
            value = getattr(import_module(module), attribute)
        else:
            raise AttributeError(f"module 'paretolab' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
