"""Blocks of a page in the order in which they are said: headers, the body, notes, footers."""

from collections.abc import Sequence

from llm_ocr.engines.embedded.block import FOOTER, FURNITURE, HEADER, PageBlock
from llm_ocr.engines.embedded.geometry import apart
from llm_ocr.engines.embedded.order import reading_order

OWN = {"image_caption": "image", "table_caption": "table"}
# Captions further from a figure than this, in line heights, are not moved to it.
FAR = 6.0


def in_order(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Running headers come first and footers last, notes behind the body, and captions beside what
    they are of."""
    edge = [block for block in blocks if block.label in FURNITURE]
    body = [block for block in blocks if block.label not in FURNITURE]
    middle = _middle(body)
    above = [one for one in edge if one.label == HEADER or _is_above(one, middle)]
    below = [one for one in edge if one.label == FOOTER or one not in above]
    notes = [block for block in body if block.label == "footnote"]
    texts = [block for block in body if block.label != "footnote"]
    return [*_read(above), *_with_captions(texts), *_read(notes), *_read(below)]


def _middle(body: Sequence[PageBlock]) -> float:
    tops = [block.rect[1] for block in body]
    bottoms = [block.rect[3] for block in body]
    return (min(tops) + max(bottoms)) / 2 if body else float("inf")


def _is_above(block: PageBlock, middle: float) -> bool:
    return block.label != FOOTER and block.rect[3] < middle


def _read(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    heads = [k for k, block in enumerate(blocks) if block.label == "title"]
    return [blocks[k] for k in reading_order([block.rect for block in blocks], heads)]


def _with_captions(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Blocks in reading order, each caption before or behind its figure or table."""
    owners = _owners(blocks)
    ordered = _read([block for k, block in enumerate(blocks) if k not in owners])
    for k, owner in sorted(owners.items(), key=lambda one: -blocks[one[0]].rect[1]):
        caption, figure = blocks[k], blocks[owner]
        at = next(j for j, block in enumerate(ordered) if block is figure)
        below = caption.rect[1] + caption.rect[3] > figure.rect[1] + figure.rect[3]
        ordered.insert(at + below, caption)
    return ordered


def _owners(blocks: Sequence[PageBlock]) -> dict[int, int]:
    """The places of captions, each with the place of the nearest figure or table."""
    owners: dict[int, int] = {}
    pairs = [
        (apart(caption.rect, other.rect), k, j)
        for k, caption in enumerate(blocks)
        for j, other in enumerate(blocks)
        if caption.label in OWN and other.label == OWN[caption.label]
    ]
    for distance, k, j in sorted(pairs):
        if k not in owners and j not in owners.values() and distance < FAR * blocks[k].height:
            owners[k] = j
    return owners
