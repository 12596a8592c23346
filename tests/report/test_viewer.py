"""The viewer's file is read as a browser would: its elements by html.parser, its data as JSON."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from llm_ocr.parsing.figure_data import FigureData
from llm_ocr.report.viewer import safe_html, write_viewer
from llm_ocr.tables.schema import Row
from tests.servers.browser import browsing

HOSTILE = (
    "<script>alert(1)</script> </script><script>alert(2)</script> <img src=x onerror=alert(3)> "
    '[link](javascript:alert(4)) <a href="javascript:alert(5)">a</a> '
    '<div onclick="alert(6)" id="run">kept</div> ![x](https://example.org/x.png) '
    '<iframe src="https://example.org"></iframe><style>@import "x"</style> <!--<script>'
)


class Elements(HTMLParser):
    """All start tags with their attributes, and the text of script elements by id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs).get("id") or "code"
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] += data

    def data(self, element_id: str) -> Any:  # noqa: ANN401
        return json.loads(self.scripts[element_id])


def jpeg(width: int, height: int) -> Row:
    target = BytesIO()
    Image.new("RGB", (width, height), "white").save(target, "JPEG")
    return {"bytes": target.getvalue(), "path": None}


def block(label: str, text: str, box: tuple[float, float, float, float] | None = None) -> Row:
    x1, y1, x2, y2 = box or (None, None, None, None)
    return {"label": label, "text": text, "x1": x1, "y1": y1, "x2": x2, "y2": y2}


def page(number: int = 1, status: str = "ok", **columns: object) -> Row:
    return {
        "page_id": f"d/{number}",
        "doc_id": "d",
        "name": "reports/a",
        "page_number": number,
        "image": jpeg(200, 100),
        "width": 200,
        "height": 100,
        "markdown": "Hello",
        "blocks": [block("text", "Hello", (20, 10, 120, 60))],
        "status": status,
        "error": None,
        "error_code": None,
        **columns,
    }


def figure(box: tuple[float, float, float, float], caption: str | None = None) -> Row:
    row = block("image", "", box)
    return {
        **row,
        "figure_id": "d/1/1",
        "name": "a-1.jpg",
        "caption": caption,
        "image": jpeg(2000, 1000),
    }


DESCRIBED = {
    "figure_id": "d/1/1", "task": "describe", "text": f"*A river* {HOSTILE}", "error": None
}  # fmt: skip


def view(
    pages: Sequence[Row], figures: Sequence[Row] = (), descriptions: Sequence[Row] = (DESCRIBED,)
) -> Elements:
    target = BytesIO()
    given = {"d/1": figures}
    summary = {"out": "r", "pages": len(pages), "problems": ["not shown"]}
    write_viewer(pages, lambda i: given.get(i, []), lambda _: descriptions, summary, target)
    return Elements(target.getvalue().decode())


def picture(uri: str) -> Image.Image:
    assert uri.startswith("data:image/jpeg;base64,")
    return Image.open(BytesIO(base64.b64decode(uri.partition(",")[2])))


def assert_harmless(html: str) -> None:
    for tag, attributes in Elements(html).tags:
        assert tag not in {"script", "img", "iframe", "style", "link", "object"}
        assert not any(name.startswith("on") or name in {"id", "src"} for name in attributes)
        assert not (attributes.get("href") or "").startswith("javascript")


def test_each_page_has_its_data() -> None:
    elements = view([page(1), page(2, "truncated", error="stopped early")])

    first, second = elements.data("p0"), elements.data("p1")
    assert (first["page_number"], first["status"]) == (1, "ok")
    assert first["blocks"] == [
        {"label": "text", "box": [10.0, 10.0, 50.0, 50.0], "html": "<p>Hello</p>\n"}
    ]
    assert second["error"] == "stopped early"
    assert [entry["status"] for entry in elements.data("run")["pages"]] == ["ok", "truncated"]
    assert elements.data("run")["summary"] == {"out": "r"}


