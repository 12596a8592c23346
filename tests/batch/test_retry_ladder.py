"""Pages whose first answer is bad: asked again in other ways, then read by whoever stands in."""

import asyncio
import io
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
from aiohttp import web
from PIL import Image, ImageDraw, ImageFont
from reportlab.pdfgen.canvas import Canvas
from rich.console import Console, Group

from llm_ocr import load_pages, run
from llm_ocr.batch import events
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR, GRID
from llm_ocr.report.status import read_status, render_status
from llm_ocr.report.summary import render_summary
from llm_ocr.settings import Settings
from tests import documents
from tests.servers.chat import (
    ChatServer,
    Reply,
    answer,
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
BOXED = "<|ref|>text<|/ref|><|det|>[[40, 40, 960, 960]]<|/det|>\n"
# What `page_of_text` says.
GOOD = BOXED + " ".join(WORDS)
USUAL = float(Settings.model_fields["min_agreement"].default)
# Requests up the whole of DeepSeek-OCR's ladder, and what tells those for strips.
ALL_WAYS, STRIPS_SEED = 7, 3

Rows = dict[str, dict[str, Any]]


def read(inputs: Path, server: ChatServer, **settings: Any) -> Rows:  # noqa: ANN401
    """The row of each document's one page; nobody stands in unless `settings` say so."""
    chosen = {"render_workers": 1, "fallback": "none", "describe": False, **settings}
    out = Path(tempfile.mkdtemp(dir=inputs.parent, prefix="out-"))
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


def always(said: str) -> Reply:
    return lambda body: answer(said)


def is_first(body: dict[str, Any]) -> bool:
    return bool(body["temperature"] == DEEPSEEK_OCR.sampling["temperature"])


def is_wide(body: dict[str, Any]) -> bool:
    width, height = documents.decoded(image_of(body)).size
    return width > 2 * height


def test_repetition_is_retried_and_all_tokens_are_counted(scan: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        said, tokens = (LOOP, 900) if is_first(body) else (f"{BOXED}Words.", 40)
        return answer(said, prompt_tokens=305, completion_tokens=tokens)

    row = read_one(scan, reply)
    assert (row["status"], row["strategy"], row["markdown"]) == ("ok", "warmer", "Words.")
    assert (row["attempts"], row["prompt_tokens"], row["completion_tokens"]) == (2, 610, 940)


def test_each_rung_changes_the_request(scan: Path) -> None:
    with serving_beside(lambda body: answer("")) as server:
        row = read(scan, server)["scan"]
    seen = server.requests
    assert row["attempts"] == len(seen) == ALL_WAYS
    assert [body.get("seed") for body in seen] == [None, 1, 2, 3, 3, 3, 4]
    assert seen[2]["vllm_xargs"]["ngram_size"] < seen[1]["vllm_xargs"]["ngram_size"]
    assert [is_wide(body) for body in seen] == [False] * 3 + [True] * 3 + [False]
    assert prompt_of(seen[-1]) == "Free OCR."


def test_persistent_repetition_falls_back_to_the_text_layer(page: Path) -> None:
    row = read_one(page, lambda body: answer(LOOP), fallback="text-layer")
    assert (row["status"], row["strategy"], row["model"]) == ("fallback", "text layer", None)
    assert (row["attempts"], row["error_code"]) == (ALL_WAYS, None)
    assert all(line in row["markdown"] for line in WORDS)
    assert "gauge" not in row["markdown"]
    assert "characters repeat" in row["notes"][0]


def test_persistent_repetition_without_fallback_keeps_its_beginning(page: Path) -> None:
    row = read_one(page, lambda body: answer(LOOP))
    assert (row["status"], row["raw_answer"]) == ("repetitive", LOOP)
    assert row["markdown"].startswith("# A good beginning")
    assert row["markdown"].count("The gauge") <= 2
    assert "characters repeat" in row["notes"][-1]


@pytest.mark.parametrize("fallback", ["none", "text-layer"])
@pytest.mark.parametrize("name", ["no_layer.png", "short_layer.pdf"])
def test_page_without_any_good_answer_fails(tmp_path: Path, name: str, fallback: str) -> None:
    make = documents.pdf if name.endswith("pdf") else documents.picture
    row = read_one(make(tmp_path / name), lambda body: answer(""), fallback=fallback)
    assert (row["status"], row["error_code"]) == ("failed", "empty_answer")
    assert f"{name}, page 1: the model read nothing" in row["error"]


def test_embedded_engine_is_the_last_fallback(scan: Path) -> None:
    row = read_one(scan, lambda body: answer(""), fallback="auto", engine_threads=1)
    assert (row["status"], row["strategy"], row["model"]) == ("fallback", "first", EMBEDDED.model)
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


def test_truncated_page_is_read_in_strips_joined_in_order(tmp_path: Path) -> None:
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
    assert (row["status"], row["strategy"]) == ("ok", "in three strips")
    assert row["markdown"] == "The top.\n\nThe middle.\n\nThe bottom."
    assert row["raw_answer"].count("<|ref|>") == 3
    assert (row["attempts"], row["completion_tokens"]) == (4, 6144 + 3 * 30)
    for block, place in zip(row["blocks"], MARKS.values(), strict=True):
        corners = [block[corner] for corner in ("x1", "y1", "x2", "y2")]
        assert corners == pytest.approx(place, abs=2)


def test_truncated_page_with_nearly_all_words_is_kept(page: Path) -> None:
    row = read_one(page, lambda body: answer(" ".join(WORDS), "length"), fallback="text-layer")
    assert (row["status"], row["finish_reason"]) == ("truncated", "length")
    assert row["agreement"] == 1.0


def test_page_truncated_early_falls_back_to_the_text_layer(page: Path) -> None:
    row = read_one(page, lambda body: answer(WORDS[0], "length"), fallback="text-layer")
    assert (row["status"], row["strategy"]) == ("fallback", "text layer")
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
        return refusal(400, "the prompt is too long") if is_wide(body) else answer(GOOD)

    with serving_beside(reply) as server:
        yield server


def test_refused_page_falls_back_to_the_text_layer(inputs: Path, refusing: ChatServer) -> None:
    rows = read(inputs, refusing, fallback="text-layer")
    row = rows.pop("wide")
    assert [row["status"] for row in rows.values()] == ["ok"] * 3
    assert (row["status"], row["strategy"]) == ("fallback", "text layer")
    assert (row["attempts"], row["error_code"], row["error"]) == (1, None, None)
    assert WORDS[0] in row["markdown"]
    assert "400: the prompt is too long" in row["notes"][0]


def test_fallback_server_reads_refused_pages(inputs: Path, refusing: ChatServer) -> None:
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


def test_text_layer_is_next_if_the_fallback_server_fails(
    inputs: Path, refusing: ChatServer
) -> None:
    with serving_beside(lambda body: answer("Some wo", "length")) as other:
        second = {"fallback_base_url": other.base_url, "fallback": "text-layer"}
        row = read(inputs, refusing, **second)["wide"]
    assert (row["status"], row["strategy"], row["attempts"]) == ("fallback", "text layer", 2)


def test_doubtful_answer_is_retried_and_the_better_one_kept(page: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        return answer(OTHER if is_first(body) else BOXED + " ".join(WORDS))

    row = read_one(page, reply, min_agreement=0.5, fallback="text-layer")
    assert (row["status"], row["strategy"], row["attempts"]) == ("ok", "warmer", 2)
    assert row["agreement"] == 1.0


def test_doubtful_answer_is_retried_only_once(page: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        return answer(f"{OTHER} {WORDS[0]}" if is_first(body) else OTHER)

    row = read_one(page, reply, min_agreement=0.6)
    assert (row["status"], row["strategy"], row["attempts"]) == ("ok", "first", 2)
    assert row["agreement"] == pytest.approx(0.4, abs=0.1)
    assert f"agrees {row['agreement']:.2f} with the text layer" in row["notes"]
    assert row["flaw"] == "disagrees"


def test_answer_of_another_page_is_replaced_by_a_fallback(page: Path) -> None:
    row = read_one(page, lambda body: answer(OTHER), min_agreement=USUAL, fallback="text-layer")
    assert (row["status"], row["strategy"], row["attempts"]) == ("fallback", "text layer", 2)
    assert all(line in row["markdown"] for line in WORDS)
    assert "agrees 0.0" in row["notes"][0]
    assert (row["flaw"], row["missing"]) == (None, [])


def test_fallback_model_comes_before_the_text_layer(page: Path) -> None:
    with serving_beside(lambda body: answer(" ".join(WORDS))) as other:
        second = {"fallback_base_url": other.base_url, "fallback_model": "qwen2.5-vl-7b"}
        settings = {"min_agreement": USUAL, "fallback": "text-layer", **second}
        row = read_one(page, lambda body: answer(OTHER), **settings)
    assert (row["status"], row["profile"]) == ("fallback", "qwen2.5-vl-7b")


def test_two_agreeing_models_outvote_the_text_layer(page: Path) -> None:
    with serving_beside(lambda body: answer(f"# {OTHER}")) as other:
        second = {"fallback_base_url": other.base_url, "fallback_model": "qwen2.5-vl-7b"}
        settings = {"min_agreement": USUAL, "fallback": "text-layer", **second}
        row = read_one(page, lambda body: answer(OTHER), **settings)
    assert (row["status"], row["markdown"], row["flaw"]) == ("ok", OTHER, None)
    assert "a second model read the same" in row["notes"][-1]


def test_embedded_engine_decides_between_answer_and_text_layer(page: Path) -> None:
    settings = {"min_agreement": USUAL, "fallback": "auto", "engine_threads": 1}
    row = read_one(page, lambda body: answer(OTHER), **settings)
    assert (row["status"], row["model"]) == ("fallback", EMBEDDED.model)
    assert all(line in row["markdown"].replace("\n", " ") for line in WORDS)


def test_garbled_text_layer_is_neither_evidence_nor_fallback(tmp_path: Path) -> None:
    """As a font has it that calls its glyphs by other letters, each by the third behind it."""
    shift = str.maketrans({chr(k): chr((k - 94) % 26 + 97) for k in range(97, 123)})
    said = BOXED + " ".join(WORDS * 2)
    path = tmp_path / "page.pdf"
    sheet = Canvas(str(path), pagesize=(900, 400))
    for k, line in enumerate(WORDS * 2):
        sheet.drawString(20, 350 - 40 * k, line.lower().translate(shift))
    sheet.save()
    row = read_one(path, lambda body: answer(said), min_agreement=USUAL, fallback="text-layer")
    assert (row["status"], row["flaw"], row["attempts"]) == ("ok", None, 1)
    row = read_one(path, lambda body: answer(LOOP), fallback="text-layer")
    assert row["status"] == "repetitive"


def test_a_page_whose_text_is_mostly_in_pictures_is_not_doubted(page: Path) -> None:
    """Its layer is a title, and the answer has the title and much more."""
    said = BOXED + " ".join([*WORDS, *LINES])
    row = read_one(page, lambda body: answer(said), min_agreement=USUAL, fallback="text-layer")
    assert row["agreement"] < USUAL
    assert (row["status"], row["flaw"], row["attempts"]) == ("ok", None, 1)


def test_missing_passages_are_named_in_the_notes(page: Path) -> None:
    row = read_one(
        page, lambda body: answer(f"{BOXED}{WORDS[0]}\n\n{WORDS[2]}"), min_agreement=USUAL
    )
    assert (row["status"], row["flaw"], row["missing"]) == ("ok", None, [WORDS[1]])


def test_answer_ending_within_a_tag_is_truncated_whatever_its_finish_reason(
    scan: Path,
) -> None:
    whole = f"<|ref|>text<|/ref|><|det|>[[40, 40, 900, 300]]<|/det|>\n{WORDS[0]}\n\n"

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(whole + ("<|ref|>text<|/ref|><|det|>[[40, 3" if is_first(body) else ""))

    row = read_one(scan, reply)
    assert (row["status"], row["strategy"], row["attempts"]) == ("ok", "warmer", 2)
    row = read_one(scan, lambda body: answer(f"{whole}<table><tr><td>1</td><td colspan="))
    assert (row["status"], row["flaw"], row["finish_reason"]) == ("truncated", "cut", "stop")


def test_the_agreement_of_a_page_with_a_loop_is_of_what_is_kept(page: Path) -> None:
    said = " ".join(WORDS) + "\n\n" + "The gauge at the bridge was read. " * 60
    row = read_one(page, lambda body: answer(said))
    assert row["status"] == "repetitive"
    assert row["markdown"].count("The gauge") <= 2
    assert row["agreement"] > 0.7


def test_a_loop_without_words_is_one_where_all_words_agree_too(page: Path) -> None:
    figure = "<|ref|>image<|/ref|><|det|>[[101, 203, 540, 611]]<|/det|>\n"
    for loop in (figure * 30, "<table><tr>" + "<td></td>" * 700, "_" * 900):
        said = f"{' '.join(WORDS)}\n\n{loop}"
        row = read_one(page, always(said))
        assert row["status"] == "repetitive", loop[:20]
        assert row["agreement"] > 0.9
        assert len(row["blocks"]) <= 2


# 45 lines of words of which no two are alike.
LINES = [
    " ".join(
        "".join(part) for part in islice(product(("ba", "ke", "lo", "mi"), repeat=5), k, k + 9)
    )
    for k in range(0, 45 * 9, 9)
]


@pytest.fixture
def full_scan(tmp_path: Path) -> Path:
    """A page full of text, `LINES`, as an image."""
    image = Image.new("RGB", (1240, 1754), "white")
    font = ImageFont.load_default(20)
    for k, line in enumerate(LINES):
        ImageDraw.Draw(image).text((90, 90 + 34 * k), line, fill="black", font=font)
    image.save(tmp_path / "full.png")
    return tmp_path / "full.png"


APOLOGY = "I'm sorry, but I can't assist with transcribing this document."
WHOLE_FIGURE = "<|ref|>image<|/ref|><|det|>[[0, 0, 999, 999]]<|/det|>\n"


@pytest.mark.parametrize(
    "said",
    [APOLOGY, WHOLE_FIGURE, f"<|ref|>text<|/ref|><|det|>[[0, 0, 999, 999]]<|/det|>\n{APOLOGY}"],
    ids=["apology", "figure", "apology in a box"],
)
def test_hardly_anything_read_of_a_page_full_of_text_is_doubted(full_scan: Path, said: str) -> None:
    row = read_one(full_scan, lambda body: answer(said), min_agreement=USUAL)
    assert (row["status"], row["flaw"], row["attempts"]) == ("ok", "unread_text", 2)
    assert "seems to be full of text" in row["notes"][-1]


def test_one_paragraph_read_of_a_page_full_of_text_is_doubted(full_scan: Path) -> None:
    block = "<|ref|>text<|/ref|><|det|>[[60, 40, 940, 200]]<|/det|>\n"
    row = read_one(full_scan, lambda body: answer(block + " ".join(LINES)), min_agreement=USUAL)
    assert row["flaw"] == "unread_text"
    assert "outside all boxes" in row["notes"][-1]


@pytest.mark.long
def test_an_apology_is_replaced_by_what_the_embedded_engine_reads(full_scan: Path) -> None:
    settings = {"min_agreement": USUAL, "fallback": "auto", "engine_threads": 1}
    row = read_one(full_scan, lambda body: answer(APOLOGY), **settings)
    assert (row["status"], row["model"]) == ("fallback", EMBEDDED.model)
    assert LINES[20].split()[3] in row["markdown"]


def test_a_page_that_is_a_picture_may_be_one_figure(tmp_path: Path) -> None:
    """As much ink as a page of text has, in no even rows."""
    rng, photo = Random(1), Image.new("L", (1240, 1754), 200)
    for _ in range(3_000):
        x, y, size = rng.randrange(1240), rng.randrange(1754), rng.randrange(5, 60)
        corners = (x, y, x + size, y + size * rng.random())
        ImageDraw.Draw(photo).ellipse(corners, fill=rng.randrange(256))
    photo.save(tmp_path / "photo.png")
    path = tmp_path / "photo.png"
    row = read_one(path, lambda body: answer(WHOLE_FIGURE), min_agreement=USUAL)
    assert (row["status"], row["flaw"], row["attempts"]) == ("ok", None, 1)


def test_a_page_full_of_text_that_was_read_is_not_doubted(full_scan: Path) -> None:
    block = "<|ref|>text<|/ref|><|det|>[[60, 40, 960, 960]]<|/det|>\n"
    said = block + " ".join(LINES)
    row = read_one(full_scan, lambda body: answer(said), min_agreement=USUAL)
    assert (row["status"], row["flaw"], row["attempts"]) == ("ok", None, 1)


def test_blocks_without_boxes_are_doubted_and_not_replaced(page: Path) -> None:
    """The text may be all there; only where it stands is lost."""
    said = "".join(f"<|ref|>text<|/ref|>{line}\n\n" for line in WORDS)
    row = read_one(page, lambda body: answer(said), min_agreement=USUAL, fallback="text-layer")
    assert (row["status"], row["flaw"], row["attempts"]) == ("ok", "no_boxes", 2)
    assert "3 of 3 blocks have no box" in row["notes"]


def test_doubted_pages_are_among_the_problems(inputs: Path) -> None:
    """Of the summary, of `status` and of the viewer, where what they lack is shown."""

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(OTHER if is_wide(body) else BOXED + " ".join(WORDS))

    with serving_beside(reply) as server:
        settings: dict[str, Any] = {"render_workers": 1, "describe": False, "fallback": "none"}
        out = inputs.parent / "out"
        summary = run(inputs, out, base_url=server.base_url, min_agreement=USUAL, **settings)
    assert summary.pages_by_status["ok"] == 4
    assert summary.doubts == {"disagrees": 1}
    (problem,) = summary.problems
    assert (problem.page_number, problem.status) == (1, "doubted")
    assert problem.source_uri.endswith("wide.pdf")
    assert "wide.pdf, page 1: disagrees with the PDF's own text: 0.0" in problem.error
    printed = "\n".join(_printed(one) for one in (render_summary(summary), _status(out)))
    assert printed.count("1 page ok, but doubted: disagrees with the PDF's own text") == 2
    viewer = (out / "index.html").read_text("utf-8")
    assert viewer.count('"status": "doubted"') == 2
    assert f'"missing": ["{" ".join(WORDS)}"]' in viewer


def _status(out: Path) -> Group:
    return render_status(read_status(str(out)))


def _printed(group: Group) -> str:
    console = Console(width=160, file=io.StringIO())
    with console.capture() as taken:
        console.print(group)
    return taken.get()


def test_at_an_agreement_of_0_nothing_is_doubted(page: Path, full_scan: Path) -> None:
    for path in (page, full_scan):
        row = read_one(path, lambda body: answer(APOLOGY), min_agreement=0.0)
        assert (row["status"], row["flaw"], row["attempts"]) == ("ok", None, 1)


def test_an_undoubted_answer_has_its_agreement_too(page: Path) -> None:
    said = f"{BOXED}{WORDS[0]} {WORDS[1]}"
    row = read_one(page, lambda body: answer(said), min_agreement=0.5)
    assert (row["status"], row["attempts"]) == ("ok", 1)
    assert row["agreement"] == pytest.approx(0.8, abs=0.05)


def test_finished_pages_do_not_wait_for_a_retried_one(inputs: Path) -> None:
    """The second answer about one page comes when all others are rows."""
    others_done, done = Event(), []
    came_first: list[bool] = []

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if is_wide(body) and is_first(body):
            return answer(LOOP)
        if is_wide(body):
            came_first.append(await asyncio.to_thread(others_done.wait, 10))
        return answer(GOOD)

    def notify(event: events.Event) -> None:
        if isinstance(event, events.ItemsDone) and event.stage == "extract":
            done.append(event.status)
            if len(done) == 3:
                others_done.set()

    with serving_beside(reply) as server:
        read(inputs, server, concurrency=2, notify=notify)
    assert came_first == [True]
    assert done == ["ok"] * 4


def test_blank_strips_send_no_request(tmp_path: Path) -> None:
    top = documents.picture(tmp_path / "top.png", size=(200, 300))
    with serving_beside(lambda body: answer("")) as server:
        row = read(top, server)["top"]
    assert row["attempts"] == len(server.requests) == ALL_WAYS - 2


def test_repetition_in_one_strip_leaves_the_others(scan: Path) -> None:
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
