"""Machine code is kept between sessions, and kernels are written so that they compile soon."""

import ast
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

from framework.arrays import frozen
from framework.jit import Kernel, njit, permutation
from framework.machine_code import SHIPPED
from framework.run.evaluator import evaluate_candidates
from framework.testing.problems import worker_copy
from tests.command import run_program
from tests.conftest import PROBLEMS

ROOT = Path(__file__).parents[1]


@njit
def _following(number, steps=1):
    return number + steps


@njit
def _calls(number):
    return _following(number) + _following(0) + _following(1) + _following(steps=2, number=0)


@njit
def _refuses(number):
    if number > 3:
        raise ValueError("too large", number)
    return number


@njit
def _asks(number):
    return _refuses(number)


_KERNEL = """
from framework.jit import njit

@njit
def twice(x):
    return x + x
"""
_ASK = """
import toyship.kernel as kernel
assert kernel.twice(21) == 42
hits = sum(kernel.twice.stats.cache_hits.values())
print("loaded" if hits else "compiled")
"""


@pytest.fixture
def ask(tmp_path: Path):
    """Return a function that calls a kernel in a session of its own, and says where it was from."""

    def asked(session: str, shipped: str, source: str = _KERNEL) -> str:
        package = tmp_path / session / "toyship"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "kernel.py").write_text(source)
        path = os.pathsep.join([str(package.parent), str(ROOT)])
        env = {
            **os.environ,
            "PYTHONPATH": path,
            "PARETOLAB_CACHE": str(tmp_path / "cache"),
            SHIPPED: shipped,
        }
        command = [sys.executable, "-c", _ASK]
        return run_program(command, env=env, check=True).stdout.strip()

    return asked


def test_a_second_session_loads_what_the_first_compiled(ask, tmp_path):
    assert ask("first", "d1 toyship") == "compiled"
    assert ask("second", "d1 toyship") == "loaded"
    assert (tmp_path / "cache" / "kernels" / "d1" / "toyship.kernel").is_dir()
    assert ask("third", "d1 toyship", _KERNEL.replace("x + x", "2 * x")) == "compiled"


@pytest.mark.slow
@pytest.mark.parametrize("other", ["d2 toyship", "d1 other"])
def test_another_version_and_a_package_that_did_not_travel_are_compiled_anew(ask, other):
    assert ask("first", "d1 toyship") == "compiled"
    assert ask("second", other) == "compiled"


def _is_kernel(node: ast.AST) -> bool:
    decorated = getattr(node, "decorator_list", ())
    return any(ast.unparse(decorator).startswith("njit") for decorator in decorated)


def _tables(tree: ast.AST) -> set[str]:
    """Return what is used as an array of two dimensions or more."""
    tables = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            tables.add(ast.unparse(node.value))
        if (isinstance(node, ast.Subscript) and ast.unparse(node).endswith(".shape[1]")) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
        ):
            tables.add(ast.unparse(node.value).removesuffix(".shape"))
    return tables


def array_assignments(source: str) -> list[str]:
    """Return what assigns an array to a slice or a row of another in the kernels of a file."""
    tree = ast.parse(source)
    dotted = {name for name in _tables(tree) if "." in name}
    assignments = []
    for kernel in filter(_is_kernel, ast.walk(tree)):
        tables = dotted | _tables(kernel)
        for node in ast.walk(kernel):
            if not isinstance(node, ast.Assign | ast.AugAssign):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if not isinstance(one, ast.Subscript):
                        continue
                    index = one.slice.elts if isinstance(one.slice, ast.Tuple) else [one.slice]
                    part = any(isinstance(i, ast.Slice) for i in index)
                    row = len(index) == 1 and ast.unparse(one.value) in tables
                    if (part or row) and not _is_number(node.value):
                        assignments.append(f"{node.lineno}: {ast.unparse(node)}")
    return assignments


def _is_number(value: ast.expr) -> bool:
    """Return whether a value is a number as it stands: 0, -1, np.inf, np.uint64(0), or a tuple."""
    if isinstance(value, ast.Tuple):
        return all(map(_is_number, value.elts))
    if isinstance(value, ast.UnaryOp | ast.Call):
        return _is_number(value.operand if isinstance(value, ast.UnaryOp) else value.args[0])
    return isinstance(value, ast.Constant) or ast.unparse(value) == "np.inf"


FILES = [p for folder in ("framework", "algorithms") for p in (ROOT / folder).rglob("*.py")]
KERNELS = [path for path in FILES if "@njit" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_assign_no_arrays_to_arrays(path):
    # it would bring a sentence on shapes along that takes seconds to compile: framework.jit.copy
    assert array_assignments(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line", ["a[:] = b", "a[2:5] = b", "a[i] = b[j]", "a[i] += 1 / k", "a[0], k = b, 1"]
)
def test_assignments_of_arrays_are_recognised(line):
    kernel = f"@njit\ndef kernel(a, b, i, j, k):\n    n, d = a.shape\n    {line}\n"
    assert len(array_assignments(kernel)) == 1
    assert array_assignments(kernel.replace("@njit\n", "")) == []


@pytest.mark.parametrize("n", [0, 1, 2, 65, 1000])
def test_permutations_are_those_of_numpy(n):
    ours, theirs = np.random.default_rng(n), np.random.default_rng(n)
    assert permutation(n, ours).tolist() == theirs.permutation(n).tolist()
    assert ours.bit_generator.state == theirs.bit_generator.state


def signatures() -> dict[str, list[object]]:
    """Return for what types each kernel was compiled or loaded."""
    modules = [m for name, m in sys.modules.items() if name.startswith(("framework", "algorithms"))]
    named = {f"{m.__name__}.{n}": v for m in modules for n, v in vars(m).items()}
    return {n: list(v.signatures) for n, v in named.items() if isinstance(v, Dispatcher)}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_worker_runs_the_machine_code_of_its_driver(kind):
    problem, ids = PROBLEMS[kind][0](), np.arange(20)
    copy = worker_copy(problem)
    X = frozen(problem.space.sample(np.random.default_rng(0), len(ids)))
    evaluate_candidates(problem, 0, ids, X)
    before = signatures()
    evaluate_candidates(copy, 0, ids, X)
    assert signatures() == before


def test_a_kernel_is_compiled_once_for_all_numbers_that_are_written_in_calls():
    # what is loaded from a cache has compiled nothing that it calls
    vars(_calls)["_cache"] = NullCache()
    assert _calls(5) == 6 + 1 + 2 + 2
    assert isinstance(_following, Kernel)
    assert not _following.signatures  # nothing for Python
    types = [tuple(map(str, signature)) for signature in _following.callee.signatures]
    assert len(types) == 2  # with the default, and without
    assert not any("Literal" in name for of in types for name in of)


def test_an_error_of_a_kernel_passes_the_kernel_that_calls_it():
    vars(_asks)["_cache"] = NullCache()
    with pytest.raises(ValueError, match="too large") as caught:
        _asks(9)
    assert caught.value.args == ("too large", 9)
