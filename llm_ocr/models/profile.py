"""Define a model profile: its prompts, sampling, images, parser, retry ladder and vLLM settings."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from llm_ocr.models.geometry import THOUSAND, BoxUnit, Resizing
from llm_ocr.models.version_issues import VersionIssue
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer
from llm_ocr.text.markdown import keep_list_numbers, normalize_math_delimiters

Parser = Callable[[str, int, int], ParsedAnswer]


class Task(StrEnum):
    """A task that a model does with an image."""

    DOCUMENT = "document"
    FREE_OCR = "free_ocr"
    FIGURE = "figure"
    DESCRIBE = "describe"
    PARSE = "parse"
    CAPTION = "caption"
    DATA = "data"
    CLASSIFY = "classify"


# The tasks about figures.
FIGURE_TASKS = (Task.DESCRIBE, Task.CAPTION, Task.DATA, Task.CLASSIFY)


class Gives(StrEnum):
    """What a model's answer to `Task.DOCUMENT` has in addition to text."""

    BOXES = "boxes"
    FIGURES = "figures"
    TABLES = "tables"


@dataclass(frozen=True)
class Prompt:
    """The text that is sent with the image, and the maximum of tokens in an answer.

    `guided` is whether structured output may constrain the answer; false where the model was
    trained to answer in a format of its own.
    """

    text: str
    max_tokens: int
    guided: bool = True


# The prompts of profiles that have none of their own. `{classes}` is replaced by the list.
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
class TwoStep:
    """How a model reads a page in two steps: its regions, then the text of each element.

    `layout` asks for the regions of the page, squeezed to a square of `layout_side` pixels; None:
    the layout detector of the embedded engine finds them, which needs the `cpu` extra. `prompts`
    are those about the image of an element, by the label of its region; those of other labels get
    that of "text". `sampling` overrides the profile's for an element, by label, too.
    """

    prompts: Mapping[str, Prompt]
    sampling: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    layout: Prompt | None = None
    layout_side: int = 0

    def prompt(self, label: str) -> Prompt:
        return self.prompts.get(label, self.prompts["text"])

    def element_sampling(self, label: str) -> Mapping[str, object]:
        return self.sampling.get(label, self.sampling.get("text", {}))

    @property
    def fingerprint(self) -> Sequence[object]:
        """The same for what gives the same answers."""
        prompts = [*sorted(self.prompts.items()), ("layout", self.layout)]
        texts = [[name, one.text, one.max_tokens] for name, one in prompts if one is not None]
        return [texts, {name: dict(one) for name, one in self.sampling.items()}, self.layout_side]


