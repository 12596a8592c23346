"""The service's database: addresses, migrations, transactions and failures."""

import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import func, inspect, select

from llm_ocr.service import database as database_module
from llm_ocr.service.database import Database, DatabaseError, now
from llm_ocr.service.documents import load_document
from llm_ocr.service.schema import metadata, tenants
from llm_ocr.service.work_queue import WorkQueue
from tests.servers.ports import free_port
from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.service.document_rows import queue

MIGRATIONS = Path(database_module.__file__).with_name("migrations")
MIGRATE = (
    "import sys; from llm_ocr.service.database import Database; Database(sys.argv[1]).migrate()"
)


def test_migrating_again_changes_nothing(database: Database) -> None:
    document_id = queue(database)
    database.migrate()
    assert load_document(database, "default", document_id).id == document_id


def test_the_migrations_create_the_tables_of_the_schema(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        # Alembic doesn't compare check constraints and the order of index columns.
        found = inspect(connection)
        for table in metadata.sorted_tables:
            checks = {constraint["name"] for constraint in found.get_check_constraints(table.name)}
            declared = {
                constraint.name
                for constraint in table.constraints
                if type(constraint).__name__ == "CheckConstraint"
            }
            assert checks == declared, table.name
            for index in table.indexes:
                (made,) = (i for i in found.get_indexes(table.name) if i["name"] == index.name)
                names = made.get("expressions") or made["column_names"]
                assert [str(name) for name in names] == [
                    str(getattr(expression, "element", expression)).removeprefix(f"{table.name}.")
                    for expression in index.expressions
                ], index.name


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_concurrent_migrations(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = str(tmp_path / "new" / "service.sqlite")
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql").create("migrated_at_once")
    (tmp_path / "new").mkdir()
    processes = [
        subprocess.Popen([sys.executable, "-c", MIGRATE, url], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, errors
    database = Database(url)
    with database.read() as connection:
        assert "documents" in inspect(connection).get_table_names()
    database.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_migrating_keeps_all_rows(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From the first version: a document keeps what refers to it."""
    url = str(tmp_path / "old.sqlite")
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql").create("migrated_from_first")
    database = Database(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with database.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql(
            "INSERT INTO tenants (id, created_at, weight) VALUES ('a', '2026-01-01 00:00:00', 1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO documents (id, tenant, name, pipeline, pipeline_revision, metadata, "
            "priority, state, created_at, pages_done, generations, attempts, worker_deaths, "
            "worker_stalls, fencing_token) VALUES ('doc_1', 'a', 'scan.pdf', 'markdown', '1', "
            "'{}', 0, 'succeeded', '2026-01-01 00:00:00', 1, '{}', 1, 0, 0, 1)"
        )
        connection.exec_driver_sql(
            "INSERT INTO files (document_id, position, name, path) "
            "VALUES ('doc_1', 0, 'scan.pdf', 'x')"
        )
    database.migrate()
    document = load_document(database, "a", "doc_1")
    assert (document.state, document.row["parent"], document.children) == ("succeeded", None, [])
    assert [file.name for file in document.files] == ["scan.pdf"]
    database.close()


def test_tables_of_a_newer_version_are_refused(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseError, match="a newer llm_ocr created its tables"):
        database.migrate()


def test_failed_transactions_are_rolled_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        with database.begin() as connection:
            connection.execute(tenants.insert().values(id="new", created_at=now()))
            raise ZeroDivisionError
    with database.read() as connection:
        assert connection.scalar(select(func.count()).where(tenants.c.id == "new")) == 0


def test_times_are_equal_on_both_databases(database: Database) -> None:
    with database.read() as connection:
        earlier, at, later = connection.execute(select(now(-1.5), now(), now(90))).one()
        assert connection.scalar(select(now(-0.5) < now())) in (True, 1)
    assert (at - earlier).total_seconds() == pytest.approx(1.5, abs=0.01)
    assert (later - at).total_seconds() == pytest.approx(90, abs=0.01)
    assert at.utcoffset().total_seconds() == 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://user:hidden@host/name", "mysql:// is not supported; use postgresql://"),
        ("postgresql+asyncpg://user:hidden@host/name", "is not supported; use postgresql://"),
        ("postgresql://user:hidden@host:port/name", "can't be parsed; use postgresql://"),
        ("sqlite://", "SQLite needs a file"),
        ("/proc/nowhere/service.sqlite", "/proc/nowhere can't be created for the database"),
    ],
)
def test_invalid_addresses(url: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message) as raised:
        Database(url)
    assert "hidden" not in str(raised.value)
    assert raised.value.__cause__ is None or "hidden" not in str(raised.value.__cause__)


@pytest.mark.parametrize(
    "rest", ["user:hidden@127.0.0.1:{}/name", "127.0.0.1:{}/name?user=user&password=hidden"]
)
def test_unreachable_databases(rest: str) -> None:
    database = Database(f"postgresql://{rest.format(free_port())}")
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:.*refused") as raised:
        database.migrate()
    assert "hidden" not in str(raised.value)
    assert "hidden" not in database.name


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("What is written here is no database, and longer than a head of one is. " * 9)
    with pytest.raises(DatabaseError, match=r"notes\.txt: file is not a database"):
        Database(str(path)).migrate()


def test_a_wrong_password_is_not_shown(postgresql: PostgresqlServer) -> None:
    database = Database(postgresql.url("migrated").replace(PASSWORD, "hidden"))
    with pytest.raises(DatabaseError, match="password authentication failed") as raised:
        database.migrate()
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("how", ["restart", "crash"])
def test_postgresql_restarts_under_a_pool(
    database: Database, postgresql: PostgresqlServer, how: str
) -> None:
    """The open transaction fails; later ones work again."""
    document_id = queue(database)
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(1)
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1"):
        with database.begin() as connection:
            connection.execute(tenants.insert().values(id="lost", created_at=now()))
            postgresql.stop() if how == "restart" else postgresql.kill()
            connection.execute(select(tenants))
    with pytest.raises(DatabaseError, match="refused"):
        a.renew_leases({document_id: claimed.fencing_token})
    postgresql.start()
    assert a.renew_leases({document_id: claimed.fencing_token}) == {document_id: False}
    with database.read() as connection:
        assert connection.scalar(select(func.count()).where(tenants.c.id == "lost")) == 0


def test_reads_do_not_wait_for_writers(database: Database) -> None:
    document_id = queue(database)
    found: list[str] = []
    with database.begin() as connection:
        connection.execute(tenants.insert().values(id="new", created_at=now()))

        def read() -> None:
            found.append(load_document(database, "default", document_id).id)

        reader = threading.Thread(target=read)
        reader.start()
        reader.join(10)
    assert found == [document_id]
    reader.join()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_process_that_is_frozen_in_a_transaction_loses_its_locks(database: Database) -> None:
    """Otherwise a frozen worker would block all others at the rows that it has locked."""
    with database.read() as connection:
        set_to = connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one()
        assert set_to == "10s"
    with pytest.raises(DatabaseError, match=r"idle-in-transaction|connection"):
        with database.begin() as connection:
            connection.exec_driver_sql("SET idle_in_transaction_session_timeout = '20ms'")
            connection.execute(tenants.update().values(weight=2.0))
            # Until the server has terminated the session, as it would that of a frozen process.
            with pytest.raises(psycopg.OperationalError):
                while True:
                    threading.Event().wait(0.05)
                    connection.connection.cursor().execute("SELECT 1")
            connection.execute(select(tenants))
    with database.begin() as connection:
        connection.execute(tenants.update().values(weight=3.0))
