"""Requests to the Hugging Face Hub: retries, rate limits, and errors with advice.

Token and endpoint are read from where Hugging Face's own tools look: HF_TOKEN or `hf auth login`,
HF_ENDPOINT.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from huggingface_hub import HfApi, get_session, get_token
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HTTPError,  # of httpx or httpx2, whichever huggingface_hub has
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    hf_raise_for_status,
)

from llm_ocr.retry import RETRYABLE_STATUS, retry_call
from llm_ocr.storage.protocol import StorageError

Result = TypeVar("Result")

# How long retryable errors are retried, as in buckets.py, and the timeout of one request.
RETRY_SECONDS = 60.0
TIMEOUT_SECONDS = 120.0
# Error codes of a 404 where not the file but its whole repository or revision is missing.
MISSING_REPOSITORY = ("RepoNotFound", "RevisionNotFound")
# hf_xet, which uploads, raises nothing more specific than RuntimeError.
ERRORS = (HTTPError, ConnectionError, TimeoutError, LocalTokenNotFoundError, RuntimeError)

log = logging.getLogger(__name__)


class CommitConflictError(Exception):
    """Someone else has committed to the branch; read it again before the next commit."""


class HubClient:
    """Requests about the repository or bucket `name`, which the store at `uri` is in."""

    def __init__(self, uri: str, kind: str, name: str) -> None:
        self.uri, self._kind, self._name = uri, kind, name
        self.api = HfApi(os.environ.get("HF_ENDPOINT"), library_name="llm_ocr")

    def request(self, call: Callable[[], Result]) -> Result:
        """The result of `call`; transient errors are retried for a minute.

        Raises FileNotFoundError, CommitConflictError, or StorageError.
        """
        try:
            return retry_call(
                call, _is_retryable, seconds=RETRY_SECONDS, retry_after=self._requested_pause
            )
        except EntryNotFoundError as error:
            raise FileNotFoundError(f"{self.uri}: {_first_line(error)}") from error
        except ERRORS as error:
            if _status(error) == 412:
                raise CommitConflictError(self.uri) from error
            raise StorageError(f"{self.uri}: {self._advice(error)}") from error

    def _requested_pause(self, error: Exception) -> float | None:
        pause = _retry_after(error)
        if pause is not None:
            log.warning("%s: rate limited by the Hub; waiting %d s", self.uri, pause)
        return pause

    def download(self, url: str) -> "Download":
        return Download(self, url)

    def _advice(self, error: Exception) -> str:
        """What is wrong and what to do about it."""
        status, name = _status(error), f"{self._kind} {self._name!r}"
        if isinstance(error, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE is set; unset it to use the Hub"
        if isinstance(error, GatedRepoError):
            return f"the {name} is gated; request access on its page and log in with {_LOG_IN}"
        if status == 401 and get_token() is not None:
            return f"the token was rejected: it is wrong or has expired; log in with {_LOG_IN}"
        if status == 401 or isinstance(error, LocalTokenNotFoundError):
            return f"the {name} can't be accessed without a token; log in with {_LOG_IN}"
        if status == 404 and not isinstance(error, RevisionNotFoundError):
            return (
                f"the {name} does not exist or is not visible; check its name and, if it is "
                "private, that the token has read access"
            )
        if isinstance(error, RevisionNotFoundError):
            return f"the {name} has no such revision; write a branch, a tag or a commit after @"
        if status == 403:
            return (
                f"the token lacks permission for the {name}; it needs write access "
                f"(https://huggingface.co/settings/tokens). The Hub says: {_first_line(error)}"
            )
        if status is not None and status >= 500:
            return f"the Hub responds with status {status}; run the same command again later"
        if isinstance(error, RuntimeError):
            return f"the upload failed ({_first_line(error)}); run the same command again"
        if status is None:
            return (
                "the Hub can't be reached; check the network, and HF_ENDPOINT if it is set "
                f"({_first_line(error)})"
            )
        return _first_line(error)


class Download:
    """Downloads from a URL; the target of a redirect is reused for the next range."""

    def __init__(self, client: HubClient, url: str) -> None:
        self._client, self._url = client, url
        self._redirected: str | None = None

    def read(self) -> bytes:
        return self._client.request(lambda: self._get({}))

    def read_range(self, start: int, length: int) -> bytes:
        """`length` bytes from `start`. Raises StorageError if fewer come."""
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        data = self._client.request(lambda: self._get(headers))
        if len(data) != length:
            raise StorageError(
                f"{self._client.uri}: {len(data)} bytes were received, {length} were requested; "
                "run the same command again"
            )
        return data

    def _get(self, headers: Mapping[str, str]) -> bytes:
        if self._redirected is not None:
            # A signed URL on another host, valid for a while: never send the token there.
            response = get_session().get(self._redirected, headers=headers, timeout=TIMEOUT_SECONDS)
            if response.status_code in (200, 206):
                return bytes(response.content)
            self._redirected = None
        standard = build_hf_headers(library_name="llm_ocr")
        # Otherwise ranges would be ranges of the compressed body.
        identity = {**standard, **headers, "Accept-Encoding": "identity"}
        response = get_session().get(self._url, headers=identity, timeout=TIMEOUT_SECONDS)
        if (
            response.status_code == 404
            and response.headers.get("X-Error-Code") not in MISSING_REPOSITORY
        ):
            raise FileNotFoundError(self._url)
        hf_raise_for_status(response)
        if str(response.url) != self._url and response.url.host != response.history[0].url.host:
            self._redirected = str(response.url)
        return bytes(response.content)


_LOG_IN = "`hf auth login`, or set HF_TOKEN"


def _status(error: Exception) -> int | None:
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code
    # hf_xet has the status in its message only.
    match = re.search(r"HTTP status \w+ error \((\d{3})", str(error))
    return int(match[1]) if match else None


def _retry_after(error: Exception) -> int | None:
    """Seconds to wait, from the Retry-After of a rate-limited response; None for other errors."""
    if not isinstance(error, HfHubHTTPError) or error.response.status_code != 429:
        return None
    after = error.response.headers.get("Retry-After", "")
    return int(after) + 1 if after.isdigit() else None


def _is_retryable(error: Exception) -> bool:
    if not isinstance(error, ERRORS) or isinstance(error, EntryNotFoundError):
        return False
    if isinstance(error, OfflineModeIsEnabled | LocalTokenNotFoundError):
        return False
    status = _status(error)
    return status is None or status in RETRYABLE_STATUS


def _first_line(error: Exception) -> str:
    message = error.server_message if isinstance(error, HfHubHTTPError) else None
    lines = (message or str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0]
