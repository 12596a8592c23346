"""Traps in image files: what Pillow leaves to its caller, and what damage does."""

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError
from llm_ocr.sources import images
from llm_ocr.sources.images import ImageFile
from llm_ocr.sources.pdf import PdfFile
from llm_ocr.sources.raster import Crop, fit, fit_size, ink_ratio, to_pixels
from tests.documents import decoded, oriented_jpeg, pdf, picture

POLICY = ImagePolicy(longest_side=640)
MANY = 10**8
ORIENTATION = 0x0112


def open_image(path: Path) -> ImageFile:
    return ImageFile(path, MANY)


def is_red(jpeg: bytes, x: int, y: int) -> bool:
    pixel = decoded(jpeg).convert("RGB").getpixel((x, y))
    assert isinstance(pixel, tuple)
    return pixel[0] > 200 and max(pixel[1:]) < 80


def test_a_turned_tiff_has_its_size_in_points_turned_too(tmp_path: Path) -> None:
    """And turned again each time it is drawn: Pillow forgets the orientation after the first."""
    image = Image.new("RGB", (200, 100), "white")
    image.paste("red", (0, 0, 40, 20))
    image.save(tmp_path / "a.tif", dpi=(100, 50), tiffinfo={ORIENTATION: 6})
    file = open_image(tmp_path / "a.tif")
    for _ in range(2):
        page = file.render(1, POLICY)
        assert (page.width, page.height, page.rotation) == (100, 200, 90)
        assert (page.width_pt, page.height_pt) == (144, 144)
        assert is_red(page.jpeg, 95, 5)


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_a_turned_tiff_is_upright_however_it_is_stored(
    tmp_path: Path, mode: str, compression: str, orientation: int
) -> None:
    """Pillow maps the raw ones into memory, and takes their rows for as long as the upright's."""
    path = tmp_path / "a.tif"
    with Image.open(oriented_jpeg(tmp_path / "a.jpg", orientation)) as stored:
        plain = stored.convert("RGB").point(lambda value: 255 if value > 128 else 0).convert(mode)
    plain.save(path, compression=compression, tiffinfo={ORIENTATION: orientation})
    gray = decoded(open_image(path).render(1, POLICY).jpeg).convert("L")
    dark = gray.point(lambda value: 255 if value < 160 else 0).getbbox()
    assert dark == pytest.approx((0, 0, gray.width // 5, gray.height // 5), abs=2)


@pytest.mark.parametrize("kept", [0, 10**6])
def test_frames_are_read_in_any_order_and_repeatedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(images, "MAX_OPEN_PIXELS", kept)
    frames = [Image.new(mode, (100 + k, 80)) for k, mode in enumerate(("RGB", "1", "L"))]
    path = tmp_path / "a.tif"
    frames[0].save(path, save_all=True, append_images=frames[1:], tiffinfo={ORIENTATION: 8})
    file = open_image(path)
    for number in (1, 1, 3, 2, 2, 1, 3):
        page = file.render(number, POLICY)
        assert (page.width, page.height, page.rotation) == (80, 99 + number, 270)


@pytest.mark.parametrize("orientation", range(2, 9))
def test_mirrored_or_rotated_jpeg_is_encoded_again(tmp_path: Path, orientation: int) -> None:
    path = oriented_jpeg(tmp_path / "a.jpg", orientation)
    page = open_image(path).render(1, POLICY)
    assert page.jpeg != path.read_bytes()
    assert is_red(page.jpeg, 5, 5)


def test_progressive_jpeg_is_encoded_again(tmp_path: Path) -> None:
    Image.new("RGB", (90, 60), "red").save(tmp_path / "a.jpg", progressive=True)
    page = open_image(tmp_path / "a.jpg").render(1, POLICY)
    assert "progressive" not in decoded(page.jpeg).info


def test_large_jpeg_is_decoded_small_and_cropped_at_full_size(tmp_path: Path) -> None:
    image = Image.new("RGB", (4000, 600), "white")
    image.paste("red", (0, 0, 800, 600))
    image.save(tmp_path / "a.jpg", dpi=(200, 200))
    file = open_image(tmp_path / "a.jpg")
    assert file._decode(1, 640).image.width < 1300
    page = file.render(1, POLICY)
    assert (page.width, page.height) == (640, 96)
    assert (page.width_pt, page.height_pt) == (1440, 216)
    (crop,) = file.crop(1, (640, 96), [Box(0, 0, 128, 96)], 200, 4096)
    assert (crop.width, crop.height) == (800, 600)


def test_a_very_long_image_keeps_a_pixel_of_its_short_side(tmp_path: Path) -> None:
    for ending in ("jpg", "png"):
        Image.new("RGB", (9000, 1), "red").save(tmp_path / f"a.{ending}")
        page = open_image(tmp_path / f"a.{ending}").render(1, POLICY)
        assert (page.width, page.height) == (640, 1)


def test_an_adobe_cmyk_jpeg_keeps_its_colors(tmp_path: Path) -> None:
    """Adobe's are stored inverted, and say so in an APP14 segment; Pillow writes them so."""
    image = Image.new("CMYK", (100, 100), (0, 0, 0, 0))
    image.paste((0, 255, 255, 0), (0, 0, 40, 40))
    image.save(tmp_path / "a.jpg", quality=95)
    assert b"Adobe" in (tmp_path / "a.jpg").read_bytes()
    jpeg = open_image(tmp_path / "a.jpg").render(1, POLICY).jpeg
    assert is_red(jpeg, 20, 20)
    assert decoded(jpeg).convert("L").getpixel((80, 80)) == pytest.approx(255, abs=3)


def deep_tiff(path: Path, photometric: int) -> Path:
    """Four pixels of 16 bits, the two upper ones 65,535; 0 says that this is black, 1 white."""
    body = struct.pack("<4H", 65_535, 65_535, 0, 0)
    tags = [(256, 2), (257, 2), (258, 16), (259, 1), (262, photometric), (273, 8), (277, 1)]
    tags += [(278, 2), (279, len(body))]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    table = struct.pack("<H", len(tags)) + entries + bytes(4)
    path.write_bytes(b"II*\0" + struct.pack("<I", 8 + len(body)) + body + table)
    return path


@pytest.mark.parametrize(("photometric", "upper"), [(0, 0), (1, 255)])
def test_16_bit_negative_is_inverted(tmp_path: Path, photometric: int, upper: int) -> None:
    jpeg = open_image(deep_tiff(tmp_path / "a.tif", photometric)).render(1, POLICY).jpeg
    assert decoded(jpeg).convert("L").getpixel((0, 0)) == upper
    assert decoded(jpeg).convert("L").getpixel((0, 1)) == 255 - upper


def test_frame_without_width_is_reported_as_damaged(tmp_path: Path) -> None:
    """Pillow raises a TypeError for it, and only for frames after the first."""
    path = tmp_path / "a.tif"
    Image.new("L", (30, 20)).save(path, save_all=True, append_images=[Image.new("L", (30, 20))])
    body = path.read_bytes()
    width = struct.pack("<H", 256)
    place = body.rindex(width + body[body.index(width) + 2 :][:6])
    path.write_bytes(body[:place] + b"\xff\xff" + body[place + 2 :])
    with pytest.raises(PageError, match=r"a\.tif: .* \(Missing dimensions\), as it is damaged"):
        open_image(path).render(2, POLICY)


def test_zero_resolution_is_none(tmp_path: Path) -> None:
    image = Image.new("L", (30, 20))
    for name, dpi in (("one", (1, 1)), ("zero", (0, 0))):
        image.save(tmp_path / f"{name}.tif", dpi=dpi)
        page = open_image(tmp_path / f"{name}.tif").render(1, POLICY)
        assert (page.width_pt, page.height_pt) == (None, None)


def test_disk_errors_are_not_reported_as_damage(tmp_path: Path) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    file = open_image(tmp_path / "a.png")
    (tmp_path / "a.png").unlink()
    with pytest.raises(FileNotFoundError):
        file.render(1, POLICY)


def seeds(folder: Path) -> list[bytes]:
    noise = Image.effect_noise((60, 40), 80)
    written = {
        "a.png": noise.convert("P"),
        "b.png": noise.convert("RGBA"),
        "a.jpg": noise.convert("RGB"),
        "b.jpg": noise.convert("CMYK"),
        "a.webp": noise.convert("RGB"),
        "a.tif": noise.convert("1"),
        "b.tif": noise.convert("I;16"),
    }
    for name, image in written.items():
        image.save(folder / name)
    return [(folder / name).read_bytes() for name in written]


@pytest.mark.filterwarnings("ignore")
def test_damage_of_any_kind_is_a_page_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes changed, cut and put in at random: each file works, or is said to be bad."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)  # as in a worker
    dice = random.Random(20)
    seen: set[ErrorCode] = set()
    originals = seeds(tmp_path)
    for _ in range(600):
        body = bytearray(dice.choice(originals))
        place = dice.randrange(8, min(len(body), 300))
        body[place] = dice.choice((0, 1, 255, dice.randrange(256)))
        if dice.random() < 0.3:
            del body[dice.randrange(20, len(body)) :]
        (tmp_path / "x").write_bytes(body)
        try:
            file = ImageFile(tmp_path / "x", 10**7)
            file.render(1, ImagePolicy(50))
            file.crop(1, (50, 33), [Box(0, 0, 9, 9)], 200, 100)
        except PageError as error:
            seen.add(error.code)
    assert ErrorCode.CORRUPT_PAGE in seen
    assert seen <= {ErrorCode.CORRUPT_DOCUMENT, ErrorCode.CORRUPT_PAGE, ErrorCode.TOO_LARGE}


def test_ink_is_the_share_of_pixels_unlike_the_paper() -> None:
    image = Image.new("RGB", (300, 300), "navy")
    assert ink_ratio(image) == 0
    image.paste("white", (0, 0, 150, 150))
    assert ink_ratio(image) == pytest.approx(0.25, abs=0.01)
    image.paste((20, 20, 140), (150, 150, 300, 300))  # too near to count
    assert ink_ratio(image) == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("box", "pixels"),
    [
        (Box(0, 0, 100, 50), (0, 0, 200, 100)),
        (Box(10, 10, 20, 20), (20, 20, 40, 40)),
        (Box(-9, -9, 900, 900), (0, 0, 200, 100)),
        (Box(10, 10, 10.1, 10.1), (20, 20, 21, 21)),
        (Box(100, 50, 120, 90), (199, 99, 200, 100)),
        (Box(30, 30, 20, 20), (60, 60, 61, 61)),
    ],
)
def test_boxes_become_whole_pixels_inside(box: Box, pixels: tuple[int, int, int, int]) -> None:
    assert to_pixels(box, (100, 50), (200, 100)) == pixels


def test_crops_never_exceed_their_bound(tmp_path: Path) -> None:
    Image.new("RGB", (1000, 700)).save(tmp_path / "a.png")
    file = open_image(tmp_path / "a.png")
    boxes = [Box(0, 0, 999.7, 700), Box(0.4, 0, 500, 700), Box(0, 3, 1000, 3.2)]
    crops: list[Crop] = file.crop(1, (1000, 700), boxes, 200, 333)
    assert all(min(one.width, one.height) >= 1 for one in crops)
    assert max(max(one.width, one.height) for one in crops) == 333


SIDES = st.integers(1, 5000)
POLICIES = st.builds(
    ImagePolicy,
    longest_side=st.integers(256, 4096).map(lambda side: side // 32 * 32),
    max_pixels=st.sampled_from([0, 1_000_000, 4_194_304]),
    min_pixels=st.sampled_from([0, 2048, 200_704]),
    multiple_of=st.sampled_from([1, 28, 32]),
)


@given(SIDES, SIDES, POLICIES, st.booleans())
def test_an_image_is_fitted_within_all_bounds(
    width: int, height: int, policy: ImagePolicy, fills: bool
) -> None:
    size = fit_size(width, height, policy, fills=fills)
    assert min(size) >= 1
    assert all(side % policy.multiple_of == 0 for side in size)
    # A side of an image that is narrower than a unit is one unit.
    is_narrow = min(size) <= policy.multiple_of
    assert max(size) <= policy.longest_side or policy.multiple_of > 1
    assert is_narrow or max(size) <= policy.longest_side
    assert is_narrow or not policy.max_pixels or size[0] * size[1] <= policy.max_pixels * 1.01
    if not is_narrow:
        assert 0.8 < size[0] / size[1] * height / width < 1.25 or min(size) < 8 * policy.multiple_of


def test_small_images_are_enlarged_to_the_least_area() -> None:
    policy = ImagePolicy(2048, min_pixels=200_704, multiple_of=32)
    assert fit_size(200, 100, policy) == (640, 320)
    assert fit(Image.new("RGB", (200, 100)), policy).size == (640, 320)
    assert fit_size(1000, 1000, policy) == (992, 992)
    assert fit_size(100, 100, ImagePolicy(256, min_pixels=200_704)) == (256, 256)


def test_pages_are_drawn_as_large_as_the_policy_allows(tmp_path: Path) -> None:
    policy = ImagePolicy(4096, max_pixels=2048 * 32 * 32, multiple_of=32)
    page = PdfFile(pdf(tmp_path / "a.pdf"), None, 10**8).render(1, policy)
    assert decoded(page.jpeg).size == (page.width, page.height) == (1248, 1664)
    without = PdfFile(tmp_path / "a.pdf", None, 10**8).render(1, ImagePolicy(1664))
    assert (without.width, without.height) == (1248, 1664)
    picture(tmp_path / "b.png", size=(300, 200))
    small = ImageFile(tmp_path / "b.png", 10**8).render(1, policy)
    assert decoded(small.jpeg).size == (small.width, small.height) == (288, 192)
