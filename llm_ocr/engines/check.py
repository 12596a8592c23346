"""Check a server on pages whose content is known, before money is spent on others."""

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw, ImageFont

from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.loops import find_loop
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer, WrongServerError
from llm_ocr.inference.server_status import server_version
from llm_ocr.messages import ProblemCode
from llm_ocr.models.elements import ElementRegion, compose
from llm_ocr.models.geometry import THOUSAND
from llm_ocr.models.profile import Gives, ModelProfile, Task
from llm_ocr.records import FIGURE_LABELS, PageError, ParsedAnswer
from llm_ocr.sources.raster import squeeze

SENTENCES = (
    "Quarterly report of the harbour office",
    "The bridge was closed for seven weeks in spring,",
    "and four hundred barges took the northern canal.",
    "Repairs cost less than the committee had feared.",
)
MONTHS = ("January", "March", "August", "October")
# The share of the known words that must come back; models drop or misread one now and then.
WORDS_NEEDED = 0.6
# An answer of at least so many signs that are all the same is a fault: no known page has any such.
MIN_SAME_SIGNS = 8
# Characters of a repeated pattern that a message shows.
SHOWN = 40
# A page for every model, larger than the 640 px that DeepSeek-OCR takes as one tile.
WIDTH, HEIGHT = 1100, 1400


class CheckFailedError(WrongServerError):
    """The server does not answer as the profile expects; says in what."""


@dataclass(frozen=True)
class Probe:
    """A known page, and what is wrong with an answer about it (None: nothing). A model that reads
    in two steps is asked about it as an image of an `element`, or, without one, for its regions."""

    name: str
    jpeg: bytes
    size: tuple[int, int]
    problem: Callable[[ModelProfile, Answer, ParsedAnswer], str | None]
    element: str | None = "text"


@dataclass(frozen=True)
class Finding:
    """What came of one probe: `problem` is None where the answer was as expected; `is_stuck` is
    whether the model repeated itself, or did not end."""

    probe: str
    seconds: float
    problem: str | None
    is_stuck: bool = False


async def check(client: ChatClient, profile: ModelProfile) -> list[Finding]:
    """Ask about every known page at once; EngineFailedError where nobody answers.

    Where the model repeats itself, the first such finding says what is known of the server's
    version.
    """
    findings = await asyncio.gather(*(_ask(client, profile, probe) for probe in probes()))
    stuck = next((k for k, one in enumerate(findings) if one.is_stuck), None)
    if stuck is not None:
        reason = _likely_reason(profile, await server_version(client.base_url, client.headers))
        problem = f"{findings[stuck].problem}; {reason}"
        findings[stuck] = replace(findings[stuck], problem=problem)
    return findings


def _likely_reason(profile: ModelProfile, version: str | None) -> str:
    """Why a model may repeat itself on a server of this version."""
    issues = [issue for issue in profile.serving.issues if issue.package == "vllm"]
    known = [issue for issue in issues if version is not None and issue.affects(version)]
    if known and version is not None:
        return "the likely reason is " + "; ".join(issue.describe(version) for issue in known)
    # Of packages beside vLLM, and of a server that reports no version, nothing is known here.
    others = [issue for issue in profile.serving.issues if version is None or issue not in issues]
    if others:
        said = "; ".join(f"{one.range}: {one.problem} ({one.source})" for one in others)
        return f"known reasons are {said}"
    return "are the model's logits processor and sampling set?"


def raise_if_wrong(findings: list[Finding], model: str, where: str) -> None:
    """Raise CheckFailedError if a finding is a problem."""
    problems = [f"  {one.probe}: {one.problem}" for one in findings if one.problem]
    if problems:
        raise CheckFailedError(
            f"{model} at {where} does not answer as its profile expects:\n"
            + "\n".join(problems)
            + "\n"
            "Check that the server runs this model with the arguments of its profile",
            ProblemCode.UNEXPECTED_ANSWERS,
        )


async def _ask(client: ChatClient, profile: ModelProfile, probe: Probe) -> Finding:
    request = _request(profile, probe)
    if request is None:
        # The regions are not the model's: there is nothing to ask it.
        return Finding(probe.name, 0.0, None)
    try:
        answer = await client.ask(request)
    except PageError as error:
        return Finding(probe.name, 0.0, error.message)
    text = answer.text
    if profile.two_step is not None and probe.element is not None:
        whole = ElementRegion(probe.element, (0, 0, THOUSAND, THOUSAND))
        text = compose([whole], {0: text})
    parsed = profile.read(text, *probe.size)
    stuck = _repetition(answer)
    problem = stuck or probe.problem(profile, answer, parsed)
    return Finding(probe.name, answer.seconds, problem, stuck is not None)


def _request(profile: ModelProfile, probe: Probe) -> ChatRequest | None:
    """What a page of the profile's is asked with; None where nothing is."""
    steps, prompt, jpeg = profile.two_step, profile.prompts[Task.DOCUMENT], probe.jpeg
    sampling = dict(profile.sampling)
    if steps is not None and probe.element is not None:
        prompt = steps.prompt(probe.element)
        sampling |= steps.element_sampling(probe.element)
    elif steps is not None:
        if steps.layout is None:
            return None
        prompt = steps.layout
        jpeg = squeeze(jpeg, steps.layout_side, profile.image.jpeg_quality)
    return ChatRequest(prompt.text, jpeg, min(prompt.max_tokens, 2048), sampling)


