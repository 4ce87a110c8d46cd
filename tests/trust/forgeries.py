"""What a forger writes into files of any kind, drawn by hypothesis."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

HOSTILE: tuple[Any, ...] = (
    "http://evil.example/leak/${A_SECRET}/x",
    "http://${A_SECRET}@evil.example/",
    "https://evil.example:443",
    "http://127.0.0.1:9@evil.example\\@127.0.0.1",
    "evil-plugin://x",
    "postgresql://${A_SECRET}:x@evil.example/db",
    "postgresql:///db?service=x&passfile=/etc/passwd",
    "sqlite:////ELSEWHERE/new/m.db",
    "sqlite:///../../elsewhere/m.db",
    "sqlite:///file:/ELSEWHERE/x?mode=rwc&uri=true",
    "file:///ELSEWHERE/mlruns",
    "databricks",
    "databricks-uc",
    " http://evil.example/leak",
    "ht\ttp://evil.example/leak",
    "HOME/secret.csv",
    "../../home/secret.csv",
    "~/secret.csv",
    "HOME/.ssh/id_rsa",
    "/dev/zero",
    "/proc/kmsg",
    "/etc/passwd",
    "ELSEWHERE",
    "../../../elsewhere/x",
    "evil",
    "evil.Evil",
    "evil:main",
    "os.system",
    "subprocess.Popen",
    "builtins.eval",
    "numpy.f2py.crackfortran.myeval",
    "__import__('os').system('touch forged')",
    "\x1b]0;owned\x07\x1b[31mred",
    "\u202egnp.exe",
    '=HYPERLINK("http://evil.example")',
    "<script>alert(1)</script>",
    "![x](http://evil.example/x.png)",
    "[/bold]",
    "${A_SECRET}",
    "$(touch forged)",
    "x" * 5000,
    "",
    None,
    True,
    -1,
    10**30,
    float("nan"),
    1e308,
    [],
    {},
    [[]],
    {"x": None},
    ["os.system", "touch forged"],
)
SECTIONS: tuple[tuple[str, Any], ...] = (
    ("tracking", {"uri": "http://evil.example", "experiment": "x"}),
    ("tracking", {"uri": "sqlite:////ELSEWHERE/m.db", "system_metrics": True}),
    ("cluster", {"pip": ["evil"], "py_modules": ["."], "env_vars": {"PYTHONPATH": "."}}),
    ("cluster", {"address": "ray://evil.example:10001"}),
    ("cluster", {"runtime_env": {"working_dir": "https://evil.example/x.zip"}}),
    ("sweep", {"storage": "postgresql://evil.example/x", "search_space": {}, "trials": 1}),
    ("dataset", {"path": "HOME/secret.csv"}),
    ("dataset", {"openml": 31}),
    ("costs", {"path": "HOME/secret.csv"}),
    ("library", {"path": "HOME"}),
    ("path", "HOME/secret.csv"),
    ("kind", "evil"),
    ("kind", "python"),
    ("classifier", {"kind": "evil.Evil"}),
    ("callbacks", ["evil:main"]),
    ("pages", ["evil"]),
    ("cases", {"x": "HOME/secret.csv"}),
    ("__class__", "os"),
    ("__reduce__", ["os.system", ["touch forged"]]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every part of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@st.composite
def forged(draw: st.DrawFn, value: Any) -> Any:
    """Draw a copy of a JSON value with up to three parts replaced, added or left out."""
    copy = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 3))):
        known = list(places(copy))
        if not known:
            break
        *path, last = draw(st.sampled_from(known))
        node = copy
        for key in path:
            node = node[key]
        what = draw(st.integers(0, 5))
        if what == 0:
            del node[last]
        elif what == 1 and isinstance(node, dict):
            key, section = draw(st.sampled_from(SECTIONS))
            node[key] = deepcopy(section)  # what is forged next may lie in it
        elif what == 2 and isinstance(node, dict):
            name = draw(st.sampled_from([v for v in HOSTILE if isinstance(v, str)]))
            node[name] = node.pop(last)
        else:
            node[last] = deepcopy(draw(st.sampled_from(HOSTILE)))
    return copy


def placed(content: bytes, base: Path) -> bytes:
    """Return a forged file with its names of folders filled in."""
    elsewhere = content.replace(b"ELSEWHERE", bytes(base / "elsewhere").lstrip(b"/"))
    return elsewhere.replace(b"HOME", bytes(base / "home"))


def trying(examples: int) -> Any:
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a copy of a file with some bytes replaced, left out or put in."""
    new = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(new) - 1))
        length = draw(st.integers(0, 8))
        new[at : at + length] = draw(st.binary(max_size=8))
    return bytes(new)


forged_bytes = st.composite(changed_bytes)
