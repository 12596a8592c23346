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

# The statuses of responses that may pass. vLLM answers 500 to some requests that can never succeed,
# too; a few attempts tell them from a server that is in trouble.
RETRYABLE_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

# A longer Retry-After is not obeyed: it means a quota, or a clock that is wrong, and a run that
# asks once a minute costs nobody anything.
LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class Backoff:
    """Waits that grow exponentially from `first_delay` s to `max_delay` s."""

    first_delay: float = 0.5
    max_delay: float = 8.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the failed `attempt` (from 1).

        The wait is drawn between half of the exponential step and the whole, so that requests
        which failed together don't come back together. A server's own Retry-After is obeyed, up to
        `LONGEST_WAIT`, with a little more for the same reason.
        """
        if retry_after:
            return min(retry_after, LONGEST_WAIT) + random.uniform(0.0, self.first_delay)
        step = min(self.max_delay, self.first_delay * 2.0 ** min(attempt - 1, 64))
        return random.uniform(step / 2, step)


@dataclass(frozen=True)
class RetryPolicy(Backoff):
    """At most `attempts` requests for an item of a model server.

    A server that says that it is busy (429, 503) is asked again for `busy_seconds`, however many
    attempts that takes; 0 counts these as all others.
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

    It is retried up to `attempts` times in all, and until `seconds` have passed. Where
    `retry_after` returns seconds, these are waited, and then the time begins again.
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
    """Seconds (0 and more) that a Retry-After header asks for, as a number or as a date; None
    without the header, or for one that makes no sense.

    `date` is the response's Date header: the server's clock need not be this one's.
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
