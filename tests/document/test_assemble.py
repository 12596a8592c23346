from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from llm_ocr.batch.stages import assemble_stage
from llm_ocr.document.assemble import document_status
from llm_ocr.document.figures import captions_of
from llm_ocr.document.markdown import page_markdown
from llm_ocr.documents import Document
from llm_ocr.inference.model_item import Usage
from llm_ocr.parsing.figure_data import FigureData
from llm_ocr.records import Block, Box, PageStatus
from llm_ocr.report.viewer import safe_html
from llm_ocr.tables.plan import PlannedDocument, Shard
from llm_ocr.tables.rows import page_from_row
from llm_ocr.tables.schema import Row

SHARD = Shard(0, (PlannedDocument(Document("d", "/in/d.pdf", "1", "d", "pdf", 1), 2),))


def block(label: str, text: str, box: tuple[float, ...] | None = (0, 0, 100, 100)) -> Row:
    corners = dict(zip(("x1", "y1", "x2", "y2"), box or (None,) * 4, strict=True))
    return {"label": label, "text": text, **corners}


def page(number: int, *blocks: Row, status: str = "ok", error: str | None = None) -> Row:
    return {
        "page_id": f"d/{number}",
        "doc_id": "d",
        "source_uri": "/in/d.pdf",
        "name": "d",
        "content_hash": "00",
        "page_number": number,
        "blocks": list(blocks),
        "status": status,
        "error_code": "corrupt_page" if error else None,
        "error": error,
    }


def figure(number: int, k: int, caption: str | None) -> Row:
    return {
        "figure_id": f"d/{number}/{k}",
        "page_id": f"d/{number}",
        "name": f"d-p{number}-{k}.jpg",
        "caption": caption,
    }


def description_row(task: str, text: str | None, data: str | None = None) -> Row:
    return {"figure_id": "d/1/1", "task": task, "text": text, "data": data}


async def assemble_rows(**tables: Sequence[Row]) -> Row:
    def read(table: str, shard: str, columns: Sequence[str] | None) -> Iterator[Row]:
        return iter(tables.get(table, ()))

    results = []
    async for item in assemble_stage(read).items(SHARD, ()):
        results.append(await item.result(None, Usage()))
    assert len(results) == 1
    documents: Sequence[Mapping[str, Any]] = results[0].rows["documents"]
    return documents[0]


async def test_figures_stand_at_their_place_with_caption_and_description() -> None:
    first = page(
        1,
        block("header", "Annual report"),
        block("title", "# Levels"),
        block("text", "Before."),
        block("image", ""),
        block("image_caption", "<center>Figure 1: The [gauge]\nin May</center>"),
        block("text", "After."),
        block("page_number", "1"),
    )
    document = await assemble_rows(
        pages=[first],
        figures=[figure(1, 1, "Figure 1: The [gauge] in May")],
        descriptions=[description_row("describe", "A chart.\nIt rises.")],
    )
    assert document["markdown"] == (
        '<a id="page-1"></a>\n\nAnnual report\n\n# Levels\n\nBefore.\n\n'
        "![Figure 1: The (gauge) in May](figures/d-p1-1.jpg)\n\n"
        "*Figure 1: The [gauge] in May*\n\n> A chart.\n> It rises.\n\nAfter.\n"
    )
    assert (document["page_count"], document["figure_count"]) == (1, 1)
    assert document["status"] == "ok"


@pytest.mark.parametrize("name", ["a b (1)-p1-1.jpg", "ä#1?.jpg", "50% <b>.jpg", 'a"b.jpg'])
def test_a_figure_of_any_name_is_a_link_that_finds_it(name: str) -> None:
    blocks = [Block("image", "", Box(0, 0, 100, 100))]
    html = safe_html(
        page_markdown(blocks, [name]), {f"figures/{name}": "data:image/jpeg;base64,AA"}
    )
    assert 'src="data:image/jpeg;base64,AA"' in html


