"""Pages of hostile text: nothing of it becomes a tag."""

from html.parser import HTMLParser
from pathlib import Path

from llm_ocr.evaluation.predictions import open_predictions
from llm_ocr.evaluation.reporters.files import write_reports
from llm_ocr.evaluation.runner import (
    compare,
    compare_without_references,
    evaluate,
    evaluate_sample,
    load_references,
)
from tests.evaluation.runs import block, page, present, sheet, write_lines, write_run

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">"\' & '
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "main"),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "span", "i", "b", "article", "small"),
    *("img", "section", "dl", "dt", "dd", "mark", "details", "summary", "pre", "ul", "li"),
    *("ins", "del"),
}


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, (value or "")[:11]) for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(folder: Path) -> dict[str, Seen]:
    found = {}
    for path in folder.glob("*.html"):
        found[path.stem] = Seen()
        found[path.stem].feed(path.read_text("utf-8"))
    return found


def test_nothing_of_a_document_becomes_a_tag(tmp_path: Path) -> None:
    table = f"<table><tr><td>{EVIL}</td><td>one</td></tr></table>"
    image = {"bytes": sheet([(60, 100, 540, 112)]), "path": "x.jpg"}
    pages = [
        page("a", 1, f"the {EVIL} hare", image=image, blocks=[]),
        page("b", 1, f"{EVIL} then {table}", notes=[EVIL], agreement=0.1),
        page("c", 1, "", status="failed", error=EVIL, blocks=[block("text", "")]),
    ]
    a = write_run(tmp_path / "a", *pages)
    b = write_run(tmp_path / "b", *(page(one["name"], 1, "other") for one in pages))
    tests = write_lines(
        tmp_path / "t.jsonl",
        present(f"1{EVIL}", f"the {EVIL} here", "a.pdf"),
        {"id": "2", "pdf": "b.pdf", "page": 1, "type": "table", "cell": "one", "left": EVIL + "x"},
        present("3", EVIL, "c.pdf"),
        present("4", EVIL, f"{EVIL}.pdf"),
    )
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "b_pg1.md").write_text("&lt;script&gt;alert(3)&lt;/script&gt; than")
    given = load_references([str(tests), str(tmp_path / "truth")])
    mine, theirs = open_predictions(a), open_predictions(b)
    results = [
        *evaluate(mine, given),
        *compare(mine, theirs, given),
        evaluate_sample(mine, 9, 0),
        compare_without_references(mine, theirs, 9, 0),
    ]
    for _ in write_reports(results, mine, theirs, None, None):
        pass
    found = seen(tmp_path / "a" / "evaluation")
    assert set(found) == {
        *("tests", "truth", "sample", "against-tests", "against-truth", "against-diagnostics"),
    }
    for one in found.values():
        assert one.tags <= TAGS
        assert not any(attribute.startswith("on") for attribute, _ in one.attributes)
        sources = {value for attribute, value in one.attributes if attribute in ("src", "href")}
        assert sources <= {"data:image/"}
    assert "alert(1)" in found["tests"].text
    assert ("class", "gap") in found["sample"].attributes