def test_each_task_shows_its_result() -> None:
    data = FigureData("table", columns=("River", HOSTILE), rows=(("Inn", 2),)).as_json()

    def row(task: str, text: str | None, **columns: object) -> Row:
        return {**DESCRIBED, "task": task, "text": text, "status": "ok", **columns}

    rows = [
        row("caption", None, status="skipped"),
        row("classify", "chart", confidence=0.934),
        row("data", "River,m", data=data),
        row("levels", None, status="blank"),
        row("own", None, data='{"name": "Inn"}'),
        row("own2", None, status="failed", error="the server was away"),
    ]
    found = view([page()], [figure((0, 0, 20, 20))], rows).data("p0")["figures"][0]["descriptions"]
    shown = {one["task"]: (one["html"], one["error"]) for one in found}
    assert list(shown) == [one["task"] for one in rows]
    assert shown["caption"] == ("", "Skipped, because it is small.")
    assert shown["classify"][0] == "<p>chart (93%)</p>\n"
    assert "<tr><th>River</th><th>" in shown["data"][0]
    assert "<tr><td>Inn</td><td>2</td></tr>" in shown["data"][0]
    assert shown["levels"] == ("", "The figure has none.")
    assert '"name": "Inn"' in shown["own"][0].replace("&quot;", '"')
    assert shown["own2"] == ("", "the server was away")
    for html, _ in shown.values():
        assert_harmless(html)


def test_page_images_are_downsized() -> None:
    elements = view([page(image=jpeg(3000, 1500), width=3000, height=1500), page(2)])
    assert picture(elements.data("i0")["page"]).size == (1000, 500)
    assert picture(elements.data("i1")["page"]).size == (200, 100)


@pytest.mark.parametrize("image", [None, {"bytes": None, "path": "x"}, {"bytes": b"?", "path": ""}])
def test_a_page_without_a_readable_image_is_shown_with_its_error(image: Row | None) -> None:
    nothing = {"image": image, "width": None, "height": None, "blocks": None, "markdown": None}
    elements = view([{**page(status="failed", error="a.pdf is encrypted"), **nothing}])
    assert elements.data("i0") == {"page": None, "figures": []}
    assert elements.data("p0")["error"] == "a.pdf is encrypted"
    assert elements.data("p0")["blocks"] == []


def test_blocks_may_have_no_box_and_pages_no_blocks() -> None:
    elements = view([page(blocks=[block("text", "x")]), page(2, blocks=[], markdown="# Whole")])
    assert elements.data("p0")["blocks"][0]["box"] is None
    assert elements.data("p1")["blocks"][0]["html"] == "<h1>Whole</h1>\n"


def test_hostile_text_is_escaped() -> None:
    hostile = page(
        blocks=[block("text", HOSTILE), block(HOSTILE, "x")], markdown=HOSTILE, name=HOSTILE,
        error=HOSTILE,
    )  # fmt: skip
    plain, elements = view([page()]), view([hostile], [figure((0, 0, 9, 9), HOSTILE)])

    assert elements.tags == plain.tags, "hostile text added or changed an element of the file"
    data = elements.data("p0")
    for shown in data["blocks"] + data["figures"][0]["descriptions"]:
        assert_harmless(shown["html"])
    assert "kept" in data["blocks"][0]["html"]
    assert data["markdown"] == HOSTILE