async def test_without_a_caption_the_description_is_the_alternative_text() -> None:
    document = await assemble_rows(
        pages=[page(1, block("image", ""))],
        figures=[figure(1, 1, None)],
        descriptions=[description_row("describe", "A bridge " + "over a river " * 20)],
    )
    alt = document["markdown"].split("![")[1].split("]")[0]
    assert alt.startswith("A bridge over a river")
    assert alt.endswith("…")
    assert len(alt) <= 120


async def test_a_caption_for_the_blind_and_the_data_stand_at_the_figure() -> None:
    data = FigureData("table", columns=("River", "m<3>"), rows=(("Inn", 1), ("Isar", None)))
    document = await assemble_rows(
        pages=[page(1, block("image", ""), block("image_caption", "Figure 1: Rivers"))],
        figures=[figure(1, 1, "Figure 1: Rivers")],
        descriptions=[
            description_row("caption", "A table of two rivers."),
            description_row("classify", "table"),
            description_row("data", "River,m<3>", data.as_json()),
            description_row("own", None, '{"x": 1}'),
        ],
    )
    assert document["markdown"] == (
        '<a id="page-1"></a>\n\n![A table of two rivers.](figures/d-p1-1.jpg)\n\n'
        "*Figure 1: Rivers*\n\n"
        "<table><tr><th>River</th><th>m&lt;3&gt;</th></tr>"
        "<tr><td>Inn</td><td>1</td></tr><tr><td>Isar</td><td></td></tr></table>\n"
    )


async def test_failed_page_is_in_a_comment_and_the_status() -> None:
    failed = page(2, status="failed", error="page 2 can't be rendered --> mend it")
    document = await assemble_rows(pages=[page(1, block("text", "One.")), failed])
    comment = "<!-- page 2 failed: page 2 can't be rendered - -> mend it -->"
    assert (
        document["markdown"] == f'<a id="page-1"></a>\n\nOne.\n\n<a id="page-2"></a>\n\n{comment}\n'
    )
    assert (document["status"], document["error_code"]) == ("truncated", "missing_pages")
    assert document["error"] == "of 2 pages, 1 failed: 2"


def test_document_of_failed_pages_has_the_error_of_the_first() -> None:
    status, error = document_status(
        [page_from_row(page(0, status="failed", error="encrypted: pass --password"))]
    )
    assert status is PageStatus.FAILED
    assert error is not None
    assert (error.code.value, error.message) == ("corrupt_page", "encrypted: pass --password")


def blocks(*labels: str) -> list[Block]:
    return [
        Block(label, f"<center>{k}</center>", Box(0, 0, 9, 9)) for k, label in enumerate(labels)
    ]


def test_captions_belong_to_the_figure_before_them_or_else_behind() -> None:
    assert captions_of(blocks("image", "image_caption", "image", "image_caption")) == {0: 1, 2: 3}
    assert captions_of(blocks("image_caption", "image", "text")) == {1: 0}
    assert captions_of(blocks("image", "image", "image_caption")) == {1: 2}
    assert captions_of(blocks("table_caption", "image", "text", "image_caption")) == {}


def test_page_keeps_all_blocks_in_reading_order() -> None:
    page_blocks = [
        Block("header", "Top", None),
        Block("text", "Words.", None),
        Block("image", "", Box(0, 0, 50, 50)),
        Block("image_caption", "<center>Fig. 1</center>", None),
    ]
    assert page_markdown(page_blocks, ["a.jpg"]) == (
        "Top\n\nWords.\n\n![Fig. 1](figures/a.jpg)\n\n*Fig. 1*"
    )


def test_lists_that_do_not_continue_stay_separate() -> None:
    """As one list, the second would be numbered 3 and 4."""
    texts = ["1. Flour\n2. Salt", "1. Mix\n2. Bake", "3. Cut", "27. Mai 2024", "27. Mai 2024"]
    markdown = page_markdown([Block("text", one, None) for one in texts], [])
    assert markdown == (
        "1. Flour\n2. Salt\n\n<!-- -->\n\n1. Mix\n2. Bake\n\n3. Cut\n\n<!-- -->\n\n"
        "27. Mai 2024\n\n<!-- -->\n\n27. Mai 2024"
    )


