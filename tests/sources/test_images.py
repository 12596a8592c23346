"""Image files as pages: upright, in right colors, never enlarged; and what is said of bad ones."""

import os
from pathlib import Path

import pytest
from PIL import Image

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError
from llm_ocr.sources.render_pool import RenderLimits
from tests.documents import (
    blank_image,
    bomb_png,
    cmyk_jpeg,
    decoded,
    deep_tiff,
    oriented_jpeg,
    picture,
)
from tests.sources.drawn import color, count, cut, document, drawn, page


@pytest.mark.parametrize("ending", ["png", "jpg", "jpeg", "webp", "tif", "tiff"])
def test_each_format_is_rendered_at_its_size(tmp_path: Path, ending: str) -> None:
    path = picture(tmp_path / f"a.{ending}", size=(300, 200))
    assert count(path) == 1
    image = drawn(path)
    assert (image.width, image.height) == (300, 200)
    assert 0 < image.ink < 0.2


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "tiff"])
def test_large_image_is_downscaled_to_the_policy(tmp_path: Path, ending: str) -> None:
    image = drawn(picture(tmp_path / f"a.{ending}", size=(1700, 1130)))
    assert (image.width, image.height) == (640, 425)


def test_a_plain_small_jpeg_passes_byte_for_byte(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.jpg")
    assert drawn(path).jpeg == path.read_bytes()
    Image.new("L", (100, 50), 200).save(tmp_path / "gray.jpg")
    assert drawn(tmp_path / "gray.jpg").jpeg == (tmp_path / "gray.jpg").read_bytes()


def test_too_large_or_rotated_jpeg_is_encoded_again(tmp_path: Path) -> None:
    for path in (
        picture(tmp_path / "large.jpg", size=(1000, 500)),
        oriented_jpeg(tmp_path / "turned.jpg", 6),
        oriented_jpeg(tmp_path / "mirrored.jpg", 2),
    ):
        image = drawn(path)
        assert image.jpeg != path.read_bytes()
        assert decoded(image.jpeg).getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize(
    ("orientation", "rotation", "size"),
    [
        (1, 0, (300, 200)),
        (2, 0, (300, 200)),
        (3, 180, (300, 200)),
        (4, 180, (300, 200)),
        (5, 90, (200, 300)),
        (6, 90, (200, 300)),
        (7, 270, (200, 300)),
        (8, 270, (200, 300)),
    ],
)
def test_photo_is_rotated_upright(
    tmp_path: Path, orientation: int, rotation: int, size: tuple[int, int]
) -> None:
    path = oriented_jpeg(tmp_path / "a.jpg", orientation)
    image = drawn(path)
    assert (image.width, image.height, image.rotation) == (*size, rotation)
    assert (image.width_pt, image.height_pt) == tuple(side * 72 / 150 for side in size)
    assert color(image, 0.1, 0.1) == "red"
    assert {color(image, x, y) for x, y in ((0.9, 0.1), (0.1, 0.9), (0.9, 0.9))} == {"white"}


@pytest.mark.parametrize("orientation", [5, 6])
def test_a_crop_of_a_turned_photo_is_where_its_box_is(tmp_path: Path, orientation: int) -> None:
    (crop,) = cut(oriented_jpeg(tmp_path / "a.jpg", orientation), [Box(0, 0, 40, 60)])
    assert {color(crop, x, y) for x in (0.1, 0.8) for y in (0.1, 0.8)} == {"red"}


def test_each_frame_of_a_tiff_is_a_page(tmp_path: Path) -> None:
    path = tmp_path / "a.tiff"
    first, *others = (Image.new("RGB", (100, 80), one) for one in ("red", "green", "blue"))
    first.save(path, save_all=True, append_images=others)
    assert count(path) == 3
    assert [color(drawn(page(path, k)), 0.5, 0.5) for k in (3, 1, 2)] == ["blue", "red", "green"]


def test_an_animation_is_one_page(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (60, 60), one) for one in ("red", "blue")]
    for name in ("a.webp", "a.png"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        assert count(tmp_path / name) == 1
        assert color(drawn(tmp_path / name), 0.5, 0.5) == "red"


def test_a_cmyk_jpeg_keeps_its_colors(tmp_path: Path) -> None:
    image = drawn(cmyk_jpeg(tmp_path / "a.jpg"))
    assert color(image, 0.25, 0.5) == "red"
    assert color(image, 0.8, 0.5) == "white"
    assert decoded(image.jpeg).mode == "RGB"


def test_a_16_bit_tiff_is_scaled_and_not_clipped(tmp_path: Path) -> None:
    image = drawn(deep_tiff(tmp_path / "a.tiff"))
    assert (color(image, 0.25, 0.5), color(image, 0.8, 0.5)) == ("black", "white")
    assert 0.1 < image.ink < 0.3


def test_a_16_bit_png_is_scaled_and_not_clipped(tmp_path: Path) -> None:
    deep_tiff(tmp_path / "a.tiff")
    Image.open(tmp_path / "a.tiff").save(tmp_path / "a.png")
    image = drawn(tmp_path / "a.png")
    assert (color(image, 0.25, 0.5), color(image, 0.8, 0.5)) == ("black", "white")


@pytest.mark.parametrize("black", [0.0, -5.0])
def test_floats_are_scaled_between_their_ends(tmp_path: Path, black: float) -> None:
    image = Image.new("F", (100, 100), 1.5)
    image.paste(black, (0, 0, 40, 40))
    image.save(tmp_path / "a.tiff")
    page = drawn(tmp_path / "a.tiff")
    assert (color(page, 0.2, 0.2), color(page, 0.8, 0.8)) == ("black", "white")


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "P"])
def test_transparency_is_rendered_as_white(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGBA", (100, 100), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 40, 40))
    image = image.quantize(4) if mode in ("P", "PA") else image.convert(mode)
    image.save(tmp_path / "a.png")
    page = drawn(tmp_path / "a.png")
    assert (color(page, 0.2, 0.2), color(page, 0.8, 0.8)) == ("black", "white")


def test_a_palette_keeps_its_colors(tmp_path: Path) -> None:
    image = Image.new("RGB", (100, 100), "yellow")
    image.paste("blue", (0, 0, 40, 40))
    image.quantize(4).save(tmp_path / "a.png")
    page = drawn(tmp_path / "a.png")
    assert (color(page, 0.2, 0.2), color(page, 0.8, 0.8)) == ("blue", "yellow")


@pytest.mark.parametrize("compression", ["raw", "group4", "tiff_lzw"])
def test_a_1_bit_fax_is_black_on_white(tmp_path: Path, compression: str) -> None:
    image = Image.new("1", (100, 100), 1)
    image.paste(0, (0, 0, 40, 40))
    image.save(tmp_path / "a.tiff", compression=compression, dpi=(204, 98))
    page = drawn(tmp_path / "a.tiff")
    assert (color(page, 0.2, 0.2), color(page, 0.8, 0.8)) == ("black", "white")
    assert (page.width_pt, page.height_pt) == pytest.approx((35.3, 73.5), abs=0.1)


def test_a_crop_has_the_files_own_pixels_up_to_200_dpi(tmp_path: Path) -> None:
    image = Image.new("RGB", (1600, 1600), "white")
    image.paste("red", (0, 0, 400, 400))
    for dpi, side in ((100, 400), (400, 200), (None, 400)):
        image.save(tmp_path / "a.png", dpi=(dpi, dpi) if dpi else None)
        (crop,) = cut(tmp_path / "a.png", [Box(0, 0, 160, 160)])
        assert (crop.width, crop.height) == (side, side)
        assert {color(crop, x, y) for x in (0.05, 0.9) for y in (0.05, 0.9)} == {"red"}


def test_crops_over_the_edge_are_cut_and_large_ones_bounded(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png", size=(1600, 800))
    boxes = [Box(-50, -50, 999, 999), Box(639.9, 0, 700, 10), Box(5, 5, 5.1, 200)]
    whole, edge, sliver = cut(path, boxes, max_figure_side=500)
    assert (whole.width, whole.height) == (500, 250)
    assert color(whole, 0.01, 0.01) == color(whole, 0.99, 0.99) == "white"
    assert min(edge.width, edge.height, sliver.width, sliver.height) >= 1


def test_a_blank_page_has_no_ink(tmp_path: Path) -> None:
    for name in ("blank.png", "blank.jpg"):
        assert drawn(blank_image(tmp_path / name)).ink == 0
    assert drawn(picture(tmp_path / "text.png")).ink > 0


def test_format_is_detected_by_content_not_by_name(tmp_path: Path) -> None:
    picture(tmp_path / "real.png").rename(tmp_path / "named.pdf")
    assert drawn(tmp_path / "named.pdf").width == 300
    picture(tmp_path / "real.webp").rename(tmp_path / "named.jpg")
    assert drawn(tmp_path / "named.jpg").width == 300


def test_decompression_bomb_is_refused_before_decoding(tmp_path: Path) -> None:
    said = refusal_message(
        ErrorCode.TOO_LARGE, "bomb.png.*: 60,000 x 60,000", bomb_png(tmp_path / "bomb.png")
    )
    assert "`max_pixels`" in said


def test_the_bound_on_pixels_is_the_limits_own(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.jpg", size=(100, 100))
    assert drawn(path, limits=RenderLimits(max_pixels=10_000)).width == 100
    refusal_message(ErrorCode.TOO_LARGE, "a.jpg", path, limits=RenderLimits(max_pixels=9_999))


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "tiff"])
def test_truncated_image_is_reported(tmp_path: Path, ending: str) -> None:
    path = picture(tmp_path / f"cut.{ending}", size=(900, 900))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(PageError, match=rf"cut\.{ending}.*damaged or cut off; copy") as raised:
        drawn(path)
    assert raised.value.code in (ErrorCode.CORRUPT_DOCUMENT, ErrorCode.CORRUPT_PAGE)


def test_corrupt_frame_fails_alone_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tiff"
    frames = [Image.effect_noise((80, 80), 50) for _ in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:], compression="tiff_deflate")
    with Image.open(path) as image:
        image.seek(1)
        place = image.tag_v2[273][0]  # type: ignore[attr-defined]  # StripOffsets
    body = bytearray(path.read_bytes())
    body[place : place + 40] = b"\xff" * 40
    path.write_bytes(body)
    refusal_message(ErrorCode.CORRUPT_PAGE, "a.tiff: page 2 .* damaged .*; copy", path, 2)
    assert drawn(page(path, 1)).width == drawn(page(path, 3)).width == 80


