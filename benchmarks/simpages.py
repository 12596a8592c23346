"""What a simulated page gets: its length, its words, and what goes wrong with it.

All of it depends on the page's image, the prompt and a seed alone.
"""

import hashlib
import json
import math
import random
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

PROMPT_TOKENS, MAX_MODEL_LEN = 903, 8192
# Lengths of answers are log-normal: half are shorter than this, and 1 in 400 is cut at the limit.
MEDIAN_TOKENS, SPREAD, MOST_TOKENS = 860, 0.7, 6144
# Characters of a token, and of a block with its tag.
CHARACTERS, BLOCK = 4, 420
# Shorter asks are a launcher's probe: they never fail, and are not counted toward a kill.
PROBE_TOKENS = 64


@dataclass(frozen=True)
class Ask:
    """What decides an answer; `page` is the image's digest, `begun` the part of the answer to go
    on from."""

    page: str
    prompt: str
    temperature: float
    max_tokens: int
    seed: int
    begun: str = ""
    streamed: bool = False

    @property
    def grounded(self) -> bool:
        return self.prompt.startswith("<|grounding|>")

    @property
    def probe(self) -> bool:
        return self.max_tokens <= PROBE_TOKENS

    @property
    def tokens(self) -> int:
        """The answer's length; where the limit is below a page's, in proportion."""
        drawn = self.chance("length").lognormvariate(math.log(MEDIAN_TOKENS), SPREAD)
        share = min(1.0, self.max_tokens / MOST_TOKENS)
        return max(1, int(min(drawn, MOST_TOKENS) * share))

    def chance(self, of: str) -> random.Random:
        return random.Random(f"{self.seed}/{self.page}/{self.prompt}/{of}")


def read_ask(raw: bytes, seed: int) -> Ask:
    """The request in a body. The image is cut out before the rest is parsed: it is nearly all."""
    start = raw.index(b";base64,")
    end = raw.index(b'"', start)
    page = hashlib.sha256(memoryview(raw)[start:end]).hexdigest()[:16]
    body: dict[str, Any] = json.loads(raw[:start] + raw[end:])
    parts, *more = (message["content"] for message in body["messages"])
    prompt = "".join(part["text"] for part in parts if part["type"] == "text")
    limit = int(body.get("max_tokens") or body.get("max_completion_tokens") or MOST_TOKENS)
    temperature, streamed = float(body.get("temperature", 1.0)), bool(body.get("stream"))
    return Ask(page, prompt, temperature, limit, seed, "".join(more), streamed)


def text_of(ask: Ask, tokens: int, looping: bool) -> str:
    """A page as DeepSeek-OCR writes it; one that loops does so after its first block."""
    chance = ask.chance("words")
    count = 1 if looping else max(1, tokens * CHARACTERS // BLOCK)
    blocks = [" ".join(chance.choices(_sentences(), k=4)) for _ in range(count)]
    if ask.grounded:
        height = 900 // count
        boxes = (f"[[80, {y}, 920, {y + height}]]" for y in range(40, 960, max(1, height)))
        tag = "<|ref|>text<|/ref|><|det|>{}<|/det|>\n{}"
        blocks = [tag.format(box, words) for box, words in zip(boxes, blocks, strict=False)]
    text = "\n\n".join(blocks)
    if not looping:
        return text
    sentence = " " + _words(chance, chance.randint(12, 30))
    return text + sentence * (1 + (CHARACTERS * tokens - len(text)) // len(sentence))


@cache
def _sentences() -> list[str]:
    chance = random.Random(0)
    return [_words(chance, chance.randint(8, 22)) for _ in range(1000)]


def _words(chance: random.Random, number: int) -> str:
    letters = zip(chance.choices("bcdfglmnprst", k=3 * number), cycle("aeiou"), strict=False)
    pairs = ["".join(pair) for pair in letters]
    lengths = chance.choices((1, 2, 3), k=number)
    words = ("".join(chance.choices(pairs, k=length)) for length in lengths)
    return " ".join(words).capitalize() + "."


class Faults:
    """What goes wrong, decided by page: shares of pages that fail and that loop, and kills.

    A page fails once: with 500, with 503, or with a connection that is dropped when the answer is
    due. A page loops as often as it is asked for with a grounding prompt at temperature 0. The
    process ends when it has given as many answers as `kill_after` says, over all its lives, as
    far as `state` remembers them: the file has a line for each failure, each kill, and the tokens
    that came to nothing by them.
    """

    def __init__(
        self, fail: float, loop: float, kill_after: Collection[int] = (), state: Path | None = None
    ) -> None:
        self._fail, self._loop, self._kill_after, self._state = fail, loop, kill_after, state
        lines = state.read_text().split("\n") if state is not None and state.exists() else []
        notes = [line.split() for line in lines if line]
        self._failed = {value for kind, value in notes if kind == "failed"}
        self._answers = max((int(value) for kind, value in notes if kind == "killed"), default=0)

    def fate(self, ask: Ask) -> str | None:
        """How this ask fails: `500`, `503`, `dropped`, or not at all."""
        chance = ask.chance("fate")
        if ask.probe or ask.page in self._failed or chance.random() >= self._fail:
            return None
        self._failed.add(ask.page)
        self._note("failed", ask.page)
        return chance.choice(("500", "503", "dropped"))

    def loops(self, ask: Ask) -> bool:
        greedy = ask.grounded and ask.temperature == 0 and not ask.probe
        return greedy and ask.chance("loop").random() < self._loop

    def kills(self, ask: Ask) -> bool:
        """Count an answer; True if it is the one that the process ends at."""
        self._answers += not ask.probe
        if ask.probe or self._answers not in self._kill_after:
            return False
        self._note("killed", self._answers)
        return True

    def lose(self, tokens: int) -> None:
        """Note what was said for nobody."""
        self._note("lost", tokens)

    def _note(self, kind: str, value: object) -> None:
        if self._state is not None:
            with self._state.open("a") as notes:
                notes.write(f"{kind} {value}\n")
