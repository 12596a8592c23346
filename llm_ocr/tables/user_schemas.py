"""The users' JSON schemas of a run's records, stored with the run.

schemas/HASH.json     name and JSON schema; HASH as in the column `schema_hash`
"""

import json
from collections.abc import Mapping
from typing import Any

from llm_ocr.storage.store import Store


def save_user_schema(
    store: Store, schema_hash: str, name: str, json_schema: Mapping[str, Any]
) -> None:
    """Store a schema, if it is not yet there, for readers of the records.

    Properties are named as in `fields`: for a Pydantic model, `model_json_schema(by_alias=False)`,
    which distinguishes decimals from other numbers.
    """
    body = {"name": name, "json_schema": json_schema}
    store.create(_path(schema_hash), json.dumps(body, indent=2, ensure_ascii=False).encode())


def load_user_schema(store: Store, schema_hash: str) -> Mapping[str, Any] | None:
    """The JSON schema with this hash; None if it was not stored."""
    try:
        body = json.loads(store.get(_path(schema_hash)))
    except FileNotFoundError:
        return None
    json_schema: Mapping[str, Any] = body["json_schema"]
    return json_schema


def _path(schema_hash: str) -> str:
    return f"schemas/{schema_hash}.json"
