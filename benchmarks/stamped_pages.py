"""Pages with stamps, postmarks and signatures, generated with what is on them.

Each is a letter or form as a scanner at 200 dpi would have made it. Some have what is easily taken
for a stamp: colored headings, logos, charts, table heads, printed names above a signature's line.
"""

import hashlib
import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from llm_ocr.engines.embedded.models import in_wheel

DPI = 200
WIDTH, HEIGHT = round(210 / 25.4 * DPI), round(297 / 25.4 * DPI)
INKS = ((30, 50, 150), (170, 30, 40), (90, 40, 130), (20, 110, 70), (25, 25, 30))
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
TEXTS = ("PAID", "COPY", "APPROVED", "URGENT", "CONFIDENTIAL", "ENTERED", "VOID", "ORIGINAL")
OFFICES = ("RECEIVED", "REGISTRY", "MAIL ROOM", "ACCOUNTS", "EINGANG", "FILED")
TOWNS = ("HAMBURG", "BRISTOL", "LYON", "UTRECHT", "TORINO", "DENVER", "PORTO", "LEIPZIG")
FIRMS = ("NORTH RIVER TRADING", "MILLER AND SONS", "HARBOUR OFFICE", "GREEN VALLEY FARMS")
NAMES = ("A. Miller", "Jane Porter", "Dr. H. Weber", "Luis Ortega")
WORDS = (
    *("of", "the", "goods", "were", "delivered", "to", "this", "office", "on", "and", "invoice"),
    *("number", "total", "please", "net", "within", "thirty", "days", "account", "payment"),
)
FONTS = ("DejaVuSans-Bold", "DejaVuSans", "DejaVuSerif-Bold", "DejaVuSansMono-Bold")


@dataclass(frozen=True)
class TrueMark:
    """A mark on a page, its box in pixels, and what it says.

    `kind` is stamp, postmark or signature; `is_round` and `is_framed` are a stamp's form. `date` is
    YYYY-MM-DD, `ambiguous`, `future` or `impossible`, None without one. A signature's `text` is
    present or absent.
    """

    kind: str
    box: tuple[float, float, float, float]
    text: str
    date: str | None = None
    is_round: bool = False
    is_framed: bool = True


@dataclass(frozen=True)
class StampedPage:
    image: Image.Image
    marks: tuple[TrueMark, ...]


def make_page(number: int, split: str) -> StampedPage:
    """The page of this number, which is the same in every run."""
    chance = random.Random(hashlib.sha256(f"{split}/{number}".encode()).digest())
    page = Image.new("RGB", (WIDTH, HEIGHT), (252, 251, 247))
    _write_text(page, chance)
    _draw_decoys(page, chance)
    marks = [_draw_field(page, chance, slot) for slot in range(chance.choice((0, 1, 1, 2)))]
    # Stamps stand in different quarters, over text and beside it.
    places = [(0.05, 0.03), (0.55, 0.03), (0.08, 0.38), (0.55, 0.4)]
    chance.shuffle(places)
    for place in places[: chance.choice((0, 1, 1, 2, 2))]:
        marks.append(_draw_stamp(page, chance, place))
    return StampedPage(_scan(page, chance), tuple(marks))


def load_font(chance: random.Random, millimeters: float) -> ImageFont.FreeTypeFont:
    """A typeface whose capitals are about this high."""
    path: Path = in_wheel("matplotlib", "mpl-data", "fonts", "ttf", f"{chance.choice(FONTS)}.ttf")
    return ImageFont.truetype(str(path), round(millimeters / 0.73 / 25.4 * DPI))


def mm(millimeters: float) -> int:
    """A length in pixels of the page."""
    return round(millimeters / 25.4 * DPI)


def _write_text(page: Image.Image, chance: random.Random) -> None:
    draw, font = ImageDraw.Draw(page), load_font(chance, 2.1)
    for top in range(mm(22), mm(215), mm(5.5)):
        if chance.random() < 0.15:
            continue
        line = " ".join(chance.choices(WORDS, k=chance.randint(5, 11)))
        draw.text((mm(22), top), line, fill=(35, 35, 35), font=font)


