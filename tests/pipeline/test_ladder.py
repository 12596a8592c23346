"""Pages whose first answer is bad: asked again in other ways, then read by whoever stands in."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from aiohttp import web
from PIL import Image, ImageDraw
from reportlab.pdfgen.canvas import Canvas

from llm_ocr import load_pages, run
from llm_ocr.engines.embedded.command import EMBEDDED
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR, GRID
from llm_ocr.pipeline import events
from tests import documents
from tests.servers.chat import (
    ChatServer,
    Reply,
    answer,
    at_once,
    image_of,
    prompt_of,
    refusal,
    serving_beside,
)

WORDS = (
    "The river rose by a metre in March",
    "and the lower meadows stood under water",
    "until the old weir was opened again",
)
OTHER = "Quarterly revenue grew nine percent; interest expense fell as debt was repaid early."
LOOP = "# A good beginning\n\n" + "The gauge at the bridge was read. " * 60
# Requests up the whole of DeepSeek-OCR's ladder, and what tells those for strips.
ALL_WAYS, STRIPS_SEED = 7, 3

Rows = dict[str, dict[str, Any]]


def read(inputs: Path, server: ChatServer, **settings: Any) -> Rows:  # noqa: ANN401
    """The row of each document's one page; nobody stands in unless `settings` say so."""
    chosen = {"render_workers": 1, "fallback": "none", "describe": False, **settings}
    out = inputs.parent / "out"
    summary = run(inputs, out, base_url=server.base_url, **chosen)
    rows = {row["name"]: dict(row) for row in load_pages(str(out))}
    assert Counter(summary.pages_by_status) == Counter(row["status"] for row in rows.values())
    return rows


