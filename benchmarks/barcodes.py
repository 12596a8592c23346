"""How many barcodes on generated scans are read, and whether any is misread.

    python -m benchmarks.barcodes [--split check] [--pages 10] [--first 0] [--save FOLDER]

Each page has one code of one of 12 symbologies among lines of text, and is turned, blurred, noisy
and compressed as bad scans are, at 150 to 300 dpi; further pages have text and no code. Each is
read by zxing-cpp's plain call and by `find_barcodes`, which expects one code of the symbology.
Printed: recall by symbology, by what was done to the page, and by what the blur leaves of the
contrast between the narrowest bars and spaces; all wrong values; and CPU time per page. The
thresholds in `llm_ocr/auxiliary` were chosen on the split `develop`; the docs show `check`.
"""

import argparse
import hashlib
import io
import math
import random
import statistics
import string
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import zxingcpp
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from llm_ocr.auxiliary.barcodes import find_barcodes
from llm_ocr.auxiliary.expectations import BarcodeExpectation

# Symbologies with the width of their narrowest element in mm, from small labels to large ones.
MODULES = {
    "EAN-13": (0.26, 0.5),
    "EAN-8": (0.26, 0.5),
    "UPC-E": (0.26, 0.5),
    "Code 39": (0.22, 0.5),
    "Code 93": (0.22, 0.5),
    "Code 128": (0.22, 0.5),
    "ITF": (0.26, 0.6),
    "Codabar": (0.22, 0.5),
    "Data Matrix": (0.3, 0.7),
    "QR Code": (0.3, 0.7),
    "Aztec": (0.3, 0.7),
    "PDF417": (0.25, 0.5),
}
NO_CODE = "no code"
DPI = (150, 200, 300)
TURNS = (0, 2, 7, 15, 25, 90)
BLURS = (0.0, 0.7, 1.1, 1.5)
NOISES = (0, 8, 16)
CONTRASTS = (0.1, 0.2, 0.4, 0.7, 1.0)
WIDTH_MM, HEIGHT_MM = 210, 297
WORDS = (
    *("of", "the", "goods", "were", "delivered", "to", "this", "office"),
    *("on", "and", "invoice", "number", "total", "please", "net"),
)


@dataclass(frozen=True)
class Scan:
    """A page: what is on it, and what was done to it. `blur` and `module`, the width of the code's
    narrowest elements, are in pixels."""

    symbology: str
    value: str
    dpi: int
    turn: float
    blur: float
    noise: int
    module: float
    image: bytes

    @property
    def contrast(self) -> float:
        """What the blur leaves (0 to 1) of the contrast between bars and spaces of one module
        each: of a sine with a period of two modules, after a Gaussian filter."""
        return math.exp(-2 * (math.pi * self.blur / (2 * self.module)) ** 2)


@dataclass(frozen=True)
class Score:
    """What two ways of reading a scan gave: values that are wrong, and whether the right one was
    there; and seconds of one core."""

    scan: Scan
    plain_read: bool
    found: bool
    plain_wrong: tuple[str, ...]
    wrong: tuple[str, ...]
    plain_seconds: float
    seconds: float
    # Where no code is expected.
    idle_seconds: float


