"""What a worker is asked and answers, as bytes: JSON, and behind it what is no text.

Not pickle: whoever takes over a worker by a hostile file could have its parent run anything.
What is read from a worker is taken for what was asked or for nothing.
"""

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from llm_ocr.documents import Document
from llm_ocr.records import (
    Box,
    ErrorCode,
    ImagePolicy,
    PageError,
    PageImage,
    TextLayer,
    TextLine,
    TextWord,
    valid_text,
)
from llm_ocr.sources.drawing import DocumentInfo
from llm_ocr.sources.raster import Crop, RenderLimits

# The bytes of a message's JSON, and of all that is behind it: a page's figures, at most.
MOST_TEXT, MOST_BYTES = 64 << 20, 512 << 20
LARGEST = (1 << 31) - 1

Message = tuple[Any, list[bytes]]
Answer = int | DocumentInfo | PageImage | list[Crop] | PageError


class WireError(Exception):
    """A message that is none."""


def send(pipe: Connection, body: object, blobs: Sequence[bytes] = ()) -> None:
    pipe.send_bytes(json.dumps([body, [len(blob) for blob in blobs]]).encode())
    for blob in blobs:
        if blob:
            pipe.send_bytes(blob)


def receive(pipe: Connection) -> Message:
    """Raises EOFError or OSError as the pipe does, and WireError for what is no message."""
    try:
        body, sizes = json.loads(pipe.recv_bytes(MOST_TEXT))
        sizes = [_whole(size) for size in sizes]
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(str(error)) from error
    if sum(sizes) > MOST_BYTES:
        raise WireError(f"{sum(sizes):,} bytes")
    blobs = [pipe.recv_bytes(size) if size else b"" for size in sizes]
    if [len(blob) for blob in blobs] != sizes:
        raise WireError("other bytes than were announced")
    return body, blobs


# To the worker -----------------------------------------------------------------------------------


def first_message(password: str | None, limits: RenderLimits) -> object:
    return [password, asdict(limits)]


def first_of(body: Any) -> tuple[str | None, RenderLimits]:  # noqa: ANN401
    return body[0], RenderLimits(**body[1])


def request(name: str, arguments: Sequence[Any]) -> object:
    document, *rest = arguments
    return [name, vars(document), *map(_plain, rest)]


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, ImagePolicy):
        return vars(value)
    if isinstance(value, list):
        return [list(vars(box).values()) for box in value]
    return value


def request_of(body: Any) -> tuple[str, tuple[Any, ...]]:  # noqa: ANN401
    name, document, *rest = body
    if name == "render":
        rest = [rest[0], ImagePolicy(**rest[1])]
    elif name == "crop":
        number, size, boxes, *others = rest
        rest = [number, tuple(size), [Box(*corners) for corners in boxes], *others]
    return name, (Document(**document), *rest)


# From the worker ---------------------------------------------------------------------------------


def answer_message(answer: object) -> tuple[object, list[bytes]]:
    """What is sent of an answer. Raises PageError where that is too much."""
    if isinstance(answer, PageError):
        return ["error", answer.code.value, answer.message[:10_000], answer.attempts], []
    if isinstance(answer, PageImage):
        layer, places = _layer_message(answer.text_layer)
        plain = {key: value for key, value in vars(answer).items() if key in _IMAGE}
        return ["image", plain, layer], [answer.jpeg, places]
    if isinstance(answer, DocumentInfo):
        return ["info", answer.page_count, answer.content_hash], []
    if isinstance(answer, list):
        if sum(len(crop.jpeg) for crop in answer) > MOST_BYTES:
            raise PageError(ErrorCode.TOO_LARGE, f"its figures have more than {MOST_BYTES:,} bytes")
        return ["crops", *([crop.width, crop.height] for crop in answer)], [
            crop.jpeg for crop in answer
        ]
    return ["count", answer], []


_IMAGE = ("width", "height", "ink", "width_pt", "height_pt", "rotation")


def _layer_message(layer: TextLayer | None) -> tuple[object, bytes]:
    """A text layer, and the corners of its words and pictures as doubles."""
    if layer is None:
        return None, b""
    lines = [
        [line.text, line.bold, line.vertical, [word.text for word in line.words]]
        for line in layer.lines
    ]
    boxes = [word.box for line in layer.lines for word in line.words] + [*layer.pictures]
    corners = array("d", (side for box in boxes for side in (box.x1, box.y1, box.x2, box.y2)))
    told = [layer.text, layer.under_image, layer.damage, layer.trust, list(layer.doubts)]
    return [*told, lines, len(layer.pictures)], corners.tobytes()


def answer_of(name: str, message: Message) -> Answer:
    """The answer to the request of this name. Raises WireError for what can be none."""
    body, blobs = message
    try:
        kind, *rest = body
        if kind == "error":
            code, said, attempts = rest
            return PageError(ErrorCode(code), _text(said), _whole(attempts))
        if kind != _KINDS[name]:
            raise WireError(f"{kind!r} to {name}")
        if kind == "count":
            return _whole(*rest)
        if kind == "info":
            count, digest = rest
            return DocumentInfo(_whole(count), _text(digest))
        if kind == "crops":
            pairs = zip(blobs, rest, strict=True)
            return [Crop(jpeg, _whole(width), _whole(height)) for jpeg, (width, height) in pairs]
        plain, layer = rest
        jpeg, places = blobs
        return _image(jpeg, plain, layer, places)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise WireError(f"{type(error).__name__}: {error}") from error


_KINDS = {"count_pages": "count", "inspect": "info", "render": "image", "crop": "crops"}


def _image(jpeg: bytes, plain: dict[str, Any], layer: Any, places: bytes) -> PageImage:  # noqa: ANN401
    points = (plain["width_pt"], plain["height_pt"])
    width_pt, height_pt = (None if one is None else _number(one) for one in points)
    return PageImage(
        jpeg,
        _whole(plain["width"]),
        _whole(plain["height"]),
        _number(plain["ink"]),
        width_pt,
        height_pt,
        _whole(plain["rotation"]),
        None if layer is None else _layer(layer, places),
    )


def _layer(told: Sequence[Any], places: bytes) -> TextLayer:
    text, under_image, damage, trust, doubts, lines, pictures = told
    boxes = _boxes(places)
    found = tuple(
        TextLine(
            _text(line),
            tuple(TextWord(_text(word), next(boxes)) for word in words),
            bold is True,
            vertical is True,
        )
        for line, bold, vertical, words in lines
    )
    shown = tuple(next(boxes) for _ in range(_whole(pictures)))
    whys = tuple(_text(doubt) for doubt in doubts)
    numbers = _number(damage), _number(trust)
    return TextLayer(_text(text), under_image is True, *numbers, whys, found, shown)


def _boxes(places: bytes) -> Iterator[Box]:
    corners = array("d")
    corners.frombytes(places)
    if not all(map(math.isfinite, corners)):
        raise WireError("a box without an end")
    for k in range(0, len(corners), 4):
        yield Box(*corners[k : k + 4])
    raise WireError("fewer boxes than words")


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise WireError(f"{str(value)[:40]} is no count")
    return value


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise WireError(f"{str(value)[:40]} is no number")
    return float(value)  # type: ignore[arg-type]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise WireError(f"{str(value)[:40]} is no text")
    return valid_text(value)
