"""Uploads: signed URLs for the files of a document, and the checks of uploaded files.

If the storage is a bucket, clients upload to it directly; otherwise to the gateway, which streams
files to disk in chunks. A document is queued only after all of its files are uploaded and checked.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import math
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from llm_ocr.documents import Document, document_id
from llm_ocr.messages import CodedError, MissingExtraError, how_to_install
from llm_ocr.records import PageError
from llm_ocr.service.database import Database
from llm_ocr.service.documents import (
    UPLOAD_SECONDS,
    StoredDocument,
    StoredFile,
    WrongStateError,
    load_document,
    queue_document,
)
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.settings import MEGABYTE, ServiceSettings
from llm_ocr.sources.formats import HEAD_BYTES, detect_suffix
from llm_ocr.sources.names import file_version
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.buckets import BucketStore
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.storage.store import StorageError, Store

# Bytes of a stored file that are in memory while it is read.
CHUNK_BYTES = 1 << 18
# Bytes of an upload that are collected before they are written: there may be hundreds at once. With
# the server's buffers (see `serving.READ_BYTES`) each takes about 0.25 MB, whatever its size.
RECEIVED_BYTES = 1 << 16
# Files that are checked at the same time, and PDFs and TIFFs whose pages are counted.
READ_THREADS = 4
PAGE_COUNT_PROCESSES = 2
CONTENT_TYPES = {
    ".pdf": "application/pdf",
    ".tif": "image/tiff",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
}
# Formats whose pages a parser must count.
_MULTI_PAGE = ("application/pdf", "image/tiff")
# The storage path of the key with which gateways sign upload URLs.
_KEY_PATH = "keys/uploads"


class UploadProblem(StrEnum):
    """Problems with an upload; `records.ErrorCode` has those of a file's content."""

    NOT_UPLOADED = "not_uploaded"
    WRONG_SIZE = "wrong_size"
    WRONG_CHECKSUM = "wrong_checksum"
    MIXED_FILES = "mixed_files"
    TOO_MANY_PAGES = "too_many_pages"
    TOO_LARGE = "too_large"
    EMPTY_FILE = "empty_file"
    INVALID_TOKEN = "invalid_token"
    EXPIRED_TOKEN = "expired_token"


class UploadError(CodedError):
    """A file is not accepted. Its code is an UploadProblem or an ErrorCode."""


@dataclass(frozen=True)
class UploadTarget:
    """The request with which a client uploads a file: exactly these headers, until `expires_at`."""

    method: str
    url: str
    headers: Mapping[str, str]
    expires_at: datetime


class UploadTargets(Protocol):
    """Creates the requests with which files are uploaded."""

    def make(self, document: StoredDocument, file: StoredFile, base_url: str) -> UploadTarget:
        """The request for a file; `base_url` is the gateway's URL as the client knows it. Blocks.
        Raises StorageError."""
        ...


def open_targets(store: Store, public_url: str | None = None) -> UploadTargets:
    """The upload targets of a store: URLs presigned for S3 or GCS, or the gateway's own. URLs of S3
    begin with `public_url` if it is given.

    Raises StorageError for an unsupported store.
    """
    scheme = store.uri.partition("://")[0] if "://" in store.uri else "file"
    if scheme == "s3":
        return _S3Targets(store, public_url)
    if public_url is not None:
        raise StorageError(
            f"{store.uri}: `storage_public_url` applies only to storages on s3://; remove it"
        )
    if scheme == "gs" and isinstance(store, BucketStore):
        return _GcsTargets(store)
    if store.folder is not None:
        return GatewayTargets(store)
    raise StorageError(f"{store.uri}: the service needs a local folder, s3:// or gs://")