def read_one(page: Path, reply: Reply, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """The row of a run over one page that `reply` answers."""
    with serving_beside(reply) as server:
        return read(page, server, **settings)[page.stem]


def page_of_text(path: Path, size: tuple[int, int] = (300, 400)) -> Path:
    """A PDF of one page that says `WORDS`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = Canvas(str(path), pagesize=size)
    for k, line in enumerate(WORDS):
        # One in each third, so that no strip is empty.
        sheet.drawString(20, size[1] * (1 - (k + 0.5) / len(WORDS)), line)
    sheet.save()
    return path


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """An image, which has no text layer, with a word in each third."""
    image = Image.new("RGB", (300, 200), "white")
    for k, word in enumerate(("words", "more", "last")):
        ImageDraw.Draw(image).text((20, 20 + 65 * k), word, fill="black")
    image.save(tmp_path / "scan.png")
    return tmp_path / "scan.png"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return page_of_text(tmp_path / "page.pdf")


def is_first(body: dict[str, Any]) -> bool:
    return bool(body["temperature"] == DEEPSEEK_OCR.sampling["temperature"])


def is_wide(body: dict[str, Any]) -> bool:
    width, height = documents.decoded(image_of(body)).size
    return width > 2 * height


def test_a_loop_is_asked_about_again_and_all_of_it_is_counted(scan: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        said, tokens = (LOOP, 900) if is_first(body) else ("Words.", 40)
        return answer(said, prompt_tokens=305, completion_tokens=tokens)

    row = read_one(scan, reply)
    assert (row["status"], row["way"], row["markdown"]) == ("ok", "warmer", "Words.")
    assert (row["attempts"], row["prompt_tokens"], row["completion_tokens"]) == (2, 610, 940)


def test_each_rung_is_another_way_of_asking(scan: Path) -> None:
    with serving_beside(lambda body: answer("")) as server:
        row = read(scan, server)["scan"]
    seen = server.requests
    assert row["attempts"] == len(seen) == ALL_WAYS
    assert [body.get("seed") for body in seen] == [None, 1, 2, 3, 3, 3, 4]
    assert seen[2]["vllm_xargs"]["ngram_size"] < seen[1]["vllm_xargs"]["ngram_size"]
    assert [is_wide(body) for body in seen] == [False] * 3 + [True] * 3 + [False]
    assert prompt_of(seen[-1]) == "Free OCR."


def test_a_loop_for_good_is_replaced_by_the_pdfs_own_text(page: Path) -> None:
    row = read_one(page, lambda body: answer(LOOP), fallback="text-layer")
    assert (row["status"], row["way"], row["model"]) == ("fallback", "text layer", None)
    assert (row["attempts"], row["error_code"]) == (ALL_WAYS, None)
    assert all(line in row["markdown"] for line in WORDS)
    assert "gauge" not in row["markdown"]
    assert "again and again" in row["notes"][0]


def test_a_loop_for_good_keeps_its_beginning_where_nobody_stands_in(page: Path) -> None:
    row = read_one(page, lambda body: answer(LOOP))
    assert (row["status"], row["raw_answer"]) == ("repetitive", LOOP)
    assert row["markdown"].startswith("# A good beginning")
    assert row["markdown"].count("The gauge") <= 2
    assert "again and again" in row["notes"][-1]


@pytest.mark.parametrize("fallback", ["none", "text-layer"])
@pytest.mark.parametrize("name", ["no_layer.png", "short_layer.pdf"])
def test_a_page_that_nobody_can_read_failed(tmp_path: Path, name: str, fallback: str) -> None:
    make = documents.pdf if name.endswith("pdf") else documents.picture
    row = read_one(make(tmp_path / name), lambda body: answer(""), fallback=fallback)
    assert (row["status"], row["error_code"]) == ("failed", "empty_answer")
    assert f"{name}, page 1: the model read nothing" in row["error"]


def test_the_embedded_engine_reads_what_no_model_and_no_layer_can(scan: Path) -> None:
    row = read_one(scan, lambda body: answer(""), fallback="auto", engine_threads=1)
    assert (row["status"], row["way"], row["model"]) == ("fallback", "first", EMBEDDED.model)
    assert "words" in row["markdown"].lower()
    assert "nothing was read" in row["notes"][0]


# Black boxes (pixels), one in each third of a page 600 pixels wide.
MARKS = {"top": (50, 60, 350, 180), "middle": (210, 400, 580, 520), "bottom": (120, 700, 190, 880)}


def mark_in(body: dict[str, Any]) -> tuple[str, str]:
    """What a model says of a strip: the name of the mark on it, and a grounded block."""
    image = documents.decoded(image_of(body)).convert("L")
    seen = image.point(lambda light: 255 * (light < 128)).getbbox()
    assert seen is not None
    name = min(MARKS, key=lambda one: abs(MARKS[one][0] / 600 - seen[0] / image.width))
    grid = [round(GRID * at / side) for at, side in zip(seen, image.size * 2, strict=True)]
    return name, f"<|ref|>text<|/ref|><|det|>[{grid}]<|/det|>\nThe {name}."


def test_a_cut_page_is_asked_about_in_strips_which_are_joined_in_order(tmp_path: Path) -> None:
    """The strips' answers come in the wrong order."""
    drawn = Image.new("RGB", (600, 900), "white")
    for place in MARKS.values():
        drawn.paste("black", place)
    drawn.save(tmp_path / "marks.png")
    later = asyncio.Event()

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if body.get("seed") != STRIPS_SEED:
            return answer("The t", "length", completion_tokens=6144)
        name, said = mark_in(body)
        if name == "bottom":
            later.set()
        else:
            await asyncio.wait_for(later.wait(), 10)
        return answer(said, completion_tokens=30)

    row = read_one(tmp_path / "marks.png", reply)
    assert (row["status"], row["way"]) == ("ok", "in three strips")
    assert row["markdown"] == "The top.\n\nThe middle.\n\nThe bottom."
    assert row["raw_answer"].count("<|ref|>") == 3
    assert (row["attempts"], row["completion_tokens"]) == (4, 6144 + 3 * 30)
    for block, place in zip(row["blocks"], MARKS.values(), strict=True):
        corners = [block[corner] for corner in ("x1", "y1", "x2", "y2")]
        assert corners == pytest.approx(place, abs=2)


def test_a_page_that_stays_cut_is_left_as_it_is_if_it_has_nearly_all_words(page: Path) -> None:
    row = read_one(page, lambda body: answer(" ".join(WORDS), "length"), fallback="text-layer")
    assert (row["status"], row["finish_reason"]) == ("truncated", "length")
    assert row["agreement"] == 1.0


def test_a_page_that_stays_cut_early_is_replaced_by_the_pdfs_own_text(page: Path) -> None:
    row = read_one(page, lambda body: answer(WORDS[0], "length"), fallback="text-layer")
    assert (row["status"], row["way"]) == ("fallback", "text layer")
    assert "cut off after" in row["notes"][0]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Three upright pages and a wide one, all with a text layer."""
    folder = tmp_path / "inputs"
    for name in "abc":
        page_of_text(folder / f"{name}.pdf")
    return page_of_text(folder / "wide.pdf", (600, 200)).parent


@pytest.fixture
def refusing() -> Iterator[ChatServer]:
    """A server that takes no wide page."""

    def reply(body: dict[str, Any]) -> web.Response:
        return refusal(400, "the prompt is too long") if is_wide(body) else at_once(body)

    with serving_beside(reply) as server:
        yield server


def test_a_refused_page_gets_the_pdfs_own_text(inputs: Path, refusing: ChatServer) -> None:
    rows = read(inputs, refusing, fallback="text-layer")
    row = rows.pop("wide")
    assert [row["status"] for row in rows.values()] == ["ok"] * 3
    assert (row["status"], row["way"]) == ("fallback", "text layer")
    assert (row["attempts"], row["error_code"], row["error"]) == (1, None, None)
    assert WORDS[0] in row["markdown"]
    assert "400: the prompt is too long" in row["notes"][0]


def test_another_server_reads_what_the_first_refuses(inputs: Path, refusing: ChatServer) -> None:
    keys = {"api_key": "for the first", "fallback_api_key": "for the other"}
    with serving_beside(lambda body: answer("What the other one read.")) as other:
        second = {"fallback_base_url": other.base_url, "fallback_model": "qwen2.5-vl-7b"}
        row = read(inputs, refusing, **keys, **second)["wide"]
    assert [is_wide(body) for body in other.requests] == [True]
    assert (row["status"], row["markdown"]) == ("fallback", "What the other one read.")
    assert (row["profile"], row["attempts"]) == ("qwen2.5-vl-7b", 2)
    assert "400: the prompt is too long" in row["notes"][0]
    sent = [{one["Authorization"] for one in server.headers} for server in (refusing, other)]
    assert sent == [{"Bearer for the first"}, {"Bearer for the other"}]


def test_the_pdfs_own_text_is_next_if_that_fails_too(inputs: Path, refusing: ChatServer) -> None:
    with serving_beside(lambda body: answer("Some wo", "length")) as other:
        second = {"fallback_base_url": other.base_url, "fallback": "text-layer"}
        row = read(inputs, refusing, **second)["wide"]
    assert (row["status"], row["way"], row["attempts"]) == ("fallback", "text layer", 2)


def test_a_doubted_answer_is_asked_for_again_and_the_better_one_kept(page: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        return answer(OTHER if is_first(body) else " ".join(WORDS))

    row = read_one(page, reply, min_agreement=0.5, fallback="text-layer")
    assert (row["status"], row["way"], row["attempts"]) == ("ok", "warmer", 2)
    assert row["agreement"] == 1.0


def test_a_doubted_answer_is_asked_for_again_once_only(page: Path) -> None:
    """The layer may be what is wrong: it does not replace what the model sees."""

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(f"{OTHER} {WORDS[0]}" if is_first(body) else OTHER)

    row = read_one(page, reply, min_agreement=0.6, fallback="text-layer")
    assert (row["status"], row["way"], row["attempts"]) == ("ok", "first", 2)
    assert row["agreement"] == pytest.approx(0.4, abs=0.1)
    assert f"agrees {row['agreement']:.2f} with the text layer" in row["notes"]


def test_an_undoubted_answer_has_its_agreement_too(page: Path) -> None:
    row = read_one(page, lambda body: answer(f"{WORDS[0]} {WORDS[1]}"), min_agreement=0.5)
    assert (row["status"], row["attempts"]) == ("ok", 1)
    assert row["agreement"] == pytest.approx(0.8, abs=0.05)


def test_pages_that_are_read_do_not_wait_for_one_that_is_asked_about_again(inputs: Path) -> None:
    """The second answer about one page comes when all others are rows."""
    others_done, done = Event(), []
    came_first: list[bool] = []

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if not is_wide(body):
            return at_once(body)
        if is_first(body):
            return answer(LOOP)
        came_first.append(await asyncio.to_thread(others_done.wait, 10))
        return at_once(body)

    def notify(event: events.Event) -> None:
        if isinstance(event, events.ItemsDone) and event.stage == "extract":
            done.append(event.status)
            if len(done) == 3:
                others_done.set()

    with serving_beside(reply) as server:
        read(inputs, server, concurrency=2, notify=notify)
    assert came_first == [True]
    assert done == ["ok"] * 4


def test_strips_without_ink_are_not_asked_about(tmp_path: Path) -> None:
    top = documents.picture(tmp_path / "top.png", size=(200, 300))
    with serving_beside(lambda body: answer("")) as server:
        row = read(top, server)["top"]
    assert row["attempts"] == len(server.requests) == ALL_WAYS - 2


def test_what_loops_in_one_strip_is_cut_there_and_the_others_stay(scan: Path) -> None:
    seen: list[int] = []

    def reply(body: dict[str, Any]) -> web.Response:
        if body.get("seed") != STRIPS_SEED:
            return answer("")
        seen.append(1)
        return answer(LOOP if len(seen) == 2 else f"Strip {len(seen)} is good.")

    row = read_one(scan, reply, concurrency=1)
    assert row["status"] == "repetitive"
    assert row["markdown"].count("The gauge") <= 2
    assert "Strip 1" in row["markdown"]
    assert "Strip 3" in row["markdown"]


def test_all_requests_for_strips_are_counted_where_all_are_refused(scan: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        if body.get("seed") == STRIPS_SEED:
            return refusal(400, "no")
        return answer("Cut of", "length")

    row = read_one(scan, reply)
    assert (row["status"], row["attempts"]) == ("truncated", 4)


def test_spaces_and_lists_are_mended_from_the_pages_own_text(tmp_path: Path) -> None:
    lines = ["Input 220-240V AC at 1234.50 W", "• Unplug it first", "• Then open the lid"]
    sheet = Canvas(str(tmp_path / "page.pdf"), pagesize=(300, 400))
    for k, line in enumerate(lines):
        sheet.drawString(20, 350 - 40 * k, line)
    sheet.save()
    said = (
        "<|ref|>text<|/ref|><|det|>[[60, 90, 700, 140]]<|/det|>\n"
        "Input 220- 240V AC at 1 234.50 W\n\n"
        "<|ref|>text<|/ref|><|det|>[[60, 190, 700, 250]]<|/det|>\n"
        "• Unplug it first • Then open the lid"
    )
    row = read_one(tmp_path / "page.pdf", lambda body: answer(said))
    assert row["markdown"] == (
        "Input 220-240V AC at 1234.50 W\n\n- Unplug it first\n- Then open the lid"
    )
    assert any("mended from the PDF's own text in 3 places" in note for note in row["notes"])
    assert row["raw_answer"] == said
    (tmp_path / "left").mkdir()
    alone = (tmp_path / "page.pdf").rename(tmp_path / "left" / "page.pdf")
    left = read_one(alone, lambda body: answer(said), text_layer="off")
    assert "220- 240V" in left["markdown"]