async def test_emphasis_and_signs_of_captions_stay_and_are_no_markup_in_alternative_texts() -> None:
    caption = r"**Fig. 1\*.** The *gauge* of $h_1$ \_in May\_"
    row = figure(1, 1, "")
    document = await assemble_rows(
        pages=[page(1, block("image", ""), block("image_caption", caption))], figures=[row]
    )
    assert document["markdown"] == (
        '<a id="page-1"></a>\n\n'
        r"![Fig. 1\*. The gauge of $h_1$ \_in May\_](figures/d-p1-1.jpg)"
        f"\n\n*{caption}*\n"
    )


async def test_headers_and_footers_on_one_page_are_text() -> None:
    letter = page(
        1,
        block("header", "Bridge Ltd., VAT GB 123"),
        block("text", "Dear Sir."),
        block("footer", "IBAN GB12 3456"),
        block("footer", "Page 1 of 1"),
        block("page_number", "1"),
    )
    document = await assemble_rows(pages=[letter])
    assert document["markdown"] == (
        '<a id="page-1"></a>\n\nBridge Ltd., VAT GB 123\n\nDear Sir.\n\nIBAN GB12 3456\n'
    )


async def test_recurring_headers_are_removed_despite_misreading_or_numbering() -> None:
    heads = ["Year 2024, sheet 1", "The River Arle", "Year 2024, sheet 3", "The Riuer Arle"]
    foots = ["Draft of 1 May", "Hydrometry series 17", "Hydrometry series 17", "Signed: A. Ross"]
    document = await assemble_rows(
        pages=[
            page(k, block("header", head), block("text", f"Said {k}."), block("footer", foot))
            for k, (head, foot) in enumerate(zip(heads, foots, strict=True), start=1)
        ]
    )
    said = [one for one in document["markdown"].split("\n\n") if not one.startswith("<a")]
    assert [one.strip() for one in said] == [
        *("Said 1.", "Draft of 1 May", "Said 2.", "Said 3.", "Said 4.", "Signed: A. Ross"),
    ]


async def test_text_at_the_top_of_three_pages_is_kept_on_the_first() -> None:
    def form(number: int, top: int = 20) -> Row:
        head = block("sub_title", "## Application for a license", (50, top, 500, top + 30))
        return page(number, head, block("text", f"Part {number}: said.", (50, 200, 500, 400)))

    document = await assemble_rows(pages=[form(1), form(2), form(3), form(4, top=90)])
    said = document["markdown"]
    assert said.index("## Application") < said.index("Part 1: said.")
    between = said[said.index("Part 1: said.") : said.index("Part 4: said.")]
    assert between.count("Application") == 1, "only at another height it is repeated"
    assert between.index("Application") > between.index("Part 3: said.")


@pytest.mark.parametrize(("label", "pages"), [("sub_title", 2), ("title", 5)])
async def test_heading_of_two_pages_and_title_of_any_number_are_kept(
    label: str, pages: int
) -> None:
    marks = "#" if label == "title" else "##"
    read = [
        page(
            k,
            block(label, f"{marks} Invoice", (50, 20, 500, 50)),
            block("text", f"Item {k}.", (50, 200, 500, 400)),
        )
        for k in range(1, pages + 1)
    ]
    document = await assemble_rows(pages=read)
    assert document["markdown"].count(f"{marks} Invoice") == pages


async def test_paragraph_continues_past_a_footer_that_is_text() -> None:
    first = page(1, block("text", "The river rose and"), block("footer", "For the Board only"))
    document = await assemble_rows(pages=[first, page(2, block("text", "fell."))])
    assert 'The river rose and <a id="page-2"></a>fell.' in document["markdown"]
