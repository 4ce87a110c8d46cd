"""The tutorials as their readers follow them: each section's commands, in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.command import call

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[1] / "docs" / "tutorials.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
FILE = re.compile(r"^```yaml\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^paretolab .*$", re.MULTILINE)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_tutorial_can_be_followed(section, tmp_path):
    for name, content in FILE.findall(SECTIONS[section]):
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = COMMAND.findall(SECTIONS[section])
    assert commands
    for line in commands:
        done = call(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.code == 0, f"{line}\n{done.err}"
