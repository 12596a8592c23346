"""Buckets on S3 and GCS, and a store in memory.

Credentials, regions and endpoints are found where each provider's own tools look for them: AWS_*
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

from obstore.store import GCSStore, MemoryStore, S3Store

from llm_ocr.storage.objects import Objects, first_line
from llm_ocr.storage.protocol import StorageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

# The time is what ends it: a server that starts anew refuses ten tries within five seconds.
RETRIES: "RetryConfig" = {
    "max_retries": 100,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}

# Each write or removal waits for an answer from far away.
AT_ONCE = 16

_in_memory: dict[str, MemoryStore] = {}


class Bucket(Objects):
    """A bucket: of many objects, some are written or removed at a time."""

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        _at_once(lambda path: self.put(path, files[path]), files)

    def delete(self, paths: Iterable[str]) -> None:
        _at_once(lambda path: super(Bucket, self).delete([path]), paths)


def _at_once(do: Callable[[str], object], paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in threads.map(do, paths):
            pass


def open_bucket(uri: str) -> Bucket:
    """The store at `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `memory://NAME`."""
    scheme, _, path = uri.partition("://")
    bucket, _, prefix = path.strip("/").partition("/")
    if not bucket:
        raise StorageError(f"{uri}: a bucket is missing; write it as {scheme}://BUCKET/FOLDER")
    opened: Callable[[str, str], Bucket] = {"s3": _s3, "gs": _gs, "memory": _memory}[scheme]
    return opened(bucket, prefix)


def _uri(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{bucket}/{prefix}" if prefix else f"{scheme}://{bucket}"


def _s3(bucket: str, prefix: str) -> Bucket:
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
        client_options=_client(endpoint),
        retry_config=RETRIES,
        **settings,
    )
    return Bucket(_uri("s3", bucket, prefix), store, _adviser(_S3, bucket=bucket), prefix)


def _from_boto3(region: str | None) -> dict[str, Any]:
    """Profiles and sign-ins, which boto3 knows; what obstore finds alone is left to it."""
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = boto3.Session(region_name=region)
    if session.get_credentials() is None:
        return {}
    return {"credential_provider": Boto3CredentialProvider(session)}


def _gs(bucket: str, prefix: str) -> Bucket:
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    settings: dict[str, Any] = {}
    if emulator:
        # An account without a key is obstore's way to another address.
        account = {"gcs_base_url": emulator, "disable_oauth": True, "client_email": "none"}
        key = json.dumps({**account, "private_key": "", "private_key_id": ""})
        settings["service_account_key"] = key
    store = GCSStore(bucket, client_options=_client(emulator), retry_config=RETRIES, **settings)
    return Bucket(_uri("gs", bucket, prefix), store, _adviser(_GCS, bucket=bucket), prefix)


def _client(endpoint: str | None) -> "ClientConfig":
    is_plain = endpoint is not None and endpoint.startswith("http://")
    return {"allow_http": is_plain, "timeout": "120s", "connect_timeout": "10s"}


def _memory(name: str, prefix: str) -> Bucket:
    store = _in_memory.setdefault(name, MemoryStore())
    return Bucket(_uri("memory", name, prefix), store, first_line, prefix)


# What is recognised in an error, and what to do about it, in this order.
_BUCKET = "there is no bucket {bucket!r} that can be seen from here; check its name, or create it"
_S3: Mapping[str, str] = {
    r"NoSuchBucket": _BUCKET,
    r"ExpiredToken|TokenRefreshRequired|InvalidToken|token .*expired": (
        "the credentials have expired; sign in again (`aws sso login`), or renew AWS_SESSION_TOKEN"
    ),
    r"InvalidAccessKeyId|SignatureDoesNotMatch": (
        "the key is not accepted; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ),
    r"RequestTimeTooSkewed": "this machine's clock is wrong; set it",
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocation|301 Moved": (
        "the bucket is in another region; set AWS_REGION to its own"
    ),
    r"169\.254\.169\.254|169\.254\.170\.2|security credentials": (
        "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "AWS_PROFILE (which needs the extra aws), or use a machine with a role"
    ),
    r"AccessDenied|403 Forbidden": (
        "access is denied; the credentials need to list, read, write and delete there"
    ),
    r"error sending request|HTTP error|dns error|timed out": (
        "it can't be reached; check the network, and AWS_ENDPOINT_URL if it is set"
    ),
}
_GCS: Mapping[str, str] = {
    r"NoSuchBucket|bucket does not exist": _BUCKET,
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
        "it can't be reached; check the network, and STORAGE_EMULATOR_HOST if it is set"
    ),
}


def _adviser(known: Mapping[str, str], *, bucket: str) -> Callable[[Exception], str]:
    def advice(error: Exception) -> str:
        text = str(error)
        for pattern, said in known.items():
            if re.search(pattern, text, re.IGNORECASE):
                return said.format(bucket=bucket)
        return first_line(error)

    return advice
