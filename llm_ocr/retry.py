"""When to retry a request, and how long to wait first: for model servers, the Hub and its jobs."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

Result = TypeVar("Result")

# The statuses of temporary failures. vLLM also returns 500 for some requests that can never
# succeed; a few attempts distinguish these from a server in trouble.
RETRYABLE_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

# The longest Retry-After that is followed: a longer one means a quota or a wrong clock, and one
# request per minute is no load.
MAX_RETRY_AFTER = 60.0


@dataclass(frozen=True)
class Backoff:
    """Delays that grow exponentially from `first_delay` to `max_delay` seconds."""

    first_delay: float = 0.5
    max_delay: float = 8.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the failed `attempt` (from 1).

        The delay is random between half of the exponential step and the whole step, so that
        requests that failed together are not repeated together. A server's Retry-After is followed
        up to `MAX_RETRY_AFTER`, with a random addition for the same reason.
        """
        if retry_after:
            return min(retry_after, MAX_RETRY_AFTER) + random.uniform(0.0, self.first_delay)
        step = min(self.max_delay, self.first_delay * 2.0 ** min(attempt - 1, 64))
        return random.uniform(step / 2, step)


@dataclass(frozen=True)
class RetryPolicy(Backoff):
    """At most `attempts` requests for an item to a model server.

    Responses of a busy server (429, 503) are retried for `busy_seconds` in any number of attempts;
    0 counts these attempts like others.
    """

    max_delay: float = 20.0
    attempts: int = 5
    busy_seconds: float = 600.0


def retry_call(
    call: Callable[[], Result],
    is_retryable: Callable[[Exception], bool],
    *,
    attempts: int | None = None,
    seconds: float | None = None,
    backoff: Backoff | None = None,
    retry_after: Callable[[Exception], float | None] = lambda error: None,
) -> Result:
    """The result of `call`, retried after retryable errors; raises the last error.

    There are at most `attempts` calls, and none after `seconds`. If `retry_after` returns seconds
    for an error, the call is repeated after them, and the time for `seconds` starts again.
    """
    began, attempt = time.monotonic(), 0
    waits = backoff or Backoff()
    while True:
        try:
            return call()
        except Exception as error:
            requested = retry_after(error)
            if requested is not None:
                time.sleep(requested)
                began = time.monotonic()
                continue
            attempt += 1
            is_late = seconds is not None and time.monotonic() - began > seconds
            if is_late or attempt == attempts or not is_retryable(error):
                raise
            time.sleep(waits.delay(attempt))


def parse_retry_after(retry_after: str | None, date: str | None = None) -> float | None:
    """The seconds (at least 0) in a Retry-After header, which is a number or a date; None without
    the header or for an invalid one.

    `date` is the response's Date header, because the server's clock may differ from this one's.
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        until, now = _moment(retry_after), _moment(date) or datetime.now(UTC)
        seconds = math.nan if until is None else (until - now).total_seconds()
    return None if math.isnan(seconds) else max(0.0, seconds)


def _moment(header: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(header or "")
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
