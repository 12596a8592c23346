"""The typefaces of the pages: those of every PDF reader, and those in wheels."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont


@dataclass(frozen=True)
class Family:
    """A typeface's four cuts, as they are named on a canvas."""

    name: str
    regular: str
    bold: str
    italic: str
    bold_italic: str
    is_serif: bool = False
    has_greek: bool = False


TIMES = Family("Times", "Times-Roman", "Times-Bold", "Times-Italic", "Times-BoldItalic", True)
HELVETICA = Family(
    "Helvetica", "Helvetica", "Helvetica-Bold", "Helvetica-Oblique", "Helvetica-BoldOblique"
)
COURIER = Family("Courier", "Courier", "Courier-Bold", "Courier-Oblique", "Courier-BoldOblique")
VERA = Family("Vera", "Vera", "VeraBd", "VeraIt", "VeraBI")
DEJAVU = Family(
    "DejaVu Sans",
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    has_greek=True,
)
DEJAVU_SERIF = Family(
    "DejaVu Serif",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic",
    True,
    True,
)
STIX = Family(
    "STIX",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "STIXGeneralBolIta",
    True,
    True,
)
FAMILIES = (TIMES, HELVETICA, VERA, DEJAVU, DEJAVU_SERIF, STIX)
GREEK_FAMILIES = tuple(one for one in FAMILIES if one.has_greek)
_FOLDERS = {
    "reportlab": ("fonts", (VERA,)),
    "matplotlib": ("mpl-data/fonts/ttf", (DEJAVU, DEJAVU_SERIF, STIX)),
}


def register() -> None:
    """Make the fonts known to reportlab. Raises ModuleNotFoundError where a wheel is missing."""
    known = set(pdfmetrics.getRegisteredFontNames())
    for package, (folder, families) in _FOLDERS.items():
        found = find_spec(package)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(
                f"The pages are set in fonts of {package}'s wheel, which isn't installed: "
                f"pip install {package}"
            )
        for family in families:
            for cut in (family.regular, family.bold, family.italic, family.bold_italic):
                if cut not in known:
                    path = Path(found.origin).parent / folder / f"{cut}.ttf"
                    pdfmetrics.registerFont(TTFont(cut, str(path)))


def width(text: str, font: str, size: float) -> float:
    """How wide a text is, in points."""
    return float(pdfmetrics.stringWidth(text, font, size))
