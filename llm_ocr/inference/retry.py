"""When to ask again, and how long to wait first."""

import random
from dataclasses import dataclass

# vLLM answers 500 to some requests that can never succeed (FACTS of its error paths); a few tries
# tell them from a server that is in trouble.
RETRYABLE_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """At most `attempts` requests for an item; waits grow from `first_delay` s to `max_delay` s."""

    attempts: int = 5
    first_delay: float = 0.5
    max_delay: float = 20.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the failed `attempt` (from 1).

        The wait is drawn between half of the exponential step and the whole, so that requests
        which failed together don't come back together; a server's Retry-After is a lower bound.
        """
        step = min(self.max_delay, self.first_delay * 2 ** (attempt - 1))
        return max(retry_after or 0.0, random.uniform(step / 2, step))
