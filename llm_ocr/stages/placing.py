"""Answers about a page image, or strips of it, as blocks on the stored page image."""

from collections.abc import Iterable
from dataclasses import replace

from llm_ocr.inference.replies import Answer
from llm_ocr.models.profile import ModelProfile
from llm_ocr.records import Box, ParsedAnswer
from llm_ocr.stages.stage import Question


def placed(profile: ModelProfile, question: Question, answer: Answer) -> ParsedAnswer:
    """The answer's blocks, with boxes in pixels of the stored page image."""
    parsed = profile.read(answer.text, question.width, question.height)
    blocks = [replace(one, box=_moved(one.box, question)) for one in parsed.blocks]
    return ParsedAnswer(tuple(blocks), parsed.notes)


def merged(parts: Iterable[ParsedAnswer]) -> ParsedAnswer:
    """The blocks of all parts in order, and each note once."""
    several = list(parts)
    notes = dict.fromkeys(note for part in several for note in part.notes)
    return ParsedAnswer(tuple(block for part in several for block in part.blocks), tuple(notes))


def _moved(box: Box | None, question: Question) -> Box | None:
    if box is None:
        return None
    scale, top = question.scale, question.top
    return Box(box.x1 * scale, box.y1 * scale + top, box.x2 * scale, box.y2 * scale + top)
