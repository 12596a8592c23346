"""A real PostgreSQL server for tests, in its own folder and on a free port."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.servers.ports import free_port, wait_for

SERVER_USER = "postgres"
USER, PASSWORD = "service", "secret-of-the-tests"
# Durability after a power failure doesn't matter here; after a kill, nothing is lost even so.
OPTIONS = ("fsync=off", "full_page_writes=off", "max_connections=300", "shared_buffers=64MB")
MISSING = (
    "real PostgreSQL is not installed: `apt-get install postgresql` as root, or put it on PATH"
)


def find_postgresql() -> Path | None:
    """The folder of PostgreSQL's programs: from PATH, or Debian's newest. None if there is none, or
    if root has no user `postgres` to run it as."""
    if os.geteuid() == 0 and not _has_server_user():
        return None
    if found := shutil.which("initdb"):
        return Path(found).parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in folders), key=_version, default=None)


def _version(folder: Path) -> float:
    return float(folder.parent.name)


def _has_server_user() -> bool:
    return any(entry.pw_name == SERVER_USER for entry in pwd.getpwall())


class PostgresqlServer:
    """A PostgreSQL cluster in `folder`, which its user must be able to access. Data survives
    `restart`."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        # PostgreSQL refuses to run as root.
        self._user = SERVER_USER if os.geteuid() == 0 else None
        self._initialize()
        for attempts_left in (2, 1, 0):
            self._port = free_port()
            try:
                self.start()
            except RuntimeError:
                # Another process may have taken the port in the meantime.
                if not attempts_left:
                    raise
            else:
                break

    def url(self, name: str = "postgres") -> str:
        """The URL of one of its databases."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self._port}/{name}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def create(self, name: str, template: str = "template1") -> str:
        """Copy a database, to which nobody is connected, to a new one; returns its URL."""
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        options = [f"port={self._port}", f"unix_socket_directories={self._folder}", *OPTIONS]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    *("-D", str(self._folder / "data")),
                    *(word for option in options for word in ("-c", option)),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._folder,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else (),
            )
        try:
            wait_for(self._port, self._process)
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop it like `systemctl stop`: open transactions are rolled back."""
        self._stop(signal.SIGINT)

    def kill(self) -> None:
        """Stop it like a crash: the next start runs recovery."""
        self._stop(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _initialize(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if self._user is not None:
            for path in (self._folder, password):
                shutil.chown(path, self._user, self._user)
        self._run(
            "initdb",
            *("-D", str(self._folder / "data"), "--no-sync", "--username", USER),
            *("--auth", "scram-sha-256", "--pwfile", str(password)),
            *("--encoding", "UTF8", "--locale", "C"),
        )

    def _wait_until_ready(self) -> None:
        """Wait for a connection: after a crash the server listens before it has recovered."""
        for _ in range(600):
            try:
                psycopg.connect(self.url(), connect_timeout=10).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    raise RuntimeError(
                        f"PostgreSQL exited with {self._process.returncode}"
                    ) from None
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("PostgreSQL does not respond")

    def _stop(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            capture_output=True,
            cwd=self._folder,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else (),
        )


@contextmanager
def serving_postgresql() -> Iterator[PostgresqlServer]:
    """A server, which is removed with its data at the end. `find_postgresql` tells whether it is
    available."""
    programs = find_postgresql()
    assert programs is not None, MISSING
    # Not below pytest's folders, which other users can't access.
    with tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        server = PostgresqlServer(programs, Path(folder))
        try:
            yield server
        finally:
            server.kill()


def describe_missing() -> Sequence[str]:
    """The note of `make test` if PostgreSQL wasn't tested."""
    return () if find_postgresql() else (f"PostgreSQL was not tested: {MISSING}",)


if __name__ == "__main__":
    print(*describe_missing(), sep="\n", end="")
