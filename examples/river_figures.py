"""The two figures of the example report: a photo-like picture of a river, and a vector chart."""

import math
import random
from io import BytesIO

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps
from reportlab.graphics.shapes import Circle, Drawing, Line, PolyLine, Rect, String
from reportlab.lib.colors import HexColor

WIDTH, HEIGHT = 960, 640
HORIZON = 330
Color = tuple[int, int, int]


def river_photo() -> bytes:
    """A JPEG of a river on a hazy morning: hills, their reflection, a gauge board at the bank."""
    chance = random.Random(2024)
    above = _sky(chance)
    ridges: list[tuple[int, int, Color]] = [
        (205, 46, (150, 166, 178)),
        (245, 38, (112, 133, 134)),
        (283, 30, (77, 101, 88)),
        (312, 16, (48, 70, 52)),
    ]
    for base, relief, color in ridges:
        above = _ridge(above, base, relief, color, chance)
    picture = Image.new("RGB", (WIDTH, HEIGHT))
    picture.paste(above, (0, 0))
    picture.paste(_water(above, chance), (0, HORIZON))
    _bank(picture, chance)
    _gauge_board(picture)
    grain = _noise((WIDTH, HEIGHT), 2, chance).point(lambda v: 122 + v * 12 // 255)
    picture = ImageChops.overlay(picture, Image.merge("RGB", [grain] * 3))
    target = BytesIO()
    picture.filter(ImageFilter.GaussianBlur(0.6)).save(target, "JPEG", quality=82, optimize=True)
    return target.getvalue()


def _noise(size: tuple[int, int], grain: int, chance: random.Random) -> Image.Image:
    """Gray noise whose spots are `grain` pixels wide."""
    small = (max(2, size[0] // grain), max(2, size[1] // grain))
    spots = Image.frombytes("L", small, chance.randbytes(small[0] * small[1]))
    return spots.resize(size, Image.Resampling.BICUBIC)


def _clouds(size: tuple[int, int], chance: random.Random) -> Image.Image:
    layers = Image.new("L", size, 128)
    for grain, weight in ((240, 0.5), (110, 0.4), (50, 0.3), (22, 0.2), (9, 0.12)):
        # Clouds near the horizon are seen from the side: wider than high.
        flat = _noise((size[0] // 2, size[1] * 2), grain, chance).resize(size)
        layers = Image.blend(layers, flat, weight)
    return ImageOps.autocontrast(layers, cutoff=2)


def _sky(chance: random.Random) -> Image.Image:
    size = (WIDTH, HORIZON)
    fade = Image.linear_gradient("L").resize(size)
    blue = ImageOps.colorize(fade, (96, 142, 188), (232, 226, 210))
    cover = _clouds(size, chance).point(lambda v: max(0, min(215, (v - 105) * 2)))
    return Image.composite(Image.new("RGB", size, (240, 237, 230)), blue, cover)


def _ridge(
    picture: Image.Image, base: int, relief: int, color: Color, chance: random.Random
) -> Image.Image:
    """`picture` with a line of wooded hills before it, the crest about `base` pixels down."""
    waves = [(chance.uniform(0.6, 9), chance.uniform(0, 6.3)) for _ in range(7)]
    crest = []
    for x in range(WIDTH):
        swell = sum(math.sin(f * x / WIDTH * 6.3 + p) / (0.8 + f) for f, p in waves)
        crest.append(base - relief * swell * 0.5 - chance.random() * relief * 0.12)
    mask = Image.new("L", picture.size, 0)
    outline = [(0.0, HORIZON), *((float(x), y) for x, y in enumerate(crest)), (WIDTH, HORIZON)]
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    leaves = ImageChops.add(
        _noise(picture.size, 14, chance), _noise(picture.size, 5, chance), scale=2.0
    )
    # Haze takes the contrast out of the hills far away.
    depth = 1 - base / HORIZON
    dark: Color = tuple(round(c * (0.72 + 0.5 * depth)) for c in color)  # type: ignore[assignment]
    light: Color = tuple(round(c * (1.2 - 0.3 * depth)) for c in color)  # type: ignore[assignment]
    wood = ImageOps.colorize(leaves, dark, light)
    return Image.composite(wood, picture, mask.filter(ImageFilter.GaussianBlur(0.8)))


def _water(above: Image.Image, chance: random.Random) -> Image.Image:
    """What stands above the water, mirrored, darkened and broken by ripples that grow near us."""
    height = HEIGHT - HORIZON
    mirror = ImageOps.flip(above).resize((WIDTH, height)).filter(ImageFilter.GaussianBlur(2))
    water = Image.new("RGB", (WIDTH, height))
    for y in range(height):
        reach = 1 + 9 * y / height
        shift = round(reach * math.sin(y * y / 900 + y * 0.9) + chance.uniform(-1, 1) * reach / 3)
        row = min(max(0, y + round(reach / 2 * math.sin(y * 1.7))), height - 1)
        water.paste(ImageChops.offset(mirror.crop((0, row, WIDTH, row + 1)), shift, 0), (0, y))
    ripples = _noise((WIDTH // 12, height), 2, chance).resize((WIDTH, height))
    ripples = ImageOps.colorize(ripples, (66, 84, 92), (186, 200, 204))
    deep = ImageOps.colorize(
        Image.linear_gradient("L").resize((WIDTH, height)), (205, 212, 214), (92, 108, 110)
    )
    return ImageChops.multiply(Image.blend(water, ripples, 0.16), deep)


def _bank(picture: Image.Image, chance: random.Random) -> None:
    """The near bank on the left, and its grass."""
    draw = ImageDraw.Draw(picture)
    shore = [(0, 455), (120, 490), (235, 548), (330, 600), (372, HEIGHT), (0, HEIGHT)]
    draw.polygon(shore, fill=(56, 58, 38))
    for _ in range(5200):
        x = chance.uniform(-10, 372)
        top = 455 + x * 0.42 + max(0.0, x - 200) * 0.17
        y = top + chance.random() ** 1.4 * max(4.0, HEIGHT + 20 - top)
        length = 7 + (y - 440) * 0.13 * chance.uniform(0.6, 1.3)
        lean = chance.gauss(0.15, 0.3) * length
        shade = chance.uniform(0.5, 1.15)
        color = (int(104 * shade), int(112 * shade), int(58 * shade))
        draw.line((x, y, x + lean, y - length), fill=color, width=1 + (y > 560))


def _gauge_board(picture: Image.Image) -> None:
    """A staff gauge: a white board with black marks, and its reflection."""
    draw = ImageDraw.Draw(picture)
    left, right, top, foot = 560, 586, 250, 452
    draw.rectangle((right - 3, top - 12, right + 4, foot), fill=(74, 70, 66))
    draw.rectangle((left, top, right, foot), fill=(232, 231, 224))
    for mark in range(20):
        y = top + 4 + mark * 10
        reach = right - 4 if mark % 5 == 0 else left + 15
        draw.rectangle((left + 3, y, reach, y + 4), fill=(38, 40, 42))
    board = picture.crop((left - 6, top + 60, right + 10, foot))
    below = ImageOps.flip(board).resize((board.width, 120)).filter(ImageFilter.GaussianBlur(2.2))
    place = (left - 6, foot + 1)
    water = picture.crop((*place, place[0] + board.width, place[1] + 120))
    picture.paste(Image.blend(water, below, 0.5), place)
    draw.line((left - 16, foot + 1, right + 20, foot + 1), fill=(206, 214, 214), width=2)


def flow_chart(
    months: list[str], flow: list[float], rain: list[float], width: float, font: str
) -> Drawing:
    """Bars of rainfall (mm, left axis) and a line of mean discharge (m³/s, right axis)."""
    left, right, bottom, top, height = 40.0, width - 38.0, 30.0, 150.0, 186.0
    chart = Drawing(width, height)
    ink, blue, rust = HexColor("#3c444c"), HexColor("#8fb4d3"), HexColor("#b4502b")

    def text(x: float, y: float, words: str, anchor: str = "middle") -> None:
        label = String(x, y, words, fontName=font, fontSize=7, fillColor=ink, textAnchor=anchor)
        chart.add(label)

    for step in range(5):
        y = bottom + (top - bottom) * step / 4
        chart.add(Line(left, y, right, y, strokeColor=HexColor("#d9dde0"), strokeWidth=0.5))
        text(left - 5, y - 2.5, f"{step * 30}", "end")
        text(right + 5, y - 2.5, f"{step * 3}", "start")
    slot = (right - left) / len(months)
    points: list[float] = []
    for k, month in enumerate(months):
        x = left + slot * (k + 0.5)
        bar = (top - bottom) * rain[k] / 120
        chart.add(Rect(x - slot * 0.3, bottom, slot * 0.6, bar, fillColor=blue, strokeColor=None))
        text(x, bottom - 11, month[:3])
        points += [x, bottom + (top - bottom) * flow[k] / 12]
    chart.add(PolyLine(points, strokeColor=rust, strokeWidth=1.6))
    for x, y in zip(points[::2], points[1::2], strict=True):
        chart.add(Circle(x, y, 2.3, fillColor=rust, strokeColor=HexColor("#ffffff")))
    text(left - 30, top + 20, "Rainfall (mm)", "start")
    text(right + 34, top + 20, "Mean discharge (m³/s)", "end")
    chart.add(Rect(left + 150, top + 19, 9, 7, fillColor=blue, strokeColor=None))
    text(left + 163, top + 20, "rainfall", "start")
    chart.add(Line(left + 212, top + 22.5, left + 226, top + 22.5, strokeColor=rust, strokeWidth=2))
    text(left + 230, top + 20, "discharge", "start")
    return chart
