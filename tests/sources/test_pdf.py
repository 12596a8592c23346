"""PDF pages: upright, of the wanted size, cut out sharply; and what is said of bad files."""

import asyncio
from pathlib import Path

import psutil
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError
from llm_ocr.sources.render_pool import RenderLimits, RenderPool
from tests.documents import (
    corrupt_page_pdf,
    encrypted_pdf,
    huge_page_pdf,
    image_pdf,
    marked_pdf,
    pdf,
    picture,
    zero_page_pdf,
)
from tests.sources.drawn import SMALL, color, count, cut, drawn, page


async def test_longest_side_is_exactly_that_of_the_policy(tmp_path: Path) -> None:
    async with RenderPool(1) as pool:
        for size in ((300, 400), (612, 792), (841.89, 595.28), (99.7, 3.3), (5, 5)):
            path = marked_pdf(tmp_path / f"{size[0]}.pdf", size)
            for side in (640, 1280):
                image = await pool.render(page(path), ImagePolicy(side))
                assert max(image.width, image.height) == side
                assert image.width / image.height == pytest.approx(size[0] / size[1], rel=0.1)
                assert (image.width_pt, image.height_pt) == pytest.approx(size, abs=0.01)


@pytest.mark.parametrize(
    ("rotation", "corner"),
    [(0, (0.05, 0.05)), (90, (0.95, 0.05)), (180, (0.95, 0.95)), (270, (0.05, 0.95))],
)
def test_rotated_page_is_rendered_upright(
    tmp_path: Path, rotation: int, corner: tuple[float, float]
) -> None:
    image = drawn(marked_pdf(tmp_path / "a.pdf", (300, 400), rotation=rotation))
    upright = (400, 300) if rotation in (90, 270) else (300, 400)
    assert image.rotation == rotation
    assert (image.width_pt, image.height_pt) == upright
    assert (image.width > image.height) == (rotation in (90, 270))
    assert color(image, *corner) == "red"
    assert color(image, 1 - corner[0], 1 - corner[1]) == "white"


def test_page_is_limited_to_its_crop_box(tmp_path: Path) -> None:
    # The upper left quarter, which the red square fills to a fifth of each side.
    path = marked_pdf(tmp_path / "a.pdf", (400, 400), crop_box=(0, 200, 200, 400))
    image = drawn(path)
    assert (image.width_pt, image.height_pt) == (200, 200)
    assert (image.width, image.height) == (640, 640)
    assert color(image, 0.15, 0.15) == "red"
    assert color(image, 0.3, 0.3) == "white"


def test_crop_is_rendered_again_at_200_dpi(tmp_path: Path) -> None:
    # The red square: 40 x 40 points, 64 of 640 pixels.
    (crop,) = cut(marked_pdf(tmp_path / "a.pdf", (400, 400)), [Box(0, 0, 64, 64)])
    assert (crop.width, crop.height) == pytest.approx((111, 111), abs=1)
    assert {color(crop, x, y) for x in (0.05, 0.95) for y in (0.05, 0.95)} == {"red"}


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_crop_of_a_turned_page_is_where_its_box_is(tmp_path: Path, rotation: int) -> None:
    path = marked_pdf(tmp_path / "a.pdf", (400, 400), rotation=rotation)
    left, top = {90: (576, 0), 180: (576, 576), 270: (0, 576)}[rotation]
    (crop,) = cut(path, [Box(left, top, left + 64, top + 64)])
    assert {color(crop, x, y) for x in (0.05, 0.95) for y in (0.05, 0.95)} == {"red"}


def test_a_crop_within_a_crop_box_is_where_its_box_is(tmp_path: Path) -> None:
    path = marked_pdf(tmp_path / "a.pdf", (400, 400), crop_box=(0, 200, 200, 400))
    (crop,) = cut(path, [Box(0, 0, 128, 128)])
    assert (crop.width, crop.height) == pytest.approx((111, 111), abs=1)
    assert {color(crop, x, y) for x in (0.05, 0.95) for y in (0.05, 0.95)} == {"red"}


def test_boxes_at_and_over_the_edge_are_cut(tmp_path: Path) -> None:
    path = marked_pdf(tmp_path / "a.pdf", (400, 400))
    boxes = [Box(0, 0, 640, 640), Box(-20, -20, 660, 64), Box(10, 10, 10.2, 300), Box(0, 0, 1, 1)]
    whole, over, sliver, dot = cut(path, boxes)
    assert whole.width == whole.height == pytest.approx(1111, abs=1)
    assert (over.width, over.height) == pytest.approx((1111, 111), abs=1)
    assert min(sliver.width, sliver.height, dot.width, dot.height) >= 1


