import io
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from PIL import Image, ImageDraw

from llm_ocr.evaluation.diagnostics import (
    PageDiagnostics,
    SampleEvaluation,
    diagnose_sample,
    draw_sample,
)
from llm_ocr.evaluation.ink_coverage import measure_ink_coverage
from llm_ocr.evaluation.scripts import count_scripts, foreign_share, main_script
from llm_ocr.records import Box
from llm_ocr.storage.store import Store, open_store
from tests.evaluation.runs import SIZE, block, page, sheet, write_run

LINES = [(60, 100, 540, 112), (60, 130, 540, 142), (60, 600, 540, 612), (60, 630, 540, 642)]
PROSE = "Pages of ordinary words, one after the other, as documents have them. "


def diagnose_run(run: str, count: int = 50, seed: int = 0) -> SampleEvaluation:
    return diagnose_sample(open_store(run), count, seed)


def corners(*box: float) -> dict[str, float]:
    return dict(zip(("x1", "y1", "x2", "y2"), box, strict=True))


def only(tmp_path: Path, *pages: dict[str, object]) -> PageDiagnostics:
    return diagnose_run(write_run(tmp_path / "run", *pages)).pages[0]


def test_ink_without_a_block_is_found() -> None:
    found = measure_ink_coverage(sheet(LINES), [Box(50, 90, 550, 150)])
    assert found.share == pytest.approx(0.5, abs=0.02)
    (region,) = found.regions
    assert 580 < region.y1 < 610
    assert 640 < region.y2 < 660
    assert measure_ink_coverage(sheet(LINES), [Box(50, 90, 550, 650)]).regions == ()
    assert measure_ink_coverage(sheet(LINES), [Box(0, 0, *SIZE)]).share == 1.0
    assert measure_ink_coverage(sheet(), []).share == 1.0


def test_backgrounds_and_rules_are_not_text() -> None:
    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 300, SIZE[0], 500), fill="navy")
    draw.line((50, 700, 550, 700), fill="black", width=2)
    sink = io.BytesIO()
    image.save(sink, "JPEG")
    assert measure_ink_coverage(sink.getvalue(), []).regions == ()
    for x in range(100, 500, 18):
        draw.rectangle((x, 400, x + 3, 412), fill="white")
    sink = io.BytesIO()
    image.save(sink, "JPEG")
    (region,) = measure_ink_coverage(sink.getvalue(), []).regions
    assert 380 < region.y1 < 405


def test_scripts_of_texts() -> None:
    assert count_scripts("Ab é 中文 かな мир 12 π") == Counter(
        {"Latin": 3, "Han": 2, "Kana": 2, "Cyrillic": 3, "Greek": 1}
    )
    assert main_script(count_scripts("слово " * 10)) == "Cyrillic"
    assert main_script(count_scripts("few")) is None
    latin, cyrillic = count_scripts("word " * 50), count_scripts("слово " * 50)
    assert foreign_share(cyrillic, latin + latin + cyrillic) == 1.0
    assert foreign_share(latin, latin + latin + cyrillic) == 0.0
    # Japanese is written in both.
    assert (
        foreign_share(count_scripts("かな" * 50), count_scripts("かな" * 50 + "漢字" * 90)) == 0.0
    )


def test_the_worst_pages_come_first(tmp_path: Path) -> None:
    image = {"bytes": sheet(LINES), "path": "page.jpg"}
    top = block("text", PROSE, (50, 90, 550, 150))
    run = write_run(
        tmp_path / "run",
        page("good", 1, PROSE, agreement=0.99),
        page("uncovered", 1, PROSE, image=image, blocks=[top], agreement=0.99),
        page("disagrees", 1, PROSE, agreement=0.2),
        page("broken", 1, "", status="failed", error="it can't be opened", blocks=[]),
        page("cut", 1, PROSE, status="truncated"),
        page("looping", 1, PROSE + "and so it goes on and on. " * 60),
        page("tags", 1, "<table><tr><td>1</td></tr> <|det|>", notes=["2 stray tags dropped"]),
    )
    found = diagnose_run(run)
    names = [one.document for one in found.pages]
    assert names[:2] == ["broken", "cut"]
    assert names[-1] == "good"
    by_name = {one.document: one for one in found.pages}
    assert by_name["broken"].remarks == ("failed: it can't be opened",)
    assert by_name["uncovered"].uncovered_regions
    assert "ink within blocks" in by_name["uncovered"].remarks[0]
    assert by_name["looping"].has_loop
    assert by_name["tags"].tag_errors == 3
    assert by_name["good"].remarks == ()
    assert found.statuses == {"ok": 5, "failed": 1, "truncated": 1}
    assert found.proportions["pages with a loop"].passed == 1
    assert found.means["agreement with the text layer"].count == 3


