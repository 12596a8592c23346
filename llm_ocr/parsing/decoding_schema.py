"""Derive the JSON schema for guided decoding from a user's schema.

Decoding is guided to a shape: keys, types of values, choices, dates. Ranges, lengths and patterns
are left to validation: a model that must not write what it sees writes something else, which would
then be in the record. For the same reason every scalar may be null. All keys are required, so that
none is forgotten. No string and no list has a maximum length that would end a repetition: it would
truncate long values, and the truncated value would look complete. An answer's token limit ends
repetitions, visibly.

The keywords used are those that vLLM accepts with xgrammar, guidance and outlines alike.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from llm_ocr.parsing.references import SchemaNode, alternatives, is_null, lookup, resolve

_HINT_KEYWORDS = ("title", "description", "aliases", "examples")
_DATE_FORMATS = ("date", "time", "date-time")
_SCALAR_TYPES = ("string", "number", "integer", "boolean")
_NULL = {"type": "null"}


def decoding_schema(schema: SchemaNode) -> dict[str, Any]:
    """The decoding schema of an object. References are inlined, except for recursive ones, which go
    to `$defs`. Raises KeyError if a reference points to nothing in the schema."""
    builder = _SchemaBuilder(schema)
    result = builder.node(schema, ())
    if "$ref" in result:
        result = {**builder.recursive[result["$ref"]], **_hints(schema)}
    if not builder.recursive:
        return result
    names = _definition_names(builder.recursive)
    defs = {names[ref]: definition for ref, definition in builder.recursive.items()}
    refs = {ref: f"#/$defs/{name}" for ref, name in names.items()}
    renamed: dict[str, Any] = _rename_references({**result, "$defs": defs}, refs)
    return renamed


def _definition_names(refs: Iterable[str]) -> dict[str, str]:
    """A unique name for each reference, from its last part."""
    names: dict[str, str] = {}
    for ref in refs:
        name = ref.rsplit("/", 1)[-1].strip("#") or "root"
        while name in names.values():
            name += "_"
        names[ref] = name
    return names


def _rename_references(result: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401
    if isinstance(result, list):
        return [_rename_references(item, names) for item in result]
    if not isinstance(result, dict):
        return result
    renamed = {key: _rename_references(value, names) for key, value in result.items()}
    ref = result.get("$ref")
    return {**renamed, "$ref": names[ref]} if isinstance(ref, str) else renamed


def _hints(node: SchemaNode) -> dict[str, Any]:
    return {key: node[key] for key in _HINT_KEYWORDS if node.get(key)}


class _SchemaBuilder:
    def __init__(self, root: SchemaNode) -> None:
        self.root = root
        self.recursive: dict[str, dict[str, Any]] = {}

    def node(self, node: object, within: tuple[str, ...]) -> dict[str, Any]:
        """The decoding schema of a node; `within` are the references that were followed to it."""
        if not isinstance(node, Mapping) or not node:
            return {}
        ref = node.get("$ref")
        if isinstance(ref, str):
            return self._reference(node, ref, within)
        node = resolve(self.root, node)
        return {**_hints(node), **self._constraints(node, within)}

    def _reference(self, node: SchemaNode, ref: str, within: tuple[str, ...]) -> dict[str, Any]:
        if ref in within:
            self.recursive.setdefault(ref, {})
        else:
            result = self.node(lookup(self.root, ref), (*within, ref))
            if ref not in self.recursive:
                return {**result, **_hints(node)}
            self.recursive[ref] = result
        return {"$ref": ref, **_hints(node)}

    def _constraints(self, node: SchemaNode, within: tuple[str, ...]) -> dict[str, Any]:
        if "const" in node:
            return {"const": node["const"]}
        if "enum" in node:
            return {"enum": list(node["enum"])}
        either = alternatives(node)
        if either:
            inner = [self.node(option, within) for option in either]
            if len(inner) == 1:
                return inner[0]
            return {
                "anyOf": [
                    option for place, option in enumerate(inner) if option not in inner[:place]
                ]
            }
        kind = node.get("type")
        if kind == "object" or "properties" in node:
            return self._object(node, within)
        if kind == "array" or "items" in node:
            return self._array(node, within)
        if kind == "string":
            date = {"format": node["format"]} if node.get("format") in _DATE_FORMATS else {}
            return {"type": "string", **date}
        return {"type": kind} if kind else {}

    def _object(self, node: SchemaNode, within: tuple[str, ...]) -> dict[str, Any]:
        properties = node.get("properties")
        if not properties:
            values = node.get("additionalProperties")
            inner = self.node(values, within) if isinstance(values, Mapping) else {}
            return {"type": "object", **({"additionalProperties": inner} if inner else {})}
        return {
            "type": "object",
            "properties": {
                name: _nullable(self.node(part, within)) for name, part in properties.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        }

    def _array(self, node: SchemaNode, within: tuple[str, ...]) -> dict[str, Any]:
        if "prefixItems" in node:
            inner = [self.node(item, within) for item in node["prefixItems"]]
            count = len(inner)
            return {"type": "array", "prefixItems": inner, "minItems": count, "maxItems": count}
        items = self.node(node.get("items"), within)
        return {"type": "array", **({"items": items} if items else {})}


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    """Allows null for scalars and recursive references; objects and lists can be empty instead."""
    if "$ref" in node:
        single = True
    elif "enum" in node:
        single = None not in node["enum"]
    elif "anyOf" in node:
        single = all(
            option.get("type") in _SCALAR_TYPES or "enum" in option for option in node["anyOf"]
        )
    else:
        single = node.get("type") in _SCALAR_TYPES
    if not single or is_null(node):
        return node
    hints = _hints(node)
    bare = {key: value for key, value in node.items() if key not in hints}
    return {**hints, "anyOf": [*(bare.get("anyOf") or [bare]), _NULL]}