def test_page_of_200_inches_is_rendered_with_bounded_crops(tmp_path: Path) -> None:
    path = huge_page_pdf(tmp_path / "huge.pdf")
    image = drawn(path)
    assert (image.width, image.height) == (640, 640)
    assert (image.width_pt, image.height_pt) == (14_400, 14_400)
    (crop,) = cut(path, [Box(0, 0, 640, 320)], max_figure_side=1000)
    assert (crop.width, crop.height) == (1000, 500)


def test_form_is_rendered_with_its_values(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    sheet = Canvas(str(tmp_path / "form.pdf"), pagesize=(300, 400))
    sheet.acroForm.textfield(value="filled in", x=50, y=200, width=200, height=40, borderWidth=0)
    sheet.showPage()
    sheet.save()
    assert drawn(tmp_path / "form.pdf").ink > 0


def test_a_blank_page_has_no_ink(tmp_path: Path) -> None:
    blank = marked_pdf(tmp_path / "blank.pdf", (300, 400), mark=False)
    assert drawn(blank).ink == 0
    assert drawn(pdf(tmp_path / "text.pdf")).ink > 0


def test_pages_are_rendered_by_number(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", pages=3)
    assert count(path) == 3
    assert len({drawn(page(path, number)).jpeg for number in (1, 2, 3)}) == 3


@pytest.mark.parametrize("password", [None, "opensesame", "the owner's", ""])
def test_pdf_with_an_empty_user_password_is_read_with_any_password(
    tmp_path: Path, password: str | None
) -> None:
    """It is encrypted, and only what a reader may do is restricted; another PDF of the run needs
    the password."""
    encryption = StandardEncryption("", "the owner's", canPrint=0)
    path = pdf(tmp_path / "restricted.pdf", encrypt=encryption)
    assert drawn(path, password=password).ink > 0


def test_an_encrypted_pdf_needs_its_password(tmp_path: Path) -> None:
    path = encrypted_pdf(tmp_path / "secret.pdf", "opensesame")
    assert drawn(path, password="opensesame").ink > 0
    refusal_message(ErrorCode.ENCRYPTED, "secret.pdf: the PDF is encrypted, and no password", path)
    refusal_message(
        ErrorCode.WRONG_PASSWORD, "secret.pdf: the password does not", path, password="x"
    )


def test_a_password_does_no_harm_to_a_pdf_without_one(tmp_path: Path) -> None:
    assert drawn(pdf(tmp_path / "open.pdf"), password="needless").ink > 0


def test_truncated_pdf_is_reported(tmp_path: Path) -> None:
    path = pdf(tmp_path / "cut.pdf", pages=5)
    path.write_bytes(path.read_bytes()[:300])
    refusal_message(
        ErrorCode.CORRUPT_DOCUMENT, "cut.pdf: the PDF can't be opened: it is damaged", path
    )


def test_text_named_pdf_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "text.pdf"
    path.write_text("Just words.\n")
    refusal_message(ErrorCode.UNSUPPORTED_FORMAT, "text.pdf: this is text, not a PDF", path)


def test_a_web_page_and_an_office_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "web.pdf").write_text("<!DOCTYPE html><html>404</html>")
    (tmp_path / "office.pdf").write_bytes(b"PK\x03\x04\x14\x00\x06\x00")
    (tmp_path / "noise.pdf").write_bytes(bytes(range(256)))
    (tmp_path / "zeros.pdf").write_bytes(bytes(256))
    code = ErrorCode.UNSUPPORTED_FORMAT
    refusal_message(code, "web.pdf: this is a web page, .*; convert it", tmp_path / "web.pdf")
    refusal_message(code, "office.pdf: this is a ZIP or Office file, ", tmp_path / "office.pdf")
    refusal_message(code, "noise.pdf: this is some other format, ", tmp_path / "noise.pdf")
    refusal_message(code, "zeros.pdf: this is some other format, ", tmp_path / "zeros.pdf")


def test_text_is_recognized_with_a_character_cut_at_the_sample_end(tmp_path: Path) -> None:
    path = tmp_path / "text.pdf"
    path.write_text("a" + "ü" * 1200, encoding="utf-8")
    refusal_message(ErrorCode.UNSUPPORTED_FORMAT, "text.pdf: this is text", path)


def test_empty_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.pdf").touch()
    refusal_message(
        ErrorCode.EMPTY_FILE, "empty.pdf: the file is empty; copy", tmp_path / "empty.pdf"
    )


def test_pdf_without_pages_is_reported(tmp_path: Path) -> None:
    refusal_message(
        ErrorCode.NO_PAGES, "none.pdf: the PDF has no pages", zero_page_pdf(tmp_path / "none.pdf")
    )


async def test_error_of_a_pdf_does_not_leak_into_the_next(tmp_path: Path) -> None:
    """One worker opens them all, and pdfium remembers the last error it had."""
    (tmp_path / "cut.pdf").write_bytes(b"%PDF-1.4 and no more")
    paths = {
        encrypted_pdf(tmp_path / "secret.pdf", "x"): ErrorCode.ENCRYPTED,
        tmp_path / "cut.pdf": ErrorCode.CORRUPT_DOCUMENT,
        zero_page_pdf(tmp_path / "none.pdf"): ErrorCode.NO_PAGES,
    }
    async with RenderPool(1) as pool:
        for path in (*paths, *reversed(paths)):
            with pytest.raises(PageError, match=path.name) as raised:
                await pool.render(page(path), SMALL)
            assert raised.value.code == paths[path]


def test_corrupt_pdf_page_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no poppler for the worker
    path = corrupt_page_pdf(tmp_path / "a.pdf")
    assert count(path) == 3
    assert color(drawn(page(path, 1)), 0.5, 0.5) == "red"
    assert color(drawn(page(path, 3)), 0.5, 0.5) == "red"
    said = refusal_message(ErrorCode.CORRUPT_PAGE, "a.pdf, page 2: the page is damaged", path, 2)
    assert "install poppler-utils" in said


def test_poppler_renders_what_pdfium_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture(tmp_path / "answer.ppm", size=(480, 640))
    script = f"""[ "$1" = -v ] && echo pdftoppm version 22.02.0 >&2 || cat {tmp_path}/answer.ppm"""
    stand_in(tmp_path / "bin", script, monkeypatch)
    (tmp_path / "bin" / "pdfinfo").write_text("#!/bin/sh\necho 'Pages: 3'\n")
    image = drawn(page(corrupt_page_pdf(tmp_path / "a.pdf"), 2))
    assert (image.width, image.height) == (480, 640)
    assert (image.width_pt, image.height_pt) == (None, None)


def test_page_that_poppler_cannot_render_either_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", "echo broken >&2; exit 1", monkeypatch)
    path = corrupt_page_pdf(tmp_path / "a.pdf")
    said = refusal_message(ErrorCode.CORRUPT_PAGE, "a.pdf, page 2: .* not even by poppler", path, 2)
    assert "; " in said


async def test_a_poppler_that_hangs_ends_with_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", f"echo $$ > {tmp_path}/pid; exec sleep 300", monkeypatch)
    with pytest.raises(PageError, match=r"a\.pdf, page 2: .* longer than 3 s") as raised:
        async with RenderPool(1, limits=RenderLimits(timeout=3)) as pool:
            await pool.render(page(corrupt_page_pdf(tmp_path / "a.pdf"), 2), SMALL)
    assert raised.value.code == ErrorCode.RENDER_TIMEOUT
    poppler = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(20):
        while is_running(poppler):
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_oversized_images_are_refused_before_decoding(tmp_path: Path) -> None:
    # The stream is far too short for what it claims, so decoding it would fail otherwise.
    path = image_pdf(tmp_path / "bomb.pdf", (100_000, 100_000))
    said = refusal_message(
        ErrorCode.TOO_LARGE, "bomb.pdf, page 1: its images have 10,000,000,000", path
    )
    assert "`max_pixels`" in said


def test_the_bound_on_pixels_is_the_limits_own(tmp_path: Path) -> None:
    path = image_pdf(tmp_path / "a.pdf", (100, 100))
    assert drawn(path, limits=RenderLimits(max_pixels=10_000)).width == 640
    refusal_message(ErrorCode.TOO_LARGE, "a.pdf", path, limits=RenderLimits(max_pixels=9_999))


def refusal_message(
    code: ErrorCode,
    pattern: str,
    path: Path,
    number: int = 1,
    *,
    password: str | None = None,
    limits: RenderLimits | None = None,
) -> str:
    """What is said of a page that can't be rendered."""
    with pytest.raises(PageError, match=pattern) as raised:
        drawn(page(path, number), password=password, limits=limits)
    assert raised.value.code == code
    assert str(path) in raised.value.message
    return raised.value.message


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of poppler, each doing the same, first on the worker's PATH."""
    folder.mkdir()
    for name in ("pdftoppm", "pdfinfo", "pdftocairo"):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
