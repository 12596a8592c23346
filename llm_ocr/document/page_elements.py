"""The elements of a page, for a model that reads it in two steps: regions, then each one's text.

Both steps go through the same retry ladder as a page that is read at once: a rung asks for the
regions if there are none, and else about the elements whose answers were bad. The rest stays as it
was read, and what can't be read flags the page.
"""

import asyncio
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PIL import Image

from llm_ocr.engines.embedded.serving.command import check_installed
from llm_ocr.inference.loops import MIN_SAME_BOX, find_loop
from llm_ocr.inference.model_item import PromptRequest
from llm_ocr.inference.quality import SEVERITY, QualityIssue
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.models.elements import ElementRegion, compose, find_regions, regions_to_read
from llm_ocr.models.geometry import THOUSAND
from llm_ocr.models.profile import ModelProfile, Prompt, Rung, TwoStep
from llm_ocr.sources.raster import encode, rotate, squeeze

# Elements are no smaller than this, in pixels, and no more than so many times as long as wide: the
# models' image processors take no others.
MIN_SIDE, MAX_RATIO = 28, 50
# Characters from which on an element's answer that still runs is watched for loops.
LONG_ELEMENT = 1_000
# Finish reasons of answers that were cut, the worst first.
_CUT_ENDS = ("repetition", "length")
# Faults that a note lists.
MAX_LISTED = 3


@dataclass(frozen=True)
class ElementFault:
    """What is wrong with the answer about an element, and the part of it that is worth keeping."""

    issue: QualityIssue
    reason: str
    kept: str


@dataclass(frozen=True)
class ComposedAnswer:
    """The answers about a page's regions and elements as one; the worst fault among them, if any,
    and what all of them are."""

    answer: Answer
    issue: QualityIssue | None
    reason: str


class PageElements:
    """The regions and elements of one page image (JPEG, `size` in pixels), as far as `profile` has
    read them."""

    def __init__(
        self, profile: ModelProfile, steps: TwoStep, jpeg: bytes, size: tuple[int, int]
    ) -> None:
        self._profile, self._steps, self._jpeg, self._size = profile, steps, jpeg, size
        self._regions: Sequence[ElementRegion] = ()
        self._layout_fault: ElementFault | None = None
        self._answers: dict[int, Answer] = {}

    async def requests(self, rung: Rung) -> Sequence[PromptRequest]:
        """The request for the regions, or those about the elements that are still to be read."""
        if self._regions and self._layout_fault is None:
            wanted = [k for k in regions_to_read(self._regions) if self._fault(k) is not None]
            return await self._element_requests(wanted, rung)
        if self._steps.layout is None:
            self._set_regions(await asyncio.to_thread(_detect, self._jpeg, self._size))
            return await self._element_requests(regions_to_read(self._regions), rung)
        side = self._steps.layout_side
        quality = self._profile.image.jpeg_quality
        jpeg = await asyncio.to_thread(squeeze, self._jpeg, side, quality)

        async def follow(answer: Answer) -> Sequence[PromptRequest]:
            self._read_layout(answer)
            return await self._element_requests(regions_to_read(self._regions), rung)

        request = self._request(self._steps.layout, jpeg, rung, {})
        return [PromptRequest(request, *self._size, then=follow)]

    def read(self, exchanges: Sequence[tuple[PromptRequest, Answer]]) -> ComposedAnswer:
        """All that was read by now, with the answers of these exchanges."""
        for request, answer in exchanges:
            place = request.element
            if place is not None and self._is_better(answer, self._answers.get(place)):
                self._answers[place] = answer
        wanted = regions_to_read(self._regions)
        faults = {k: fault for k in wanted if (fault := self._fault(k)) is not None}
        texts = {k: answer.text for k, answer in self._answers.items()}
        texts |= {k: fault.kept for k, fault in faults.items()}
        every = [*faults.values(), *([self._layout_fault] if self._layout_fault else [])]
        worst = max((fault.issue for fault in every), key=SEVERITY.__getitem__, default=None)
        answers = [answer for _, answer in exchanges]
        ends = {answer.finish_reason for answer in self._answers.values()}
        return ComposedAnswer(
            Answer(
                text=compose(self._regions, texts),
                finish_reason=next((end for end in _CUT_ENDS if end in ends), "stop"),
                prompt_tokens=sum(answer.prompt_tokens for answer in answers),
                completion_tokens=sum(answer.completion_tokens for answer in answers),
                seconds=sum(answer.seconds for answer in answers),
                attempts=sum(answer.attempts for answer in answers),
            ),
            worst,
            self._describe(faults),
        )

    def _set_regions(self, regions: Sequence[ElementRegion]) -> None:
        self._regions, self._answers = regions, {}

    def _read_layout(self, answer: Answer) -> None:
        self._set_regions(find_regions(answer.text))
        self._layout_fault = _layout_fault(answer)

    async def _element_requests(self, places: Sequence[int], rung: Rung) -> list[PromptRequest]:
        regions = [self._regions[k] for k in places]
        quality = self._profile.image.jpeg_quality
        jpegs = await asyncio.to_thread(cut_elements, self._jpeg, regions, quality)
        requests = []
        for k, region, jpeg in zip(places, regions, jpegs, strict=True):
            prompt = self._steps.prompt(region.label)
            sampling = self._steps.element_sampling(region.label)
            request = self._request(prompt, jpeg, rung, sampling)
            requests.append(PromptRequest(request, *self._size, element=k))
        return requests

    def _request(
        self, prompt: Prompt, jpeg: bytes, rung: Rung, sampling: Mapping[str, object]
    ) -> ChatRequest:
        most = self._profile.serving.max_model_len // 2
        limit = min(2 * prompt.max_tokens, most) if rung.longer else prompt.max_tokens
        asked = {**self._profile.sampling, **sampling, **rung.sampling}
        return ChatRequest(prompt.text, jpeg, limit, asked, LONG_ELEMENT)

    def _fault(self, place: int) -> ElementFault | None:
        """What is wrong with the answer about an element, or with there being none."""
        answer = self._answers.get(place)
        if answer is None:
            return ElementFault(QualityIssue.CUT, "not read", "")
        return element_fault(answer)

    def _is_better(self, answer: Answer, before: Answer | None) -> bool:
        if before is None:
            return True
        return _rank(answer) > _rank(before)

    def _describe(self, faults: Mapping[int, ElementFault]) -> str:
        """What is wrong, for people."""
        said = [self._layout_fault.reason] if self._layout_fault else []
        if faults:
            read = len(regions_to_read(self._regions))
            listed = [
                f"{self._regions[k].label} {k + 1}: {fault.reason}"
                for k, fault in [*faults.items()][:MAX_LISTED]
            ]
            more = ["…"] if len(faults) > MAX_LISTED else []
            said.append(
                f"{len(faults)} of {read} elements are not read whole: {'; '.join(listed + more)}"
            )
        return "; ".join(said)


