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

# Where each name lives: as in the imports above, which only type checkers and editors read.
_HOMES = {
    "AnsweringProblem": "framework.answering:AnsweringProblem",
    "Answers": "framework.answers:Answers",
    "Records": "framework.answers:Records",
    "Size": "framework.answers:Size",
    "Ratio": "framework.measures:Ratio",
    "Tables": "framework.measures:Tables",
    "measured_costs": "framework.libraries.importing:measured_costs",
    "Library": "framework.libraries.library:Library",
    "check_certificates": "framework.testing:certificates_hold",
    "Judged": "framework.analysis.indicators:Judged",
    "Page": "framework.analysis.compare:Page",
    "library_from_models": "framework.libraries.importing:from_models",
    "Cost": "framework.libraries.library:Cost",
    "load_library": "framework.libraries.library:load_library",
    "Integers": "framework.space:Integers",
    "Function": "framework.problems.functions:Function",
    "Section": "framework.settings:Section",
    "Deployable": "framework.problem:Deployable",
    "Card": "framework.models.model:Card",
    "Indicator": "framework.analysis.indicators:Indicator",
    "Outcome": "framework.algorithm:Outcome",
    "CalledModel": "algorithms.cascade.calling:CalledModel",
    "ParetoCascade": "algorithms.cascade.estimator:ParetoCascade",
    "CascadeClassifier": "algorithms.cascade.model:CascadeClassifier",
    "CascadeProblem": "algorithms.cascade.problem:CascadeProblem",
    "CallTable": "framework.libraries.calls:CallTable",
    "read_calls": "framework.libraries.call_files:read_calls",
    "calls_of": "framework.libraries.call_files:calls_of",
    "ParetoEnsemble": "algorithms.ensembling.estimator:ParetoEnsemble",
    "EnsembleProblem": "algorithms.ensembling.problem:EnsembleProblem",
    "GridSearch": "algorithms.general.baselines:GridSearch",
    "ParetoLocalSearch": "algorithms.general.local_search:ParetoLocalSearch",
    "NSGAII": "algorithms.general.nsga2:NSGAII",
    "RandomSearch": "algorithms.general.baselines:RandomSearch",
    "EMSCO": "algorithms.multistage.emsco:EMSCO",
    "ParetoMultiStage": "algorithms.multistage.estimator:ParetoMultiStage",
    "Exact": "algorithms.multistage.exact.search:Exact",
    "MultiStageClassifier": "algorithms.multistage.model:MultiStageClassifier",
    "MultiStageProblem": "algorithms.multistage.problem:MultiStageProblem",
    "OperatingPoint": "algorithms.hull.operating_points:OperatingPoint",
    "ROCHull": "algorithms.hull.estimator:ROCHull",
    "NetworkProblem": "algorithms.hull.network:NetworkProblem",
    "PrunedVoting": "algorithms.pruning.estimator:PrunedVoting",
    "PruningProblem": "algorithms.pruning.problem:PruningProblem",
    "Algorithm": "framework.algorithm:Algorithm",
    "choose": "framework.analysis.choose:choose",
    "compare": "framework.experiment.comparison:compare",
    "Evaluated": "framework.batch:Evaluated",
    "InputError": "framework.errors:InputError",
    "ParetolabError": "framework.errors:ParetolabError",
    "RunConfig": "framework.experiment.config:RunConfig",
    "load_config": "framework.experiment.config:load_config",
    "Front": "framework.front:Front",
    "Journal": "framework.journal:Journal",
    "DeployableModel": "framework.models.model:DeployableModel",
    "load_model": "framework.models.store:load_model",
    "save_model": "framework.models.store:save_model",
    "Problem": "framework.problem:Problem",
    "FunctionProblem": "framework.problems.functions:FunctionProblem",
    "Constraint": "framework.roles:Constraint",
    "Metric": "framework.roles:Metric",
    "Objective": "framework.roles:Objective",
    "Roles": "framework.roles:Roles",
    "Callback": "framework.run.driver:Callback",
    "Progress": "framework.run.driver:Progress",
    "search": "framework.run.driver:search",
    "Evaluator": "framework.run.evaluator:Evaluator",
    "SerialEvaluator": "framework.run.evaluator:SerialEvaluator",
    "Budget": "framework.settings:Budget",
    "Bits": "framework.space:Bits",
    "Box": "framework.space:Box",
    "Counts": "framework.space:Counts",
    "Partition": "framework.space:Partition",
    "Space": "framework.space:Space",
    "check_algorithm": "framework.testing:check_algorithm",
    "check_evaluator": "framework.testing:check_evaluator",
    "check_model": "framework.testing:check_model",
    "check_problem": "framework.testing:check_problem",
    "Minimized": "paretolab.minimizing:Minimized",
    "minimize": "paretolab.minimizing:minimize",
    "RunResult": "paretolab.runs:RunResult",
    "resume": "paretolab.runs:resume",
    "run": "paretolab.runs:run",
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
