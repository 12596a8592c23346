"""The schemas in print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from llm_ocr.parsing.schema import Schema

Node = Mapping[str, Any]


def schema_facts(schema: Schema) -> dict[str, object]:
    """What `llm-ocr schemas --json` says of one."""
    return {
        "name": schema.name,
        "description": schema.json_schema.get("description", ""),
        "fields": [path for path, _ in _fields(schema.json_schema, "")],
        "merge": {name: rule.value for name, rule in schema.rules.items()},
        "json_schema": schema.json_schema,
    }


def render_schemas(schemas: Sequence[Schema]) -> Table:
    """One line a schema."""
    told = "Its fields: llm-ocr schemas NAME. Its file, to begin your own with: --source"
    table = Table(box=None, pad_edge=False, caption=told, caption_justify="left")
    table.add_column("schema", no_wrap=True)
    table.add_column("fields", overflow="fold")
    for schema in schemas:
        table.add_row(schema.name, ", ".join(schema.json_schema["properties"]))
    return table


def render_schema(schema: Schema) -> Table:
    """One line a field, those of inner objects and lists below it."""
    table = Table(
        box=None,
        pad_edge=False,
        title=schema.json_schema.get("description"),
        title_justify="left",
        title_style="",
    )
    table.add_column("field", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for column in ("merge", "also called"):
        table.add_column(column, overflow="fold")
    for path, node in _fields(schema.json_schema, ""):
        rule = schema.rules.get(path, "")
        table.add_row(path, _kind(node), str(rule), ", ".join(node.get("aliases", ())))
    return table


def _fields(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """The fields of an object with their paths; `[]` behind the name of a list."""
    for name, one in node.get("properties", {}).items():
        bare = _bare(one)
        here = f"{path}{name}"
        items = _bare(bare.get("items", {}))
        yield here, one
        if items:
            yield from _fields(items, f"{here}[].")
        else:
            yield from _fields(bare, f"{here}.")


def _bare(node: Node) -> Node:
    """What a value is when it isn't null; of several kinds, none."""
    given = [one for one in node.get("anyOf", ()) if one.get("type") != "null"]
    return given[0] if len(given) == 1 else node


def _kind(node: Node) -> str:
    bare = _bare(node)
    if "enum" in bare:
        return " | ".join(str(one) for one in bare["enum"])
    if "const" in bare:
        return str(bare["const"])
    if "anyOf" in bare:
        return " | ".join(dict.fromkeys(_kind(one) for one in bare["anyOf"]))
    if bare.get("type") == "array":
        return f"list of {_kind(bare.get('items', {}))}"
    if "$ref" in bare:
        return str(bare["$ref"]).rsplit("/", 1)[-1]
    return str(bare.get("format") or bare.get("type") or "any")