class GatewayTargets:
    """Upload URLs of the gateway itself, for a store in a local folder. The token in a URL is
    signed, and contains the file and when the URL expires."""

    def __init__(self, store: Store) -> None:
        store.create(_KEY_PATH, secrets.token_hex(32).encode())
        self._key = store.get(_KEY_PATH)

    def make(self, document: StoredDocument, file: StoredFile, base_url: str) -> UploadTarget:
        expires_at = int(time.time() + UPLOAD_SECONDS)
        content = [document.tenant, document.id, file.position, expires_at]
        payload = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
        return UploadTarget(
            "PUT",
            f"{base_url.rstrip('/')}/v1/uploads/{payload}.{self._sign(payload)}",
            {"Content-Length": str(file.size)},
            datetime.fromtimestamp(expires_at, UTC),
        )

    def parse(self, token: str) -> tuple[str, str, int]:
        """The tenant, document id and file position of a token. Raises UploadError."""
        payload, _, signature = token.partition(".")
        if not hmac.compare_digest(self._sign(payload).encode(), signature.encode()):
            raise UploadError(
                "the upload URL is not valid; use the one in the document's `files`",
                UploadProblem.INVALID_TOKEN,
            )
        padding = "=" * (-len(payload) % 4)
        tenant, document, position, expires_at = json.loads(
            base64.urlsafe_b64decode(payload + padding)
        )
        if time.time() > expires_at:
            raise UploadError(
                "the upload URL has expired; get the document for a new one",
                UploadProblem.EXPIRED_TOKEN,
            )
        return tenant, document, position

    def _sign(self, payload: str) -> str:
        digest = hmac.new(self._key, payload.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class _S3Targets:
    """Presigned requests of S3 by boto3, because S3 checks their size; obstore's don't sign it.

    The signature covers the host. Signing sends nothing, so the gateway itself need not reach
    `public_url`.
    """

    def __init__(self, store: Store, public_url: str | None) -> None:
        if find_spec("boto3") is None:
            problem = "uploads to S3 need the package boto3, which is not installed"
            raise MissingExtraError(f"{problem}: {how_to_install('aws')}")
        import boto3
        from botocore.config import Config

        variables = {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} & os.environ.keys()
        has_endpoint = public_url is not None or variables
        style = {"addressing_style": "path" if has_endpoint else "auto"}
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        self._client = boto3.client(
            "s3",
            region_name=region,
            endpoint_url=public_url,
            config=Config(signature_version="s3v4", s3=style),
        )
        bucket, _, prefix = store.uri.removeprefix("s3://").partition("/")
        self._bucket, self._prefix = bucket, f"{prefix}/" if prefix else ""

    def make(self, document: StoredDocument, file: StoredFile, base_url: str) -> UploadTarget:
        from botocore.exceptions import BotoCoreError

        expires_at = datetime.fromtimestamp(int(time.time() + UPLOAD_SECONDS), UTC)
        try:
            url = self._client.generate_presigned_url(
                "put_object",
                Params={
                    "Bucket": self._bucket,
                    "Key": f"{self._prefix}{file.path}",
                    "ContentLength": file.size,
                },
                ExpiresIn=int(UPLOAD_SECONDS),
            )
        except BotoCoreError as error:
            raise StorageError(f"s3://{self._bucket}: uploads can't be signed: {error}") from error
        return UploadTarget("PUT", url, {"Content-Length": str(file.size)}, expires_at)


class _GcsTargets:
    """Signed requests of GCS, which doesn't enforce their size: it is checked at completion."""

    def __init__(self, store: BucketStore) -> None:
        self._store = store

    def make(self, document: StoredDocument, file: StoredFile, base_url: str) -> UploadTarget:
        expires_at = datetime.fromtimestamp(int(time.time() + UPLOAD_SECONDS), UTC)
        url = self._store.sign_put(file.path, UPLOAD_SECONDS)
        return UploadTarget("PUT", url, {"Content-Length": str(file.size)}, expires_at)


@dataclass(frozen=True)
class CheckedFiles:
    """Accepted files: values for columns of `schema.files` by position, and the number of pages."""

    columns: Mapping[int, Mapping[str, Any]]
    page_count: int


class Uploads:
    """Receives and checks the files of new documents, at one gateway.

    `renderer` counts pages in separate processes, because files may be malicious.
    """

    def __init__(
        self, database: Database, store: Store, settings: ServiceSettings, renderer: RenderPool
    ) -> None:
        self._database, self._store, self._settings = database, store, settings
        self._renderer = renderer
        self._targets = open_targets(store, settings.storage_public_url)
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="uploads")

    def upload_targets(self, document: StoredDocument, base_url: str) -> dict[int, UploadTarget]:
        """The upload targets of a document that waits for its upload, by position. Blocks."""
        if document.state is not DocumentState.AWAITING_UPLOAD:
            return {}
        return {
            file.position: self._targets.make(document, file, base_url)
            for file in document.files
            if file.url is None
        }

    async def receive(self, token: str, length: int, chunks: AsyncIterator[bytes]) -> None:
        """Store a file of `length` bytes that a client sends to the gateway's own upload URL.

        Raises UploadError, WrongStateError, UnknownDocumentError and StorageError; a file that was
        uploaded before then stays unchanged.
        """
        if not isinstance(self._targets, GatewayTargets):
            raise UploadError(
                "this service receives uploads in its storage; use the URL in the document's "
                "`files`",
                UploadProblem.INVALID_TOKEN,
            )
        tenant, name, position = self._targets.parse(token)
        document = await asyncio.to_thread(load_document, self._database, tenant, name)
        if document.state is not DocumentState.AWAITING_UPLOAD:
            raise WrongStateError(f"{name} accepts no more uploads: it is {document.state}")
        file = document.files[position]
        if length != file.size:
            raise UploadError(
                f"{file.name}: Content-Length is {length:,} bytes, but {file.size or 0:,} were "
                "declared",
                UploadProblem.WRONG_SIZE,
            )
        assert self._store.folder is not None
        await self._write(self._store.folder / file.path, length, chunks, file.name)

    def put(self, path: str, source: BinaryIO) -> None:
        """Store the rest of `source` at `path`. Blocks. Raises StorageError."""
        if self._store.folder is None:
            with tempfile.NamedTemporaryFile(prefix="llm-ocr-upload-") as copy:
                shutil.copyfileobj(source, copy, CHUNK_BYTES)
                copy.flush()
                self._store.put(path, Path(copy.name))
            return
        try:
            with atomic_write(self._store.folder / path) as target:
                shutil.copyfileobj(source, target, CHUNK_BYTES)
        except OSError as error:
            raise self._write_error(PurePosixPath(path).name, error) from error

    async def complete(self, tenant: str, document_id: str) -> StoredDocument:
        """Check the files of a document and queue it. A document that is queued stays unchanged.

        Raises UploadError, UnknownDocumentError, QuotaError and StorageError.
        """
        document = await asyncio.to_thread(load_document, self._database, tenant, document_id)
        if document.state is not DocumentState.AWAITING_UPLOAD:
            return document
        checked = await self.check(document.files)
        return await asyncio.to_thread(
            queue_document,
            self._database,
            tenant,
            document_id,
            checked.columns,
            checked.page_count,
        )

    async def check(self, files: Sequence[StoredFile]) -> CheckedFiles:
        """Check files in the storage: each exists, has an accepted size, the declared size and
        checksum, and is a PDF or an image by its content; together they are one document with an
        accepted number of pages.

        Raises UploadError and StorageError.
        """
        columns: dict[int, Mapping[str, Any]] = {}
        page_count = 0
        for file in files:
            loop = asyncio.get_running_loop()
            with tempfile.TemporaryDirectory(prefix="llm-ocr-upload-") as folder:
                inspected = await loop.run_in_executor(
                    self._threads, self._inspect, file, Path(folder)
                )
                columns[file.position] = inspected.columns
                page_count += (
                    1 if inspected.local is None else await self._count_pages(file, inspected)
                )
            if page_count > self._settings.max_pages:
                raise UploadError(
                    f"{file.name}: the document has {page_count:,} pages or more, and at most "
                    f"{self._settings.max_pages:,} are accepted (`max_pages`); split it",
                    UploadProblem.TOO_MANY_PAGES,
                )
        kinds = {values["content_type"] for values in columns.values()}
        if len(files) > 1 and "application/pdf" in kinds:
            raise UploadError(
                "a document is one PDF, or one or more images; submit each PDF as a document",
                UploadProblem.MIXED_FILES,
            )
        return CheckedFiles(columns, page_count)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    async def _write(
        self, path: Path, length: int, chunks: AsyncIterator[bytes], name: str
    ) -> None:
        received = 0
        # Chunks themselves, not a copy: what received them holds the last one until the next.
        pending: list[bytes] = []
        pending_bytes = 0
        try:
            with atomic_write(path) as target:
                async for chunk in chunks:
                    received += len(chunk)
                    if received > length:
                        break
                    pending.append(chunk)
                    pending_bytes += len(chunk)
                    if pending_bytes >= RECEIVED_BYTES:
                        await asyncio.to_thread(target.writelines, pending)
                        pending, pending_bytes = [], 0
                if received != length:
                    raise UploadError(
                        f"{name}: {received:,} bytes were received instead of {length:,}; send it "
                        "again",
                        UploadProblem.WRONG_SIZE,
                    )
                await asyncio.to_thread(target.writelines, pending)
        except OSError as error:
            raise self._write_error(name, error) from error

    def _write_error(self, name: str, error: OSError) -> StorageError:
        problem = f"{name} can't be written: {error.strerror or error}"
        return StorageError(f"{self._store.uri}: {problem}")

    def _inspect(self, file: StoredFile, folder: Path) -> "_InspectedFile":
        """Check a file and detect its type. If its pages must be counted and it isn't on this
        machine, copy it to `folder`."""
        try:
            stored = self._store.stat(file.path)
        except FileNotFoundError:
            raise UploadError(
                f"{file.name} has not been uploaded", UploadProblem.NOT_UPLOADED
            ) from None
        self._check_size(file, stored.size)
        with self._store.open(file.path) as source:
            head = source.read(HEAD_BYTES)
            content_type = _detect_content_type(file.name, head)
            columns: dict[str, Any] = {"size": stored.size, "content_type": content_type}
            local: Path | None = None
            is_copied = content_type in _MULTI_PAGE and self._store.folder is None
            if content_type in _MULTI_PAGE:
                local = folder / "file" if is_copied else self._folder / file.path
            if is_copied or file.sha256 is not None:
                columns["sha256"] = _hash_and_copy(source, head, local if is_copied else None)
        if file.sha256 is not None and columns["sha256"] != file.sha256:
            raise UploadError(
                f"{file.name}: the SHA-256 is {columns['sha256']}, but {file.sha256} was declared; "
                "send it again",
                UploadProblem.WRONG_CHECKSUM,
            )
        return _InspectedFile(columns, local)

    @property
    def _folder(self) -> Path:
        assert self._store.folder is not None
        return self._store.folder

    def _check_size(self, file: StoredFile, size: int) -> None:
        if size == 0:
            raise UploadError(f"{file.name} is empty", UploadProblem.EMPTY_FILE)
        if file.size is not None and size != file.size:
            raise UploadError(
                f"{file.name}: {size:,} bytes were uploaded, but {file.size:,} were declared; send "
                "it again",
                UploadProblem.WRONG_SIZE,
            )
        check_size(file.name, size, self._settings)

    async def _count_pages(self, file: StoredFile, inspected: "_InspectedFile") -> int:
        kind = "pdf" if inspected.columns["content_type"] == "application/pdf" else "image"
        assert inspected.local is not None
        path = str(inspected.local)
        version, size = file_version(inspected.local)
        document = Document(document_id(path, version), path, version, file.name, kind, size)
        try:
            return await self._renderer.count_pages(document)
        except PageError as error:
            # Clients don't know the path.
            raise UploadError(error.message.replace(path, file.name), error.code) from error


@dataclass(frozen=True)
class _InspectedFile:
    columns: Mapping[str, Any]
    # The file on this machine, if its pages must be counted; None: it has one page.
    local: Path | None


def check_size(name: str, size: int, settings: ServiceSettings) -> None:
    """Raises UploadError if a file of `size` bytes is too large."""
    if size > settings.max_file_mb * MEGABYTE:
        raise UploadError(
            f"{name} has {math.ceil(size / MEGABYTE):,} MB; at most {settings.max_file_mb:,} are "
            "accepted (`max_file_mb`)",
            UploadProblem.TOO_LARGE,
        )


def _detect_content_type(name: str, head: bytes) -> str:
    """The content type by the first bytes of a file. Raises UploadError if it is unsupported."""
    try:
        return CONTENT_TYPES[detect_suffix(name, head)]
    except PageError as error:
        raise UploadError(error.message, error.code) from error


def _hash_and_copy(source: BinaryIO, head: bytes, copy: Path | None) -> str:
    """The SHA-256 in hexadecimal of a file whose `head` is read already; also writes the file to
    `copy`."""
    digest = hashlib.sha256(head)
    with (copy or Path(os.devnull)).open("wb") as target:
        target.write(head)
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            target.write(chunk)
    return digest.hexdigest()
