"""A row with several images: a folder with an image for each page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.images import ImageFile
from llm_ocr.sources.raster import Crop
from llm_ocr.sources.row import page_path


class Album:
    """Pages that are an image file each, opened one at a time: one that is broken is one page."""

    def __init__(self, folder: Path, max_pixels: int, *, keep_metadata: bool = False) -> None:
        self._folder, self._max_pixels, self._keep_metadata = folder, max_pixels, keep_metadata
        self.page_count = sum(1 for _ in folder.iterdir())

    def close(self) -> None:
        """Nothing is held open."""

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        with self._page(number) as image:
            return image.render(1, policy)

    def crop(
        self,
        number: int,
        size: tuple[int, int],
        boxes: Sequence[Box],
        dpi: int,
        max_side: int,
        rotation: int | None = None,
    ) -> list[Crop]:
        with self._page(number) as image:
            return image.crop(1, size, boxes, dpi, max_side, rotation)

    @contextmanager
    def _page(self, number: int) -> Iterator[ImageFile]:
        path = page_path(self._folder, number)
        try:
            if path.stat().st_size == 0:
                raise PageError(ErrorCode.EMPTY_FILE, f"{path}: there is nothing; leave the row")
            image = ImageFile(path, self._max_pixels, keep_metadata=self._keep_metadata)
            try:
                yield image
            finally:
                image.close()
        except PageError as error:
            # Known by the row and the page's number, not by where its copy lies.
            said = error.message.replace(str(path), f"{self._folder}, image {number}")
            raise PageError(error.code, said) from error
