"""buildah, as root and without a daemon, with storage of its own."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Buildah:
    """Images and containers below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._command = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "storage")]
        self._command += ["--runroot", str(folder / "run")]
        self._environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}

    def command(self, *arguments: str) -> list[str]:
        return [*self._command, *arguments]

    def __call__(self, *arguments: str, **environment: str) -> str:
        """What it prints; raises CalledProcessError with what it said."""
        done = subprocess.run(
            self.command(*arguments),
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"buildah {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def start(
        self, container: str, command: Sequence[str], *options: str
    ) -> "subprocess.Popen[str]":
        """A command in the container, as its user."""
        return subprocess.Popen(
            self.command("run", *options, container, "--", *command),
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def import_base(self, rootfs: Path, name: str) -> None:
        """Make an image of a root file system."""
        container = self("from", "scratch")
        self("add", "--quiet", container, str(rootfs), "/")
        # uv brings authorities of its own, unless it is told where others are.
        trusted = "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
        self("config", "--env", trusted, "--cmd", "python3", container)
        self("commit", "--quiet", "--rm", container, name)

    def configuration(self, image: str) -> dict[str, Any]:
        """What the image says of itself, as OCI has it."""
        inspected: dict[str, Any] = json.loads(self("inspect", "--type", "image", image))
        configuration: dict[str, Any] = inspected["OCIv1"]["config"]
        return configuration

    @contextmanager
    def container(self, image: str) -> Iterator[str]:
        """A container of the image, gone afterwards."""
        container = self("from", "--pull-never", image)
        try:
            yield container
        finally:
            self("rm", container)
