"""Functions for the platforms on AWS: sign in, explain errors, check buckets, and read logs."""

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from llm_ocr import __version__
from llm_ocr.platforms.base import Job, JobNotFoundError, PlatformError

LOG_POLL_SECONDS = 2.0
# Placeholders in requests of a dry run for values that are not known.
REGION, ACCOUNT = "REGION", "ACCOUNT"

_EXPIRED = (
    "the credentials have expired; sign in again (`aws sso login`), or renew AWS_SESSION_TOKEN"
)
_REFUSED = (
    "the key is not accepted; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile "
    "(`aws sts get-caller-identity` shows who you are)"
)
_NONE = (
    "no credentials were found; sign in (`aws sso login`, then AWS_PROFILE), or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
# Error codes of all services, and what to do.
_CODES: Mapping[str, str] = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "UnrecognizedClientException": _REFUSED,
    "InvalidClientTokenId": _REFUSED,
    "InvalidSignatureException": _REFUSED,
    "SignatureDoesNotMatch": _REFUSED,
    "ThrottlingException": "AWS asks for fewer requests; try again in a minute",
    "TooManyRequestsException": "AWS asks for fewer requests; try again in a minute",
}
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403")


def sign_in(region: str | None) -> boto3.Session:
    """A session in that region, or in the environment's. Raises PlatformError without one."""
    # boto3 itself reads only AWS_DEFAULT_REGION.
    try:
        session = boto3.Session(region_name=region or os.environ.get("AWS_REGION") or None)
    except ProfileNotFound as error:
        raise PlatformError(f"{error}; `aws configure list-profiles` lists the profiles") from error
    if session.region_name is None:
        raise PlatformError("no region is set; give `region`, or set AWS_REGION")
    return session


def resolve_region(region: str | None) -> str | None:
    """The region that `sign_in` would choose, or None; makes no request."""
    try:
        return str(sign_in(region).region_name)
    except PlatformError:
        return None


def cli_command(service: str, operation: str, region: str, body: Mapping[str, Any]) -> str:
    """The AWS CLI command that sends the request."""
    words = ["aws", service, operation, "--region", region, "--cli-input-json", json.dumps(body)]
    return shlex.join(words)


@contextmanager
def translate_errors(what: str, known: Mapping[str, str] | None = None) -> Iterator[None]:
    """Raise errors of boto3 as PlatformError, with what was requested, what is wrong and what to
    do.

    `known` maps patterns of messages that are specific to this request to advice.
    """
    try:
        yield
    except ClientError as error:
        code = str(error.response["Error"].get("Code", ""))
        message = str(error.response["Error"].get("Message", ""))
        raise PlatformError(f"{what}: {_advice(code, message, known or {})}") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise PlatformError(f"{what}: {_NONE}") from error
    except (SSOError, TokenRetrievalError) as error:
        raise PlatformError(f"{what}: {_EXPIRED}") from error
    except EndpointConnectionError as error:
        raise PlatformError(
            f"{what}: {error}; check the network, and whether `region` is right"
        ) from error
    except BotoCoreError as error:
        raise PlatformError(f"{what}: {error}") from error


def explain_reason(reason: str, known: Mapping[str, str]) -> str:
    """The platform's message, followed by the advice for it, if there is any."""
    for pattern, advice in known.items():
        if match := re.search(pattern, reason, re.IGNORECASE | re.DOTALL):
            return f"{reason.strip().rstrip('.')}: {match.expand(advice)}"
    return reason.strip()


def _advice(code: str, message: str, known: Mapping[str, str]) -> str:
    if code in _CODES:
        return _CODES[code]
    if code in _DENIED:
        return f"{message}; the README of this platform lists the permissions that are needed"
    for pattern, advice in known.items():
        if match := re.search(pattern, f"{code} {message}", re.IGNORECASE | re.DOTALL):
            return match.expand(advice)
    return f"{message} ({code})"


def check_buckets(session: boto3.Session, command: Sequence[str]) -> None:
    """Raise PlatformError if a bucket in the command doesn't exist or is in another region."""
    matches = (re.match(r"s3://([^/]+)", word) for word in command)
    buckets = dict.fromkeys(match[1] for match in matches if match)
    s3 = session.client("s3")
    for bucket in buckets:
        known = {
            r"^(404|NoSuchBucket)\b": "there is no such bucket; check its name, or create it with "
            f"`aws s3 mb s3://{bucket} --region {session.region_name}`",
        }
        with translate_errors(f"s3://{bucket}", known):
            response = s3.head_bucket(Bucket=bucket)
        region = response.get("BucketRegion")
        if region is not None and region != session.region_name:
            raise PlatformError(
                f"s3://{bucket} is in {region}, and the job would run in {session.region_name}; "
                f"give `region` {region}, or a bucket in {session.region_name}"
            )


def check_task(job: Job, task: int) -> None:
    """Raise JobNotFoundError for a task that the job doesn't have."""
    if task >= len(job.tasks):
        raise JobNotFoundError(f"{job.id} has tasks 0 to {len(job.tasks) - 1}, and no {task}")


def check_running(job: Job) -> None:
    """Raise PlatformError for a job that has already ended."""
    if job.state.is_over:
        raise PlatformError(f"{job.id} has already ended: {job.state}")


def default_image(account: str, region: str, kind: str) -> str:
    """The image that `make deploy` pushes to the account's registry. `kind` is `gpu` or `cpu`,
    optionally with `-root`."""
    return f"{account}.dkr.ecr.{region}.amazonaws.com/llm-ocr:{__version__}-{kind}"


def read_log(
    session: boto3.Session,
    group: str,
    streams: Callable[[], Sequence[str]],
    is_over: Callable[[], bool],
    *,
    follow: bool,
) -> Iterator[str]:
    """The lines of the streams, one after another; with `follow`, until `is_over`."""
    client = session.client("logs")
    tokens: dict[str, str] = {}
    while True:
        # Checked before the lines are fetched, so that the last lines are not missed.
        is_last = not follow or is_over()
        for stream in streams():
            yield from _new_lines(client, group, stream, tokens)
        if is_last:
            return
        time.sleep(LOG_POLL_SECONDS)


def _new_lines(
    client: Any,  # noqa: ANN401 - boto3's clients are made at run time
    group: str,
    stream: str,
    tokens: dict[str, str],
) -> Iterator[str]:
    """The lines of a stream after its token in `tokens`, which is updated."""
    while True:
        token = {"nextToken": tokens[stream]} if stream in tokens else {}
        try:
            with translate_errors(f"{group}/{stream}"):
                page = client.get_log_events(
                    logGroupName=group, logStreamName=stream, startFromHead=True, **token
                )
        except PlatformError as error:
            cause = error.__cause__
            if isinstance(cause, client.exceptions.ResourceNotFoundException):
                return
            raise
        for event in page["events"]:
            yield str(event["message"])
        # At the end of a stream CloudWatch returns the same token.
        if page["nextForwardToken"] == tokens.get(stream):
            return
        tokens[stream] = page["nextForwardToken"]
