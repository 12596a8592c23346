"""References and compositions within a JSON Schema, followed."""

from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]

_HOPS = 100
# What can't be told from the keywords of the schema it stands in.
_CONDITIONS = ("if", "not", "anyOf", "oneOf")


def lookup(root: Node, ref: str) -> Node:
    """What `#/a/b` points to; KeyError where it points to nothing in `root`."""
    if not ref.startswith("#"):
        raise KeyError(ref)
    found: Any = root
    for part in ref.lstrip("#").strip("/").split("/") if ref != "#" else ():
        name = part.replace("~1", "/").replace("~0", "~")
        found = found[int(name)] if isinstance(found, list) else found[name]
    if found is True:
        return {}
    if not isinstance(found, Mapping):
        raise KeyError(ref)
    return found


def resolved(root: Node, node: Node) -> Node:
    """A node with what it refers to, and with what `allOf` adds to it; its own keywords win."""
    for _ in range(_HOPS):
        if "$ref" not in node:
            break
        own = {key: value for key, value in node.items() if key != "$ref"}
        node = {**lookup(root, str(node["$ref"])), **own}
    else:
        raise KeyError(str(node["$ref"]))
    return _composed(root, node) if "allOf" in node else node


def _composed(root: Node, node: Node) -> Node:
    made = {key: value for key, value in node.items() if key != "allOf"}
    conditions = []
    for one in node["allOf"]:
        part = resolved(root, one) if isinstance(one, Mapping) else {}
        if any(key in part for key in _CONDITIONS):
            conditions.append(part)
            continue
        properties = {**part.get("properties", {}), **made.get("properties", {})}
        required = [*made.get("required", ()), *part.get("required", ())]
        made = {**part, **made}
        if properties:
            made["properties"] = properties
        if required:
            made["required"] = list(dict.fromkeys(required))
    return {**made, "allOf": conditions} if conditions else made


def branches(node: Node) -> list[Any]:
    """What a value may be one of: `anyOf`, `oneOf`, or several types."""
    either = node.get("anyOf") or node.get("oneOf")
    if either:
        return list(either)
    if isinstance(node.get("type"), list):
        return [{**node, "type": one} if one != "null" else {"type": one} for one in node["type"]]
    return []


def is_null(node: object) -> bool:
    return isinstance(node, Mapping) and (
        node.get("type") == "null" or ("const" in node and node["const"] is None)
    )