def _repetition(answer: Answer) -> str | None:
    """How an answer repeats itself, or that it did not end; None if it does neither."""
    signs = "".join(answer.text.split())
    if len(signs) >= MIN_SAME_SIGNS and len(set(signs)) == 1:
        return f"the answer is {len(signs):,} times {signs[0]!r} and nothing else"
    loop = find_loop(answer.text, answer.finish_reason)
    if loop is not None:
        pattern = answer.text[loop.start : loop.start + min(loop.period, SHOWN)]
        return f"the text repeats itself: {pattern!r}, {loop.count:.0f} times"
    if answer.finish_reason in ("length", "repetition"):
        return f"the answer did not end within {answer.completion_tokens:,} tokens"
    return None


def probes() -> list[Probe]:
    """The known pages: text, a sparse table, a small image, two figures."""
    return [
        Probe("a page of text", *_page(_draw_text, (WIDTH, HEIGHT)), _text_problem),
        Probe(
            "a wide table with empty cells",
            *_page(_draw_table, (1400, 900)),
            _table_problem,
            element="table",
        ),
        Probe("an image of 640 px", *_page(_draw_small, (640, 480)), _small_problem),
        Probe(
            "a page with two figures",
            *_page(_draw_figures, (WIDTH, HEIGHT)),
            _figures_problem,
            element=None,
        ),
    ]


def _text_problem(profile: ModelProfile, answer: Answer, parsed: ParsedAnswer) -> str | None:
    missing = _missing(" ".join(SENTENCES), answer.text)
    if missing:
        return missing
    if Gives.BOXES in profile.card.gives and not any(block.box for block in parsed.blocks):
        return "no boxes came with the text: is this the model that the profile is for?"
    return None


def _table_problem(profile: ModelProfile, answer: Answer, parsed: ParsedAnswer) -> str | None:
    if Gives.TABLES not in profile.card.gives:
        return None
    # Not the answer itself, as tags may have bars of their own.
    said = "\n".join(block.text for block in parsed.blocks).lower()
    if "<table" not in said and "<td" not in said and said.count("|") < 8:
        bans = "whitelist_token_ids" in str(profile.sampling)
        reason = ": its tags may be banned (whitelist_token_ids must be a list)" if bans else ""
        return f"no table came back{reason}"
    return _missing(" ".join(MONTHS), answer.text)


def _small_problem(profile: ModelProfile, answer: Answer, parsed: ParsedAnswer) -> str | None:
    return _missing(SENTENCES[0], answer.text)


def _figures_problem(profile: ModelProfile, answer: Answer, parsed: ParsedAnswer) -> str | None:
    if Gives.FIGURES not in profile.card.gives:
        return None
    found = sum(block.label in FIGURE_LABELS and block.box is not None for block in parsed.blocks)
    return None if found >= 2 else f"{found} of 2 figures have a box"


def _missing(known: str, said: str) -> str | None:
    words = {word.strip(",.").lower() for word in known.split()}
    found = sum(word in said.lower() for word in words)
    if found >= WORDS_NEEDED * len(words):
        return None
    return f"{found} of {len(words)} known words were read; the answer starts with {said[:60]!r}"


def _page(
    draw: Callable[[ImageDraw.ImageDraw], None], size: tuple[int, int]
) -> tuple[bytes, tuple[int, int]]:
    image = Image.new("RGB", size, "white")
    draw(ImageDraw.Draw(image))
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=92)
    return sink.getvalue(), size


def _draw_text(page: ImageDraw.ImageDraw) -> None:
    page.text((100, 120), SENTENCES[0], fill="black", font=ImageFont.load_default(size=44))
    for k, line in enumerate(SENTENCES[1:]):
        page.text((100, 260 + 60 * k), line, fill="black", font=ImageFont.load_default(size=32))


def _draw_table(page: ImageDraw.ImageDraw) -> None:
    left, top, width, height, columns, rows = 60, 80, 160, 90, 8, 8
    for k in range(columns + 1):
        x = left + k * width
        page.line((x, top, x, top + rows * height), fill="black", width=2)
    for k in range(rows + 1):
        y = top + k * height
        page.line((left, y, left + columns * width, y), fill="black", width=2)
    font = ImageFont.load_default(size=28)
    for k, month in enumerate(MONTHS):
        page.text((left + 12, top + (2 * k + 1) * height + 28), month, fill="black", font=font)
        page.text(
            (left + (2 * k + 1) * width + 20, top + 28), f"Unit {k + 1}", fill="black", font=font
        )
        place = (left + (2 * k + 1) * width + 20, top + (2 * k + 1) * height + 28)
        page.text(place, str(417 + 31 * k), fill="black", font=font)


def _draw_small(page: ImageDraw.ImageDraw) -> None:
    font = ImageFont.load_default(size=30)
    page.text((30, 200), SENTENCES[0], fill="black", font=font)


def _draw_figures(page: ImageDraw.ImageDraw) -> None:
    font = ImageFont.load_default(size=30)
    for k, top in enumerate((120, 760)):
        page.line((200, top, 200, top + 420), fill="black", width=4)
        page.line((200, top + 420, 900, top + 420), fill="black", width=4)
        for bar in range(5):
            x, tall = 250 + 130 * bar, 90 + 70 * ((bar * (3 + k)) % 5)
            page.rectangle((x, top + 420 - tall, x + 80, top + 420), fill=("navy", "darkred")[k])
        caption = f"Figure {k + 1}. Barges by week, {('north', 'south')[k]} lock"
        page.text((220, top + 460), caption, fill="black", font=font)
