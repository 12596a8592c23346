"""Buckets on S3 and GCS, and stores in memory.

Credentials, regions and endpoints are read from where each provider's own tools look: AWS_*
variables, profiles (with boto3), instance roles, AWS_ENDPOINT_URL; GOOGLE_APPLICATION_CREDENTIALS,
`gcloud auth application-default login`, the metadata server, STORAGE_EMULATOR_HOST.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore.store import GCSStore, MemoryStore, S3Store

from llm_ocr.storage.objects import Explanation, ObjectStore, first_line
from llm_ocr.storage.protocol import StorageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

# Bounded by time, not by tries: a server that restarts refuses ten tries within five seconds.
RETRIES: "RetryConfig" = {
    "max_retries": 100,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}

# Writes and deletions wait for the network, not for the CPU.
MAX_PARALLEL_REQUESTS = 16

_in_memory: dict[str, MemoryStore] = {}


class BucketStore(ObjectStore):
    """A bucket; several objects are written or deleted in parallel."""

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        _run_parallel(lambda path: self.put(path, files[path]), files)

    def delete(self, paths: Iterable[str]) -> None:
        _run_parallel(lambda path: super(BucketStore, self).delete([path]), paths)

    def sign_put(self, path: str, seconds: float) -> str:
        """A URL to which anybody can write the object at `path` for some seconds, of any size."""
        if not isinstance(self._backend, GCSStore | S3Store):
            raise StorageError(f"{self.uri}: this store has no addresses that can be signed")
        with self._errors():
            return obstore.sign(
                self._backend, "PUT", self._full_path(path), timedelta(seconds=seconds)
            )


def _run_parallel(operation: Callable[[str], object], paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(MAX_PARALLEL_REQUESTS) as threads:
        for _ in threads.map(operation, paths):
            pass


def open_bucket(uri: str) -> BucketStore:
    """The store at `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `memory://NAME`."""
    scheme, _, path = uri.partition("://")
    bucket, _, prefix = path.strip("/").partition("/")
    if not bucket:
        raise StorageError(f"{uri}: the bucket name is missing; write {scheme}://BUCKET/FOLDER")
    opener: Callable[[str, str], BucketStore] = {"s3": _s3, "gs": _gs, "memory": _memory}[scheme]
    return opener(bucket, prefix)


def _uri(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{bucket}/{prefix}" if prefix else f"{scheme}://{bucket}"


def _s3(bucket: str, prefix: str) -> BucketStore:
    settings: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        settings["endpoint"] = endpoint
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        settings["region"] = region
    if "AWS_ACCESS_KEY_ID" not in os.environ and find_spec("boto3") is not None:
        settings |= _from_boto3(region)
    store = S3Store(
        bucket,
        client_options=_client_options(endpoint),
        retry_config=RETRIES,
        **settings,
    )
    return BucketStore(
        _uri("s3", bucket, prefix), lambda: store, _explainer(_S3, bucket=bucket), prefix
    )


def _from_boto3(region: str | None) -> dict[str, Any]:
    """Credentials from profiles and SSO, which only boto3 can read."""
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = boto3.Session(region_name=region)
    if session.get_credentials() is None:
        return {}
    return {"credential_provider": Boto3CredentialProvider(session)}


def _gs(bucket: str, prefix: str) -> BucketStore:
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    settings: dict[str, Any] = {}
    if emulator:
        # obstore accepts another address only through a service account key.
        account = {"gcs_base_url": emulator, "disable_oauth": True, "client_email": "none"}
        key = json.dumps({**account, "private_key": "", "private_key_id": ""})
        settings["service_account_key"] = key
    store = GCSStore(
        bucket, client_options=_client_options(emulator), retry_config=RETRIES, **settings
    )
    return BucketStore(
        _uri("gs", bucket, prefix), lambda: store, _explainer(_GCS, bucket=bucket), prefix
    )


def _client_options(endpoint: str | None) -> "ClientConfig":
    is_http = endpoint is not None and endpoint.startswith("http://")
    return {"allow_http": is_http, "timeout": "120s", "connect_timeout": "10s"}


def _memory(name: str, prefix: str) -> BucketStore:
    store = _in_memory.setdefault(name, MemoryStore())
    return BucketStore(
        _uri("memory", name, prefix), lambda: store, _explainer({}, bucket=name), prefix
    )


# Patterns in errors and the advice for each, tried in this order.
_NO_BUCKET = "bucket {bucket!r} does not exist or is not visible; check its name, or create it"
_S3: Mapping[str, str] = {
    r"NoSuchBucket": _NO_BUCKET,
    r"ExpiredToken|TokenRefreshRequired|InvalidToken|token .*expired": (
        "the credentials have expired; sign in again (`aws sso login`), or renew AWS_SESSION_TOKEN"
    ),
    r"InvalidAccessKeyId|SignatureDoesNotMatch": (
        "the access key was rejected; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ),
    r"RequestTimeTooSkewed": "this machine's clock is wrong; correct it",
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocation|301 Moved": (
        "the bucket is in another region; set AWS_REGION to the bucket's region"
    ),
    r"169\.254\.169\.254|169\.254\.170\.2|security credentials": (
        "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "AWS_PROFILE (which needs the extra aws), or use a machine with a role"
    ),
    r"AccessDenied|403 Forbidden": (
        "access is denied; the credentials need permission to list, read, write and delete there"
    ),
    r"error sending request|HTTP error|dns error|timed out": (
        "the server can't be reached; check the network, and AWS_ENDPOINT_URL if it is set"
    ),
}
_GCS: Mapping[str, str] = {
    r"NoSuchBucket|bucket does not exist": _NO_BUCKET,
    r"invalid_grant|Reauthentication|expired": (
        "the credentials have expired; run `gcloud auth application-default login`"
    ),
    r"metadata\.google|169\.254\.169\.254|token": (
        "no credentials were found; run `gcloud auth application-default login`, set "
        "GOOGLE_APPLICATION_CREDENTIALS, or use a machine with a service account"
    ),
    r"AccessDenied|401 Unauthorized|403 Forbidden": (
        "access is denied; the account needs the role Storage Object User on the bucket"
    ),
    r"error sending request|HTTP error|dns error|timed out": (
        "the server can't be reached; check the network, and STORAGE_EMULATOR_HOST if it is set"
    ),
}


def _explainer(known: Mapping[str, str], *, bucket: str) -> Callable[[Exception], Explanation]:
    def explain(error: Exception) -> Explanation:
        text = str(error)
        for pattern, advice in known.items():
            if re.search(pattern, text, re.IGNORECASE):
                return advice.format(bucket=bucket), None
        return first_line(error), None

    return explain
