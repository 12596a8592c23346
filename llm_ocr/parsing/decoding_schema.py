"""The JSON schema that decoding is guided by, out of a user's.

Decoding is guided to a shape: keys, kinds of values, choices, dates. Ranges, lengths and patterns
are left to validation: a model that may not write what it sees writes something else, and that
would be in the record. For the same reason every single value may be null. All keys are required,
so that none is forgotten. No text and no list has a bound that would end a loop: it would cut what
is long, and the cut value would look whole. An answer's limit of tokens ends it, visibly.

What is left are keywords that vLLM takes with xgrammar, guidance and outlines alike.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from llm_ocr.parsing.references import SchemaNode, alternatives, is_null, lookup, resolve

_HINTS = ("title", "description", "aliases", "examples")
_FORMATS = ("date", "time", "date-time")
_SINGLE = ("string", "number", "integer", "boolean")
_NULL = {"type": "null"}


def decoding_schema(schema: SchemaNode) -> dict[str, Any]:
    """The guiding schema of an object. References are put in place but for those in a circle,
    which go to `$defs`. KeyError where a reference points to nothing in the schema."""
    making = _Guiding(schema)
    made = making.node(schema, ())
    if "$ref" in made:
        made = {**making.circles[made["$ref"]], **_hints(schema)}
    if not making.circles:
        return made
    names = _names(making.circles)
    defs = {names[ref]: one for ref, one in making.circles.items()}
    refs = {ref: f"#/$defs/{name}" for ref, name in names.items()}
    renamed: dict[str, Any] = _renamed({**made, "$defs": defs}, refs)
    return renamed


def _names(refs: Iterable[str]) -> dict[str, str]:
    """A name for each reference: the last part of it, made different where it isn't."""
    names: dict[str, str] = {}
    for ref in refs:
        name = ref.rsplit("/", 1)[-1].strip("#") or "root"
        while name in names.values():
            name += "_"
        names[ref] = name
    return names


def _renamed(made: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401
    if isinstance(made, dict):
        return {
            key: names[one] if key == "$ref" and isinstance(one, str) else _renamed(one, names)
            for key, one in made.items()
        }
    return [_renamed(one, names) for one in made] if isinstance(made, list) else made


def _hints(node: SchemaNode) -> dict[str, Any]:
    return {key: node[key] for key in _HINTS if node.get(key)}


class _Guiding:
    def __init__(self, root: SchemaNode) -> None:
        self.root = root
        self.circles: dict[str, dict[str, Any]] = {}

    def node(self, node: object, within: tuple[str, ...]) -> dict[str, Any]:
        """`within`: the references that were followed to this node."""
        if not isinstance(node, Mapping) or not node:
            return {}
        ref = node.get("$ref")
        if isinstance(ref, str):
            return self._referred(node, ref, within)
        node = resolve(self.root, node)
        return {**_hints(node), **self._kind(node, within)}

    def _referred(self, node: SchemaNode, ref: str, within: tuple[str, ...]) -> dict[str, Any]:
        if ref in within:
            self.circles.setdefault(ref, {})
        else:
            made = self.node(lookup(self.root, ref), (*within, ref))
            if ref not in self.circles:
                return {**made, **_hints(node)}
            self.circles[ref] = made
        return {"$ref": ref, **_hints(node)}

    def _kind(self, node: SchemaNode, within: tuple[str, ...]) -> dict[str, Any]:
        if "const" in node:
            return {"const": node["const"]}
        if "enum" in node:
            return {"enum": list(node["enum"])}
        either = alternatives(node)
        if either:
            inner = [self.node(one, within) for one in either]
            if len(inner) == 1:
                return inner[0]
            return {"anyOf": [one for place, one in enumerate(inner) if one not in inner[:place]]}
        kind = node.get("type")
        if kind == "object" or "properties" in node:
            return self._object(node, within)
        if kind == "array" or "items" in node:
            return self._array(node, within)
        if kind == "string":
            date = {"format": node["format"]} if node.get("format") in _FORMATS else {}
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
                name: _nullable(self.node(one, within)) for name, one in properties.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        }

    def _array(self, node: SchemaNode, within: tuple[str, ...]) -> dict[str, Any]:
        if "prefixItems" in node:
            inner = [self.node(one, within) for one in node["prefixItems"]]
            count = len(inner)
            return {"type": "array", "prefixItems": inner, "minItems": count, "maxItems": count}
        items = self.node(node.get("items"), within)
        return {"type": "array", **({"items": items} if items else {})}


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    """A single value may be null, and what would go round in a circle; an object or a list can be
    empty instead."""
    if "$ref" in node:
        single = True
    elif "enum" in node:
        single = None not in node["enum"]
    elif "anyOf" in node:
        single = all(one.get("type") in _SINGLE or "enum" in one for one in node["anyOf"])
    else:
        single = node.get("type") in _SINGLE
    if not single or is_null(node):
        return node
    hints = _hints(node)
    bare = {key: one for key, one in node.items() if key not in hints}
    return {**hints, "anyOf": [*(bare.get("anyOf") or [bare]), _NULL]}
