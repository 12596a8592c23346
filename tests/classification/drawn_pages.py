"""Draws pages of a few kinds: twins that differ by a title, and kinds that look different."""

import random
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from llm_ocr.classification.classifier import describe_example, fit_classifier, save_classifier
from llm_ocr.classification.descriptors import PageInput
from llm_ocr.classification.embedders import LayoutEmbedder

SIZE = (640, 900)
TITLES = {"invoice": "Invoice", "credit": "Credit note"}
KINDS = ("invoice", "credit", "form", "letter")
# Kinds that no classifier of the tests has examples of.
STRANGE = ("poster", "grid")


def draw_page(kind: str, number: int) -> Image.Image:
    """A page that depends on its kind and number only, with some noise."""
    chance = random.Random(f"{kind}{number}")
    image = Image.new("L", SIZE, chance.randint(235, 255))
    draw = ImageDraw.Draw(image)

    def text(x: float, y: float, words: str, size: int = 16) -> None:
        shift = chance.uniform(-3, 3)
        draw.text((x + shift, y + shift), words, font=ImageFont.load_default(size), fill=20)

    if kind in TITLES:
        text(60, 110, TITLES[kind], 34)
        text(60, 180, f"Number {chance.randint(1000, 9999)}", 20)
        for k in range(chance.randint(4, 7)):
            for x in (60, 260, 460):
                text(x, 340 + 44 * k, str(chance.randint(1000, 99999)), 20)
        draw.line((60, 700, 580, 700), fill=30, width=2)
    elif kind == "form":
        text(180, 60, "Application", 34)
        for k in range(9):
            draw.rectangle((200, 150 + 70 * k, 580, 195 + 70 * k), outline=20, width=2)
            text(60, 160 + 70 * k, chance.choice(("Name", "Town", "Date")), 20)
    elif kind == "letter":
        text(60, 120, "Dear reader", 24)
        for k in range(chance.randint(16, 22)):
            text(60, 200 + 26 * k, "word " * chance.randint(8, 11), 18)
    elif kind == "poster":
        draw.ellipse((120, 250, 520, 650), fill=chance.randint(30, 60))
        text(180, 120, "Concert", 60)
    else:
        for k in range(0, 900, 30):
            draw.line((0, k, 640, k), fill=40, width=2)
            draw.line((k, 0, k, 900), fill=40, width=2)
    # As no two scans lie alike.
    shift = (chance.randint(-9, 9), chance.randint(-9, 9))
    paper = image.getpixel((0, SIZE[1] - 1)) if kind != "grid" else 245
    return image.rotate(chance.uniform(-0.7, 0.7), translate=shift, fillcolor=paper)


def write_pages(folder: Path, kinds: tuple[str, ...], numbers: range) -> Path:
    """A folder with a subfolder for each kind."""
    for kind in kinds:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            draw_page(kind, number).save(folder / kind / f"{kind}-{number}.png")
    return folder


def save_fitted(folder: Path, kinds: tuple[str, ...], count: int) -> Path:
    """A classifier by pictures alone, with so many examples of each kind."""
    embedder = LayoutEmbedder()
    pages = [
        describe_example(f"{kind}-{k}", f"{k}", kind, PageInput(draw_page(kind, k)), embedder)
        for kind in kinds
        for k in range(count)
    ]
    save_classifier(fit_classifier(pages, embedder), folder)
    return folder
