"""The messages between a RenderPool and its workers: JSON, followed by binary data.

Not pickle: a worker that a hostile file has taken over could execute code in its parent.
Responses are validated strictly against the request.
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
from llm_ocr.sources.raster import Crop, RenderLimits
from llm_ocr.sources.renderer import DocumentInfo

# Limits of a message's JSON and of its binary data (at most a page's figures), in bytes.
MAX_JSON_BYTES, MAX_BLOB_BYTES = 64 << 20, 512 << 20
MAX_INT = (1 << 31) - 1

Message = tuple[Any, list[bytes]]
WorkerResponse = int | DocumentInfo | PageImage | list[Crop] | list[int] | PageError


class ProtocolError(Exception):
    """A message that can't be parsed or is not valid."""


def send(pipe: Connection, body: object, blobs: Sequence[bytes] = ()) -> None:
    pipe.send_bytes(json.dumps([body, [len(blob) for blob in blobs]]).encode())
    for blob in blobs:
        if blob:
            pipe.send_bytes(blob)


def receive(pipe: Connection) -> Message:
    """Receive a message. Raises EOFError or OSError as the pipe does, or ProtocolError."""
    try:
        body, sizes = json.loads(pipe.recv_bytes(MAX_JSON_BYTES))
        sizes = [_parse_count(size) for size in sizes]
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(str(error)) from error
    if sum(sizes) > MAX_BLOB_BYTES:
        raise ProtocolError(f"{sum(sizes):,} bytes")
    blobs = [pipe.recv_bytes(size) if size else b"" for size in sizes]
    if [len(blob) for blob in blobs] != sizes:
        raise ProtocolError("other bytes than were announced")
    return body, blobs


# To the worker -----------------------------------------------------------------------------------


def encode_setup(password: str | None, limits: RenderLimits) -> object:
    return [password, asdict(limits)]


def decode_setup(body: Any) -> tuple[str | None, RenderLimits]:  # noqa: ANN401
    return body[0], RenderLimits(**body[1])


def encode_request(name: str, arguments: Sequence[Any]) -> object:
    document, *rest = arguments
    return [name, vars(document), *map(_plain, rest)]


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, ImagePolicy):
        return vars(value)
    if isinstance(value, list) and value and isinstance(value[0], Box):
        return [list(vars(box).values()) for box in value]
    return value


def decode_request(body: Any) -> tuple[str, tuple[Any, ...]]:  # noqa: ANN401
    name, document, *rest = body
    if name == "render":
        rest = [rest[0], ImagePolicy(**rest[1])]
    elif name == "crop":
        number, size, boxes, *others = rest
        rest = [number, tuple(size), [Box(*corners) for corners in boxes], *others]
    return name, (Document(**document), *rest)


# From the worker ---------------------------------------------------------------------------------


def encode_response(response: object) -> tuple[object, list[bytes]]:
    """Encode a response. Raises PageError if it is too large."""
    if isinstance(response, PageError):
        return ["error", response.code.value, response.message[:10_000], response.attempts], []
    if isinstance(response, PageImage):
        layer, corners = _layer_message(response.text_layer)
        fields = {key: value for key, value in vars(response).items() if key in _IMAGE}
        return ["image", fields, layer], [response.jpeg, corners]
    if isinstance(response, DocumentInfo):
        return ["info", response.page_count, response.content_hash], []
    if isinstance(response, tuple):
        return ["tokens", *response], []
    if isinstance(response, list):
        if sum(len(crop.jpeg) for crop in response) > MAX_BLOB_BYTES:
            raise PageError(ErrorCode.TOO_LARGE, f"its figures exceed {MAX_BLOB_BYTES:,} bytes")
        return ["crops", *([crop.width, crop.height] for crop in response)], [
            crop.jpeg for crop in response
        ]
    return ["count", response], []


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
    fields = [layer.text, layer.under_image, layer.damage, layer.trust, list(layer.doubts)]
    return [*fields, lines, len(layer.pictures)], corners.tobytes()


def decode_response(name: str, message: Message) -> WorkerResponse:
    """The response to the request `name`. Raises ProtocolError."""
    body, blobs = message
    try:
        kind, *rest = body
        if kind == "error":
            code, message_text, attempts = rest
            return PageError(ErrorCode(code), _parse_text(message_text), _parse_count(attempts))
        if kind != _KINDS[name]:
            raise ProtocolError(f"{kind!r} to {name}")
        if kind == "count":
            return _parse_count(*rest)
        if kind == "info":
            count, digest = rest
            return DocumentInfo(_parse_count(count), _parse_text(digest))
        if kind == "tokens":
            return [_parse_count(tokens) for tokens in rest]
        if kind == "crops":
            pairs = zip(blobs, rest, strict=True)
            return [
                Crop(jpeg, _parse_count(width), _parse_count(height))
                for jpeg, (width, height) in pairs
            ]
        fields, layer = rest
        jpeg, corners = blobs
        return _image(jpeg, fields, layer, corners)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ProtocolError(f"{type(error).__name__}: {error}") from error


_KINDS = {
    "count_pages": "count",
    "inspect": "info",
    "expected_tokens": "tokens",
    "render": "image",
    "crop": "crops",
}


def _image(jpeg: bytes, fields: dict[str, Any], layer: Any, corners: bytes) -> PageImage:  # noqa: ANN401
    points = (fields["width_pt"], fields["height_pt"])
    width_pt, height_pt = (None if side is None else _parse_number(side) for side in points)
    return PageImage(
        jpeg,
        _parse_count(fields["width"]),
        _parse_count(fields["height"]),
        _parse_number(fields["ink"]),
        width_pt,
        height_pt,
        _parse_count(fields["rotation"]),
        None if layer is None else _layer(layer, corners),
    )


def _layer(fields: Sequence[Any], corners: bytes) -> TextLayer:
    text, under_image, damage, trust, doubts, lines, picture_count = fields
    boxes = _boxes(corners)
    text_lines = tuple(
        TextLine(
            _parse_text(line),
            tuple(TextWord(_parse_text(word), next(boxes)) for word in words),
            bold is True,
            vertical is True,
        )
        for line, bold, vertical, words in lines
    )
    return TextLayer(
        _parse_text(text),
        under_image is True,
        _parse_number(damage),
        _parse_number(trust),
        tuple(_parse_text(doubt) for doubt in doubts),
        text_lines,
        tuple(next(boxes) for _ in range(_parse_count(picture_count))),
    )


def _boxes(corners: bytes) -> Iterator[Box]:
    coordinates = array("d")
    coordinates.frombytes(corners)
    if not all(map(math.isfinite, coordinates)):
        raise ProtocolError("a box with an infinite coordinate")
    for k in range(0, len(coordinates), 4):
        yield Box(*coordinates[k : k + 4])
    raise ProtocolError("fewer boxes than words")


def _parse_count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_INT:
        raise ProtocolError(f"{str(value)[:40]} is not a count")
    return value


def _parse_number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ProtocolError(f"{str(value)[:40]} is not a number")
    return float(value)  # type: ignore[arg-type]


def _parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise ProtocolError(f"{str(value)[:40]} is not text")
    return valid_text(value)
