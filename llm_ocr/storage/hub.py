"""Dataset repositories on the Hugging Face Hub: every write is a commit."""

import hashlib
import io
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, TypeAlias

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    hf_hub_url,
)
from huggingface_hub.hf_api import RepoFile

from llm_ocr.storage.hub_address import BUCKETS, HubAddress, parse_hub
from llm_ocr.storage.hub_buckets import HubBucket
from llm_ocr.storage.hub_client import Client, Download, MovedError
from llm_ocr.storage.protocol import StorageError, Store, StoredObject
from llm_ocr.storage.ranges import reader

BRANCH = "main"
KIND = "dataset"
CHUNK = 1 << 20
Addition: TypeAlias = CommitOperationAdd
Deletion: TypeAlias = CommitOperationDelete
Operation: TypeAlias = CommitOperationAdd | CommitOperationDelete | CommitOperationCopy


def open_hub(uri: str) -> Store:
    """The store at `hf://datasets/ORG/NAME[@REVISION][/FOLDER]` or `hf://buckets/ORG/NAME[/…]`.

    A revision is fixed to the commit that it is now, and can't be written to.
    """
    address = parse_hub(uri)
    return HubBucket(address) if address.kind == BUCKETS else HubDataset(address)


def make_place(uri: str, private: bool) -> None:
    """Create the repository or bucket at a URI unless it is there."""
    address = parse_hub(uri)
    place = HubBucket(address) if address.kind == BUCKETS else HubDataset(address)
    place.make(private)


class HubDataset:
    """A dataset repository's files on `main`, or those of the one commit that a revision is."""

    def __init__(self, address: HubAddress) -> None:
        self.uri, self.name = address.uri, address.name
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._client = Client(self.uri, KIND, self.name)
        self._api = self._client.api
        self._commit = self._sha_of(address.revision) if address.revision else None

    @property
    def folder(self) -> Path | None:
        return None

    def head(self) -> str:
        """The commit that `main` is at."""
        return self._sha_of(BRANCH)

    def at(self, commit: str) -> "HubDataset":
        """The files of one commit, whatever others do meanwhile."""
        return HubDataset(parse_hub(f"hf://datasets/{self.name}@{commit}/{self._prefix}"))

    def make(self, private: bool) -> None:
        """Create the repository unless it is there."""
        self._client.ask(
            lambda: self._api.create_repo(self.name, repo_type=KIND, private=private, exist_ok=True)
        )

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = self._at(prefix).rstrip("/") or None

        def entries() -> Sequence[RepoFile]:
            found = self._api.list_repo_tree(
                self.name, folder, recursive=True, revision=self._revision, repo_type=KIND
            )
            return [one for one in found if isinstance(one, RepoFile)]

        try:
            yield from map(self._stored, self._client.ask(entries))
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        return bool(self._looked([path]))

    def look(self, path: str) -> StoredObject:
        found = self._looked([path])
        if not found:
            raise FileNotFoundError(f"{self.uri}/{path}")
        return found[0]

    def get(self, path: str) -> bytes:
        return self._download(path).whole()

    def open(self, path: str) -> BinaryIO:
        return reader(self.look(path).size, self._download(path).range)

    def put(self, path: str, data: bytes | Path) -> None:
        self.put_many({path: data}, f"Write {path}")

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        self._commit_anyhow([self.addition(path, data) for path, data in files.items()], message)

    def create(self, path: str, data: bytes) -> bool:
        message = f"Create {path} ({uuid.uuid4().hex})"
        while True:
            head = self.head()
            if self.at(head).exists(path):
                return False
            try:
                self.commit([self.addition(path, data)], message, parent=head)
            except MovedError:
                # By another's commit, or by this one, whose answer was lost.
                if self._has_commit(message):
                    return True
                continue
            return True

    def copy(self, source: str, path: str) -> None:
        operation = CommitOperationCopy(self._at(source), self._at(path))
        self._commit_anyhow([operation], f"Copy {source} to {path}")

    def delete(self, paths: Iterable[str]) -> None:
        # The Hub refuses a commit that deletes what isn't there.
        there = [found.path for found in self._looked(list(paths))]
        if there:
            self._commit_anyhow([self.deletion(path) for path in there], "Delete files")

    def sole_writer(self) -> AbstractContextManager[None]:
        return nullcontext()

    def addition(self, path: str, data: bytes | Path) -> Addition:
        return Addition(self._at(path), data)

    def deletion(self, path: str) -> Deletion:
        return Deletion(self._at(path))

    def upload(self, additions: Sequence[Addition]) -> None:
        """Bring large files to the Hub for a commit to come; no reader sees them before.

        A file that is there by then is removed from this machine's disk.
        """
        self._writable()
        self._client.ask(
            lambda: self._api.preupload_lfs_files(
                self.name, additions, repo_type=KIND, free_memory=False
            )
        )
        for addition in additions:
            # The one thing that says so. Small files go with the commit itself.
            if addition._is_uploaded:
                Path(str(addition.path_or_fileobj)).unlink()

    def commit(self, operations: Sequence[Operation], message: str, parent: str | None) -> str:
        """One commit, by its SHA. Raises MovedError if `main` isn't at `parent` any more."""
        self._writable()
        done = self._client.ask(
            lambda: self._api.create_commit(
                self.name,
                operations,
                commit_message=message,
                parent_commit=parent,
                repo_type=KIND,
                revision=BRANCH,
            )
        )
        return str(done.oid)

    def _commit_anyhow(self, operations: Sequence[Operation], message: str) -> None:
        while True:
            try:
                self.commit(operations, message, parent=None)
            except MovedError:
                continue
            return

    def _has_commit(self, title: str) -> bool:
        commits = self._client.ask(lambda: self._api.list_repo_commits(self.name, repo_type=KIND))
        return any(one.title == title for one in commits)

    def _writable(self) -> None:
        if self._commit is not None:
            raise StorageError(
                f"{self.uri}: a revision can't be written to; leave out what follows @"
            )

    @property
    def _revision(self) -> str:
        return self._commit or BRANCH

    def _sha_of(self, revision: str) -> str:
        if len(revision) == 40 and set(revision) <= set("0123456789abcdef"):
            return revision
        found = self._client.ask(
            lambda: self._api.repo_info(self.name, repo_type=KIND, revision=revision)
        )
        return str(found.sha)

    def _looked(self, paths: Sequence[str]) -> Sequence[StoredObject]:
        if not paths:
            return []
        wanted = [self._at(path) for path in paths]
        found = self._client.ask(
            lambda: self._api.get_paths_info(
                self.name, wanted, revision=self._revision, repo_type=KIND
            )
        )
        return [self._stored(one) for one in found if isinstance(one, RepoFile)]

    def _download(self, path: str) -> Download:
        url = hf_hub_url(
            self.name,
            self._at(path),
            repo_type=KIND,
            revision=self._revision,
            endpoint=self._api.endpoint,
        )
        return self._client.download(url)

    def _stored(self, file: RepoFile) -> StoredObject:
        version = file.lfs.sha256 if file.lfs else file.blob_id
        return StoredObject(file.path.removeprefix(self._prefix), file.size, version)

    def _at(self, path: str) -> str:
        return self._prefix + path


def content_ids(content: bytes | Path) -> frozenset[str]:
    """The versions that a repository's file with this content may have: as a large one, or not."""
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    large, small = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        while chunk := file.read(CHUNK):
            large.update(chunk)
            small.update(chunk)
    return frozenset({large.hexdigest(), small.hexdigest()})
