"""The command: list, its help and version."""

import re

import pytest

from framework.cli.main import main


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("algorithms", r"^emsco +\S"),
        ("problems", r"^multistage +\S"),
        ("functions", r"^zdt1 +Zitzler, Deb and Thiele"),
        ("datasets", r"^heart_failure +dataset: \{name: heart_failure\}$"),
        ("metrics", r"^multistage\.cost +mean acquisition cost per record \(min\)$"),
    ],
)
def test_list(capsys, what, line):
    assert main(["list", what]) == 0
    assert re.search(line, capsys.readouterr().out, re.MULTILINE)


def test_version(command):
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", command("--version").out)