def _draw_decoys(page: Image.Image, chance: random.Random) -> None:
    draw = ImageDraw.Draw(page)
    color = chance.choice(INKS[:4])
    if chance.random() < 0.4:
        draw.text((mm(22), mm(12)), "Delivery report", fill=color, font=load_font(chance, 4))
    if chance.random() < 0.3:
        left = mm(170)
        draw.rounded_rectangle((left, mm(8), left + mm(22), mm(20)), 12, fill=color)
        draw.text((left + 14, mm(11)), "Acme", fill="white", font=load_font(chance, 3))
    if chance.random() < 0.3:
        top = mm(222)
        for k in range(6):
            left, high = mm(25) + k * mm(9), mm(chance.uniform(4, 18))
            draw.rectangle(
                (left, top + mm(20) - high, left + mm(6), top + mm(20)),
                fill=color,
            )
    if chance.random() < 0.3:
        top, left, wide = mm(222), mm(110), mm(16)
        draw.rectangle((left, top, left + 5 * wide, top + mm(7)), fill=color)
        for row in range(4):
            level = top + row * mm(7)
            draw.line((left, level, left + 5 * wide, level), fill=(60, 60, 60), width=2)
        for column in range(6):
            at = left + column * wide
            draw.line((at, top, at, top + 3 * mm(7)), fill=(60, 60, 60), width=2)


def _draw_field(page: Image.Image, chance: random.Random, slot: int) -> TrueMark:
    """A line to sign on, signed or not, with a label and perhaps a printed name."""
    draw, font = ImageDraw.Draw(page), load_font(chance, 2.2)
    left, level = mm(60 if slot == 0 else 130), mm(262 + chance.uniform(-4, 4))
    if slot == 0 and chance.random() < 0.3:
        level -= mm(3)
    right = left + mm(chance.uniform(45, 60))
    draw.line((left, level, right, level), fill=(40, 40, 40), width=2)
    label = chance.choice(("Signature", "Authorized signature", "Signed by", "Unterschrift"))
    if slot == 0 and chance.random() < 0.5:
        length = draw.textlength(f"{label}:", font=font)
        draw.text(
            (left - length - mm(2), level - mm(3)),
            f"{label}:",
            fill=(35, 35, 35),
            font=font,
        )
    else:
        draw.text((left + mm(2), level + mm(1.5)), label, fill=(35, 35, 35), font=font)
    if chance.random() < 0.3:
        name = chance.choice(NAMES)
        draw.text((left + mm(3), level - mm(4)), name, fill=(35, 35, 35), font=font)
    box = (left, level - mm(15), right, level + mm(3))
    if chance.random() < 0.5:
        return TrueMark("signature", box, "absent")
    draw_signature(
        page,
        chance,
        left + mm(chance.uniform(2, 10)),
        level - mm(chance.uniform(3, 6)),
    )
    return TrueMark("signature", box, "present")


def draw_signature(page: Image.Image, chance: random.Random, left: float, middle: float) -> None:
    """Pen strokes: a large capital, loops that get smaller, perhaps a flourish."""
    layer = Image.new("L", page.size, 0)
    draw = ImageDraw.Draw(layer)
    high, wide = mm(chance.uniform(3.0, 6.0)), mm(chance.uniform(22, 42))
    loops, lean = chance.randint(4, 9), chance.uniform(0.1, 0.6)
    phase, wobble = chance.uniform(0, 6), [chance.uniform(0.3, 1.0) for _ in range(12)]
    points = []
    for k in range(400):
        share = k / 399
        angle = phase + share * loops * 2 * math.pi
        tall = high * wobble[int(share * 11)] * (1.2 - 0.7 * share)
        x = left + wide * share + tall * 0.5 * math.cos(angle) + lean * tall * math.sin(angle)
        points.append((x, middle - tall * math.sin(angle)))
    width = chance.choice((3, 4, 5))
    draw.line(points, fill=255, width=width, joint="curve")
    if chance.random() < 0.5:
        bow = [
            (left + wide * t, middle + mm(2) - mm(3) * math.sin(3 * t))
            for t in [k / 40 for k in range(41)]
        ]
        draw.line(bow, fill=255, width=width, joint="curve")
    ink = chance.choice(((20, 40, 140), (25, 25, 30), (30, 60, 170)))
    page.paste(Image.new("RGB", page.size, ink), mask=layer.filter(ImageFilter.GaussianBlur(0.6)))


