"""Sessions of people who use the web pages: logged in by an API key, or by OpenID Connect.

The cookie has a random token, of which only the hash is stored. A session ends after
`SESSION_SECONDS`, and at once if its key is revoked or expires, or if the gateways no longer use
the provider that it is from.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, or_, select

from llm_ocr.service.access import Access, AccessError, Scope
from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import api_keys, sessions, tenants

SESSION_SECONDS = 12 * 3600.0


@dataclass(frozen=True)
class Session:
    """A logged-in person: the access, and the token that forms must contain. `issuer` is the
    OpenID Connect provider; None with an API key."""

    access: Access
    csrf_token: str
    issuer: str | None = None

    def accepts(self, csrf_token: str) -> bool:
        """Whether a form with this token comes from one of our pages."""
        return hmac.compare_digest(self.csrf_token.encode(), csrf_token.encode())


def create_session(database: Database, access: Access, issuer: str | None = None) -> str:
    """Log in, with an API key or by a provider; returns the token for the cookie. Sessions that
    have ended are deleted. Raises AccessError if there is no such tenant."""
    token = secrets.token_urlsafe(32)
    login: dict[str, Any] = {"key_id": access.key_id}
    if issuer is not None:
        login = {
            "issuer": issuer,
            "tenant": access.tenant,
            "person": access.key_id,
            "person_name": access.key_name,
            "scopes": sorted(access.scopes),
        }
    with database.begin() as connection:
        connection.execute(sessions.delete().where(sessions.c.expires_at < now()))
        is_tenant = select(tenants.c.id).where(tenants.c.id == access.tenant)
        if connection.execute(is_tenant).first() is None:
            raise AccessError(f"there is no tenant {access.tenant[:80]!r}")
        connection.execute(
            sessions.insert().values(
                **login,
                sha256=_hash(token),
                csrf_token=secrets.token_urlsafe(32),
                expires_at=now(SESSION_SECONDS),
            )
        )
    return token


def load_session(database: Database, token: str, issuer: str | None = None) -> Session | None:
    """The session of a cookie's token; None if it has ended, its key is no longer valid, or it is
    from another provider than `issuer`."""
    is_key_valid = and_(
        api_keys.c.id.is_not(None),
        api_keys.c.revoked_at.is_(None),
        or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now()),
    )
    query = (
        select(
            sessions.c.csrf_token,
            sessions.c.issuer,
            func.coalesce(sessions.c.tenant, api_keys.c.tenant).label("tenant"),
            func.coalesce(sessions.c.scopes, api_keys.c.scopes).label("scopes"),
            func.coalesce(sessions.c.person, api_keys.c.id).label("person"),
            func.coalesce(sessions.c.person_name, api_keys.c.name).label("name"),
        )
        .outerjoin_from(sessions, api_keys, api_keys.c.id == sessions.c.key_id)
        .where(
            sessions.c.sha256 == _hash(token),
            sessions.c.expires_at > now(),
            or_(is_key_valid, sessions.c.issuer == issuer) if issuer else is_key_valid,
        )
    )
    with database.read() as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        return None
    scopes = frozenset(map(Scope, row.scopes))
    access = Access(row.tenant, scopes, row.person, row.name or row.person)
    return Session(access, row.csrf_token, row.issuer)


def end_session(database: Database, token: str) -> None:
    """Log out."""
    with database.begin() as connection:
        connection.execute(sessions.delete().where(sessions.c.sha256 == _hash(token)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
