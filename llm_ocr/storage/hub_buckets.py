"""Buckets on the Hugging Face Hub as stores: files without commits, written in parallel.

The Hub has no put-if-absent for buckets. `create` is built from upload times: each caller uploads
a claim, a separate object under `PATH.claims/` with the content that it wants to create. After a
pause it lists the claims; the one that the Hub received first (by the Hub's clock, ties by name) is
from then on the object at PATH for everyone. This assumes that a file is listed once its upload has
been acknowledged, and that the Hub's clocks are less than `SETTLE_SECONDS` apart.
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

from llm_ocr.messages import ProblemCode
from llm_ocr.storage.hub_address import HubAddress
from llm_ocr.storage.hub_client import Download, HubClient
from llm_ocr.storage.protocol import StorageError, StoredObject
from llm_ocr.storage.ranges import open_ranges

SETTLE_SECONDS = 0.5

_CLAIM = re.compile(r"(?P<path>.+)\.claims/[0-9a-f]{32}")


class HubBucketStore:
    """The files of a bucket, or of a folder in it."""

    def __init__(self, address: HubAddress) -> None:
        self.uri, self.name = address.uri, address.name
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._client = HubClient(self.uri, "bucket", self.name)
        self._api = self._client.api

    @property
    def folder(self) -> Path | None:
        return None

    def create_repository(self, private: bool) -> None:
        """Create the bucket if it is missing."""
        self._client.request(
            lambda: self._api.create_bucket(self.name, private=private, exist_ok=True)
        )

    def list(self, prefix: str) -> Iterator[StoredObject]:
        plain: set[str] = set()
        claims: dict[str, list[BucketFile]] = {}
        for file in self._list_files(prefix):
            claim = _CLAIM.fullmatch(file.path)
            if claim is None:
                plain.add(file.path)
                yield self._to_stored_object(file, file.path)
            else:
                claims.setdefault(claim["path"], []).append(file)
        for path, path_claims in claims.items():
            if path not in plain:
                yield self._to_stored_object(_earliest(path_claims), path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def stat(self, path: str) -> StoredObject:
        return self._to_stored_object(self._require(path), self._full_path(path))

    def get(self, path: str) -> bytes:
        try:
            return self._download(self._full_path(path)).read()
        except FileNotFoundError:
            claim = self._winning_claim(path)
            if claim is None:
                raise
            return self._download(claim.path).read()

    def open(self, path: str) -> BinaryIO:
        found = self._require(path)
        return open_ranges(found.size, self._download(found.path).read_range)

    def put(self, path: str, data: bytes | Path) -> None:
        self.put_many({path: data}, "")

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        add: list[tuple[str | Path | bytes, str]] = [
            (data, self._full_path(path)) for path, data in files.items()
        ]
        self._client.request(lambda: self._api.batch_bucket_files(self.name, add=add))

    def create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        mine = f"{path}.claims/{uuid.uuid4().hex}"
        self.put(mine, data)
        time.sleep(SETTLE_SECONDS)
        first = self._winning_claim(path)
        if first is not None and first.path == self._full_path(mine):
            return True
        self.delete([mine])
        return False

    def copy(self, source: str, path: str) -> None:
        found = self._require(source)
        copied = ("bucket", self.name, found.xet_hash, self._full_path(path))
        self._client.request(lambda: self._api.batch_bucket_files(self.name, copy=[copied]))

    def delete(self, paths: Iterable[str]) -> None:
        requested = list(paths)
        if not requested:
            return
        deleted = [*map(self._full_path, requested), *self._list_claims(requested)]
        self._client.request(lambda: self._api.batch_bucket_files(self.name, delete=deleted))

    def exclusive_lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _list_files(self, folder: str) -> Sequence[BucketFile]:
        """The files below a folder, including claims."""
        prefix = self._full_path(folder).rstrip("/")

        def files() -> Sequence[BucketFile]:
            found = self._api.list_bucket_tree(self.name, prefix or None, recursive=True)
            return [entry for entry in found if isinstance(entry, BucketFile)]

        with suppress(FileNotFoundError):
            within = f"{prefix}/" if prefix else ""
            return [file for file in self._client.request(files) if file.path.startswith(within)]
        return []

    def _find(self, path: str) -> BucketFile | None:
        full_paths = [self._full_path(path)]
        plain = self._client.request(
            lambda: [*self._api.get_bucket_paths_info(self.name, full_paths)]
        )
        return plain[0] if plain else self._winning_claim(path)

    def _require(self, path: str) -> BucketFile:
        found = self._find(path)
        if found is None:
            raise FileNotFoundError(f"{self.uri}/{path}")
        return found

    def _winning_claim(self, path: str) -> BucketFile | None:
        claims = self._list_files(f"{path}.claims")
        if any(claim.uploaded_at is None for claim in claims):
            raise StorageError(
                f"{self.uri}: the Hub doesn't report when {path} was uploaded, so workers can't "
                "share a run there",
                ProblemCode.NO_UPLOAD_TIMES,
            )
        return _earliest(claims) if claims else None

    def _list_claims(self, paths: Iterable[str]) -> Iterator[str]:
        """The claims of several paths; one listing per folder."""
        for folder, group in groupby(sorted(paths, key=_folder), key=_folder):
            several = list(group)
            requested = {self._full_path(path) for path in several}
            if folder and len(several) > 1:
                files = self._list_files(folder)
            else:
                files = [file for path in several for file in self._list_files(f"{path}.claims")]
            for file in files:
                claim = _CLAIM.fullmatch(file.path)
                if claim is not None and claim["path"] in requested:
                    yield file.path

    def _download(self, path: str) -> Download:
        return self._client.download(
            f"{self._api.endpoint}/buckets/{self.name}/resolve/{quote(path)}"
        )

    def _to_stored_object(self, file: BucketFile, path: str) -> StoredObject:
        return StoredObject(path.removeprefix(self._prefix), file.size, file.xet_hash)

    def _full_path(self, path: str) -> str:
        return self._prefix + path


def _earliest(claims: Iterable[BucketFile]) -> BucketFile:
    return min(claims, key=lambda claim: (str(claim.uploaded_at), claim.path))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
