"""Tenants and API keys."""

import hashlib
import re

import pytest
from sqlalchemy import select, update

from llm_ocr.service.access import (
    Access,
    AccessError,
    Scope,
    authenticate,
    create_key,
    list_keys,
    require_key,
    revoke_key,
    set_limits,
)
from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import api_keys, tenants


def test_only_the_hash_of_a_key_is_stored(database: Database) -> None:
    key = create_key(database, "acme", ["documents:read", "review"], name="the scanner")
    assert re.fullmatch(r"lo_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}", key)
    access = authenticate(database, key)
    assert access == Access("acme", frozenset({Scope.READ, Scope.REVIEW}), key[3:11], "the scanner")
    assert access.allows(Scope.READ)
    assert not access.allows(Scope.WRITE)
    with database.read() as connection:
        row = connection.execute(select(api_keys)).one()
    assert row.sha256 == hashlib.sha256(key.encode()).hexdigest()
    assert key not in str(row)
    (known,) = list_keys(database, "acme")
    assert (known.id, known.name, known.scopes) == (key[3:11], "the scanner", sorted(access.scopes))
    assert list_keys(database, "other") == []


def test_admin_includes_all_scopes(database: Database) -> None:
    access = authenticate(database, create_key(database, scopes=["admin"]))
    assert access.tenant == "default"
    assert all(access.allows(scope) for scope in Scope)


def test_invalid_expired_and_revoked_keys_are_refused(database: Database) -> None:
    good = create_key(database)
    expired = create_key(database, expires_in_days=1)
    with database.begin() as connection:
        where = api_keys.c.id == expired[3:11]
        connection.execute(update(api_keys).where(where).values(expires_at=now(-1)))
    revoked, by_all = create_key(database), create_key(database)
    revoke_key(database, revoked[3:11])
    revoke_key(database, by_all)
    unknown = create_key(database)
    with database.begin() as connection:
        connection.execute(api_keys.delete().where(api_keys.c.id == unknown[3:11]))
    another_secret = good[:12] + expired[12:]
    # The message doesn't reveal which keys exist.
    for key in (expired, revoked, by_all, unknown, another_secret, "", "lo_", good + "x", "é" * 44):
        with pytest.raises(AccessError, match="unknown, expired or revoked"):
            authenticate(database, key)
    assert authenticate(database, good).tenant == "default"


def test_invalid_values_of_new_keys_are_refused(database: Database) -> None:
    with pytest.raises(AccessError, match="there is no scope 'documents:delete'"):
        create_key(database, scopes=["documents:read", "documents:delete"])
    with pytest.raises(AccessError, match="needs at least one scope"):
        create_key(database, scopes=[])
    with pytest.raises(AccessError, match="more than 0"):
        create_key(database, expires_in_days=0)
    for tenant in ("", "../other", "a/b", "Acme", "x" * 64):
        with pytest.raises(AccessError, match="is not a valid tenant name"):
            create_key(database, tenant)
    with pytest.raises(AccessError, match="there is no key"):
        revoke_key(database, "abcdefgh")
    assert list_keys(database) == []


def test_limits_apply_to_one_tenant(database: Database) -> None:
    set_limits(database, "acme", {"max_unfinished": 3, "max_bytes": None})
    with database.read() as connection:
        row = connection.execute(select(tenants).where(tenants.c.id == "acme")).one()
    assert (row.max_unfinished, row.max_bytes, row.weight) == (3, None, 1.0)
    with pytest.raises(AccessError, match="unknown limits: max_document"):
        set_limits(database, "acme", {"max_document": 3})


def test_without_a_key_only_loopback_is_allowed(database: Database) -> None:
    require_key(database, "127.0.0.1")
    require_key(database, "::1")
    for host in ("0.0.0.0", "", "::", "10.0.0.1"):
        with pytest.raises(AccessError, match="no API key"):
            require_key(database, host)
    key = create_key(database)
    require_key(database, "0.0.0.0")
    revoke_key(database, key)
    with pytest.raises(AccessError, match="no API key"):
        require_key(database, "0.0.0.0")
