"""Digests of the fronts of the shipped configurations, to check that a change does not alter them.

Run it before the change in one checkout and after it in another. In the second call, ``--against``
is the file that the first one wrote, and every front that differs is named::

    python scripts/front_digests.py before.json --room /tmp/room
    python scripts/front_digests.py after.json --room /tmp/room --against before.json

A front is the same if the columns of all genes and metrics that it had before are the same to the
byte. New metrics may add columns, and columns on what to expect on new records are not compared.
Both calls need the same room: libraries of models are built there only once, because the costs of
models are measured and differ each time.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from framework.errors import first_few
from framework.front import FIRM, TIED, expected_columns

ROOT = Path(__file__).resolve().parents[1]
SHORTENED = {"large": ["budget.generations=1"]}  # otherwise it takes hours


def shipped() -> list[Path]:
    """Return the configurations of single runs below ``configs``, in order."""
    paths = []
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))
        if {"problem", "algorithm"} <= set(keys) and not {"sweep", "experiment"} & set(keys):
            paths.append(path)
    return paths


def digests(path: Path, room: Path) -> dict[str, str]:
    """Run a configuration serially; return the SHA-256 of each gene and metric, or an error."""
    out = room / "runs" / f"{path.stem}-{len(list((room / 'runs').glob('*')))}"
    command: list[str | Path] = [
        Path(sys.executable).parent / "paretolab",
        "run",
        path,
        "--out",
        out,
    ]
    command += ["--workers", "serial", "--no-mlflow", "--no-plots", "--quiet"]
    for override in SHORTENED.get(path.stem, []):
        command += ["--set", override]
    here = os.environ | {"PARETOLAB_CACHE": str(room / "cache")}
    done = subprocess.run(command, cwd=room, env=here, capture_output=True, text=True, check=False)
    if done.returncode:
        return {f"exit code {done.returncode}": " ".join(done.stderr.split())[-300:]}
    names = [metric["name"] for metric in json.loads((out / "about.json").read_text())["metrics"]]
    estimated = {FIRM, TIED} - set(names)
    estimated |= {
        column for columns_of in expected_columns(names).values() for column in columns_of
    }
    by_column = columns(out / "front.csv")
    return {name: digest for name, digest in by_column.items() if name not in estimated}


def columns(front: Path) -> dict[str, str]:
    """Return the SHA-256 of each column of a file, by name."""
    with front.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    texts = ("\n".join(row[i] for row in rows) for i in range(len(names)))
    return {
        name: hashlib.sha256(text.encode()).hexdigest()
        for name, text in zip(names, texts, strict=True)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the digests, as JSON")
    parser.add_argument("--room", type=Path, required=True, help="folder for runs and libraries")
    parser.add_argument("--against", type=Path, help="digests to compare with")
    arguments = parser.parse_args()
    room = arguments.room.resolve()
    (room / "runs").mkdir(parents=True, exist_ok=True)
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    by_name, differ = {}, 0
    for path in shipped():
        name = str(path.relative_to(ROOT))
        by_name[name] = digests(path, room)
        said = ""
        if name in before:
            others = [
                key for key, digest in before[name].items() if by_name[name].get(key) != digest
            ]
            said = f"DIFFERS in {first_few(others, 3)}" if others else "same"
            differ += bool(others)
        print(f"{name}  {len(by_name[name])} columns  {said}".rstrip(), flush=True)
    arguments.file.write_text(json.dumps(by_name, indent=1) + "\n", encoding="utf-8")
    if before:
        print(f"{differ} of {len(by_name)} fronts differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
