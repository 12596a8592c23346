"""Resolve references and `allOf` within a JSON Schema.

The library `referencing` would replace `lookup` only, and takes 50 ms to import.
"""

from collections.abc import Mapping
from typing import Any

from llm_ocr.parsing.schema import SchemaError

SchemaNode = Mapping[str, Any]

# Keywords that can't be merged with those of another schema.
_UNMERGEABLE = ("if", "not", "anyOf", "oneOf")


def lookup(root: SchemaNode, ref: str) -> SchemaNode:
    """What `#/a/b` points to; raises KeyError if it points to nothing in `root`."""
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


def check_references(schema: SchemaNode, what: str) -> None:
    """Raise SchemaError for a reference to something outside the schema, whose name is `what`."""
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        ref = node.get("$ref") if isinstance(node, dict) else None
        if isinstance(node, dict) and isinstance(node.get("$dynamicRef"), str):
            raise SchemaError(f"{what} uses $dynamicRef, which is not supported: use $ref")
        if isinstance(ref, str):
            try:
                lookup(schema, ref)
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise SchemaError(
                    f"{what} refers to {ref!r}, which it does not contain: put all definitions "
                    "under $defs of the same file"
                ) from error
        inner = node.values() if isinstance(node, dict) else node
        pending.extend(child for child in inner if isinstance(child, dict | list))


def resolve(root: SchemaNode, node: SchemaNode) -> SchemaNode:
    """A node merged with its reference and with the members of `allOf`; its own keywords win."""
    seen = set()
    while "$ref" in node:
        ref = str(node["$ref"])
        if ref in seen:
            raise KeyError(ref)
        seen.add(ref)
        own = {key: value for key, value in node.items() if key != "$ref"}
        node = {**lookup(root, ref), **own}
    return _merge_all_of(root, node) if "allOf" in node else node


def _merge_all_of(root: SchemaNode, node: SchemaNode) -> SchemaNode:
    merged = {key: value for key, value in node.items() if key != "allOf"}
    conditions = []
    for member in node["allOf"]:
        part = resolve(root, member) if isinstance(member, Mapping) else {}
        if any(key in part for key in _UNMERGEABLE):
            conditions.append(part)
            continue
        properties = {**part.get("properties", {}), **merged.get("properties", {})}
        required = [*merged.get("required", ()), *part.get("required", ())]
        merged = {**part, **merged}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
    return {**merged, "allOf": conditions} if conditions else merged


def followed_references(
    root: SchemaNode, node: object, seen: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The references that `resolve` follows from a node, added to `seen`."""
    if not isinstance(node, Mapping):
        return seen
    ref = node.get("$ref")
    if isinstance(ref, str) and ref not in seen:
        seen = followed_references(root, lookup(root, ref), seen | {ref})
    for member in node.get("allOf", ()):
        seen = followed_references(root, member, seen)
    return seen


def alternatives(node: SchemaNode) -> list[Any]:
    """The alternatives for a value: `anyOf`, `oneOf`, or several types."""
    either = node.get("anyOf") or node.get("oneOf")
    if either:
        return list(either)
    if isinstance(node.get("type"), list):
        return [
            {**node, "type": name} if name != "null" else {"type": name} for name in node["type"]
        ]
    return []


def is_null(node: object) -> bool:
    return isinstance(node, Mapping) and (
        node.get("type") == "null" or ("const" in node and node["const"] is None)
    )