def test_nothing_but_the_viewers_own_script_may_run_and_nothing_is_fetched() -> None:
    elements = view([page()])
    policy = next(
        a["content"] for t, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    own = base64.b64encode(hashlib.sha256(elements.scripts["code"].encode()).digest()).decode()
    assert f"script-src 'sha256-{own}'" in policy
    assert not any(a.get("src") or a.get("href") for _, a in elements.tags)


@pytest.mark.parametrize(
    "latex",
    [
        r"\(x_1 * y * z\)",
        r"\[a < b\]",
        r"a lone \( stays",
        r"$\{x_1 * y * z\}$",
        "$$\na * b * c\n$$",
    ],
)
def test_latex_is_left_as_text(latex: str) -> None:
    assert latex.replace("<", "&lt;") in safe_html(latex)


def test_tables_keep_their_merged_cells() -> None:
    table = '<table><tr><td colspan="2" onclick="x">a</td></tr></table>'
    assert '<td colspan="2">a</td>' in safe_html(table)
    assert "<th>a</th>" in safe_html("|a|\n|-|\n|b|")


def test_figure_is_shown_in_place_with_its_description() -> None:
    boxes = [(0.0, 0.0, 50.0, 50.0), (50.0, 0.0, 90.0, 50.0)]
    blocks = [block("image", "", boxes[0]), block("text", "between"), block("image", "", boxes[1])]
    elements = view([page(blocks=blocks)], [figure(boxes[1], "A river")])

    data = elements.data("p0")
    assert [shown.get("figure") for shown in data["blocks"]] == [None, None, 0]
    assert data["figures"][0]["caption"] == "A river"
    assert "<em>A river</em>" in data["figures"][0]["descriptions"][0]["html"]
    assert picture(elements.data("i0")["figures"][0]).size == (640, 320)


def test_figure_without_a_block_is_shown_at_the_end() -> None:
    blocks = view([page()], [figure((1, 1, 9, 9))]).data("p0")["blocks"]
    assert [(shown["label"], shown.get("figure")) for shown in blocks] == [
        ("text", None),
        ("image", 0),
    ]


def test_caption_with_its_own_block_is_shown_once() -> None:
    box = (0.0, 0.0, 50.0, 50.0)
    blocks = [
        block("image", "", box),
        block("image_caption", "<center>Figure 1: **A** river</center>"),
    ]
    data = view([page(blocks=blocks)], [figure(box, "Figure 1: A river")]).data("p0")
    assert data["figures"][0]["caption"] == ""


def test_no_more_pages_than_requested_are_read() -> None:
    read: list[int] = []

    def pages() -> Iterator[Row]:
        for number in range(1, 1501):
            read.append(number)
            yield page(number)

    target = BytesIO()
    count = write_viewer(pages(), lambda _: [], lambda _: [], {"pages": 1500}, target, max_pages=3)

    elements = Elements(target.getvalue().decode())
    assert count == 3
    assert len(read) == 3
    assert elements.data("run")["total"] == 1500
    assert len(elements.data("run")["pages"]) == 3
    assert "p3" not in elements.scripts
    assert "pages shown" in elements.scripts["code"]


def test_a_page_is_written_before_the_next_is_read() -> None:
    target = BytesIO()

    def pages() -> Iterator[Row]:
        yield page(1)
        assert b'id="i0"' in target.getvalue()
        yield page(2)

    assert write_viewer(pages(), lambda _: [], lambda _: [], {}, target) == 2


def test_a_file_appears_only_when_complete(tmp_path: Path) -> None:
    def broken() -> Iterator[Row]:
        yield page()
        raise OSError("the store is gone")

    with pytest.raises(OSError, match="store"):
        write_viewer(broken(), lambda _: [], lambda _: [], {}, tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []

    write_viewer([page()], lambda _: [], lambda _: [], {}, tmp_path / "run.html")
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]


def test_escaped_text_is_shown_without_its_escapes_in_captions_too() -> None:
    blocks = [block("text", r"27\. Mai"), block("image_caption", r"<center>of \*all\* </center>")]
    shown = view([page(blocks=blocks)]).data("p0")["blocks"]
    assert [one["html"].strip() for one in shown] == ["<p>27. Mai</p>", "<p>of *all*</p>"]


async def test_box_frame_surrounds_its_text(tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    with file.open("wb") as target:
        write_viewer([page()], lambda _: [], lambda _: [], {"out": "r", "pages": 1}, target)
    async with browsing(tmp_path / "profile") as tab:
        await tab.open(file)
        # From the box inwards, in CSS pixels: where its frame ends at each side.
        ends = await tab.run(
            "(() => { const box = document.querySelector('.box');"
            "const frame = getComputedStyle(box, '::before');"
            "return ['Top', 'Right', 'Bottom', 'Left'].map(side =>"
            " parseFloat(getComputedStyle(box)['border' + side + 'Width'])"
            " || parseFloat(frame[side.toLowerCase()])"
            " + parseFloat(frame['border' + side + 'Width'])); })()"
        )
    assert len(ends) == 4
    assert all(end < 0 for end in ends), ends


async def test_a_wide_table_scrolls_within_the_text(tmp_path: Path) -> None:
    cells = "".join(f"<td>column{k}</td>" for k in range(40))
    wide = page(blocks=[block("table", f"<table><tr>{cells}</tr></table>", (20, 10, 120, 60))])
    file = tmp_path / "index.html"
    with file.open("wb") as target:
        write_viewer([wide], lambda _: [], lambda _: [], {"out": "r", "pages": 1}, target)
    async with browsing(tmp_path / "profile") as tab:
        await tab.open(file)
        block_wide, text_wide, cell = await tab.run(
            "(() => { const over = e => e.scrollWidth - e.clientWidth;"
            "const block = document.querySelector('.block');"
            "block.scrollLeft = 100000;"
            "return [block.scrollLeft, over(document.querySelector('#text')),"
            " document.querySelector('td').clientWidth]; })()"
        )
    assert block_wide > 500, "its end can be scrolled to"
    assert text_wide <= 0, "and nothing else gets wider with it"
    assert cell >= 50