def _rank(answer: Answer) -> tuple[int, int]:
    """Orders answers about the same element: less severe is greater, then longer."""
    fault = element_fault(answer)
    if fault is None:
        return 1, len(answer.text)
    return -SEVERITY[fault.issue] if answer.failure is None else -len(SEVERITY), len(fault.kept)


def element_fault(answer: Answer) -> ElementFault | None:
    """What is wrong with an answer about an element."""
    if answer.failure is not None:
        return ElementFault(QualityIssue.CUT, answer.failure, "")
    loop = find_loop(answer.text, answer.finish_reason)
    if loop is not None:
        reason = f"{loop.period} characters repeat ({loop.kind})"
        return ElementFault(QualityIssue.LOOP, reason, answer.text[: loop.start])
    if answer.finish_reason == "repetition":
        return ElementFault(QualityIssue.LOOP, "the server stopped a repetition", answer.text)
    if answer.finish_reason == "length":
        reason = f"cut off after {answer.completion_tokens} tokens"
        return ElementFault(QualityIssue.CUT, reason, answer.text)
    return None


def _layout_fault(answer: Answer) -> ElementFault | None:
    """What is wrong with an answer about a page's regions."""
    lines = Counter(line for line in answer.text.splitlines() if line.strip())
    most = max(lines.values(), default=0)
    if most >= MIN_SAME_BOX or answer.finish_reason == "repetition":
        return ElementFault(QualityIssue.LOOP, "the answer about the layout repeats itself", "")
    if answer.finish_reason == "length":
        return ElementFault(QualityIssue.CUT, "the answer about the layout was cut off", "")
    return None


def cut_elements(jpeg: bytes, regions: Sequence[ElementRegion], quality: int) -> list[bytes]:
    """The regions of a page image as images (JPEG), upright and of a size that models take."""
    with Image.open(io.BytesIO(jpeg)) as stored:
        page = stored.convert("RGB")
    return [encode(_element(page, region), quality) for region in regions]


def _element(page: Image.Image, region: ElementRegion) -> Image.Image:
    x1, y1, x2, y2 = (
        side * length / THOUSAND
        for side, length in zip(region.box, (*page.size, *page.size), strict=True)
    )
    corners = math.floor(x1), math.floor(y1), math.ceil(x2), math.ceil(y2)
    image = rotate(page.crop(corners), region.turn)
    width, height = image.size
    if max(width, height) > MAX_RATIO * min(width, height):
        least = math.ceil(max(width, height) / MAX_RATIO)
        padded = Image.new("RGB", (max(width, least), max(height, least)), "white")
        padded.paste(image, ((padded.width - width) // 2, (padded.height - height) // 2))
        image = padded
    if min(image.size) < MIN_SIDE:
        scale = MIN_SIDE / min(image.size)
        size = math.ceil(image.width * scale), math.ceil(image.height * scale)
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image


_PAGE = (0, 0, THOUSAND, THOUSAND)
# Labels of the embedded engine's layout model that are called otherwise here.
_DETECTED = {"figure": "image", "figure_caption": "image_caption", "reference": "text"}


def _detect(jpeg: bytes, size: tuple[int, int]) -> list[ElementRegion]:
    """The regions that the embedded engine's layout model finds; the whole page, if none has text.
    Raises EngineNotInstalledError where the cpu extra is missing."""
    check_installed()
    from llm_ocr.engines.embedded.layout_regions import layout_regions

    found: list[ElementRegion] = []
    for label, rect in layout_regions(jpeg):
        x1, y1, x2, y2 = (
            round(side / length * THOUSAND)
            for side, length in zip(rect, (*size, *size), strict=True)
        )
        if x1 < x2 and y1 < y2:
            found.append(ElementRegion(_DETECTED.get(label, label), (x1, y1, x2, y2)))
    # Handwriting and drawings are figures to it: the page may have text all the same.
    return found if regions_to_read(found) else [*found, ElementRegion("text", _PAGE)]
