"""Pages that a model reads in two steps: the regions, then the elements one by one."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr import Converter, PageStatus
from llm_ocr.document.page_elements import cut_elements
from llm_ocr.models.elements import ElementRegion
from llm_ocr.models.two_step import MINERU_2_5_PRO
from llm_ocr.records import Box, PageResult
from tests.documents import decoded
from tests.servers.chat import ChatServer, answer, image_of, prompt_of, refusal, serving_beside

LAYOUT = (
    "<|box_start|>100 50 900 100<|box_end|><|ref_start|>title<|ref_end|><|rotate_up|>\n"
    "<|box_start|>100 200 450 500<|box_end|><|ref_start|>text<|ref_end|><|rotate_up|>\n"
    "<|box_start|>550 200 900 500<|box_end|><|ref_start|>text<|ref_end|><|rotate_up|>"
    "<|txt_contd_tgt|>\n"
    "<|box_start|>100 600 300 900<|box_end|><|ref_start|>table<|ref_end|><|rotate_right|>\n"
    "<|box_start|>400 600 900 900<|box_end|><|ref_start|>image<|ref_end|><|rotate_up|>"
)
TEXTS = {
    "title": "The river report",
    "left": "The gauge was read each",
    "right": "morning by the miller.",
    "table": "<fcel>March<fcel>7 m<nl>",
}
LOOP = "The gauge was read. " * 60
SIZE = (1200, 1600)
CHOSEN: dict[str, Any] = {
    "describe": False,
    "fallback": "none",
    "skip_model_check": True,
    "render_workers": 1,
}


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with serving_beside() as server:
        yield server


@pytest.fixture(scope="module")
def converter(server: ChatServer) -> Iterator[Converter]:
    with Converter(base_url=server.base_url, model="mineru2.5-pro", **CHOSEN) as converter:
        yield converter


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = Image.new("RGB", SIZE, "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=40)
    for left, top, text in ((130, 90, "Title"), (130, 340, "left"), (680, 340, "right")):
        draw.text((left, top), text, fill="black", font=font)
    # The table is higher than wide, the figure wider than high.
    draw.rectangle((130, 970, 340, 1420), outline="black", width=4)
    draw.rectangle((490, 970, 1070, 1420), fill="navy")
    path = tmp_path_factory.mktemp("pages") / "page.png"
    image.save(path)
    return path


def element_of(body: dict[str, Any]) -> str:
    """Which element a request is about."""
    prompt = prompt_of(body)
    width, height = decoded(image_of(body)).size
    if prompt == "\nLayout Detection:":
        return "layout"
    if prompt == "\nTable Recognition:":
        return "table"
    if width > 8 * height:
        return "title"
    return "left" if _shows_left(body) else "right"


def _shows_left(body: dict[str, Any]) -> bool:
    """Whether the image shows the word of the left column, which is shorter."""
    box = decoded(image_of(body)).convert("L").point(lambda value: 255 * (value < 128)).getbbox()
    assert box is not None
    return box[2] - box[0] < 75


def reply_with(
    other: Callable[[str, dict[str, Any]], Any] = lambda element, body: None,
) -> Callable[[dict[str, Any]], Any]:
    """Answers about the page's elements, but for those that `other` gives."""

    def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        element = element_of(body)
        given = other(element, body)
        if given is not None:
            return given
        said = LAYOUT if element == "layout" else TEXTS[element]
        return answer(said, prompt_tokens=100, completion_tokens=10)

    return reply


def read(
    converter: Converter, server: ChatServer, page: Path, reply: Callable[[dict[str, Any]], Any]
) -> tuple[PageResult, list[dict[str, Any]]]:
    """The page, and the requests about it."""
    server.reply = reply
    server.requests.clear()
    (result,) = converter.convert(page).pages
    return result, list(server.requests)


def test_a_page_is_read_in_two_steps(converter: Converter, server: ChatServer, page: Path) -> None:
    result, bodies = read(converter, server, page, reply_with())
    assert result.status is PageStatus.OK
    assert [(block.label, block.text) for block in result.blocks] == [
        ("title", "# The river report"),
        ("text", "The gauge was read each morning by the miller."),
        ("text", ""),
        ("table", "<table><tr><td>March</td><td>7 m</td></tr></table>"),
        ("image", ""),
    ]
    assert result.blocks[1].box == Box(120, 320, 540, 800)
    assert len(result.figures) == 1
    outcome = result.outcome
    assert (outcome.attempts, outcome.prompt_tokens, outcome.completion_tokens) == (5, 500, 50)
    assert element_of(bodies[0]) == "layout"
    assert sorted(element_of(body) for body in bodies[1:]) == ["left", "right", "table", "title"]
    sizes = {element_of(body): decoded(image_of(body)).size for body in bodies}
    assert sizes["layout"] == (1036, 1036)
    assert sizes["title"] == (960, 80)
    assert sizes["table"] == (480, 240), "it was turned"
    sampling = {element_of(body): body.get("frequency_penalty") for body in bodies}
    assert (sampling["layout"], sampling["left"], sampling["table"]) == (None, 0.05, 0.005)


