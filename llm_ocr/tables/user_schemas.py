"""The JSON schemas that a run's records were made by, kept in the run.

schemas/HASH.json     name and JSON schema; HASH as in the column `schema_hash`
"""

import json
from collections.abc import Mapping
from typing import Any

from llm_ocr.storage.store import Store


def keep_schema(store: Store, schema_hash: str, name: str, json_schema: Mapping[str, Any]) -> None:
    """Keep a schema unless it is there, for those who read the records.

    Properties are named as in `fields`: of a pydantic model, `model_json_schema(by_alias=False)`,
    which tells decimals from other numbers.
    """
    body = {"name": name, "json_schema": json_schema}
    store.create(_path(schema_hash), json.dumps(body, indent=2, ensure_ascii=False).encode())


def kept_schema(store: Store, schema_hash: str) -> Mapping[str, Any] | None:
    """The JSON schema that was kept, if it was."""
    try:
        body = json.loads(store.get(_path(schema_hash)))
    except FileNotFoundError:
        return None
    found: Mapping[str, Any] = body["json_schema"]
    return found


def _path(schema_hash: str) -> str:
    return f"schemas/{schema_hash}.json"
