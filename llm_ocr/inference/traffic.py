"""What went over the wire."""

import time
from dataclasses import dataclass

from llm_ocr.inference.replies import Answer


@dataclass
class Traffic:
    """What went over the wire so far. `seconds` is a recent mean of one answer's time.

    `push_backs` are refusals for load (429, 503) and time-outs; `between_tries` are the requests
    that wait for their next attempt now; `answered_at` is a `time.monotonic()`.
    """

    answers: int = 0
    retries: int = 0
    push_backs: int = 0
    between_tries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    answered_at: float = 0.0

    def count(self, answer: Answer) -> None:
        self.answers += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.answered_at = time.monotonic()
        share = 1 / min(self.answers, 32)
        self.seconds += share * (answer.seconds - self.seconds)
