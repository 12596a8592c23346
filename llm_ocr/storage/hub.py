"""Dataset repositories on the Hugging Face Hub as stores: every write is a commit."""

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

from llm_ocr.storage.hub_address import BUCKETS, HubAddress, parse_hub_uri
from llm_ocr.storage.hub_buckets import HubBucketStore
from llm_ocr.storage.hub_client import CommitConflictError, Download, HubClient
from llm_ocr.storage.protocol import StorageError, Store, StoredObject
from llm_ocr.storage.ranges import open_ranges

BRANCH = "main"
REPO_TYPE = "dataset"
CHUNK_BYTES = 1 << 20
Addition: TypeAlias = CommitOperationAdd
Deletion: TypeAlias = CommitOperationDelete
Operation: TypeAlias = CommitOperationAdd | CommitOperationDelete | CommitOperationCopy


def open_hub(uri: str) -> Store:
    """The store at `hf://datasets/ORG/NAME[@REVISION][/FOLDER]` or `hf://buckets/ORG/NAME[/…]`.

    A revision is pinned to the commit that it resolves to now, and is read-only.
    """
    address = parse_hub_uri(uri)
    return HubBucketStore(address) if address.kind == BUCKETS else HubDatasetStore(address)


def create_repository(uri: str, private: bool) -> None:
    """Create the repository or bucket at a URI if it is missing."""
    address = parse_hub_uri(uri)
    store = HubBucketStore(address) if address.kind == BUCKETS else HubDatasetStore(address)
    store.create_repository(private)


