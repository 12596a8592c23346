"""The scans: an invoice (JPEG), three letters (TIFF) and a notice in a PDF stored sideways.

Each page is set with reportlab, rendered by pypdfium2, and then treated as a scanner would.
"""

import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pypdfium2 as pdfium
from invoice_page import draw_invoice
from letter_pages import draw_memo, draw_notice, draw_reply, draw_typed_letter
from PIL import Image, ImageChops, ImageFilter, ImageOps
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

Draw = Callable[[Canvas], None]


def write_invoice(path: Path) -> None:
    page = scanned(_rendered(draw_invoice, 150), skew=0.4, noise=10, chance=random.Random(4))
    paper = ImageOps.colorize(page, (38, 36, 44), (250, 246, 235))
    paper.save(path, "JPEG", quality=76, optimize=True, dpi=(150, 150))


def write_letters(path: Path) -> None:
    """1-bit pages at 200 dpi with CCITT group 4 compression, as office scanners make them."""
    chance = random.Random(11)
    pages = []
    for draw, skew in ((draw_typed_letter, -0.3), (draw_reply, 0.2), (draw_memo, 0.0)):
        gray = scanned(_rendered(draw, 200), skew=skew, noise=24, chance=chance)
        pages.append(gray.point(lambda v: 255 if v > 176 else 0).convert("1"))
    pages[0].save(
        path, "TIFF", save_all=True, append_images=pages[1:], compression="group4", dpi=(200, 200)
    )


def write_rotated_scan(path: Path) -> None:
    """An image lying on its left side on a landscape page that /Rotate 90 turns upright."""
    upright = scanned(_rendered(draw_notice, 150), skew=-0.25, noise=12, chance=random.Random(8))
    jpeg = BytesIO()
    upright.transpose(Image.Transpose.ROTATE_90).save(jpeg, "JPEG", quality=62, optimize=True)
    # reportlab takes the upright size and swaps its sides for the page that it turns.
    canvas = Canvas(str(path), pagesize=A4, invariant=1)
    canvas.setTitle("Notice (scanned)")
    canvas.setPageRotation(90)
    canvas.drawInlineImage(Image.open(jpeg), 0, 0, A4[1], A4[0])
    canvas.showPage()
    canvas.save()


def _rendered(draw: Draw, dpi: int) -> Image.Image:
    """What `draw` puts on an A4 page, in gray."""
    target = BytesIO()
    canvas = Canvas(target, pagesize=A4, invariant=1)
    draw(canvas)
    canvas.showPage()
    canvas.save()
    with pdfium.PdfDocument(target.getvalue()) as document:
        image: Image.Image = document[0].render(scale=dpi / 72, grayscale=True).to_pil()
        return image.convert("L")


def scanned(page: Image.Image, skew: float, noise: int, chance: random.Random) -> Image.Image:
    """`page` turned by `skew` degrees clockwise, a little soft, with uneven light and `noise`."""
    page = page.rotate(-skew, Image.Resampling.BICUBIC, fillcolor=255)
    page = page.filter(ImageFilter.GaussianBlur(0.55))
    light = Image.frombytes("L", (4, 6), bytes(chance.randrange(232, 256) for _ in range(24)))
    page = ImageChops.multiply(page, light.resize(page.size, Image.Resampling.BICUBIC))
    grain = Image.frombytes("L", page.size, chance.randbytes(page.width * page.height))
    grain = grain.filter(ImageFilter.GaussianBlur(0.7)).point(
        lambda v: 128 + (v - 128) * noise // 64
    )
    # Grain is centered on gray 128: adding it and taking 128 off again leaves the mean as it was.
    return ImageChops.add(page, grain, offset=-128)
