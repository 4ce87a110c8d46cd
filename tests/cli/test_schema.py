"""The JSON schema of configurations."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from framework.cli.main import main
from framework.cli.schema import schema

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("configs", "framework/cli/templates")
    for path in (ROOT / folder).glob("**/*.yaml")
)


@pytest.fixture(scope="module")
def validator():
    found = schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def test_every_shipped_configuration_is_valid(validator):
    for path in FILES:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert [error.message for error in validator.iter_errors(raw)] == [], path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budgets": {}}, "budgets"),
        ({"budget": {"evaluations": "many"}}, "many"),
        ({"problem": {"kind": "multistage", "treshold": 0.9}}, "treshold"),
        ({"problem": {"kind": "multi"}}, "multi"),
        ({"algorithm": {"kind": "emsco", "population": "large"}}, "large"),
        ({"objectives": [{"metric": "accuracy", "sense": "maximal"}]}, "maximal"),
        ({"sweep": {"trails": 3}}, "trails"),
        ({"experiment": {"method": {}}}, "method"),
        ({"experiment": {"methods": {"a": {"kind": "emsco", "popultion": 9}}}}, "popultion"),
    ],
)
def test_mistakes_are_found(validator, change, said):
    raw = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    assert any(said in error.message for error in validator.iter_errors(raw | change))


def test_the_command_prints_it(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()
