"""NuExtract3: fills in a JSON template from a document, or reads a page as Markdown.

    {"store": "verbatim-string", "date": "date", "total": "number", "paid": ["cash", "card"]}

Template and instructions are arguments of its chat template (`chat_template_kwargs`), not text: so
they are made here from a JSON Schema, for each request. Types, sampling and limits follow the model
card, as used in https://github.com/davanstrien/uv-scripts-for-ai (ocr/nuextract3.py, at commit
264d0c1).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from llm_ocr.models import markdown_blocks
from llm_ocr.models.geometry import Resizing
from llm_ocr.models.profile import (
    NO_CACHES,
    Argument,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import ImagePolicy

Node = Mapping[str, Any]
# NuExtract's names for what JSON Schema has as formats of strings.
FORMATS: Mapping[str, str] = {
    "date": "date",
    "date-time": "date-time",
    "time": "time",
    "duration": "duration",
    "email": "email-address",
    "idn-email": "email-address",
    "uri": "url",
    "iri": "url",
}
# What any other string is: copied as it stands.
VERBATIM = "verbatim-string"
# Levels of a schema that may refer to itself; deeper ones are left out.
MAX_DEPTH = 12


def schema_arguments(schema: Node, again: str = "") -> Mapping[str, object]:
    """The chat template's arguments for a JSON Schema of an object: a template whose leaves name
    types, and the fields' descriptions, and what to mind, as instructions."""
    template = _template(schema, schema.get("$defs", {}), 0)
    said = [f"{path}: {text}" for path, text in _descriptions(schema, schema.get("$defs", {}))]
    instructions = "\n".join([*said, *([again] if again else [])])
    arguments = {"template": json.dumps(template, indent=4, ensure_ascii=False)}
    return {**arguments, "instructions": instructions} if instructions else arguments


def _template(node: Node, definitions: Node, depth: int) -> object:
    """A template for values of the node."""
    node = _resolve(node, definitions)
    kind = _kind(node)
    if "enum" in node:
        choices = [str(value) for value in node["enum"] if value is not None]
        return choices if len(choices) > 1 else VERBATIM
    if kind == "object" and node.get("properties") and depth < MAX_DEPTH:
        return {
            name: _template(inner, definitions, depth + 1)
            for name, inner in node["properties"].items()
        }
    if kind == "array" and depth < MAX_DEPTH:
        return [_template(node.get("items", {}), definitions, depth + 1)]
    if kind in ("integer", "number", "boolean"):
        return kind
    return FORMATS.get(str(node.get("format")), VERBATIM)


def _descriptions(node: Node, definitions: Node, path: str = "") -> Iterator[tuple[str, str]]:
    """The descriptions of a schema's fields, by path."""
    if path.count(".") >= MAX_DEPTH:
        return
    for name, given in node.get("properties", {}).items():
        inner = _resolve(given, definitions)
        text = given.get("description") or inner.get("description")
        where = f"{path}{name}"
        if text:
            yield where, " ".join(str(text).split())
        items = _resolve(inner.get("items", {}), definitions)
        yield from _descriptions(inner, definitions, f"{where}.")
        yield from _descriptions(items, definitions, f"{where}[].")


def _resolve(node: Node, definitions: Node) -> Node:
    """The node that references and choices lead to: of several choices the first that isn't null,
    a number before a string."""
    for _ in range(MAX_DEPTH):
        if "$ref" in node:
            node = definitions.get(str(node["$ref"]).rsplit("/", 1)[-1], {})
            continue
        choices = [one for one in node.get("anyOf", node.get("oneOf", ())) if _kind(one) != "null"]
        if not choices:
            return node
        node = min(choices, key=lambda one: _kind(one) == "string")
    return {}


def _kind(node: Node) -> str:
    """The node's type; of several, the first that isn't null."""
    kind = node.get("type", "")
    if isinstance(kind, list):
        return next((str(one) for one in kind if one != "null"), "null")
    return str(kind)


NUEXTRACT_3 = ModelProfile(
    id="nuextract3",
    model="numind/NuExtract3",
    prompts={
        # Without a template, an image alone becomes Markdown.
        Task.DOCUMENT: Prompt("", 8192),
        Task.DESCRIBE: Prompt("", 1024),
        # It was trained to fill in templates, without constrained decoding.
        Task.PARSE: Prompt("", 8192, guided=False),
    },
    sampling={"temperature": 0.2, "chat_template_kwargs": {"enable_thinking": False}},
    # 170 dpi of an A4 page, as the authors' own scripts have it.
    image=ImagePolicy(longest_side=1984, jpeg_quality=95, multiple_of=32),
    parse=markdown_blocks.parse,
    parser_version=2,
    ladder=(
        Rung("another draw", sampling={"temperature": 0.4, "seed": 1}),
        Rung("in two strips", sampling={"temperature": 0.2, "seed": 2}, bands=2),
    ),
    serving=Serving(
        revision="c99dc8f5641b866aa0192b6ea78f84bf9f3535f1",
        weights_gib=8.9,
        max_model_len=16384,
        page_tokens=4500,
        # Qwen3.5-4B: 8 of 32 layers have attention, with 4 KV heads of 256.
        kv_kib=32,
        state_mib=49,
        versions=((0, 20), (0, 32)),
        arguments=(
            Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
            Argument(
                "--chat-template-content-format", "openai", "the template reads parts of messages"
            ),
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="4B",
        license="Apache-2.0",
        gives=frozenset({Gives.TABLES}),
        sources=(
            "https://huggingface.co/numind/NuExtract3",
            "https://github.com/davanstrien/uv-scripts-for-ai",
        ),
    ),
    schema_arguments=schema_arguments,
    resizing=Resizing(unit=32, min_pixels=256 * 256, max_pixels=16_777_216),
)
