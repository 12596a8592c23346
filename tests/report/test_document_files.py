"""Documents as files."""

import json
from dataclasses import replace

from llm_ocr.records import (
    Block,
    Box,
    DocumentResult,
    FieldError,
    FieldEvidence,
    Figure,
    MatchType,
    Outcome,
    PageResult,
    PageStatus,
    Record,
)
from llm_ocr.report.document_files import (
    FORMATS,
    document_files,
    rename_document,
    render_document,
    render_html,
)
from llm_ocr.text.markdown import figure_address

JPEG = b"\xff\xd8\xff picture"


def result_of(name: str = "my report") -> DocumentResult:
    figure = Figure(
        figure_id="d/1/1",
        page_id="d/1",
        doc_id="d",
        name=f"{name}-p1-1.jpg",
        label="image",
        box=Box(1.0, 2.0, 3.0, 4.0),
        jpeg=JPEG,
        width=20,
        height=30,
        caption="A river",
        description="It flows.",
    )
    markdown = f"# Ä title\n\n![A river]({figure_address(figure.name)})"
    page = PageResult(
        Outcome(PageStatus.OK, seconds=1.5),
        page_id="d/1",
        doc_id="d",
        source_uri="/in/my report.pdf",
        name=name,
        page_number=1,
        width=100,
        height=200,
        markdown=markdown,
        blocks=(Block("text", f"({figure_address(figure.name)})", Box(0.5, 1, 2, 3), 0.5),),
        figures=(figure,),
    )
    record = Record(
        Outcome(PageStatus.OK),
        record_id="d/1",
        doc_id="d",
        source_uri="/in/my report.pdf",
        name=name,
        schema="river",
        schema_hash="h",
        fields={"length": 7},
        errors=(FieldError("width", '"x"', "no number"),),
        evidence=(FieldEvidence("length", MatchType.EXACT, 0.9, "d/1", 1, Box(1, 2, 3, 4), "7"),),
    )
    return DocumentResult(
        "d", "/in/my report.pdf", name, PageStatus.OK, markdown, (page,), (), (record,)
    )


def test_a_document_is_a_file_per_format_after_its_figures() -> None:
    files = dict(document_files(result_of(), FORMATS))
    assert list(files) == [
        "figures/my report-p1-1.jpg",
        "my report.md",
        "my report.json",
        "my report.html",
    ]
    assert files["figures/my report-p1-1.jpg"] == JPEG
    assert files["my report.md"].decode() == result_of().markdown + "\n"
    assert [path for path, _ in document_files(result_of(), ("html",))] == ["my report.html"]


def test_a_document_that_could_not_be_read_is_json_only() -> None:
    failed = replace(result_of(), status=PageStatus.FAILED, error="broken")
    paths = [path for path, _ in document_files(failed, FORMATS)]
    assert paths == ["figures/my report-p1-1.jpg", "my report.json"]


def test_the_json_has_all_that_was_read_and_nothing_that_differs_from_run_to_run() -> None:
    text = render_document(result_of(), "json").decode()
    assert "Ä" in text
    content = json.loads(text)
    assert content["pages"] == [
        {
            "number": 1,
            "status": "ok",
            "error_code": None,
            "error": None,
            "width": 100,
            "height": 200,
            "markdown": result_of().markdown,
            "blocks": [
                {
                    "label": "text",
                    "text": "(figures/my%20report-p1-1.jpg)",
                    "box": [0.5, 1, 2, 3],
                    "confidence": 0.5,
                }
            ],
        }
    ]
    assert content["figures"] == [
        {
            "file": "figures/my report-p1-1.jpg",
            "page": 1,
            "label": "image",
            "box": [1.0, 2.0, 3.0, 4.0],
            "width": 20,
            "height": 30,
            "caption": "A river",
            "description": "It flows.",
        }
    ]
    assert content["record"] == {"length": 7}
    (record,) = content["records"]
    assert (record["page"], record["fields"]) == (1, {"length": 7})
    assert record["errors"] == [{"path": "width", "value": '"x"', "reason": "no number"}]
    assert record["evidence"] == [
        {
            "path": "length",
            "matched": "exact",
            "confidence": 0.9,
            "page": 1,
            "box": [1, 2, 3, 4],
            "quote": "7",
        }
    ]
    assert "1.5" not in text


def test_html_has_its_figures_inside_and_can_fetch_and_run_nothing() -> None:
    hostile = (
        "\n\n<script>alert(1)</script><img src=x onerror=alert(1)>"
        "<img src='https://spy.example/x.png'> <img src='data:text/html,x'>"
        "<a href='javascript:alert(1)'>a</a> <a href='data:text/html,x'>b</a>"
        "<iframe src='https://spy.example'></iframe>"
    )
    result = result_of()
    page = render_html(replace(result, markdown=result.markdown + hostile, name="<b>&</b>"))
    assert page.count("data:") == page.count("src=") == 1
    assert '<img src="data:image/jpeg;base64,/9j/IHBpY3R1cmU=" alt="A river">' in page
    assert "<title>&lt;b&gt;&amp;&lt;/b&gt;</title>" in page
    for part in ("script", "onerror", "spy.example", "iframe", "javascript"):
        assert part not in page


def test_a_renamed_document_refers_to_its_renamed_figures() -> None:
    result = rename_document(result_of(), "my report-2")
    assert result.name == "my report-2"
    assert [figure.name for figure in result.figures] == ["my report-2-p1-1.jpg"]
    assert result.markdown.endswith("(figures/my%20report-2-p1-1.jpg)")
    assert result.pages[0].markdown == result.markdown
    assert result.pages[0].blocks[0].text == "(figures/my%20report-2-p1-1.jpg)"
    assert rename_document(result, "my report-2") is result
