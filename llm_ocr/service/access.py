"""Access control: tenants, their limits and their API keys, which are stored only as hashes."""

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from llm_ocr.messages import CodedError
from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import api_keys, tenants

DEFAULT_TENANT = "default"
# `lo_ID_SECRET`
_KEY = re.compile(r"lo_([0-9A-Za-z]{8})_[0-9A-Za-z]{32}")
_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# A tenant's name is part of paths in the storage.
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LIMITS = (
    *("max_unfinished", "max_processing", "max_pages_per_day", "max_bytes"),
    *("retention_days", "review_days"),
)


class Scope(StrEnum):
    """What a key may be used for. `admin` includes all others."""

    READ = "documents:read"
    WRITE = "documents:write"
    REVIEW = "review"
    ADMIN = "admin"


class AccessError(CodedError):
    """An API key is missing, unknown, expired or revoked, or a key or tenant can't be created with
    these values."""


@dataclass(frozen=True)
class Access:
    """The tenant and permissions of a request's API key, or of a person that OpenID Connect has
    logged in. `key_name` is the name of the key or person, or else the id."""

    tenant: str
    scopes: frozenset[Scope]
    key_id: str
    key_name: str = ""

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


@dataclass(frozen=True)
class ApiKey:
    """An API key without its secret. `id` is the second part of the key."""

    id: str
    tenant: str
    name: str
    scopes: Sequence[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def create_key(
    database: Database,
    tenant: str = DEFAULT_TENANT,
    scopes: Collection[str] = (Scope.READ, Scope.WRITE),
    *,
    name: str = "",
    expires_in_days: float | None = None,
) -> str:
    """Create an API key and, if it is new, its tenant. Returns the key, which can't be shown again:
    only its hash is stored. Raises AccessError for an invalid tenant, scope or lifetime."""
    known = _parse_scopes(scopes)
    if expires_in_days is not None and expires_in_days <= 0:
        raise AccessError(f"a key can't expire in {expires_in_days:g} days; use more than 0")
    key_id, secret = _random(8), _random(32)
    key = f"lo_{key_id}_{secret}"
    with database.begin() as connection:
        ensure_tenant(connection, tenant)
        connection.execute(
            api_keys.insert().values(
                id=key_id,
                tenant=tenant,
                sha256=_hash(key),
                name=name,
                scopes=sorted(known),
                created_at=now(),
                expires_at=None if expires_in_days is None else now(expires_in_days * 86400),
            )
        )
    return key


def list_keys(database: Database, tenant: str | None = None) -> list[ApiKey]:
    """The keys of a tenant or, without one, of all tenants, oldest first; expired and revoked ones
    are included."""
    query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
    if tenant is not None:
        query = query.where(api_keys.c.tenant == tenant)
    with database.begin() as connection:
        return [
            ApiKey(
                row.id,
                row.tenant,
                row.name,
                row.scopes,
                row.created_at,
                row.expires_at,
                row.revoked_at,
            )
            for row in connection.execute(query)
        ]


def revoke_key(database: Database, key_id: str) -> None:
    """Revoke a key with immediate effect, given its id or the whole key. Raises AccessError if
    there is no such key."""
    matched = _KEY.fullmatch(key_id)
    key_id = matched[1] if matched else key_id
    with database.begin() as connection:
        changed = connection.execute(
            update(api_keys)
            .where(api_keys.c.id == key_id)
            .values(revoked_at=func.coalesce(api_keys.c.revoked_at, now()))
        )
    if changed.rowcount == 0:
        raise AccessError(f"there is no key {key_id[:8]}; `llm-ocr serve key list` shows all keys")


def authenticate(database: Database, key: str) -> Access:
    """The access that an API key gives. Raises AccessError; its message doesn't tell whether the
    key exists."""
    refused = AccessError("the API key is unknown, expired or revoked")
    matched = _KEY.fullmatch(key)
    if matched is None:
        raise refused
    query = select(api_keys).where(
        api_keys.c.id == matched[1],
        api_keys.c.revoked_at.is_(None),
        or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now()),
    )
    with database.begin() as connection:
        row = connection.execute(query).one_or_none()
    # Compared even if there is no such key, so that both cases take the same time.
    is_right = hmac.compare_digest(row.sha256 if row else _hash(""), _hash(key))
    if row is None or not is_right:
        raise refused
    return Access(row.tenant, frozenset(map(Scope, row.scopes)), row.id, row.name or row.id)


def ensure_tenant(connection: Connection, tenant: str) -> None:
    """Create a tenant without limits if it is new. Raises AccessError for an invalid name."""
    if not _TENANT.fullmatch(tenant):
        raise AccessError(
            f"{tenant[:80]!r} is not a valid tenant name; use up to 63 of a-z, 0-9, - and _"
        )
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    new = dialect.insert(tenants).values(id=tenant, created_at=now(), weight=1.0)
    connection.execute(new.on_conflict_do_nothing())


def set_limits(database: Database, tenant: str, limits: Mapping[str, Any]) -> None:
    """Set limits of a tenant, by name: `max_unfinished`, `max_processing`, `max_pages_per_day`,
    `max_bytes`, `retention_days`, `review_days`. None removes a limit. Raises AccessError for
    unknown names."""
    unknown = sorted(limits.keys() - set(_LIMITS))
    if unknown:
        raise AccessError(f"unknown limits: {', '.join(unknown)}; use {', '.join(_LIMITS)}")
    with database.begin() as connection:
        ensure_tenant(connection, tenant)
        connection.execute(update(tenants).where(tenants.c.id == tenant).values(**limits))


def require_key(database: Database, host: str) -> None:
    """Raises AccessError if other machines can reach `host` and there is no valid API key."""
    if _is_loopback(host):
        return
    usable = select(func.count()).where(
        api_keys.c.revoked_at.is_(None),
        or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now()),
    )
    with database.begin() as connection:
        if connection.execute(usable).scalar_one() > 0:
            return
    raise AccessError(
        f"other machines can reach {host}, and there is no API key yet: create one with `llm-ocr "
        "serve key create`, or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(address[4][0]).is_loopback for address in found)


def _parse_scopes(scopes: Collection[str]) -> set[Scope]:
    try:
        known = {Scope(scope) for scope in scopes}
    except ValueError as error:
        allowed = ", ".join(Scope)
        name = error.args[0].split(" is ")[0]
        raise AccessError(f"there is no scope {name}; use {allowed}") from None
    if not known:
        raise AccessError(f"a key needs at least one scope; use {', '.join(Scope)}")
    return known


def _random(length: int) -> str:
    return "".join(secrets.choice(_CHARACTERS) for _ in range(length))


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