def _draw_stamp(page: Image.Image, chance: random.Random, place: tuple[float, float]) -> TrueMark:
    ink, form = chance.choice(INKS), chance.choice(("date", "date", "text", "round", "postmark"))
    if form in ("round", "postmark"):
        layer, mark = _round_stamp(chance, form)
    else:
        if form == "text" and ink == INKS[4]:
            ink = INKS[1]
        layer, mark = _framed_stamp(chance, form)
    if not mark.is_framed and ink == INKS[4]:
        # Black text without a frame is a part of the page's text.
        ink = INKS[0]
    tilt = chance.uniform(-12, 12)
    layer = layer.rotate(tilt, Image.Resampling.BICUBIC, expand=True)
    found = layer.getbbox()
    assert found is not None
    layer = _worn(layer.crop(found), chance)
    left = round(place[0] * WIDTH) + chance.randint(0, mm(8))
    top = round(place[1] * HEIGHT) + chance.randint(0, mm(25))
    left, top = min(left, WIDTH - layer.width - 5), min(top, HEIGHT - layer.height - 5)
    region = (left, top, left + layer.width, top + layer.height)
    # Ink lets what is below shine through: it multiplies.
    paper = np.asarray(page.crop(region), np.float32)
    strength = np.asarray(layer, np.float32)[:, :, None] / 255
    tinted = paper * (1 - strength) + paper * (np.array(ink, np.float32) / 255) * strength
    page.paste(Image.fromarray(tinted.astype(np.uint8)), region[:2])
    return replace(mark, box=region)


