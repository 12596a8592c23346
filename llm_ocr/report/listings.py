"""List model profiles and schemas: as tables, and as facts for JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.schema import Schema

Node = Mapping[str, Any]


def profile_facts(profile: ModelProfile) -> dict[str, object]:
    """The facts of a profile for JSON."""
    serving, card = profile.serving, profile.card
    return {
        "id": profile.id,
        "model": profile.model,
        "revision": serving.revision,
        "parameters": card.parameters,
        "license": card.license,
        "license_note": card.license_note,
        "weights_gib": serving.weights_gib,
        "vllm": [".".join(str(part) for part in version) for version in serving.versions],
        "known_issues": [f"{issue.range}: {issue.problem}" for issue in serving.issues],
        "gives": sorted(card.gives),
        "verified": card.verified,
        "sources": list(card.sources),
    }


def render_profiles(profiles: Mapping[str, ModelProfile]) -> Table:
    """One row per profile; what their licenses restrict is below."""
    table = Table(box=None, pad_edge=False)
    table.add_column("profile", no_wrap=True)
    table.add_column("weights", justify="right", no_wrap=True)
    for column, width in (("checked", 8), ("gives", 8), ("parameters", 10), ("license", 10)):
        table.add_column(column, overflow="fold", min_width=width)
    for name, profile in profiles.items():
        table.add_row(
            name,
            f"{profile.serving.weights_gib:g} GiB",
            "recorded answers" if profile.card.verified else "read, not run",
            ", ".join(sorted(profile.card.gives)) or "text",
            profile.card.parameters,
            profile.card.license,
        )
    noted = {name: profile.card.license_note for name, profile in profiles.items()}
    table.caption = "\n".join(f"{name}: {note}" for name, note in noted.items() if note)
    return table


def schema_facts(schema: Schema) -> dict[str, object]:
    """The facts of a schema for JSON."""
    return {
        "name": schema.name,
        "description": schema.json_schema.get("description", ""),
        "fields": [path for path, _ in _fields(schema.json_schema, "")],
        "merge": {name: rule.value for name, rule in schema.rules.items()},
        "json_schema": schema.json_schema,
    }


def render_schemas(schemas: Sequence[Schema]) -> Table:
    """One row per schema."""
    table = Table(box=None, pad_edge=False)
    table.add_column("schema", no_wrap=True)
    table.add_column("fields", overflow="fold")
    for schema in schemas:
        table.add_row(schema.name, ", ".join(schema.json_schema["properties"]))
    return table


def render_schema(schema: Schema) -> Table:
    """One row per field, followed by the fields of inner objects and lists."""
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
    """The fields of an object with their paths; `[]` follows the name of a list."""
    for name, field in node.get("properties", {}).items():
        inner = _without_null(field)
        field_path = f"{path}{name}"
        items = _without_null(inner.get("items", {}))
        yield field_path, field
        if items:
            yield from _fields(items, f"{field_path}[].")
        else:
            yield from _fields(inner, f"{field_path}.")


def _without_null(node: Node) -> Node:
    """The schema of a value that isn't null, if there is only one."""
    choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
    return choices[0] if len(choices) == 1 else node


def _kind(node: Node) -> str:
    inner = _without_null(node)
    if "enum" in inner:
        return " | ".join(str(value) for value in inner["enum"])
    if "const" in inner:
        return str(inner["const"])
    if "anyOf" in inner:
        return " | ".join(dict.fromkeys(_kind(choice) for choice in inner["anyOf"]))
    if inner.get("type") == "array":
        return f"list of {_kind(inner.get('items', {}))}"
    if "$ref" in inner:
        return str(inner["$ref"]).rsplit("/", 1)[-1]
    return str(inner.get("format") or inner.get("type") or "any")
