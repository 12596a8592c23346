"""Find what a page has besides text and figures: cut the findings out, and name their images."""

import asyncio
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from PIL import Image

from llm_ocr.auxiliary.options import AuxiliaryOptions, BackEnd, BarcodeOptions
from llm_ocr.document.auxiliary_questions import make_question, read_findings
from llm_ocr.document.figures import cut_boxes
from llm_ocr.document.items import AskModel, outcome
from llm_ocr.documents import Document
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.inference.model_item import ModelResult, Usage
from llm_ocr.records import (
    AuxiliaryFinding,
    AuxiliaryResult,
    Box,
    FindingKind,
    Page,
    PageError,
    PageResult,
    PageStatus,
)
from llm_ocr.sources.raster import FIGURE_QUALITY, encode, to_pixels
from llm_ocr.sources.render_pool import RenderPool

if TYPE_CHECKING:
    from llm_ocr.auxiliary.detectors import Detection, ObjectDetector

# Pages are searched at the resolution of a good scan, up to `RenderLimits.max_figure_side` pixels a
# side; at half of it the bars of small codes are thinner than a pixel.
SCAN_DPI = 300
# What is cut out around a finding, as a share of its longer side: zxing-cpp's corners are those of
# the bars that it has read.
MARGIN = 0.08
# In mm.
A4_HEIGHT = 297.0


@dataclass(frozen=True)
class AuxiliarySearch:
    """How pages are searched: what for, what renders them, the threads that do it, and the
    detectors of the options by name."""

    options: AuxiliaryOptions
    pool: RenderPool
    # As many pages at once as there are cores: each takes up to 200 MB.
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(available_cores(), thread_name_prefix="search")
    )
    detectors: Mapping[str, "ObjectDetector"] = field(default_factory=dict)


