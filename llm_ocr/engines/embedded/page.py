"""One page, as far as it has been read."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.words.deskew import DeskewTransform
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.text_layer_check import VerifiedTextLayer


@dataclass(frozen=True)
class OcrPage:
    """The upright page, `width` x `height` pixels, and what was read on it.

    `frame` leads back from the page to the image as turned. `vertical` are the lines that run up or
    down: they stand in a margin or along an axis, and are no part of `lines`. `unread` are where
    text stands, outside of figures, that can't be read. `blocks` are in reading order.
    `text_layer` is what became of the text layer that came with the page.
    """

    image: Image
    frame: DeskewTransform
    lines: Sequence[OcrLine] = ()
    vertical: Sequence[OcrLine] = ()
    unread: Sequence[Rect] = ()
    regions: Sequence[Region] = ()
    blocks: Sequence[PageBlock] = ()
    text_layer: VerifiedTextLayer | None = None

    @property
    def width(self) -> int:
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        return int(self.image.shape[0])

    @property
    def rotation(self) -> int:
        """The degrees, clockwise, that made the image upright: 0, 90, 180 or 270."""
        return self.frame.turned
