"""What a package registers that cannot be used ends in a sentence that names the package."""

import pytest

from framework import registry
from framework.analysis.indicators import indicators
from framework.cli.main import main
from framework.errors import InputError
from tests.command import TOY, refused, write
from tests.trust.test_configurations import written

MINE = """
from framework.problem import Problem
from framework.space import Partition

class Alone(Problem):
    metrics = ()
    space = Partition(2, 1)

    def evaluate(self, X):
        return {}

class Stranger:
    pass

number = 7
"""
REGISTERED = """
[paretolab.problems]
alone = broken_package:Alone
stranger = broken_package:Stranger
number = broken_package:number
gone = broken_package:Gone
nowhere = no_such_module_at_all:Problem

[paretolab.indicators]
odd = broken_package:Stranger

[paretolab.functions]
odd = broken_package:number
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package, as far as Python can tell."""
    info = tmp_path / "broken_package-1.dist-info"
    info.mkdir()
    (tmp_path / "broken_package.py").write_text(MINE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text(REGISTERED)
    monkeypatch.syspath_prepend(tmp_path)
    for known in (registry._installed, registry._entries):
        known.cache_clear()
    yield tmp_path
    for known in (registry._installed, registry._entries):
        known.cache_clear()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("alone", "without from_config; use it from Python, or add from_config to it"),
        ("stranger", "expected 'stranger' to be registered for a subclass of Problem, found <"),
        ("number", "expected 'number' to be registered for a subclass of Problem, found 7"),
        ("gone", "where the package broken-package registers it, found that it cannot be imported"),
        ("nowhere", "(ModuleNotFoundError: No module named 'no_such_module_at_all'); repair or"),
    ],
)
def test_what_cannot_be_used_is_said(kind, sentence, installed, capsys):
    path = written(installed)
    content = path.read_text()
    start, end = content.index("problem:"), content.index("objectives:")
    path.write_text(f"{content[:start]}problem: {{kind: {kind}}}\n{content[end:]}")
    refused(capsys, sentence, "check", path)


def test_an_indicator_or_a_function_of_another_kind_is_said(installed, capsys):
    said = "indicators: expected 'odd' to be registered for an object of Indicator, found <class "
    with pytest.raises(InputError, match=said):
        indicators()
    path = write(installed / "c.yaml", TOY | {"problem": {"kind": "function", "name": "odd"}})
    assert main(["check", str(path)]) == 2
    assert "expected 'odd' to be registered for an object of Function, found 7" in (
        capsys.readouterr().err
    )
