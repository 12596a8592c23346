"""Databases for the tests of the service: each test gets a fresh one, on SQLite and PostgreSQL."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import tenants
from tests.servers.postgresql import (
    MISSING,
    PostgresqlServer,
    find_postgresql,
    serving_postgresql,
)

TENANTS = ("default", "other")
_numbers = count(1)


# The server stops after the tests of this package: other tests count processes.
@pytest.fixture(scope="package")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server whose database `migrated` has the service's tables."""
    if find_postgresql() is None:
        pytest.skip(MISSING)
    with serving_postgresql() as server:
        _migrate(server.create("migrated"))
        yield server


@pytest.fixture(scope="package")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the service's tables, to copy."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated"
    _migrate(str(path))
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh database with the service's tables, for processes."""
    with fresh_database(request.param, request, tmp_path) as url:
        yield url


@contextmanager
def fresh_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The address of a database of this kind; SQLite's is a file in `folder`."""
    if kind == "sqlite":
        path = folder / "service.sqlite"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    name = f"test_{next(_numbers)}"
    yield server.create(name, template="migrated")
    server.drop(name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh database with the service's tables and the tenants of `TENANTS`."""
    database = Database(database_url)
    yield database
    database.close()


def _migrate(url: str) -> None:
    database = Database(url)
    database.migrate()
    with database.begin() as connection:
        connection.execute(
            tenants.insert().values([{"id": name, "created_at": now()} for name in TENANTS])
        )
    database.close()
