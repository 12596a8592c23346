"""Pages drawn by worker processes: what comes out, and what becomes of workers that fail."""

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from llm_ocr.documents import Document
from llm_ocr.records import Box, ErrorCode, ImagePolicy, Page, PageError, PageImage
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import RenderLimits, RenderPool
from tests import documents
from tests.documents import decoded

POLICY = ImagePolicy(longest_side=600)


@pytest.fixture
async def pool() -> AsyncIterator[RenderPool]:
    async with RenderPool(2) as running:
        yield running


def document(path: Path) -> Document:
    return list_documents([str(path)])[0]


async def drawn(pool: RenderPool, path: Path, number: int = 1) -> PageImage:
    return await pool.render(Page(document(path), number), POLICY)


_others: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def count_own_workers_only() -> None:
    """`convert` keeps its workers until this process ends."""
    _others.clear()
    _others.update(workers())


def workers() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [
        child
        for child in children
        if child not in _others and "llm_ocr.sources.render_worker" in command_line(child)
    ]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


async def refusal(pool: RenderPool, path: Path, number: int = 1) -> PageError:
    with pytest.raises(PageError) as caught:
        await drawn(pool, path, number)
    assert path.name in caught.value.message
    return caught.value


async def test_a_pdf_page_has_the_longest_side_that_is_wanted(
    pool: RenderPool, tmp_path: Path
) -> None:
    path = documents.pdf(tmp_path / "a.pdf", pages=2)
    info = await pool.inspect(document(path))
    assert info.page_count == await pool.count_pages(document(path)) == 2
    assert info.content_hash == hashlib.sha256(path.read_bytes()).hexdigest()
    image = await drawn(pool, path, 2)
    assert (image.width, image.height) == decoded(image.jpeg).size == (450, 600)
    assert (image.width_pt, image.height_pt, image.rotation) == (300, 400, 0)
    assert 0.05 < image.ink < 0.5


@pytest.mark.parametrize("side", [*range(590, 600), 1920])
async def test_no_page_is_a_pixel_too_large(pool: RenderPool, tmp_path: Path, side: int) -> None:
    sheet = Canvas(str(tmp_path / "odd.pdf"), pagesize=(594.96, 842.04))
    sheet.showPage()
    sheet.save()
    image = await pool.render(Page(document(tmp_path / "odd.pdf"), 1), ImagePolicy(side))
    assert image.height == side
    assert image.ink == 0


async def test_rotate_and_crop_box_are_honored(pool: RenderPool, tmp_path: Path) -> None:
    content = b"1 0 0 rg 100 100 100 50 re f"
    path = documents.pdf_of(
        tmp_path / "turned.pdf",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 300] /CropBox [100 100 300 200] "
        b"/Rotate 90 /Contents 4 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    )
    image = await drawn(pool, path)
    assert (image.width, image.height, image.rotation) == (300, 600, 90)
    assert (image.width_pt, image.height_pt) == (100, 200)
    # The red box at the crop box's lower left is at the upper left once the page is turned.
    pixels = decoded(image.jpeg)
    assert is_red(pixels, 75, 150)
    assert not is_red(pixels, 225, 450)


def is_red(image: Image.Image, x: int, y: int) -> bool:
    pixel = image.convert("RGB").getpixel((x, y))
    assert isinstance(pixel, tuple)
    return pixel[0] > 200 and max(pixel[1:]) < 80


async def test_the_text_of_pages_is_estimated_without_rendering(
    pool: RenderPool, tmp_path: Path
) -> None:
    """By a PDF's own text, or by the bytes of a scan and of an image file."""
    texts = ["Forty letters that stand upon this page.", "Twice as many. " * 4 + "x" * 20, ""]
    written = document(documents.text_pdf(tmp_path / "text.pdf", texts))
    tokens = await pool.expected_tokens(written, [1, 2, 3])
    assert tokens == [pytest.approx(10, abs=1), pytest.approx(20, abs=1), 0]
    noise = Image.frombytes("L", (600, 800), os.urandom(480_000))
    noise.save(tmp_path / "scan.jpg", quality=60)
    sheet = Canvas(str(tmp_path / "scan.pdf"), pagesize=(600, 800))
    sheet.drawImage(str(tmp_path / "scan.jpg"), 0, 0, 600, 800)
    sheet.save()
    [of_scan] = await pool.expected_tokens(document(tmp_path / "scan.pdf"), [1])
    [of_image] = await pool.expected_tokens(document(tmp_path / "scan.jpg"), [1])
    assert of_image == (tmp_path / "scan.jpg").stat().st_size // 200
    assert of_scan == pytest.approx(of_image, rel=0.3)
    damaged = document(documents.corrupt_page_pdf(tmp_path / "damaged.pdf"))
    assert await pool.expected_tokens(damaged, [1, 2, 3]) == [0, 0, 0]