def make_scan(symbology: str, number: int, split: str) -> Scan:
    """The scan of this number, which is the same in every run."""
    seed = hashlib.sha256(f"{split}/{symbology}/{number}".encode()).digest()
    chance = random.Random(seed)
    dpi, blur = chance.choice(DPI), chance.choice(BLURS)
    turn = chance.choice(TURNS) * chance.choice((-1, 1)) + chance.uniform(-0.5, 0.5)
    noise = chance.choice(NOISES)
    page = _text_page(chance, dpi)
    value, module = "", 1.0
    if symbology != NO_CODE:
        value, module, code = _make_code(symbology, chance, dpi)
        code = code.rotate(turn, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
        left = chance.randint(0, max(0, page.width - code.width))
        top = chance.randint(0, max(0, page.height - code.height))
        page.paste(code, (left, top))
    page = page.filter(ImageFilter.GaussianBlur(blur))
    grain = np.random.default_rng(chance.randrange(2**32)).normal(0, noise, page.size[::-1])
    pixels = np.asarray(page, np.float32) * 0.86 + 24 + grain
    data = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(data, "JPEG", quality=70)
    return Scan(symbology, value, dpi, turn, blur, noise, module, data.getvalue())


def _make_code(symbology: str, chance: random.Random, dpi: int) -> tuple[str, float, Image.Image]:
    """The value of a code, the width of its narrowest element in pixels, and the code with its
    quiet zone, as printed."""
    code = zxingcpp.create_barcode(
        _content(symbology, chance), zxingcpp.barcode_format_from_str(symbology)
    )
    drawn = np.asarray(zxingcpp.write_barcode_to_image(code, scale=8))
    module = chance.uniform(*MODULES[symbology]) / 25.4 * dpi
    size = [max(1, round(side / 8 * module)) for side in drawn.shape[::-1]]
    resized = Image.fromarray(drawn).resize((size[0], size[1]), Image.Resampling.BOX)
    return code.text, module, resized


def _content(symbology: str, chance: random.Random) -> str:
    def some(alphabet: str, least: int, most: int) -> str:
        return "".join(chance.choices(alphabet, k=chance.randint(least, most)))

    digits, capitals = string.digits, string.ascii_uppercase
    if symbology in ("EAN-13", "EAN-8"):
        count = {"EAN-13": 12, "EAN-8": 7}[symbology]
        return some(digits, count, count)
    if symbology == "UPC-E":
        # With zeros elsewhere it would have a shorter form.
        return "0" + some(digits[1:], 5, 5) + some(digits[5:], 1, 1)
    if symbology == "ITF":
        return some(digits, 4, 7) * 2
    if symbology == "Codabar":
        return f"A{some(digits, 6, 12)}B"
    if symbology in ("Code 39", "Code 93"):
        return some(capitals + digits, 5, 12)
    return some(capitals + digits + string.ascii_lowercase + "-/", 8, 24)


def _text_page(chance: random.Random, dpi: int) -> Image.Image:
    """A sheet of A4 with lines of text and a ruled table."""
    size = (round(WIDTH_MM / 25.4 * dpi), round(HEIGHT_MM / 25.4 * dpi))
    page = Image.new("L", size, 255)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(round(0.14 * dpi))
    step, margin = round(0.22 * dpi), round(0.8 * dpi)
    for top in range(margin, round(size[1] * 0.7), step):
        words = " ".join(chance.choices(WORDS, k=chance.randint(4, 12)))
        draw.text((margin, top), words, fill=30, font=font)
    for row in range(6):
        level = round(size[1] * 0.75) + row * step
        draw.line((margin, level, size[0] - margin, level), fill=0, width=max(1, dpi // 100))
    for column in range(12):
        left = margin + column * (size[0] - 2 * margin) // 11
        top = round(size[1] * 0.75)
        draw.line((left, top, left, top + 5 * step), fill=0, width=max(1, dpi // 100))
    return page


def score(scan: Scan) -> Score:
    """Read a scan both ways."""
    image = Image.open(io.BytesIO(scan.image)).convert("L")
    began = time.process_time()
    plain = [code.text for code in zxingcpp.read_barcodes(image)]
    plain_seconds = time.process_time() - began
    began = time.process_time()
    idle = find_barcodes(image)
    idle_seconds = time.process_time() - began
    began = time.process_time()
    if scan.symbology == NO_CODE:
        # As if one were expected, so that every region is read.
        found = find_barcodes(image, has_all=lambda found: False)
    else:
        expected = BarcodeExpectation(symbology=scan.symbology)
        found = find_barcodes(image, has_all=lambda found: any(map(expected.matches, found)))
    seconds = time.process_time() - began
    values = [finding.value or "" for finding in found]
    return Score(
        scan,
        scan.value in plain,
        scan.value in values,
        tuple(value for value in plain if value != scan.value),
        tuple(
            f"{finding.symbology} {finding.value}"
            for finding in {*found, *idle}
            if finding.value != scan.value
        ),
        plain_seconds,
        seconds,
        idle_seconds,
    )


def _make_and_score(job: tuple[str, int], split: str, folder: Path | None) -> Score:
    scan = make_scan(*job, split)
    if folder is not None:
        (folder / f"{scan.symbology}-{job[1]}.jpg".replace(" ", "-")).write_bytes(scan.image)
    return score(scan)


def print_table(title: str, groups: Iterable[tuple[str, Sequence[Score]]]) -> None:
    """Print the recall of each group of scores as Markdown."""
    print(f"\n| {title} | codes | zxing-cpp's plain call | `find_barcodes` |")
    print("| --- | ---: | ---: | ---: |")
    for name, scores in groups:
        plain = sum(score.plain_read for score in scores) / len(scores)
        found = sum(score.found for score in scores) / len(scores)
        print(f"| {name} | {len(scores)} | {plain:.2f} | {found:.2f} |")


def print_conditions(scores: Sequence[Score]) -> None:
    """Print how many codes both ways have read, by symbology and condition, as Markdown."""
    conditions: dict[str, Callable[[Scan], bool]] = {
        "150 dpi": lambda scan: scan.dpi == 150,
        "200 dpi": lambda scan: scan.dpi == 200,
        "300 dpi": lambda scan: scan.dpi == 300,
        "5 to 30° aslant": lambda scan: 5 < abs(scan.turn) < 30,
        "blurred by 1.1 px or more": lambda scan: scan.blur > 1,
        "noise of 16 levels": lambda scan: scan.noise == 16,
    }
    print(f"\n| plain call → `find_barcodes` | {' | '.join(conditions)} |")
    print(f"| --- |{' ---: |' * len(conditions)}")
    for symbology in MODULES:
        cells: list[str] = []
        for is_met in conditions.values():
            own = [one for one in scores if one.scan.symbology == symbology and is_met(one.scan)]
            plain, found = sum(one.plain_read for one in own), sum(one.found for one in own)
            cells.append(f"{plain} → {found} of {len(own)}")
        print(f"| {symbology} | {' | '.join(cells)} |")


def print_times(coded: Sequence[Score], blank: Sequence[Score]) -> None:
    """Print the CPU time per page of pages with a code and without, as Markdown."""
    print("\n| CPU time per page, in ms | with a code | without |\n| --- | ---: | ---: |")
    ways: dict[str, Callable[[Score], float]] = {
        "zxing-cpp's plain call": lambda one: one.plain_seconds,
        "`find_barcodes`, nothing expected": lambda one: one.idle_seconds,
        "`find_barcodes`, a code expected": lambda one: one.seconds,
    }
    for name, seconds in ways.items():
        means = [1000 * statistics.mean(map(seconds, scores)) for scores in (coded, blank)]
        print(f"| {name} | {means[0]:,.0f} | {means[1]:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=("develop", "check"), default="check")
    parser.add_argument("--pages", type=int, default=10, help="pages per symbology")
    parser.add_argument("--first", type=int, default=0, help="number of the first page")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save", type=Path, help="folder for the pages")
    options = parser.parse_args()
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
    numbers = range(options.first, options.first + options.pages)
    jobs = [(name, number) for number in numbers for name in (*MODULES, NO_CODE)]
    work = partial(_make_and_score, split=options.split, folder=options.save)
    with ProcessPoolExecutor(options.workers) as pool:
        scores = list(pool.map(work, jobs, chunksize=4))
    coded = [score for score in scores if score.scan.symbology != NO_CODE]
    groups: dict[str, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for one in coded:
        scan = one.scan
        groups["symbology"][scan.symbology].append(one)
        groups["page"][f"{scan.dpi} dpi"].append(one)
        turn = min(TURNS, key=lambda turn: abs(turn - abs(scan.turn)))
        groups["page"][f"turned by {turn}°"].append(one)
        groups["page"][f"blurred by {scan.blur} px"].append(one)
        groups["page"][f"noise of {scan.noise} levels"].append(one)
        limit = next(limit for limit in CONTRASTS if scan.contrast <= limit)
        groups["contrast left by the blur"][f"up to {limit:g}"].append(one)
    print(f"{options.split}: {len(coded)} pages with a code, {len(scores) - len(coded)} without")
    for title, by_name in groups.items():
        order = list(MODULES) if title == "symbology" else sorted(by_name, key=_order)
        rows = [(name, by_name[name]) for name in order if by_name[name]]
        print_table(title, [*rows, ("all", coded)] if title == "symbology" else rows)
    print_conditions(coded)
    wrong = [(one.scan.symbology, one.scan.value, value) for one in scores for value in one.wrong]
    plain_wrong = sum(len(one.plain_wrong) for one in scores)
    print(f"\nwrong values: plain call {plain_wrong}, find_barcodes {len(wrong)}")
    for symbology, value, read in wrong:
        print(f"  {symbology} {value!r} read as {read!r}")
    print_times(coded, [one for one in scores if one.scan.symbology == NO_CODE])


def _order(name: str) -> tuple[str, float]:
    number = next(part for part in name.replace("°", "").split() if part[0].isdigit())
    return name.replace(number, ""), float(number)


if __name__ == "__main__":
    main()