def test_a_page_whose_columns_cross_is_the_first_find(tmp_path: Path) -> None:
    # What the embedded engine once read on page 2 of examples/report.pdf, and the PDF's own text.
    recorded = Path(__file__).parent / "recorded"
    crossed = (recorded / "crossed-columns.md").read_text()
    layer = (recorded / "crossed-columns.txt").read_text()
    trusted = {"text_layer": 1.0, "layer_text": layer}
    # A footer stands before the text in the PDF: that is no torn sentence.
    blocks = [block("text", crossed), block("footer", "Hydrometry series, no. 17")]
    run = write_run(
        tmp_path / "run",
        page("good", 1, PROSE, agreement=0.93, confidence=0.9),
        page("report", 2, crossed, agreement=0.98, blocks=blocks, **trusted),
        page("report", 3, layer, agreement=1.0, **trusted),
    )
    worst, *others = diagnose_run(run).pages
    assert (worst.document, worst.number) == ("report", 2)
    assert worst.remarks == ("1 of 18 sentences of the text layer broken",)
    assert not any(other.broken_sentences and other.broken_sentences.broken for other in others)
    assert diagnose_run(run).proportions["pages with broken sentences"].passed == 1


def test_untrusted_text_layer_is_not_used_for_order(tmp_path: Path) -> None:
    layer = "the first half of a sentence\nand its second half, which ends here."
    said = "and its second half, which ends here.\n\nthe first half of a sentence"
    trusted = only(tmp_path / "a", page("a", 1, said, text_layer=1.0, layer_text=layer))
    assert trusted.remarks == ("1 of 1 sentences of the text layer broken",)
    untrusted = only(tmp_path / "b", page("a", 1, said, text_layer=0.4, layer_text=layer))
    assert untrusted.broken_sentences is None


def test_words_that_stand_twice(tmp_path: Path) -> None:
    twice = "Every second word of this sentence is short.\n\n" * 2
    layer = "Every second word of this sentence is short."
    found = only(tmp_path / "a", page("a", 1, twice, text_layer=1.0, layer_text=layer))
    assert found.repeated_runs == 4
    assert found.remarks == ("4 repeated runs of words",)
    # The page itself says it twice.
    held = only(tmp_path / "b", page("a", 1, twice, text_layer=1.0, layer_text=f"{layer}\n" * 2))
    assert held.repeated_runs == 0
    line = {"text": layer, "confidence": 0.9, "doubtful": False, **corners(40, 40, 300, 60)}
    assert only(tmp_path / "c", page("a", 1, twice, lines=[line])).repeated_runs == 4
    # Nothing to compare with: only what prose never repeats.
    assert only(tmp_path / "d", page("a", 1, twice)).repeated_runs == 0
    long = PROSE * 2
    assert only(tmp_path / "e", page("a", 1, f"{long}\n\n{long}")).repeated_runs > 0


def test_words_outside_of_every_block(tmp_path: Path) -> None:
    lines = [
        {"text": text, "confidence": 0.9, "doubtful": False, **corners(40, y, 300, y + 20)}
        for text, y in (("three words inside", 40), ("one", 400))
    ]
    blocks = [block("text", "three words inside", (30, 30, 310, 70))]
    found = only(tmp_path, page("a", 1, "three words inside", lines=lines, blocks=blocks))
    assert found.outside_share == pytest.approx(0.25)
    assert "25% of the words outside of blocks" in found.remarks