@dataclass(frozen=True)
class Rung:
    """One retry of a page whose answer was bad.

    `sampling` overrides the profile's; `scale` makes the page image smaller (0 < scale <= 1);
    `bands` cuts it between its lines into that many tiles, each with a request of its own; `longer`
    raises the token limit of an answer that was cut.
    """

    name: str
    task: Task = Task.DOCUMENT
    sampling: Mapping[str, object] = field(default_factory=dict)
    scale: float = 1.0
    bands: int = 1
    longer: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument of `vllm serve` (`value` None for a flag without one), and the reason for it.

    `since` is the first release of vLLM that knows it, if it is newer than those of the profiles.
    """

    flag: str
    value: str | None
    why: str
    since: tuple[int, ...] = ()


# Arguments that several profiles share. These are for models that are asked once about each image:
# a page, a strip, an element or a figure. The caches would only take memory of the machine and the
# time to hash each image; of the images that do come twice, most are retries of bad answers.
NO_CACHES = (
    Argument("--no-enable-prefix-caching", None, "no two pages begin alike"),
    Argument("--mm-processor-cache-gb", "0", "no page comes twice"),
)
# For models that are asked about an image several times within seconds: tasks for a figure, a page
# and then its record. The prompt begins with the image, so that vLLM's prefix caching, which is on
# by default, saves its tokens; the cache of prepared images (some 10 MiB each) saves preparing it.
# Its type stays `lru`: `shm` needs more shared memory than the 64 MiB that Docker gives a
# container, and vLLM doesn't use it with several API servers or engines.
SAME_IMAGES = (
    Argument("--mm-processor-cache-gb", "1", "an image may come again, with another question"),
)
# Lets vLLM run code from the model's repository.
TRUST_REMOTE_CODE = Argument(
    "--trust-remote-code", None, "the checkpoint's processor comes with it"
)
ONE_IMAGE = Argument("--limit-mm-per-prompt", '{"image": 1, "video": 0}', "no video is ever sent")


@dataclass(frozen=True)
class Serving:
    """How vLLM serves the model.

    `revision` is the commit of `ModelProfile.model` on the Hub (None: the newest, which is noted in
    the rows). `weights_gib` is the GPU memory of the weights. A typical page takes `page_tokens` of
    the KV cache, prompt and answer, and `max_model_len` at most; a token takes `kv_kib` KiB of it,
    at 16 bits: 2 (keys and values) x layers with attention x KV heads x head dimension x 2 bytes.
    A model with linear attention takes `state_mib` MiB for each sequence, too, however long it is.
    `max_sequences` is the number in a batch beyond which it was measured to be slower. `versions`
    are the first and the last vLLM release (major, minor) with which the model is known to work,
    and `issues` the releases with which it is known not to.
    """

    weights_gib: float
    max_model_len: int
    page_tokens: int
    kv_kib: float
    versions: tuple[tuple[int, int], tuple[int, int]]
    state_mib: float = 0.0
    max_sequences: int | None = None
    revision: str | None = None
    arguments: tuple[Argument, ...] = ()
    issues: tuple[VersionIssue, ...] = ()

    def known_issues(self, versions: Mapping[str, str]) -> Sequence[VersionIssue]:
        """The issues of these versions, by package."""
        return [
            issue
            for issue in self.issues
            if issue.package in versions and issue.affects(versions[issue.package])
        ]


@dataclass(frozen=True)
class Card:
    """Facts for choosing a model.

    `parameters` as in the model card, `license` as an SPDX id or the license's own name, and
    `license_note` what it restricts; `sources` are URLs; `verified` is whether the tests parse
    recorded answers of the real model.
    """

    parameters: str
    license: str
    gives: frozenset[Gives]
    sources: tuple[str, ...]
    verified: bool = False
    license_note: str = ""


@dataclass(frozen=True)
class ModelProfile:
    """How one model is asked and how its answers are parsed.

    `model` is its name on the Hub and on the server. `sampling` goes into every request's body.
    `parse(answer, width, height)` turns an answer about an image of that size into blocks with
    boxes in its pixels, and never raises; `parser_version` grows when it parses the same answer
    differently. `ladder` are the retries of a bad answer. `prompts` has at least `Task.DOCUMENT`
    and `Task.DESCRIBE`. `may_loop` is false for an engine that generates nothing: what repeats in
    its answers is on the page. `prefix` precedes prompts that are not the profile's own.
    `takes_extension` is for the embedded engine, whose requests have the task and the page's text
    layer. `schema_arguments` turns a JSON Schema, and what is to be minded, into arguments of the
    chat template, for a model that was trained to fill in templates. `two_step` is set for a model
    that reads the elements of a page one by one; then the prompt of `Task.DOCUMENT` is not used for
    pages, and `parse` takes what `llm_ocr.models.elements.compose` makes of the answers. `box_unit`
    is the unit of boxes that other prompts ask for, such as those of the step auxiliary; `resizing`
    is what the model's processor does with images before.
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
    schema_arguments: Callable[[Mapping[str, Any], str], Mapping[str, object]] | None = None
    two_step: TwoStep | None = None
    box_unit: BoxUnit = BoxUnit.THOUSANDTHS
    resizing: Resizing | None = None

    def box_grid(self, width: int, height: int) -> tuple[int, int]:
        """How many steps the boxes in its answers have across and down an image of this size."""
        if self.box_unit is BoxUnit.THOUSANDTHS:
            return THOUSAND, THOUSAND
        return (width, height) if self.resizing is None else self.resizing.size(width, height)

    def read(self, answer: str, width: int, height: int) -> ParsedAnswer:
        """The parsed answer, as Markdown that renders what the model wrote: formulas between dollar
        signs, and numbers at line starts that Markdown would renumber."""
        parsed = self.parse(answer, width, height)
        return replace(parsed, blocks=tuple(map(_normalize_markdown, parsed.blocks)))

    def prompt(self, task: Task) -> Prompt:
        """The profile's own prompt for a task, or the default one."""
        own = self.prompts.get(task)
        if own is not None:
            return own
        default = TASK_PROMPTS[task]
        return self.custom_prompt(default.text, default.max_tokens)

    def custom_prompt(self, text: str, max_tokens: int) -> Prompt:
        """Any text as a prompt, with a token limit that leaves room for the image."""
        return Prompt(self.prefix + text, min(max_tokens, self.serving.max_model_len // 2))

    def prompt_hash(self, task: Task) -> str:
        """12 hex digits that change with the prompt, its token limit or the sampling."""
        return self.hash_prompt(self.prompt(task))

    def hash_prompt(self, prompt: Prompt) -> str:
        """As `prompt_hash`, for any prompt."""
        fields = [self.model, prompt.text, prompt.max_tokens, dict(self.sampling)]
        if self.two_step is not None:
            fields.append(self.two_step.fingerprint)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


# Labels of blocks in which a number at the start of a line is no list item.
_NOT_PROSE = frozenset({"table", "equation"})


def _normalize_markdown(block: Block) -> Block:
    text = normalize_math_delimiters(block.text)
    if block.label not in _NOT_PROSE and "```" not in text:
        text = keep_list_numbers(text)
    return block if text == block.text else replace(block, text=text)
