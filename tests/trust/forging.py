"""What a forger does: change files and make their digests right again."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from io import BytesIO
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


def with_keys(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))


def describe_anew(folder: Path, *, top: dict[str, Any] | None = None, **changes: Any) -> None:
    """Change what ``model.json`` says of the model, or its ``top`` level; seal it."""
    path = folder / "model.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    plain["model"] = {**plain["model"], **changes}
    path.write_text(json.dumps({**plain, **(top or {})}), encoding="utf-8")
    seal(folder)


def forged(content: bytes, edit: Callable[[dict[str, Any]], object], **files: bytes) -> bytes:
    """Return a file in skops's format with its schema edited in place, and ``files`` added."""
    with zipfile.ZipFile(BytesIO(content)) as old:
        schema = json.loads(old.read("schema.json"))
        rest = {name: old.read(name) for name in old.namelist() if name != "schema.json"}
    edit(schema)
    new = BytesIO()
    with zipfile.ZipFile(new, "w") as file:
        file.writestr("schema.json", json.dumps(schema))
        for name, data in {**rest, **files}.items():
            file.writestr(name, data)
    return new.getvalue()


def with_attribute(content: bytes, attribute: str, node: dict[str, Any], **files: bytes) -> bytes:
    """Return a stored estimator with one attribute replaced by another node."""

    def edit(schema: dict[str, Any]) -> None:
        state = schema["content"]
        if attribute not in state["content"]:
            state["key_types"]["content"].append(node_of("TypeNode", "builtins.str"))
        state["content"][attribute] = node

    return forged(content, edit, **files)


def node_of(kind: str, type_name: str, content: Any = None, **more: Any) -> dict[str, Any]:
    """Return a node of a schema."""
    module, _, name = type_name.rpartition(".")
    node = {"__class__": name, "__module__": module, "__loader__": kind, **more}
    return node if content is None else {**node, "content": content}


def plain_node(value: Any) -> dict[str, Any]:
    """Return the node of a JSON value."""
    return node_of("JsonNode", "builtins.str", json.dumps(value), is_json=True)


def tuple_node(*nodes: dict[str, Any]) -> dict[str, Any]:
    return node_of("TupleNode", "builtins.tuple", list(nodes))


def dict_node(**nodes: dict[str, Any]) -> dict[str, Any]:
    types = [node_of("TypeNode", "builtins.str") for _ in nodes]
    key_types = node_of("ListNode", "builtins.list", types)
    return node_of("DictNode", "builtins.dict", nodes, key_types=key_types)
