"""What a forger does: change the files of a model and make its digests right again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def seal(folder: Path) -> None:
    """Write the digests of a model's files as they are now."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def describe_anew(folder: Path, *, top: dict[str, Any] | None = None, **changes: Any) -> None:
    """Change what ``model.json`` says of the model, or its ``top`` level; seal it."""
    path = folder / "model.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    plain["model"] = {**plain["model"], **changes}
    path.write_text(json.dumps({**plain, **(top or {})}), encoding="utf-8")
    seal(folder)