async def test_crops_come_from_the_source_at_200_dpi(pool: RenderPool, tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    page = Page(document(path), 1)
    image = await pool.render(page, POLICY)
    # The rectangle at (60, 120) of 180 x 100 points, on a page of 300 x 400.
    box = Box(60 * 1.5, (400 - 220) * 1.5, 240 * 1.5, (400 - 120) * 1.5)
    crop, sliver = await pool.crop(page, image.width, image.height, [box, Box(9, 9, 9.2, 300)])
    assert (crop.width, crop.height) == pytest.approx((500, 278), abs=2)
    middle = decoded(crop.jpeg).getpixel((250, 139))
    assert middle == pytest.approx((51, 102, 153), abs=6)
    assert min(sliver.width, sliver.height) >= 1


async def test_crops_of_a_huge_page_are_bounded(tmp_path: Path) -> None:
    path = documents.huge_page_pdf(tmp_path / "poster.pdf")
    async with RenderPool(1, limits=RenderLimits(max_figure_side=800)) as pool:
        image = await drawn(pool, path)
        assert (image.width, image.height) == (600, 600)
        page = Page(document(path), 1)
        [crop] = await pool.crop(page, 600, 600, [Box(0, 0, 600, 600)])
    assert max(crop.width, crop.height) <= 801


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "tiff"])
async def test_images_are_never_enlarged_and_never_too_large(
    pool: RenderPool, tmp_path: Path, ending: str
) -> None:
    small = await drawn(pool, documents.picture(tmp_path / f"small.{ending}", size=(300, 200)))
    large = await drawn(pool, documents.picture(tmp_path / f"large.{ending}", size=(1500, 900)))
    assert (small.width, small.height) == (300, 200)
    assert (large.width, large.height) == decoded(large.jpeg).size == (600, 360)


async def test_a_jpeg_that_fits_passes_byte_for_byte(pool: RenderPool, tmp_path: Path) -> None:
    path = documents.picture(tmp_path / "fits.jpg")
    assert (await drawn(pool, path)).jpeg == path.read_bytes()


async def test_exif_orientation_is_applied(pool: RenderPool, tmp_path: Path) -> None:
    image = Image.new("RGB", (300, 200), "white")
    image.paste((255, 0, 0), (0, 0, 100, 100))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "phone.jpg", exif=exif, dpi=(100, 100), quality=95)
    page = await drawn(pool, tmp_path / "phone.jpg")
    assert (page.width, page.height, page.rotation) == (200, 300, 90)
    assert (page.width_pt, page.height_pt) == (144, 216)
    assert is_red(decoded(page.jpeg), 150, 50)


async def test_frames_of_a_tiff_are_pages(pool: RenderPool, tmp_path: Path) -> None:
    frames = [Image.new("1", (100 + k, 80), k % 2) for k in range(3)]
    path = tmp_path / "many.tif"
    frames[0].save(path, save_all=True, append_images=frames[1:], compression="group4")
    assert await pool.count_pages(document(path)) == 3
    assert [(await drawn(pool, path, k)).width for k in (3, 1, 2)] == [102, 100, 101]


async def test_transparency_is_white_paper(pool: RenderPool, tmp_path: Path) -> None:
    image = Image.new("RGBA", (100, 100), (0, 0, 0, 0))
    image.paste((255, 0, 0, 255), (0, 0, 40, 40))
    image.save(tmp_path / "logo.png")
    palette = image.convert("P")
    palette.info["transparency"] = palette.getpixel((80, 80))
    palette.save(tmp_path / "palette.png")
    for name in ("logo.png", "palette.png"):
        pixels = decoded((await drawn(pool, tmp_path / name)).jpeg)
        assert pixels.convert("L").getpixel((80, 80)) == pytest.approx(255, abs=3), name
        assert is_red(pixels, 20, 20), name


