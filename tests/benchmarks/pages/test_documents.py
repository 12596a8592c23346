import random
import re
from collections import Counter
from pathlib import Path

import pypdfium2 as pdfium
import pytest

from benchmarks.page_scores import is_clean, score_page
from benchmarks.pages.documents import DOCUMENTS, Document, joined
from benchmarks.pages.fonts import register
from benchmarks.pages.making import DOCUMENT, DOCUMENT_SCAN, make_documents
from benchmarks.pages.truth import FIGURE, FURNITURE, read_page

# Their pages take ten seconds to draw.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    register()
    return {
        f"{name}-{seed}": draw(name, random.Random(f"{seed}/{name}"))
        for name, draw in DOCUMENTS.items()
        for seed in (1, 2)
    }


def letters(text: str) -> Counter[str]:
    return Counter(re.sub(r"[\s\-\u0002\ufffe]", "", text))


def test_ground_truth_has_all_characters_of_the_text_layer(documents: dict[str, Document]) -> None:
    for name, pages in documents.items():
        for page, pdf in pages:
            printed = letters(pdfium.PdfDocument(pdf)[0].get_textpage().get_text_range())
            said = letters("".join(block.text for block in page.blocks))
            inner = letters("".join(text for block in page.blocks for text in block.inner))
            assert (printed - said - inner).total() <= 3, name
            assert (said + inner - printed).total() <= 3, name


def test_boxes_are_on_the_page_and_apart(documents: dict[str, Document]) -> None:
    for name, pages in documents.items():
        for page, _ in pages:
            boxes = [part.box for block in page.blocks for part in block.parts]
            for k, (x1, y1, x2, y2) in enumerate(boxes):
                assert 0 <= x1 < x2 <= page.width, name
                assert 0 <= y1 < y2 <= page.height, name
                for other in boxes[k + 1 :]:
                    wide, high = min(x2, other[2]) - max(x1, other[0]), min(y2, other[3])
                    assert min(wide, high - max(y1, other[1])) < 3, (name, other)


def test_perfect_answer_gets_full_score(documents: dict[str, Document]) -> None:
    for name, pages in documents.items():
        for page, _ in pages:
            score = score_page(page, page.markdown)
            assert (score.characters, score.words, score.in_order) == (1, 1, 1), name
            assert score.neighbors in (1, None)
            assert score.headings.expected == score.headings.matched == score.headings.predicted


def test_furniture_recurs_on_pages_of_a_document(documents: dict[str, Document]) -> None:
    several = [pages for pages in documents.values() if len(pages) > 1]
    assert len(several) >= 6
    for pages in several:
        heads = [
            {re.sub(r"\d+", "0", block.text) for block in page.blocks if block.kind in FURNITURE}
            for page, _ in pages
        ]
        assert all(heads)
        counts = Counter(text for texts in heads for text in texts)
        assert max(counts.values()) > 1
        page = pages[-1][0]
        littered = "\n\n".join(block.text for block in page.blocks if block.kind in FURNITURE)
        assert is_clean(page, littered) is False


def test_documents_are_written_with_a_truth_for_each_page_and_as_scans(tmp_path: Path) -> None:
    make_documents(tmp_path, seed=3, number=2)
    for kind in (DOCUMENT, DOCUMENT_SCAN):
        for pdf in (tmp_path / kind).glob("*.pdf"):
            pages = pdfium.PdfDocument(pdf)
            truths = sorted((tmp_path / kind).glob(f"{pdf.stem}_pg*.json"))
            assert len(truths) == len(pages) > 1
            counts = [page.get_textpage().count_chars() for page in pages]
            assert all(counts) if kind == DOCUMENT else not any(counts)
            assert any(block.kind != FIGURE for block in read_page(truths[0]).blocks)
    assert len(list((tmp_path / DOCUMENT).glob("*.pdf"))) == 2


def test_joined_keeps_the_order_of_pages(documents: dict[str, Document]) -> None:
    (first, *_, last) = documents["handbook-1"]
    whole = pdfium.PdfDocument(joined([first[1], last[1]]))
    assert "Page 1 of" in whole[0].get_textpage().get_text_range()
    assert "Page 1 of" not in whole[1].get_textpage().get_text_range()
