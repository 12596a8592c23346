"""Connect to the service's database, PostgreSQL or SQLite, and bring its tables up to date."""

import math
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Double, Engine, create_engine, event, literal
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from llm_ocr.messages import CodedError, MissingExtraError, how_to_install
from llm_ocr.service.schema import Timestamp

# Seconds to wait for a lock, and for a connection.
LOCK_SECONDS = 30
CONNECT_SECONDS = 10
# Seconds after which PostgreSQL ends an idle transaction: a process that is frozen within one would
# otherwise keep its locks and block all others.
IDLE_SECONDS = 10
POOL_SIZE = 5
_READ_ONLY = "llm_ocr_read_only"


class DatabaseError(CodedError):
    """The database can't be used: its address is wrong, or it is unreachable. The message says
    which, and doesn't contain the password."""


class now(FunctionElement[Any]):
    """The database's current time, plus seconds: `now()`, `now(30.0)`. Workers' clocks may differ.

    It is constant within a statement, so that comparisons with it can use an index.
    """

    type = Timestamp()
    inherit_cache = True

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(literal(float(seconds), Double()))


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: Any, **options: Any) -> str:  # noqa: ANN401
    seconds = compiler.process(element.clauses, **options)
    return f"(statement_timestamp() + make_interval(secs => {seconds}))"


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: Any, **options: Any) -> str:  # noqa: ANN401
    seconds = compiler.process(element.clauses, **options)
    shifted = f"printf('%+.3f seconds', {seconds})"
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {shifted}) || '000')"


class Database:
    """A pool of connections: `with database.begin() as connection: connection.execute(...)`.

    `url` is `postgresql://USER:PASSWORD@HOST/NAME`, `sqlite:///FILE`, or a file's path. Its methods
    block: async code calls them in threads. Raises DatabaseError.
    """

    def __init__(self, url: str) -> None:
        self._url = _parse_url(url)
        self._engine = _create_engine(self._url)
        self._failed_at = -math.inf

    @property
    def name(self) -> str:
        """The database's address, without password and options."""
        return self._url.set(query={}).render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A write transaction: committed at the end, rolled back on an exception.

        SQLite allows one at a time: don't wait for anything else within it.
        """
        with self._errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read-only transaction; on SQLite it doesn't wait for writers."""
        options = {_READ_ONLY: True}
        with self._errors(), self._engine.execution_options(**options).begin() as connection:
            yield connection

    @property
    def seconds_since_failure(self) -> float:
        """Seconds since this process last failed to use the database; infinite if it never did."""
        return time.monotonic() - self._failed_at

    def migrate(self) -> None:
        """Create the tables, or migrate them to this version. Processes may call it concurrently.

        Raises DatabaseError if a newer version has created the tables.
        """
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
        with self.begin() as connection:
            if not self.is_sqlite:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4711170018)")
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                problem = "a newer llm_ocr created its tables; update llm_ocr"
                raise DatabaseError(f"{self.name}: {problem} ({error})") from error

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            problem = _why_unusable(error)
            if problem is None:
                raise
            self._failed_at = time.monotonic()
            raise DatabaseError(f"{self.name}: {problem}") from error


def _why_unusable(error: DBAPIError | PoolTimeoutError) -> str | None:
    """Why the database can't be used; None if the statement itself is wrong."""
    if isinstance(error, PoolTimeoutError):
        return "all connections of this process are in use"
    reason = str(error.orig).strip().split("\n")[0] or type(error.orig).__name__
    is_no_database = isinstance(
        error.orig, sqlite3.DatabaseError
    ) and error.orig.sqlite_errorcode in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    if isinstance(error, OperationalError) or error.connection_invalidated or is_no_database:
        return reason
    return None


def _parse_url(url: str) -> URL:
    if "://" not in url:
        url = f"sqlite:///{Path(url).expanduser().absolute()}"
    supported = "use postgresql://USER:PASSWORD@HOST/NAME or sqlite:///FILE"
    try:
        parsed = make_url(re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url))
    except (ArgumentError, ValueError):
        # The original error contains the password.
        raise DatabaseError(f"the database's address can't be parsed; {supported}") from None
    if parsed.drivername not in ("postgresql+psycopg", "sqlite"):
        raise DatabaseError(f"{parsed.drivername}:// is not supported; {supported}")
    if parsed.drivername == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise DatabaseError(f"SQLite needs a file, which all processes share; {supported}")
    return parsed


def _create_engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        folder = Path(url.database or "").parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseError(
                f"the folder {folder} can't be created for the database: {error.strerror}"
            ) from error
        engine = create_engine(url, connect_args={"timeout": LOCK_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        # Otherwise a transaction that first reads and then writes may find the database locked.
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = create_engine(
            url,
            pool_size=POOL_SIZE,
            pool_pre_ping=True,
            connect_args={"connect_timeout": CONNECT_SECONDS},
        )
    except ModuleNotFoundError as error:
        problem = f"PostgreSQL needs the package {error.name}, which is not installed"
        raise MissingExtraError(f"{problem}: {how_to_install('service')}") from error
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _set_up_postgresql(connection: Any, _: Any) -> None:  # noqa: ANN401
    limits = {"lock_timeout": LOCK_SECONDS, "idle_in_transaction_session_timeout": IDLE_SECONDS}
    for name, seconds in limits.items():
        connection.execute(f"SET {name} = '{seconds}s'")
    connection.commit()


def _set_up_sqlite(connection: Any, _: Any) -> None:  # noqa: ANN401
    # SQLAlchemy begins transactions; the driver must not.
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    is_read_only = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")
