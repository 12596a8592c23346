"""When to ask again, and how long to wait first."""

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# vLLM answers 500 to some requests that can never succeed (FACTS of its error paths); a few tries
# tell them from a server that is in trouble.
RETRYABLE_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


# A longer Retry-After is not obeyed: whoever sends it means a quota, or a clock that is wrong, and
# a run that asks once a minute costs nobody anything.
LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class RetryPolicy:
    """At most `attempts` requests for an item; waits grow from `first_delay` s to `max_delay` s.

    A server that says that it is busy (429, 503) is asked again for `busy_seconds`, however many
    attempts that takes; 0 counts these as all others.
    """

    attempts: int = 5
    first_delay: float = 0.5
    max_delay: float = 20.0
    busy_seconds: float = 600.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the failed `attempt` (from 1).

        The wait is drawn between half of the exponential step and the whole, so that requests
        which failed together don't come back together. A server that says how long is taken at
        its word, up to `LONGEST_WAIT`, and a little more for the same reason.
        """
        if retry_after:
            return min(retry_after, LONGEST_WAIT) + random.uniform(0.0, self.first_delay)
        step = min(self.max_delay, self.first_delay * 2.0 ** min(attempt - 1, 64))
        return random.uniform(step / 2, step)


def asked_to_wait(retry_after: str | None, date: str | None = None) -> float | None:
    """Seconds (0 and more) that a Retry-After header asks for, as a number or as a date; None for
    none, or one that makes no sense.

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