class HubDatasetStore:
    """The files of a dataset repository on `main`, or at one commit."""

    def __init__(self, address: HubAddress) -> None:
        self.uri, self.name = address.uri, address.name
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._client = HubClient(self.uri, REPO_TYPE, self.name)
        self._api = self._client.api
        self._commit = self._resolve(address.revision) if address.revision else None

    @property
    def folder(self) -> Path | None:
        return None

    def head_commit(self) -> str:
        """The latest commit on `main`."""
        return self._resolve(BRANCH)

    def at_commit(self, commit: str) -> "HubDatasetStore":
        """The store at one commit, unaffected by later ones."""
        return HubDatasetStore(parse_hub_uri(f"hf://datasets/{self.name}@{commit}/{self._prefix}"))

    def create_repository(self, private: bool) -> None:
        """Create the repository if it is missing."""
        self._client.request(
            lambda: self._api.create_repo(
                self.name, repo_type=REPO_TYPE, private=private, exist_ok=True
            )
        )

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = self._full_path(prefix).rstrip("/") or None

        def entries() -> Sequence[RepoFile]:
            found = self._api.list_repo_tree(
                self.name, folder, recursive=True, revision=self._revision, repo_type=REPO_TYPE
            )
            return [entry for entry in found if isinstance(entry, RepoFile)]

        try:
            yield from map(self._to_stored_object, self._client.request(entries))
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        return bool(self._stat_many([path]))

    def stat(self, path: str) -> StoredObject:
        found = self._stat_many([path])
        if not found:
            raise FileNotFoundError(f"{self.uri}/{path}")
        return found[0]

    def get(self, path: str) -> bytes:
        return self._download(path).read()

    def open(self, path: str) -> BinaryIO:
        return open_ranges(self.stat(path).size, self._download(path).read_range)

    def put(self, path: str, data: bytes | Path) -> None:
        self.put_many({path: data}, f"Write {path}")

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        self._commit_with_retry(
            [self.addition(path, data) for path, data in files.items()], message
        )

    def create(self, path: str, data: bytes) -> bool:
        message = f"Create {path} ({uuid.uuid4().hex})"
        while True:
            head = self.head_commit()
            if self.at_commit(head).exists(path):
                return False
            try:
                self.commit([self.addition(path, data)], message, parent=head)
            except CommitConflictError:
                # Another client committed, or this commit succeeded and its response was lost.
                if self._has_commit(message):
                    return True
                continue
            return True

    def copy(self, source: str, path: str) -> None:
        operation = CommitOperationCopy(self._full_path(source), self._full_path(path))
        self._commit_with_retry([operation], f"Copy {source} to {path}")

    def delete(self, paths: Iterable[str]) -> None:
        # The Hub refuses a commit that deletes missing files.
        present = [found.path for found in self._stat_many(list(paths))]
        if present:
            self._commit_with_retry([self.deletion(path) for path in present], "Delete files")

    def exclusive_lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def addition(self, path: str, data: bytes | Path) -> Addition:
        return Addition(self._full_path(path), data)

    def deletion(self, path: str) -> Deletion:
        return Deletion(self._full_path(path))

    def preupload(self, additions: Sequence[Addition]) -> None:
        """Upload large files ahead of the commit that adds them; readers can't see them before.

        Local copies of uploaded files are deleted.
        """
        self._check_writable()
        self._client.request(
            lambda: self._api.preupload_lfs_files(
                self.name, additions, repo_type=REPO_TYPE, free_memory=False
            )
        )
        for addition in additions:
            # There is no public attribute. Small files are sent with the commit itself.
            if addition._is_uploaded:
                Path(str(addition.path_or_fileobj)).unlink()

    def commit(self, operations: Sequence[Operation], message: str, parent: str | None) -> str:
        """Commit, and return its SHA. Raises CommitConflictError if `main` isn't at `parent`."""
        self._check_writable()
        commit = self._client.request(
            lambda: self._api.create_commit(
                self.name,
                operations,
                commit_message=message,
                parent_commit=parent,
                repo_type=REPO_TYPE,
                revision=BRANCH,
            )
        )
        return str(commit.oid)

    def _commit_with_retry(self, operations: Sequence[Operation], message: str) -> None:
        while True:
            try:
                self.commit(operations, message, parent=None)
            except CommitConflictError:
                continue
            return

    def _has_commit(self, title: str) -> bool:
        commits = self._client.request(
            lambda: self._api.list_repo_commits(self.name, repo_type=REPO_TYPE)
        )
        return any(commit.title == title for commit in commits)

    def _check_writable(self) -> None:
        if self._commit is not None:
            raise StorageError(
                f"{self.uri}: a revision is read-only; remove @ and the revision to write"
            )

    @property
    def _revision(self) -> str:
        return self._commit or BRANCH

    def _resolve(self, revision: str) -> str:
        if len(revision) == 40 and set(revision) <= set("0123456789abcdef"):
            return revision
        found = self._client.request(
            lambda: self._api.repo_info(self.name, repo_type=REPO_TYPE, revision=revision)
        )
        return str(found.sha)

    def _stat_many(self, paths: Sequence[str]) -> Sequence[StoredObject]:
        if not paths:
            return []
        full_paths = [self._full_path(path) for path in paths]
        found = self._client.request(
            lambda: self._api.get_paths_info(
                self.name, full_paths, revision=self._revision, repo_type=REPO_TYPE
            )
        )
        return [self._to_stored_object(entry) for entry in found if isinstance(entry, RepoFile)]

    def _download(self, path: str) -> Download:
        url = hf_hub_url(
            self.name,
            self._full_path(path),
            repo_type=REPO_TYPE,
            revision=self._revision,
            endpoint=self._api.endpoint,
        )
        return self._client.download(url)

    def _to_stored_object(self, file: RepoFile) -> StoredObject:
        version = file.lfs.sha256 if file.lfs else file.blob_id
        return StoredObject(file.path.removeprefix(self._prefix), file.size, version)

    def _full_path(self, path: str) -> str:
        return self._prefix + path


def possible_versions(content: bytes | Path) -> frozenset[str]:
    """The versions that a file with this content may have in a repository: its SHA-256 as an LFS
    file, or the SHA-1 of its git blob."""
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    lfs, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            lfs.update(chunk)
            git.update(chunk)
    return frozenset({lfs.hexdigest(), git.hexdigest()})
