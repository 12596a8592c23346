"""Buckets on the Hugging Face Hub: files without commits, many writes at a time.

The Hub has no way to write a file of a bucket unless it is there. `create` is made from what the
Hub orders: each caller writes a claim, an object of its own that holds what it wants to create,
under `PATH.claims/`. After a pause it lists the claims; the one that the Hub received first (by the
Hub's own time, ties by name) is the object at PATH, from then on, for everybody. This assumes that
a file is listed once its upload was answered, and that the Hub's clocks are less than
`SETTLE_SECONDS` apart.
"""

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from huggingface_hub import BucketFile

from llm_ocr.storage.hub_address import HubAddress
from llm_ocr.storage.hub_client import Client, Download
from llm_ocr.storage.protocol import StorageError, StoredObject
from llm_ocr.storage.ranges import reader

SETTLE_SECONDS = 0.5

_CLAIM = re.compile(r"(?P<path>.+)\.claims/[0-9a-f]{32}")


class HubBucket:
    """What lies below a folder of a bucket, or in all of it."""

    def __init__(self, address: HubAddress) -> None:
        self.uri, self.name = address.uri, address.name
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._client = Client(self.uri, "bucket", self.name)
        self._api = self._client.api

    @property
    def folder(self) -> Path | None:
        return None

    def make(self, private: bool) -> None:
        """Create the bucket unless it is there."""
        self._client.ask(lambda: self._api.create_bucket(self.name, private=private, exist_ok=True))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        plain: set[str] = set()
        claims: dict[str, list[BucketFile]] = {}
        for file in self._below(prefix):
            claim = _CLAIM.fullmatch(file.path)
            if claim is None:
                plain.add(file.path)
                yield self._stored(file, file.path)
            else:
                claims.setdefault(claim["path"], []).append(file)
        for path, several in claims.items():
            if path not in plain:
                yield self._stored(_first(several), path)

    def exists(self, path: str) -> bool:
        return self._found(path) is not None

    def look(self, path: str) -> StoredObject:
        return self._stored(self._needed(path), self._at(path))

    def get(self, path: str) -> bytes:
        try:
            return self._download(self._at(path)).whole()
        except FileNotFoundError:
            claimed = self._claimed(path)
            if claimed is None:
                raise
            return self._download(claimed.path).whole()

    def open(self, path: str) -> BinaryIO:
        found = self._needed(path)
        return reader(found.size, self._download(found.path).range)

    def put(self, path: str, data: bytes | Path) -> None:
        self.put_many({path: data}, "")

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        add: list[tuple[str | Path | bytes, str]] = [
            (data, self._at(path)) for path, data in files.items()
        ]
        self._client.ask(lambda: self._api.batch_bucket_files(self.name, add=add))

    def create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        mine = f"{path}.claims/{uuid.uuid4().hex}"
        self.put(mine, data)
        time.sleep(SETTLE_SECONDS)
        first = self._claimed(path)
        if first is not None and first.path == self._at(mine):
            return True
        self.delete([mine])
        return False

    def copy(self, source: str, path: str) -> None:
        found = self._needed(source)
        copied = ("bucket", self.name, found.xet_hash, self._at(path))
        self._client.ask(lambda: self._api.batch_bucket_files(self.name, copy=[copied]))

    def delete(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        if not wanted:
            return
        gone = [*map(self._at, wanted), *self._claims_of(wanted)]
        self._client.ask(lambda: self._api.batch_bucket_files(self.name, delete=gone))

    def sole_writer(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _below(self, folder: str) -> Sequence[BucketFile]:
        """The files, claims among them, whose paths lie below a folder."""
        prefix = self._at(folder).rstrip("/")

        def files() -> Sequence[BucketFile]:
            found = self._api.list_bucket_tree(self.name, prefix or None, recursive=True)
            return [one for one in found if isinstance(one, BucketFile)]

        with suppress(FileNotFoundError):
            within = f"{prefix}/" if prefix else ""
            return [one for one in self._client.ask(files) if one.path.startswith(within)]
        return []

    def _found(self, path: str) -> BucketFile | None:
        asked = [self._at(path)]
        plain = self._client.ask(lambda: [*self._api.get_bucket_paths_info(self.name, asked)])
        return plain[0] if plain else self._claimed(path)

    def _needed(self, path: str) -> BucketFile:
        found = self._found(path)
        if found is None:
            raise FileNotFoundError(f"{self.uri}/{path}")
        return found

    def _claimed(self, path: str) -> BucketFile | None:
        claims = self._below(f"{path}.claims")
        if any(one.uploaded_at is None for one in claims):
            raise StorageError(
                f"{self.uri}: the Hub doesn't say when {path} was uploaded, so that workers can't "
                "share a run there; give --staging s3://… or gs://…"
            )
        return _first(claims) if claims else None

    def _claims_of(self, paths: Iterable[str]) -> Iterator[str]:
        """The claims of several paths; those of one folder by one listing."""
        for folder, group in groupby(sorted(paths, key=_folder), key=_folder):
            several = list(group)
            wanted = {self._at(path) for path in several}
            if folder and len(several) > 1:
                files = self._below(folder)
            else:
                files = [one for path in several for one in self._below(f"{path}.claims")]
            for file in files:
                claim = _CLAIM.fullmatch(file.path)
                if claim is not None and claim["path"] in wanted:
                    yield file.path

    def _download(self, path: str) -> Download:
        return self._client.download(
            f"{self._api.endpoint}/buckets/{self.name}/resolve/{quote(path)}"
        )

    def _stored(self, file: BucketFile, path: str) -> StoredObject:
        return StoredObject(path.removeprefix(self._prefix), file.size, file.xet_hash)

    def _at(self, path: str) -> str:
        return self._prefix + path


def _first(claims: Iterable[BucketFile]) -> BucketFile:
    return min(claims, key=lambda one: (str(one.uploaded_at), one.path))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