@pytest.mark.parametrize(
    ("table", "uneven"),
    [
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>", 0),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", 1),
        ('<table><tr><td colspan="2">a</td></tr><tr><td>c</td><td>d</td></tr></table>', 0),
        ('<table><tr><td rowspan="2">a</td><td>b</td></tr><tr><td>d</td></tr></table>', 0),
        ("| a | b |\n|---|---|\n| c | d |", 0),
        ("| a | b |\n|---|---|\n| c | d | e |", 1),
    ],
)
def test_tables_of_uneven_rows(tmp_path: Path, table: str, uneven: int) -> None:
    found = only(tmp_path, page("a", 1, table))
    assert found.uneven_tables == uneven
    assert found.remarks == ((f"tables with rows of different widths: {uneven}",) if uneven else ())


def test_a_page_in_another_script_than_its_document(tmp_path: Path) -> None:
    pages = [page("a", k, PROSE) for k in range(1, 5)]
    found = only(tmp_path, *pages, page("a", 5, "Слова на другом языке, и их немало. " * 3))
    assert (found.number, found.script) == (5, "Cyrillic")
    assert found.foreign_share > 0.9
    assert "100% of the letters in a script rare in the document" in found.remarks


def test_other_notes_are_no_tag_errors(tmp_path: Path) -> None:
    notes = ["agrees 0.95 with the text layer", "from the PDF's own text"]
    assert only(tmp_path, page("a", 1, PROSE, notes=notes)).tag_errors == 0


def test_ink_without_any_text(tmp_path: Path) -> None:
    image = {"bytes": sheet(LINES), "path": "page.jpg"}
    found = only(tmp_path, page("a", 1, "", image=image, blocks=[]))
    assert "ink, but no text" in found.remarks


def test_pages_of_engines_without_boxes_have_no_coverage(tmp_path: Path) -> None:
    image = {"bytes": sheet(LINES), "path": "page.jpg"}
    found = only(tmp_path, page("a", 1, PROSE, image=image, blocks=[block("text", PROSE, None)]))
    assert found.ink_coverage is None


def test_damaged_image_does_not_stop_the_evaluation(tmp_path: Path) -> None:
    found = only(tmp_path, page("a", 1, PROSE, image={"bytes": b"no jpeg", "path": "x.jpg"}))
    assert found.ink_coverage is None


def test_sample_is_random_and_reproducible(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *(page("a", k, PROSE) for k in range(1, 41)))
    drawn = [{one.number for one in diagnose_run(run, 8, seed).pages} for seed in (0, 0, 1)]
    assert len(drawn[0]) == 8
    assert drawn[0] == drawn[1] != drawn[2]
    assert diagnose_run(run, 8).total == 40


def test_each_page_is_as_likely_as_any_other(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *(page("a", k, PROSE) for k in range(1, 11)))
    store = open_store(run)
    counts = Counter(one for seed in range(400) for one in draw_sample(store, 3, seed).page_ids)
    # 120 times each, give or take four standard deviations.
    assert len(counts) == 10
    assert all(83 < count < 157 for count in counts.values())


class Reads:
    """A store that counts what is read of a file."""

    def __init__(self, store: Store) -> None:
        self._store, self.read = store, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def open(self, path: str) -> BinaryIO:
        source = self._store.open(path)
        read = source.read

        def counted(size: int = -1) -> bytes:
            found = read(size)
            self.read += len(found)
            return found

        return cast(BinaryIO, _Counted(source, counted))


class _Counted(io.RawIOBase):
    def __init__(self, source: BinaryIO, read: Callable[[int], bytes]) -> None:
        self._source, self._read = source, read

    def readinto(self, target: Any) -> int:  # noqa: ANN401
        found = self._read(len(target))
        target[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        return self._source.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def test_only_images_of_the_sample_are_read(tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(60_000)
    image = {"bytes": sheet() + noise, "path": "page.jpg"}
    run = write_run(tmp_path / "run", *(page("a", k, PROSE, image=image) for k in range(1, 161)))
    size = sum(path.stat().st_size for path in Path(run).rglob("*.parquet"))
    store = Reads(open_store(run))
    assert len(diagnose_sample(cast(Store, store), 1, 0).pages) == 1
    # One row group of ten, and small columns.
    assert store.read < 0.25 * size
