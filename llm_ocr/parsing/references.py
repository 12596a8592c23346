"""References and compositions within a JSON Schema, followed."""

from collections.abc import Mapping
from typing import Any

from llm_ocr.parsing.schema import SchemaError

SchemaNode = Mapping[str, Any]

# What can't be told from the keywords of the schema it stands in.
_CONDITIONS = ("if", "not", "anyOf", "oneOf")


def lookup(root: SchemaNode, ref: str) -> SchemaNode:
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


def check_references(schema: SchemaNode, what: str) -> None:
    """Raises SchemaError for a reference to what isn't in the schema, which is called `what`."""
    todo: list[Any] = [schema]
    while todo:
        node = todo.pop()
        ref = node.get("$ref") if isinstance(node, dict) else None
        if isinstance(node, dict) and isinstance(node.get("$dynamicRef"), str):
            raise SchemaError(f"{what} uses $dynamicRef, which nothing is guided by: give a $ref")
        if isinstance(ref, str):
            try:
                lookup(schema, ref)
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise SchemaError(
                    f"{what} refers to {ref!r}, which isn't in it: put everything that it refers "
                    "to under $defs of the same file"
                ) from error
        inner = node.values() if isinstance(node, dict) else node
        todo.extend(one for one in inner if isinstance(one, dict | list))


def resolve(root: SchemaNode, node: SchemaNode) -> SchemaNode:
    """A node with what it refers to, and with what `allOf` adds to it; its own keywords win."""
    seen = set()
    while "$ref" in node:
        ref = str(node["$ref"])
        if ref in seen:
            raise KeyError(ref)
        seen.add(ref)
        own = {key: value for key, value in node.items() if key != "$ref"}
        node = {**lookup(root, ref), **own}
    return _composed(root, node) if "allOf" in node else node


def _composed(root: SchemaNode, node: SchemaNode) -> SchemaNode:
    made = {key: value for key, value in node.items() if key != "allOf"}
    conditions = []
    for one in node["allOf"]:
        part = resolve(root, one) if isinstance(one, Mapping) else {}
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


def followed_references(
    root: SchemaNode, node: object, seen: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The references that `resolve` follows from a node, with those in `seen`."""
    if not isinstance(node, Mapping):
        return seen
    ref = node.get("$ref")
    if isinstance(ref, str) and ref not in seen:
        seen = followed_references(root, lookup(root, ref), seen | {ref})
    for one in node.get("allOf", ()):
        seen = followed_references(root, one, seen)
    return seen


def alternatives(node: SchemaNode) -> list[Any]:
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
