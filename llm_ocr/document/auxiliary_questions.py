"""Ask a vision model what else is on a page: a prompt and a JSON Schema per kind of finding."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

from llm_ocr.auxiliary.options import KindOptions
from llm_ocr.auxiliary.stamp_dates import find_stamp_dates
from llm_ocr.document.describe import FigureItem
from llm_ocr.document.figure_tasks import OWN_TOKENS, FigureTask, schema_task
from llm_ocr.inference.model_item import ModelResult
from llm_ocr.models.geometry import BoxUnit, box_from_grid
from llm_ocr.models.profile import ModelProfile, Prompt
from llm_ocr.records import (
    AuxiliaryFinding,
    Box,
    ErrorCode,
    Figure,
    FindingKind,
    PageError,
    PageResult,
    PageStatus,
)
from llm_ocr.sources.raster import fit_size

# The confidence where the server gives no probabilities of tokens.
NO_CONFIDENCE = 0.5
# What boxes are asked for in: as the model was trained to give them.
_UNITS: Mapping[BoxUnit, str] = {
    BoxUnit.THOUSANDTHS: "in thousandths of the image's width and height",
    BoxUnit.PIXELS: "in pixels of the image",
}
_BOX = (
    "box is the left, top, right and bottom of it, {unit}. "
    "Answer with an empty list if there is none. Guess nothing."
)
# `{unit}` stands for that of the model.
PROMPTS: Mapping[FindingKind, str] = {
    FindingKind.BARCODE: (
        "List all barcodes and QR codes on this page. symbology is the kind of code, such as "
        "EAN-13, Code 128, QR Code or Data Matrix, or null if you can't tell. text is what is "
        "printed beside the code for people to read, exactly as it is printed, or null if nothing "
        f"is; don't decode the code itself. {_BOX}"
    ),
    FindingKind.STAMP: (
        "List all rubber stamps and postmarks on this page, in any color. text is what the stamp "
        f"says, from top to bottom, exactly as it is written. {_BOX}"
    ),
    FindingKind.DATE: (
        "List the dates of all date stamps and postmarks on this page, not those that are printed "
        f"or written elsewhere. text is the date exactly as it is stamped. {_BOX}"
    ),
    FindingKind.SIGNATURE: (
        "List all signatures on this page, and all places that are meant for a signature. state is "
        "present if it is signed, absent if it isn't, and unsure if you can't tell; text is the "
        f"label of the place. A printed name is no signature. {_BOX}"
    ),
}
_STATES = ("present", "absent", "unsure")


def make_question(
    kind: FindingKind, options: KindOptions, page: PageResult, where: str
) -> FigureItem:
    """What a model is asked about a page with an image; messages name the page as `where`."""
    assert page.image is not None
    whole = Box(0, 0, page.width or 1, page.height or 1)
    image = Figure(
        figure_id=f"{page.page_id}/{kind.value}",
        page_id=page.page_id,
        doc_id=page.doc_id,
        name=where,
        label="page",
        box=whole,
        jpeg=page.image,
        width=page.width or 1,
        height=page.height or 1,
    )
    return FigureItem(image, _task(kind, options.prompt))


def read_findings(
    kind: FindingKind,
    options: KindOptions,
    page: PageResult,
    answer: ModelResult,
    where: str,
    today: date,
) -> list[AuxiliaryFinding]:
    """The findings that an answer names. Raises PageError if it can't be read."""
    task = _task(kind, options.prompt)
    assert task.read is not None
    if answer.answer is None or answer.status is PageStatus.FAILED:
        reason = answer.assessment.reason or "the answer is empty"
        raise PageError(ErrorCode.UNREADABLE_ANSWER, f"{where}: {kind.value}: {reason}")
    said = task.read(answer.answer)
    if said.data is None:
        raise PageError(ErrorCode.UNREADABLE_ANSWER, f"{where}: {kind.value}: {said.unreadable}")
    logprobs = [logprob for _, logprob in answer.answer.logprobs]
    confidence = math.exp(min(0.0, sum(logprobs) / len(logprobs))) if logprobs else NO_CONFIDENCE
    assert answer.model is not None
    profile, size = answer.model.profile, (page.width or 1, page.height or 1)
    grid = profile.box_grid(*fit_size(*size, profile.image))
    source = f"vlm {answer.model.name}"
    found: list[AuxiliaryFinding] = []
    listed = json.loads(said.data).get("findings")
    if listed is None:
        raise PageError(
            ErrorCode.UNREADABLE_ANSWER, f"{where}: {kind.value}: the answer lists no findings"
        )
    for one in listed:
        finding = _finding(kind, one, grid, size, round(confidence, 3), source)
        found += find_stamp_dates([finding], today) if kind is FindingKind.DATE else [finding]
    return found


def _finding(
    kind: FindingKind,
    one: Mapping[str, Any],
    grid: tuple[int, int],
    size: tuple[int, int],
    confidence: float,
    source: str,
) -> AuxiliaryFinding:
    box = box_from_grid(one.get("box") or (), grid, size)
    text = one.get("text")
    value = one.get("state") or "unsure" if kind is FindingKind.SIGNATURE else text
    # What is printed beside a code may be its value; `find_unread` judges it.
    value = None if kind is FindingKind.BARCODE else value
    return AuxiliaryFinding(
        kind=kind,
        value=value,
        box=box or Box(0, 0, *size),
        confidence=confidence,
        source=source,
        text=text,
        symbology=one.get("symbology"),
        problem=None if box else "the model gave no valid box; the box is that of the page",
    )


@cache
def _task(kind: FindingKind, own_prompt: str | None) -> FigureTask:
    from llm_ocr.parsing.loading import schema_from_json

    def prompt(profile: ModelProfile) -> Prompt:
        text = own_prompt or PROMPTS[kind].format(unit=_UNITS[profile.box_unit])
        return profile.custom_prompt(text, OWN_TOKENS)

    schema = schema_from_json(_json_schema(kind), name=f"{kind.value}_findings")
    task = schema_task(kind.value, own_prompt or PROMPTS[kind], schema)
    output = {**task.structured_output, "logprobs": True}
    return replace(task, prompt=prompt, structured_output=output)


def _json_schema(kind: FindingKind) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "text": {"type": ["string", "null"]},
        "box": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
    }
    if kind is FindingKind.SIGNATURE:
        properties = {"state": {"type": "string", "enum": list(_STATES)}, **properties}
    if kind is FindingKind.BARCODE:
        properties = {"symbology": {"type": ["string", "null"]}, **properties}
    finding = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "object",
        "properties": {"findings": {"type": "array", "items": finding}},
        "required": ["findings"],
    }