def test_only_the_element_with_a_bad_answer_is_asked_again(
    converter: Converter, server: ChatServer, page: Path
) -> None:
    def loops(element: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
        return answer(LOOP) if element == "left" and "seed" not in body else None

    result, bodies = read(converter, server, page, reply_with(loops))
    assert (result.status, result.outcome.strategy) == (PageStatus.OK, "warmer")
    assert [element_of(body) for body in bodies[5:]] == ["left"]
    assert (bodies[5]["seed"], bodies[5]["max_tokens"]) == (1, 8192)
    assert "each morning" in result.markdown
    assert result.outcome.attempts == 6


@pytest.mark.parametrize(
    ("fault", "status", "kept", "said"),
    [
        (lambda: refusal(400, "not an image"), PageStatus.TRUNCATED, "", "not an image"),
        (lambda: answer("The gauge was", "length"), PageStatus.TRUNCATED, "The gauge was", "cut"),
        (lambda: answer(LOOP), PageStatus.REPETITIVE, "The gauge was read.", "repeat"),
    ],
)
def test_an_element_that_cannot_be_read_flags_the_page_and_the_rest_is_kept(
    converter: Converter,
    server: ChatServer,
    page: Path,
    fault: Callable[[], Any],
    status: PageStatus,
    kept: str,
    said: str,
) -> None:
    result, bodies = read(
        converter,
        server,
        page,
        reply_with(lambda element, body: fault() if element == "left" else None),
    )
    assert result.status is status
    assert "# The river report" in result.markdown
    assert "morning by the miller." in result.markdown
    assert "March" in result.markdown
    left = next(block for block in result.blocks if block.box == Box(120, 320, 540, 800))
    assert left.text.startswith(kept)
    assert "read. The gauge was read. The" not in left.text
    note = next(note for note in result.notes if "elements are not read whole" in note)
    assert note.startswith("1 of 4 elements")
    assert said in note
    assert [element_of(body) for body in bodies[5:]] == ["left"] * len(MINERU_2_5_PRO.ladder)
    assert result.outcome.attempts == len(bodies)


def test_a_page_without_regions_is_asked_again_and_fails(
    converter: Converter, server: ChatServer, page: Path
) -> None:
    result, bodies = read(
        converter, server, page, reply_with(lambda element, body: answer("nothing here at all"))
    )
    assert result.status is PageStatus.FAILED
    assert [element_of(body) for body in bodies] == ["layout"] * 3


def test_a_layout_that_was_cut_flags_the_page(
    converter: Converter, server: ChatServer, page: Path
) -> None:
    cut = LAYOUT[: LAYOUT.index("<|box_start|>100 600")]
    result, _ = read(
        converter,
        server,
        page,
        reply_with(lambda element, _: answer(cut, "length") if element == "layout" else None),
    )
    assert result.status is PageStatus.TRUNCATED
    assert "morning by the miller." in result.markdown
    assert any("layout was cut off" in note for note in result.notes)


def test_regions_may_come_from_the_layout_detector(server: ChatServer, page: Path) -> None:
    pytest.importorskip("onnxruntime")
    with Converter(base_url=server.base_url, model="glm-ocr", **CHOSEN) as glm:
        result, bodies = read(glm, server, page, lambda body: answer("Words of an element."))
    assert bodies
    assert {prompt_of(body) for body in bodies} <= {
        "Text Recognition:",
        "Table Recognition:",
        "Formula Recognition:",
    }
    assert "Words of an element." in result.markdown
    assert all(block.box is not None for block in result.blocks)


def test_elements_have_sizes_that_models_take() -> None:
    sink = io.BytesIO()
    Image.new("RGB", (2000, 1000), "white").save(sink, "JPEG")
    regions = [
        ElementRegion("text", (0, 0, 1000, 10)),
        ElementRegion("text", (0, 0, 1, 1000), turn=90),
    ]
    elements = cut_elements(sink.getvalue(), regions, 90)
    assert [decoded(jpeg).size for jpeg in elements] == [(2000, 40), (1400, 28)]
