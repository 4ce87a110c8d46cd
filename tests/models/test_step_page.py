"""The page that takes one record step by step, run by node with a document of a few lines."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import framework.models

PAGE = Path(framework.models.__file__).with_name("step_by_step.html")
DOCUMENT = """
class Part {
  constructor(name) { this.name = name; this.parts = []; this.calls = {}; }
  append(...parts) { this.parts.push(...parts); }
  replaceChildren(...parts) { this.parts = parts; }
  addEventListener(what, call) { this.calls[what] = call; }
  setAttribute() {}
  querySelectorAll() { return []; }
  querySelector() { return null; }
  focus() {}
}
const parts = {}, asked = [], answers = JSON.parse(process.argv[1]);
const place = id => parts[id] = parts[id] || new Part(id);
globalThis.document = {
  createElement: name => new Part(name), getElementById: place, querySelector: place};
globalThis.fetch = async (path, more) => {
  if (path === "next") asked.push(more.body);
  return { json: async () => path === "next" ? answers[asked.length - 1] : { model: "m" } };
};
const inside = part => part instanceof Part ? [part, ...part.parts.flatMap(inside)] : [];
setTimeout(() => {
  const all = inside(place("step"));
  all.filter(p => p.type === "text").forEach(p => { p.value = "5"; });
  all.find(p => p.name === "form").calls.submit({ preventDefault() {} });
  setTimeout(() => console.log(JSON.stringify(asked)), 10);
}, 10);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script")
@pytest.mark.parametrize("name", ["age", "constructor", "toString", "__proto__"])
def test_a_feature_may_have_any_name(name):
    """The page took what every object of JavaScript has for the categories of a feature."""
    ask = {"status": "acquire", "stage": 1, "label": None, "confidence": None, "cost": 0}
    ask |= {"next": {name: 1}, "next_cost": 1, "choices": {}}
    end = {"status": "answer", "stage": 1, "label": "yes", "confidence": 0.9}
    script = PAGE.read_text(encoding="utf-8").split("<script>")[1].split("</script>")[0]
    done = subprocess.run(
        ["node", "-e", DOCUMENT + script, "--", json.dumps([ask, end])],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.stderr
    assert json.loads(done.stdout) == ["{}", json.dumps({name: 5}, separators=(",", ":"))]