async def test_an_animation_is_one_page_and_the_ending_does_not_matter(
    pool: RenderPool, tmp_path: Path
) -> None:
    frames = [Image.new("RGB", (60, 60), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "moving.webp", save_all=True, append_images=frames[1:])
    assert await pool.count_pages(document(tmp_path / "moving.webp")) == 1
    documents.picture(tmp_path / "real.png").rename(tmp_path / "named.pdf")
    assert (await drawn(pool, tmp_path / "named.pdf")).width == 300


async def test_unreadable_documents_have_a_code_and_advice(
    pool: RenderPool, tmp_path: Path
) -> None:
    whole = documents.pdf(tmp_path / "whole.pdf", pages=3).read_bytes()
    (tmp_path / "cut.pdf").write_bytes(whole[:300])
    (tmp_path / "empty.pdf").write_bytes(b"")
    (tmp_path / "page.pdf").write_text("<html><body>404</body></html>")
    (tmp_path / "office.pdf").write_bytes(b"PK\x03\x04" + bytes(100))
    scan = documents.picture(tmp_path / "scan.png", size=(900, 900)).read_bytes()
    (tmp_path / "cut.png").write_bytes(scan[: len(scan) // 2])
    (tmp_path / "junk.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (tmp_path / "folder.pdf").mkdir()
    documents.zero_page_pdf(tmp_path / "none.pdf")
    documents.bomb_png(tmp_path / "bomb.png")
    for name, code, words in (
        ("cut.pdf", ErrorCode.CORRUPT_DOCUMENT, "damaged or truncated"),
        ("empty.pdf", ErrorCode.EMPTY_FILE, "copy it again or recreate it"),
        ("page.pdf", ErrorCode.UNSUPPORTED_FORMAT, "this is a web page"),
        ("office.pdf", ErrorCode.UNSUPPORTED_FORMAT, "this is a ZIP or Office file"),
        ("cut.png", ErrorCode.CORRUPT_PAGE, "damaged or cut off"),
        ("junk.png", ErrorCode.CORRUPT_DOCUMENT, "damaged"),
        ("none.pdf", ErrorCode.NO_PAGES, "has no pages"),
        ("bomb.png", ErrorCode.TOO_LARGE, "`max_pixels`"),
    ):
        error = await refusal(pool, tmp_path / name)
        assert (error.code, words in error.message) == (code, True), error.message


async def test_a_folder_in_a_list_is_no_file(pool: RenderPool, tmp_path: Path) -> None:
    (tmp_path / "folder.pdf").mkdir()
    (tmp_path / "list.txt").write_text("folder.pdf\n")
    listed = list_documents([f"@{tmp_path}/list.txt"])[0]
    with pytest.raises(PageError, match=r"folder\.pdf: this is a folder"):
        await pool.inspect(listed)


async def test_passwords(tmp_path: Path) -> None:
    path = documents.encrypted_pdf(tmp_path / "secret.pdf", "sesame")
    async with RenderPool(1) as none, RenderPool(1, password="guess") as wrong:
        assert (await refusal(none, path)).code is ErrorCode.ENCRYPTED
        assert (await refusal(wrong, path)).code is ErrorCode.WRONG_PASSWORD
    async with RenderPool(1, password="sesame") as right:
        assert (await drawn(right, path)).height == 600


async def test_images_in_a_pdf_are_bounded_before_they_are_decoded(tmp_path: Path) -> None:
    sheet = Canvas(str(tmp_path / "photo.pdf"), pagesize=(200, 200))
    sheet.drawInlineImage(Image.new("L", (900, 900), 128), 0, 0, 200, 200)
    sheet.save()
    async with RenderPool(1, limits=RenderLimits(max_pixels=500_000)) as pool:
        error = await refusal(pool, tmp_path / "photo.pdf")
    assert error.code is ErrorCode.TOO_LARGE
    assert "810,000 pixels" in error.message


async def test_corrupt_page_leaves_other_pages_intact(pool: RenderPool, tmp_path: Path) -> None:
    path = documents.corrupt_page_pdf(tmp_path / "torn.pdf")
    assert is_red(decoded((await drawn(pool, path, 1)).jpeg), 300, 300)
    assert is_red(decoded((await drawn(pool, path, 3)).jpeg), 300, 300)
    error = await refusal(pool, path, 2)
    assert error.code is ErrorCode.CORRUPT_PAGE
    assert "page 2" in error.message
    advice = "not even by poppler" if shutil.which("pdftoppm") else "install poppler-utils"
    assert advice in error.message


async def test_files_that_vanish_or_change(pool: RenderPool, tmp_path: Path) -> None:
    gone, changed = documents.pdf(tmp_path / "gone.pdf"), documents.pdf(tmp_path / "changed.pdf")
    before = {path: document(path) for path in (gone, changed)}
    await pool.render(Page(before[changed], 1), POLICY)
    gone.unlink()
    documents.pdf(changed, pages=4)
    for path, code in ((gone, ErrorCode.NOT_FOUND), (changed, ErrorCode.SOURCE_CHANGED)):
        with pytest.raises(PageError, match=path.name) as caught:
            await pool.render(Page(before[path], 1), POLICY)
        assert caught.value.code is code


async def test_concurrent_pages_are_not_mixed_up(pool: RenderPool, tmp_path: Path) -> None:
    path = tmp_path / "wide.pdf"
    sheet = Canvas(str(path))
    for k in range(60):
        sheet.setPageSize((100 + k, 200))
        sheet.showPage()
    sheet.save()
    images = await asyncio.gather(*(drawn(pool, path, k) for k in range(1, 61)))
    assert [round(image.width_pt or 0) for image in images] == list(range(100, 160))
    assert len(workers()) == 2


async def test_killed_worker_loses_no_page(pool: RenderPool, tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf", pages=20)
    await drawn(pool, path)
    victim = workers()[0]
    drawing = [asyncio.ensure_future(drawn(pool, path, k)) for k in range(1, 21)]
    await drawing[0]
    victim.send_signal(signal.SIGKILL)
    images = await asyncio.gather(*drawing)
    assert len({image.jpeg for image in images}) == 20
    assert victim.pid not in {worker.pid for worker in workers()}


async def test_a_page_that_kills_every_worker_fails_alone(tmp_path: Path) -> None:
    """Each worker is killed while it holds the page, as a crash of the library would."""
    path = documents.pdf(tmp_path / "a.pdf", pages=2)
    async with RenderPool(1, limits=RenderLimits(timeout=60)) as pool:
        await drawn(pool, path)
        for worker in workers():
            worker.suspend()
        task = asyncio.ensure_future(drawn(pool, path, 2))
        killed: set[int] = set()
        while not task.done():
            for worker in workers():
                if worker.pid not in killed:
                    worker.suspend()
                    killed.add(worker.pid)
                    worker.kill()
            await asyncio.sleep(0)
        with pytest.raises(PageError, match="page 2: rendering crashed") as caught:
            await task
        assert caught.value.code is ErrorCode.RENDER_CRASHED
        assert len(killed) == 2
        assert (await drawn(pool, path)).height == 600


async def test_hanging_page_times_out(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    async with RenderPool(1, limits=RenderLimits(timeout=3)) as pool:
        await drawn(pool, path)
        stuck = workers()[0]
        stuck.suspend()
        error = await refusal(pool, path)
        assert error.code is ErrorCode.RENDER_TIMEOUT
        assert "longer than 3 s (`render_timeout`)" in error.message
        assert not stuck.is_running()
        assert (await drawn(pool, path)).height == 600


async def test_closing_leaves_no_process(tmp_path: Path) -> None:
    async with RenderPool(2) as pool:
        path = documents.pdf(tmp_path / "a.pdf", pages=4)
        await asyncio.gather(*(drawn(pool, path, k) for k in range(1, 5)))
        assert len(workers()) == 2
    assert workers() == []


PARENT = """
import asyncio, os, signal, sys
from llm_ocr.records import ImagePolicy, Page
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import RenderPool

async def main():
    async with RenderPool(1) as pool:
        await pool.render(Page(list_documents(sys.argv[1:])[0], 1), ImagePolicy(100))
        print(next(iter(pool._all)).pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_no_worker_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    command = [sys.executable, "-c", PARENT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    worker = int(done.stdout)
    async with asyncio.timeout(20):
        while _alive(worker):
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission(pool: RenderPool, tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "mine.pdf")
    path.chmod(0)
    assert (await refusal(pool, path)).code is ErrorCode.READ_ERROR


async def test_metadata_and_trailing_data_are_not_stored(pool: RenderPool, tmp_path: Path) -> None:
    plain = documents.picture(tmp_path / "plain.jpg").read_bytes()
    (tmp_path / "told.jpg").write_bytes(documents.with_metadata(plain))
    image = await drawn(pool, tmp_path / "told.jpg")
    assert image.jpeg == plain, "not decoded, only cut"
    async with RenderPool(1, limits=RenderLimits(keep_metadata=True)) as keeping:
        kept = (await drawn(keeping, tmp_path / "told.jpg")).jpeg
    assert b"Exif" in kept
    assert b"hidden" not in kept


async def test_a_crop_box_beside_the_page_leaves_the_page(pool: RenderPool, tmp_path: Path) -> None:
    beside = (900, 900, 1000, 1000)
    path = documents.marked_pdf(tmp_path / "a.pdf", (200, 400), crop_box=beside)
    image = await drawn(pool, path)
    assert (image.width, image.height, image.width_pt) == (300, 600, 200)
    assert is_red(decoded(image.jpeg), 10, 10)


async def test_missing_pages_of_a_pdf_are_one_row(pool: RenderPool, tmp_path: Path) -> None:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 400] >>"
    tree = b"<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 1000000 >>"
    path = documents.pdf_of(tmp_path / "many.pdf", tree, page, page)
    assert await pool.count_pages(document(path)) == 3
    assert (await drawn(pool, path, 2)).height == 600
    error = await refusal(pool, path, 3)
    assert error.code is ErrorCode.CORRUPT_PAGE
    assert "claims 1,000,000 pages but has only 2" in error.message
    documents.pdf_of(tmp_path / "none.pdf", b"<< /Type /Pages /Kids [] /Count 1000000 >>")
    error = await refusal(pool, tmp_path / "none.pdf")
    assert error.code in (ErrorCode.CORRUPT_DOCUMENT, ErrorCode.NO_PAGES)
