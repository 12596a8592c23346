"""The header `Idempotency-Key`: repeated requests take effect once and get the same response.

As in draft-ietf-httpapi-idempotency-key-header: a request with the same key and payload gets the
first response again; 409 while the first is in progress; 422 with another payload. Keys belong to a
tenant and expire after 24 hours. Only successful responses are saved: a refused request has changed
nothing and may be sent again.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, update
from sqlalchemy import select as sql_select
from sqlalchemy.dialects import postgresql, sqlite

from llm_ocr.service.database import Database, now
from llm_ocr.service.gateway.problems import Problem
from llm_ocr.service.schema import idempotency_keys

KEY_LIFETIME_SECONDS = 86400
# A request in progress for longer than this is assumed to have died with its gateway.
IN_FLIGHT_SECONDS = 30
_KEY = re.compile(r'"?([\x21\x23-\x7e]{1,255})"?')


@dataclass(frozen=True)
class StoredResponse:
    """A saved response, to be replayed. Its body is JSON."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True)
class ClaimedKey:
    """The key of a request that is the first one with it; `key` is None for a request without."""

    tenant: str
    key: str | None
    claimed_at: datetime | None

    def save_response(self, connection: Connection, response: StoredResponse) -> None:
        """Save the response for repetitions, in the transaction with the request's effect. Raises
        Problem if a repetition has taken over the key."""
        if self.key is None:
            return
        saved = connection.execute(
            update(idempotency_keys)
            .where(self._is_owned)
            .values(status=response.status, headers=dict(response.headers), body=response.body)
        )
        if saved.rowcount == 0:
            raise _in_flight()

    def release(self, database: Database) -> None:
        """Delete the key: the request has failed."""
        if self.key is not None:
            with database.begin() as connection:
                connection.execute(idempotency_keys.delete().where(self._is_owned))

    @property
    def _is_owned(self) -> Any:  # noqa: ANN401
        return and_(
            idempotency_keys.c.tenant == self.tenant,
            idempotency_keys.c.key == self.key,
            idempotency_keys.c.created_at == self.claimed_at,
            idempotency_keys.c.status.is_(None),
        )


def hash_request(method: str, path: str, payload: object) -> str:
    """A hash of a request, to compare repetitions; `payload` must be JSON-serializable."""
    content = json.dumps([method, path, payload], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def claim_key(
    database: Database, tenant: str, key: str | None, request_hash: str
) -> ClaimedKey | StoredResponse:
    """Begin a request with the hash `request_hash`, or find the response that is saved for it.

    Raises Problem if the key is invalid, was used for another request, or is in use.
    """
    if key is None:
        return ClaimedKey(tenant, None, None)
    matched = _KEY.fullmatch(key)
    if matched is None:
        raise Problem(
            422,
            "invalid_idempotency_key",
            "Idempotency-Key must have 1 to 255 visible ASCII characters",
        )
    key = matched[1]
    where = and_(idempotency_keys.c.tenant == tenant, idempotency_keys.c.key == key)
    dialect = sqlite if database.is_sqlite else postgresql
    new = dialect.insert(idempotency_keys).values(
        tenant=tenant, key=key, fingerprint=request_hash, created_at=now()
    )
    with database.begin() as connection:
        is_old = idempotency_keys.c.created_at < now(-KEY_LIFETIME_SECONDS)
        connection.execute(idempotency_keys.delete().where(where, is_old))
        claimed_at = connection.execute(
            new.on_conflict_do_nothing().returning(idempotency_keys.c.created_at)
        ).scalar_one_or_none()
        if claimed_at is not None:
            return ClaimedKey(tenant, key, claimed_at)
        row = connection.execute(sql_select(idempotency_keys).where(where)).one_or_none()
        if row is None:
            # The first request has failed just now.
            raise _in_flight()
        if row.fingerprint != request_hash:
            raise Problem(
                422,
                "idempotency_key_reused",
                f"the Idempotency-Key {key} was used for a different request; use a new key for "
                "each request",
            )
        if row.status is not None:
            return StoredResponse(row.status, row.headers, row.body)
        return ClaimedKey(tenant, key, _take_over(connection, row))


def delete_expired_keys(database: Database) -> None:
    """Delete the keys that are older than `KEY_LIFETIME_SECONDS`."""
    with database.begin() as connection:
        is_old = idempotency_keys.c.created_at < now(-KEY_LIFETIME_SECONDS)
        connection.execute(idempotency_keys.delete().where(is_old))


def _take_over(connection: Connection, row: Row[Any]) -> datetime:
    """Take over the key of an abandoned request. Raises Problem if it may still be in progress."""
    claimed_at: datetime | None = connection.execute(
        update(idempotency_keys)
        .where(
            idempotency_keys.c.tenant == row.tenant,
            idempotency_keys.c.key == row.key,
            idempotency_keys.c.created_at == row.created_at,
            idempotency_keys.c.created_at < now(-IN_FLIGHT_SECONDS),
            idempotency_keys.c.status.is_(None),
        )
        .values(created_at=now())
        .returning(idempotency_keys.c.created_at)
    ).scalar_one_or_none()
    if claimed_at is None:
        raise _in_flight()
    return claimed_at


def _in_flight() -> Problem:
    return Problem(
        409,
        "request_in_flight",
        "a request with this Idempotency-Key is in progress; repeat it later",
        retryable=True,
        headers={"Retry-After": "1"},
    )
