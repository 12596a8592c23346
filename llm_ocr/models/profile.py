"""How one model is asked and how its answer is read: the facts about it, in one place."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from llm_ocr.records import ImagePolicy, ParsedAnswer

Parser = Callable[[str, int, int], ParsedAnswer]


class Task(StrEnum):
    """What a model can be asked about an image."""

    DOCUMENT = "document"
    FREE_OCR = "free_ocr"
    FIGURE = "figure"
    DESCRIBE = "describe"


@dataclass(frozen=True)
class Prompt:
    """The text that stands beside the image, and how many tokens an answer may have."""

    text: str
    max_tokens: int


@dataclass(frozen=True)
class ModelProfile:
    """One model: its name on the server, its prompts, its sampling, its images, its answers.

    `sampling` goes into every request's body as it is. `parse(answer, width, height)` turns an
    answer about an image of that size in pixels into blocks in its pixels, and never raises;
    `parser_version` grows when it reads the same answer differently.
    """

    id: str
    model: str
    prompts: Mapping[Task, Prompt]
    sampling: Mapping[str, object]
    image: ImagePolicy
    parse: Parser
    parser_version: int

    def prompt_hash(self, task: Task) -> str:
        """12 hex digits that change with the prompt, its token limit or the sampling."""
        prompt = self.prompts[task]
        asked = [self.model, prompt.text, prompt.max_tokens, dict(self.sampling)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