def test_noise_with_an_image_signature_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    refusal_message(
        ErrorCode.CORRUPT_DOCUMENT, "a.png: the image can't be opened, .*; copy", tmp_path / "a.png"
    )


def test_deleted_file_is_reported(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    planned = page(path)
    path.unlink()
    with pytest.raises(PageError, match=r"a\.png: the file does not exist .*; ") as raised:
        drawn(planned)
    assert raised.value.code == ErrorCode.NOT_FOUND


def test_changed_file_is_reported(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    planned = page(path)
    picture(path, text="other words")
    with pytest.raises(PageError, match=r"a\.png: the file has changed since .*; read") as raised:
        drawn(planned)
    assert raised.value.code == ErrorCode.SOURCE_CHANGED


def test_folder_listed_as_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder.pdf").mkdir()
    (tmp_path / "files.txt").write_text("folder.pdf\n")
    with pytest.raises(PageError, match=r"folder\.pdf: this is a folder, not a file; ") as raised:
        drawn(page(Path(f"@{tmp_path}/files.txt")))
    assert raised.value.code == ErrorCode.READ_ERROR


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    path.chmod(0)
    refusal_message(
        ErrorCode.READ_ERROR, "a.png: the file can't be read .*; check its permissions", path
    )


def refusal_message(
    code: ErrorCode, pattern: str, path: Path, number: int = 1, limits: RenderLimits | None = None
) -> str:
    """What is said of a page that can't be rendered."""
    with pytest.raises(PageError, match=pattern) as raised:
        drawn(page(path, number), ImagePolicy(640), limits=limits)
    assert raised.value.code == code
    assert document(path).source_uri in raised.value.message
    return raised.value.message
