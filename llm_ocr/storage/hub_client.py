"""Asking the Hugging Face Hub: trying again, waiting when told to, and saying what to do.

Token and endpoint are found where Hugging Face's own tools look: HF_TOKEN or `hf auth login`,
HF_ENDPOINT.
"""

import logging
import os
import re
import time
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

from llm_ocr.storage.protocol import StorageError

Answer = TypeVar("Answer")

# How long what may pass is tried again, as in buckets.py, and how long one answer may take.
RETRY_SECONDS = 60.0
TIMEOUT_SECONDS = 120.0
LONGEST_PAUSE = 8.0
# Not the file is missing but all of it.
NO_PLACE = ("RepoNotFound", "RevisionNotFound")
MOMENTARY = frozenset({408, 429, 500, 502, 503, 504})

log = logging.getLogger(__name__)


class MovedError(Exception):
    """Someone else committed to the branch meanwhile: look again, then commit."""


class Client:
    """Requests about the store `uri`, which is the repository or bucket `name`."""

    def __init__(self, uri: str, what: str, name: str) -> None:
        self.uri, self._what, self._name = uri, what, name
        self.api = HfApi(os.environ.get("HF_ENDPOINT"), library_name="llm_ocr")

    def ask(self, call: Callable[[], Answer]) -> Answer:
        """What `call` gives, tried again for a minute where that may help.

        Raises FileNotFoundError, MovedError, or StorageError.
        """
        began, tries = time.monotonic(), 0
        while True:
            try:
                return call()
            except EntryNotFoundError as error:
                raise FileNotFoundError(f"{self.uri}: {_first_line(error)}") from error
            # hf_xet, which uploads, has nothing better than RuntimeError.
            except (
                HTTPError,
                ConnectionError,
                TimeoutError,
                LocalTokenNotFoundError,
                RuntimeError,
            ) as error:
                if _status(error) == 412:
                    raise MovedError(self.uri) from error
                told = _told_to_wait(error)
                if told is not None:
                    log.warning("%s: the Hub asks to wait %d s before the next", self.uri, told)
                    time.sleep(told)
                    began = time.monotonic()
                    continue
                if not _may_pass(error) or time.monotonic() - began > RETRY_SECONDS:
                    raise StorageError(f"{self.uri}: {self._advice(error)}") from error
                time.sleep(min(LONGEST_PAUSE, 0.5 * 2**tries))
                tries += 1

    def download(self, url: str) -> "Download":
        return Download(self, url)

    def _advice(self, error: Exception) -> str:
        """What is wrong, and what to do about it."""
        status, name = _status(error), f"{self._what} {self._name!r}"
        if isinstance(error, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE is set; unset it to use the Hub"
        if isinstance(error, GatedRepoError):
            return f"the {name} is gated; ask for access on its page, and sign in with {_SIGN_IN}"
        if status == 401 and get_token() is not None:
            return f"the token is not accepted: it is wrong or expired; sign in with {_SIGN_IN}"
        if status == 401 or isinstance(error, LocalTokenNotFoundError):
            return f"the {name} can't be seen or changed without a token; sign in with {_SIGN_IN}"
        if status == 404 and not isinstance(error, RevisionNotFoundError):
            return (
                f"there is no {name} that can be seen from here; check its name, and that the "
                "token may read it if it is private"
            )
        if isinstance(error, RevisionNotFoundError):
            return f"the {name} has no such revision; give a branch, a tag or a commit behind @"
        if status == 403:
            return (
                f"the token may not do that in the {name}; it needs write access "
                f"(https://huggingface.co/settings/tokens). The Hub says: {_first_line(error)}"
            )
        if status is not None and status >= 500:
            return f"the Hub answers {status}; run the same command again later"
        if isinstance(error, RuntimeError):
            return f"the upload failed ({_first_line(error)}); run the same command again"
        if status is None:
            return (
                "it can't be reached; check the network, and HF_ENDPOINT if it is set "
                f"({_first_line(error)})"
            )
        return _first_line(error)


class Download:
    """A file's bytes at an address that may lead to another one, which is then kept."""

    def __init__(self, client: Client, url: str) -> None:
        self._client, self._url = client, url
        self._kept: str | None = None

    def whole(self) -> bytes:
        return self._client.ask(lambda: self._get({}))

    def range(self, start: int, length: int) -> bytes:
        """Bytes from `start`; all of them, or StorageError."""
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        data = self._client.ask(lambda: self._get(headers))
        if len(data) != length:
            raise StorageError(
                f"{self._client.uri}: {len(data)} bytes came where {length} were asked for; "
                "run the same command again"
            )
        return data

    def _get(self, headers: Mapping[str, str]) -> bytes:
        if self._kept is not None:
            # Signed for a while, and of another host: it is told no token.
            answer = get_session().get(self._kept, headers=headers, timeout=TIMEOUT_SECONDS)
            if answer.status_code in (200, 206):
                return bytes(answer.content)
            self._kept = None
        known = build_hf_headers(library_name="llm_ocr")
        # Else ranges would be ranges of what was compressed.
        asked = {**known, **headers, "Accept-Encoding": "identity"}
        answer = get_session().get(self._url, headers=asked, timeout=TIMEOUT_SECONDS)
        if answer.status_code == 404 and answer.headers.get("X-Error-Code") not in NO_PLACE:
            raise FileNotFoundError(self._url)
        hf_raise_for_status(answer)
        if str(answer.url) != self._url and answer.url.host != answer.history[0].url.host:
            self._kept = str(answer.url)
        return bytes(answer.content)


_SIGN_IN = "`hf auth login`, or set HF_TOKEN"


def _status(error: Exception) -> int | None:
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code
    # hf_xet tells it in words only.
    told = re.search(r"HTTP status \w+ error \((\d{3})", str(error))
    return int(told[1]) if told else None


def _told_to_wait(error: Exception) -> int | None:
    """Seconds that the Hub asks for, where it takes no more requests."""
    if not isinstance(error, HfHubHTTPError) or error.response.status_code != 429:
        return None
    after = error.response.headers.get("Retry-After", "")
    return int(after) + 1 if after.isdigit() else None


def _may_pass(error: Exception) -> bool:
    if isinstance(error, OfflineModeIsEnabled | LocalTokenNotFoundError):
        return False
    status = _status(error)
    return status is None or status in MOMENTARY


def _first_line(error: Exception) -> str:
    said = error.server_message if isinstance(error, HfHubHTTPError) else None
    lines = (said or str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0]
