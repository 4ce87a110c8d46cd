"""Digests of the fronts of the shipped configurations: what a change of the code must not change.

Run it before a change, on one checkout, and after it, on another; in the second call ``--against``
names what the first one wrote, and every front that differs is named::

    python scripts/front_digests.py before.json --room /tmp/room
    python scripts/front_digests.py after.json --room /tmp/room --against before.json

Both must be given the same room: libraries of models are built there once, because what a model
costs is measured and comes out otherwise when it is built again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SHORTENED = {"large": ["budget.generations=1"]}  # hours otherwise


def shipped() -> list[Path]:
    """Return the configurations of single runs below ``configs``, in order."""
    found = []
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))
        if {"problem", "algorithm"} <= set(keys) and not {"sweep", "experiment"} & set(keys):
            found.append(path)
    return found


def digest(path: Path, room: Path) -> str:
    """Run a configuration serially and return the SHA-256 of its ``front.csv``, or what it said."""
    out = room / "runs" / f"{path.stem}-{len(list((room / 'runs').glob('*')))}"
    command = [Path(sys.executable).parent / "paretolab", "run", path, "--out", out]
    command += ["--workers", "serial", "--no-mlflow", "--quiet"]
    for override in SHORTENED.get(path.stem, []):
        command += ["--set", override]
    done = subprocess.run(command, cwd=room, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
    return hashlib.sha256((out / "front.csv").read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the digests, as JSON")
    parser.add_argument("--room", type=Path, required=True, help="folder for runs and libraries")
    parser.add_argument("--against", type=Path, help="digests to compare with")
    arguments = parser.parse_args()
    room = arguments.room.resolve()
    (room / "runs").mkdir(parents=True, exist_ok=True)
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    found, differ = {}, 0
    for path in shipped():
        name = str(path.relative_to(ROOT))
        found[name] = digest(path, room)
        said = "" if name not in before else "same" if found[name] == before[name] else "DIFFERS"
        differ += said == "DIFFERS"
        print(f"{found[name][:16]}  {name}  {said}".rstrip(), flush=True)
    arguments.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if before:
        print(f"{differ} of {len(found)} fronts differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
