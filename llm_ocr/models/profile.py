"""How one model is asked and how its answer is read: the facts about it, in one place."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from llm_ocr.records import Block, ImagePolicy, ParsedAnswer
from llm_ocr.text.markdown import numbers_as_written, with_dollars

Parser = Callable[[str, int, int], ParsedAnswer]


class Task(StrEnum):
    """What a model can be asked about an image."""

    DOCUMENT = "document"
    FREE_OCR = "free_ocr"
    FIGURE = "figure"
    DESCRIBE = "describe"
    PARSE = "parse"
    CAPTION = "caption"
    DATA = "data"
    CLASSIFY = "classify"


# What can be asked about a figure.
FIGURE_TASKS = (Task.DESCRIBE, Task.CAPTION, Task.DATA, Task.CLASSIFY)


class Gives(StrEnum):
    """What a model's answer to `Task.DOCUMENT` holds beside the text."""

    BOXES = "boxes"
    FIGURES = "figures"
    TABLES = "tables"


@dataclass(frozen=True)
class Prompt:
    """The text that stands beside the image, and how many tokens an answer may have.

    `guided` is whether the answer may be bound to the task's form; not where the model was trained
    to answer in one of its own.
    """

    text: str
    max_tokens: int
    guided: bool = True


# What a profile without prompts of its own for these asks. `{classes}` becomes their list.
TASK_PROMPTS: Mapping[Task, Prompt] = {
    Task.CAPTION: Prompt(
        "Write an alternative text for this figure, for people who can't see it: one sentence of "
        "at most 20 words that names what kind of figure it is and what it shows. Don't "
        "interpret it. Answer with the sentence alone.",
        128,
    ),
    Task.DATA: Prompt(
        "Read the data in this figure. Of a chart, give the title, the labels of the axes, and "
        "each series with its points; of a table, the columns and the rows, as they are printed. "
        "Give null for what can't be read; guess nothing. If there is neither a chart nor a table "
        'in it, the kind is "none".',
        4096,
    ),
    Task.CLASSIFY: Prompt(
        "Which of these classes does this figure belong to: {classes}? Answer with the class "
        "alone.",
        32,
    ),
    Task.PARSE: Prompt(
        "Fill in the JSON schema from this document. Copy what stands there; numbers without "
        "thousands separators, dates as YYYY-MM-DD. Give null for what it does not say. Answer "
        "with one JSON object and nothing else.",
        4096,
    ),
}


@dataclass(frozen=True)
class Rung:
    """One way of asking again about a page whose answer was bad.

    `sampling` is laid over the profile's own; `scale` makes the page image smaller (0 < scale
    <= 1); `bands` cuts it into that many strips between its lines, which are asked one by one;
    `longer` leaves more room for an answer that was cut.
    """

    name: str
    task: Task = Task.DOCUMENT
    sampling: Mapping[str, object] = field(default_factory=dict)
    scale: float = 1.0
    bands: int = 1
    longer: bool = False


@dataclass(frozen=True)
class Argument:
    """One argument of `vllm serve` (`value` None for a switch) and why it is given."""

    flag: str
    value: str | None
    why: str


@dataclass(frozen=True)
class Serving:
    """What vLLM must know to serve the model.

    `revision` is the commit of `ModelProfile.model` on the Hub that is served (None: the newest,
    whose commit is noted in the rows). `weights_gib` is what the weights take on a GPU;
    `page_tokens` is what a typical page takes of the KV cache, prompt and answer, and
    `max_model_len` the most that any takes. `versions` are the first and the last vLLM release
    (major, minor) with which the model is known to work.
    """

    weights_gib: float
    max_model_len: int
    page_tokens: int
    versions: tuple[tuple[int, int], tuple[int, int]]
    revision: str | None = None
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Card:
    """What a user wants to know before choosing the model.

    `parameters` as the model card says it, `license` as an SPDX id or the license's own name;
    `sources` are addresses; `verified` is whether recorded answers of the real model are read in
    the tests.
    """

    parameters: str
    license: str
    gives: frozenset[Gives]
    sources: tuple[str, ...]
    verified: bool = False


@dataclass(frozen=True)
class ModelProfile:
    """One model: its name on the server, its prompts, its sampling, its images, its answers.

    `sampling` goes into every request's body as it is. `parse(answer, width, height)` turns an
    answer about an image of that size in pixels into blocks in its pixels, and never raises;
    `parser_version` grows when it reads the same answer differently. `ladder` is climbed when an
    answer is bad. `prompts` has at least `Task.DOCUMENT` and `Task.DESCRIBE`. `may_loop` is false
    for an engine that generates nothing: what repeats in its answers stands on the page. `prefix`
    stands before prompts that are not the profile's own. `takes_extension` is for the embedded
    engine, whose requests name the task and carry the page's text layer.
    """

    id: str
    model: str
    prompts: Mapping[Task, Prompt]
    sampling: Mapping[str, object]
    image: ImagePolicy
    parse: Parser
    parser_version: int
    ladder: tuple[Rung, ...]
    serving: Serving
    card: Card
    may_loop: bool = True
    prefix: str = ""
    takes_extension: bool = False

    def read(self, answer: str, width: int, height: int) -> ParsedAnswer:
        """What `parse` makes of an answer, in Markdown that shows what the model wrote: formulas
        between dollars, and numbers at the beginnings of lines that Markdown would count."""
        parsed = self.parse(answer, width, height)
        return replace(parsed, blocks=tuple(map(_as_shown, parsed.blocks)))

    def prompt(self, task: Task) -> Prompt:
        """The profile's own prompt for a task, or the usual one."""
        own = self.prompts.get(task)
        if own is not None:
            return own
        usual = TASK_PROMPTS[task]
        return self.any_prompt(usual.text, usual.max_tokens)

    def any_prompt(self, text: str, max_tokens: int) -> Prompt:
        """Any text as a prompt for this model, with room for the image beside the answer."""
        return Prompt(self.prefix + text, min(max_tokens, self.serving.max_model_len // 2))

    def prompt_hash(self, task: Task) -> str:
        """12 hex digits that change with the prompt, its token limit or the sampling."""
        return self.hash_of(self.prompt(task))

    def hash_of(self, prompt: Prompt) -> str:
        """As `prompt_hash`, of any prompt."""
        asked = [self.model, prompt.text, prompt.max_tokens, dict(self.sampling)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


# Labels of blocks in which nothing at a line's beginning is a number of a list.
_NO_PROSE = frozenset({"table", "equation"})


def _as_shown(block: Block) -> Block:
    text = with_dollars(block.text)
    if block.label not in _NO_PROSE and "```" not in text:
        text = numbers_as_written(text)
    return block if text == block.text else replace(block, text=text)