class AuxiliaryItem:
    """One page, searched: an `Item` of `AuxiliaryResult`. `page` has its image."""

    def __init__(
        self,
        search: AuxiliarySearch,
        document: Document,
        page: PageResult,
        *,
        is_first: bool,
        is_last: bool,
    ) -> None:
        self._search, self._document, self._page = search, document, page
        self._is_first, self._is_last = is_first, is_last
        self._answers: dict[FindingKind, ModelResult] = {}

    @property
    def item_id(self) -> str:
        return self._page.page_id

    @property
    def _where(self) -> str:
        return f"{self._document.display_name}, page {self._page.page_number}"

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        """Ask a vision model for each kind that it searches for; the last answer."""
        answer: ModelResult | None = None
        for kind, options in self._search.options.of(BackEnd.VLM).items():
            answer = await ask_model(make_question(kind, options, self._page, self._where), usage)
            if answer is not None:
                self._answers[kind] = answer
        return answer

    async def result(self, answer: ModelResult | None, usage: Usage) -> AuxiliaryResult:
        page = self._page
        assert page.image is not None
        assert page.width
        assert page.height
        whole = Box(0, 0, page.width, page.height)
        (scan,), notes = await cut_boxes(
            self._search.pool,
            Page(self._document, page.page_number),
            [whole],
            (page.width, page.height),
            page.rotation or 0,
            page.image,
            dpi=SCAN_DPI,
        )
        loop = asyncio.get_running_loop()
        said = [
            finding for kind, found in self._answers.items() for finding in self._read(kind, found)
        ]
        findings = await loop.run_in_executor(self._search.threads, self._find, scan.jpeg, said)
        return AuxiliaryResult(
            outcome=outcome(PageStatus.OK, answer, usage),
            page_id=page.page_id,
            doc_id=page.doc_id,
            findings=tuple(findings),
            notes=tuple(notes),
        )

    def failure(self, error: PageError, usage: Usage) -> AuxiliaryResult:
        return AuxiliaryResult(
            outcome=outcome(PageStatus.FAILED, None, usage, error),
            page_id=self._page.page_id,
            doc_id=self._page.doc_id,
        )

    def _read(self, kind: FindingKind, answer: ModelResult) -> list[AuxiliaryFinding]:
        """The findings of an answer. Raises PageError."""
        options, today = self._search.options.of(BackEnd.VLM)[kind], datetime.now(UTC).date()
        return read_findings(kind, options, self._page, answer, self._where, today)

    def _find(self, jpeg: bytes, said: Sequence[AuxiliaryFinding]) -> list[AuxiliaryFinding]:
        """The findings on a scan of the page, and those that a model `said`, with their images, in
        pixels of the page image."""
        with Image.open(io.BytesIO(jpeg)) as stored:
            scan = stored.convert("RGB")
        options = self._search.options
        detections = self._detect(scan)
        found: list[AuxiliaryFinding] = []
        page_size = (self._page.width or scan.width, self._page.height or scan.height)
        said = [_scale(finding, page_size, scan.size) for finding in said]
        if options.barcode is not None:
            seen = [finding for finding in said if finding.kind is FindingKind.BARCODE]
            if options.barcode.detector is not None:
                seen = _codes(*detections[options.barcode.detector])
            found += self._find_barcodes(scan, options.barcode, seen)
        if drawn := options.of(BackEnd.HEURISTICS).keys() - {FindingKind.BARCODE}:
            found += self._find_drawn(scan, drawn)
        for kind, detected in options.of(BackEnd.ONNX).items():
            if kind is not FindingKind.BARCODE:
                found += self._read_detections(scan, kind, detections[detected.detector or ""])
        found += [finding for finding in said if finding.kind is not FindingKind.BARCODE]
        counts = dict.fromkeys(FindingKind, 0)
        placed: list[AuxiliaryFinding] = []
        for finding in found:
            counts[finding.kind] += 1
            placed.append(self._cut(finding, scan, page_size, counts[finding.kind]))
        return placed

    def _detect(self, image: Image.Image) -> dict[str, tuple[str, list["Detection"]]]:
        """What each detector finds, and what names it as the source."""
        if not self._search.detectors:
            return {}
        # Imported on demand: it takes the extra cpu.
        import numpy as np

        pixels = np.asarray(image)
        return {
            name: (f"onnx {detector.version}", detector.detect(pixels))
            for name, detector in self._search.detectors.items()
        }

    def _read_detections(
        self, image: Image.Image, kind: FindingKind, detected: tuple[str, list["Detection"]]
    ) -> list[AuxiliaryFinding]:
        # Imported on demand: they take the extra cpu.
        import numpy as np

        from llm_ocr.auxiliary.detectors import read_detections
        from llm_ocr.auxiliary.stamps import Scan

        source, detections = detected
        scan = Scan(np.asarray(image), self._pixels_per_millimeter(image))
        return read_detections(scan, kind, detections, source, datetime.now(UTC).date())

    def _find_barcodes(
        self, scan: Image.Image, options: BarcodeOptions, seen: Sequence[AuxiliaryFinding]
    ) -> list[AuxiliaryFinding]:
        """The codes that can be read, and of those that a detector or a model has `seen` the others
        too."""
        # Imported on demand: it takes the extra service or cpu.
        from llm_ocr.auxiliary.barcodes import find_barcodes
        from llm_ocr.auxiliary.unread_barcodes import find_unread

        expected = [
            expectation
            for expectation in options.expect
            if expectation.applies_to(self._page.page_number, self._is_first, self._is_last)
        ]

        def has_all(found: Sequence[AuxiliaryFinding]) -> bool:
            return all(
                sum(map(expectation.matches, found))
                >= (1 if expectation.count is None else expectation.count)
                for expectation in expected
            )

        places = [one.box for one in seen if one.problem is None]
        found = find_barcodes(scan, options.symbologies, has_all, places)
        return [*found, *find_unread(seen, found, expected, options.symbologies)]

    def _find_drawn(
        self, image: Image.Image, kinds: Collection[FindingKind]
    ) -> Iterator[AuxiliaryFinding]:
        """Stamps, their dates, and signatures."""
        # Imported on demand: they take the extra cpu.
        import numpy as np

        from llm_ocr.auxiliary.signatures import find_signatures
        from llm_ocr.auxiliary.stamp_dates import find_stamp_dates
        from llm_ocr.auxiliary.stamps import Scan, find_stamps

        scan = Scan(np.asarray(image), self._pixels_per_millimeter(image))
        stamps = find_stamps(scan)
        if FindingKind.STAMP in kinds:
            yield from stamps
        if FindingKind.DATE in kinds:
            yield from find_stamp_dates(stamps, datetime.now(UTC).date())
        if FindingKind.SIGNATURE in kinds:
            yield from find_signatures(scan, stamps)

    def _pixels_per_millimeter(self, image: Image.Image) -> float:
        """The resolution of a scan; that of a sheet of A4 if the size of the page isn't known."""
        if self._page.width_pt is None:
            return max(image.size) / A4_HEIGHT
        return image.width / (self._page.width_pt / 72 * 25.4)

    def _cut(
        self, finding: AuxiliaryFinding, scan: Image.Image, size: tuple[int, int], number: int
    ) -> AuxiliaryFinding:
        """The finding with its image, its box and corners in pixels of a page image of `size`."""
        margin = MARGIN * max(finding.box.x2 - finding.box.x1, finding.box.y2 - finding.box.y1)
        around = _expand(finding.box, margin)
        name = PurePosixPath(self._document.name).name
        return replace(
            _scale(finding, scan.size, size),
            name=f"{name}-p{self._page.page_number}-{finding.kind.value}-{number}.jpg",
            jpeg=encode(scan.crop(to_pixels(around, scan.size, scan.size)), FIGURE_QUALITY),
        )


def _codes(source: str, detections: Sequence["Detection"]) -> list[AuxiliaryFinding]:
    """The barcodes that a detector sees."""
    return [
        AuxiliaryFinding(
            kind=FindingKind.BARCODE,
            value=None,
            box=one.box,
            confidence=round(one.probability, 3),
            source=source,
        )
        for one in detections
        if one.kind is FindingKind.BARCODE
    ]


def _scale(
    finding: AuxiliaryFinding, size: tuple[int, int], onto: tuple[int, int]
) -> AuxiliaryFinding:
    """A finding on an image of `size`, in pixels of the same image of another size."""
    box, across, down = finding.box, onto[0] / size[0], onto[1] / size[1]
    return replace(
        finding,
        box=Box(box.x1 * across, box.y1 * down, box.x2 * across, box.y2 * down),
        corners=tuple((x * across, y * down) for x, y in finding.corners),
    )


def _expand(box: Box, margin: float) -> Box:
    return Box(box.x1 - margin, box.y1 - margin, box.x2 + margin, box.y2 + margin)