def _worn(layer: Image.Image, chance: random.Random) -> Image.Image:
    """Ink that isn't even."""
    noise = np.random.default_rng(chance.randrange(2**32))
    small = noise.uniform(0.45, 1.25, (layer.height // 9 + 2, layer.width // 9 + 2))
    blotches = Image.fromarray((np.clip(small, 0, 1) * 255).astype(np.uint8)).resize(layer.size)
    strength = np.asarray(layer, np.float32) * np.asarray(blotches, np.float32) / 255
    return Image.fromarray(strength.astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.6))


def _date(chance: random.Random) -> tuple[str, str]:
    """A date as a stamp has it, and what it is."""
    year, month, day = chance.randint(2009, 2025), chance.randint(1, 12), chance.randint(1, 28)
    value, kind = f"{year}-{month:02}-{day:02}", chance.random()
    if kind < 0.06:
        return f"{day:02} {MONTHS[month - 1]} 2087", "future"
    if kind < 0.12:
        return f"31.{chance.choice((2, 4, 6)):02}.{year}", "impossible"
    if kind < 0.25:
        text = f"{month:02}/{day:02}/{year}"
        return text, value if day > 12 or day == month else "ambiguous"
    texts = (
        f"{day:02} {MONTHS[month - 1]} {year}",
        f"{day:02}.{month:02}.{year}",
        value,
        f"{MONTHS[month - 1]} {day} {year}",
        f"{day}. {month}. {year}",
    )
    return chance.choice(texts), value


def _framed_stamp(chance: random.Random, form: str) -> tuple[Image.Image, TrueMark]:
    date = None
    if form == "date":
        written, date = _date(chance)
        lines = [chance.choice(OFFICES), written]
        if chance.random() < 0.5:
            lines.append(chance.choice(("No. 4711", "ACCOUNTS DEPT", "BY POST")))
    else:
        lines = [chance.choice(TEXTS)]
    font = load_font(chance, 3.2 if form == "date" else 5)
    is_framed = form == "text" or chance.random() < 0.7
    sizes = [font.getbbox(line) for line in lines]
    step = round(max(size[3] for size in sizes) * 1.25)
    wide, pad = round(max(size[2] for size in sizes)), mm(2.5)
    layer = Image.new("L", (wide + 2 * pad + 8, step * len(lines) + 2 * pad), 0)
    draw = ImageDraw.Draw(layer)
    if is_framed:
        corners = (3, 3, layer.width - 4, layer.height - 4)
        draw.rounded_rectangle(corners, chance.choice((0, 0, 12)), outline=255, width=5)
    for k, line in enumerate(lines):
        across = (layer.width - font.getlength(line)) / 2
        draw.text((across, pad + k * step - 2), line, fill=255, font=font)
    mark = TrueMark("stamp", (0, 0, 0, 0), " ".join(lines), date, is_framed=is_framed)
    return layer, mark


def _round_stamp(chance: random.Random, form: str) -> tuple[Image.Image, TrueMark]:
    radius = mm(chance.uniform(13, 17) if form == "postmark" else chance.uniform(15, 20))
    layer = Image.new("L", (2 * radius + 8, 2 * radius + 8), 0)
    draw, middle, date = ImageDraw.Draw(layer), radius + 4, None
    draw.ellipse((4, 4, 2 * radius + 4, 2 * radius + 4), outline=255, width=5)
    inner = round(radius * 0.62)
    if chance.random() < 0.6:
        box = (middle - inner, middle - inner, middle + inner, middle + inner)
        draw.ellipse(box, outline=255, width=3)
    font = load_font(chance, 2.6)
    if form == "postmark":
        arcs, (written, date) = [chance.choice(TOWNS)], _date(chance)
        center, small = [written], load_font(chance, 1.9)
    else:
        arcs, center = [chance.choice(FIRMS)], [chance.choice(("PAID", "CHECKED", "OFFICE"))]
        small = load_font(chance, 2.3)
        if chance.random() < 0.5:
            arcs.append(chance.choice(TOWNS))
    for k, text in enumerate(arcs):
        _write_arc(layer, text, font, middle, radius * 0.8, is_below=k == 1)
    for line in center:
        across = middle - small.getlength(line) / 2
        draw.text((across, middle - small.size * 0.6), line, fill=255, font=small)
    mark = TrueMark(
        "postmark" if form == "postmark" else "stamp",
        (0, 0, 0, 0),
        " ".join([*arcs, *center]),
        date,
        is_round=True,
    )
    return layer, mark


def _write_arc(
    layer: Image.Image,
    text: str,
    font: ImageFont.FreeTypeFont,
    middle: int,
    radius: float,
    *,
    is_below: bool,
) -> None:
    """Text along a circle: above its center with the letters' tops outward, below it inward."""
    turn = -1 if is_below else 1
    angle = -font.getlength(text) * 1.08 / radius / 2
    for letter in text:
        wide = font.getlength(letter) * 1.08
        at = angle + wide / radius / 2
        side = round(font.size * 2)
        tile = Image.new("L", (side, side), 0)
        ImageDraw.Draw(tile).text((side / 2, side / 2), letter, fill=255, font=font, anchor="mm")
        tile = tile.rotate(-turn * math.degrees(at), Image.Resampling.BICUBIC)
        x = middle + radius * math.sin(at) - side / 2
        y = middle - turn * radius * math.cos(at) - side / 2
        layer.paste(255, (round(x), round(y)), tile)
        angle += wide / radius


def _scan(page: Image.Image, chance: random.Random) -> Image.Image:
    noise = np.random.default_rng(chance.randrange(2**32))
    page = page.filter(ImageFilter.GaussianBlur(chance.uniform(0.3, 0.9)))
    pixels: npt.NDArray[np.float32] = np.asarray(page, np.float32)
    grain = noise.normal(0, chance.uniform(1, 6), (*pixels.shape[:2], 1))
    light = chance.uniform(0.88, 1.0)
    return Image.fromarray(np.clip(pixels * light + grain, 0, 255).astype(np.uint8))
