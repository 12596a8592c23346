"""Reads PDFs with another program, for `benchmarks.accuracy`: in that program's environment.

    python peer_reader.py ENGINE OUT PDF ...

Each PDF is named as FOLDER//PATH; each page becomes OUT/PATH_pgN.md. Needs nothing of this
repository. Engines use two threads, or two processes of one thread each where that costs less.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

THREADS = 2
# On these pages Tesseract reads as well at 200 dpi as at 300, for less; RapidOCR scales down what
# is over 2,000 pixels.
TESSERACT_DPI, RAPIDOCR_SIDE = 200, 2000
TESSDATA = "/usr/share/tesseract-ocr/5/tessdata"

Pages = Iterator[tuple[str, int, str]]


def main() -> None:
    engine, out, pdfs = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    for done, (name, number, text) in enumerate(ENGINES[engine](pdfs), 1):
        path = out / f"{name}_pg{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"\r{engine}: {done} pages", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _parts(pdf: str) -> tuple[str, str]:
    """Its file, and its path below the folder without the ending."""
    folder, _, path = pdf.partition("//")
    return f"{folder}/{path}", path.removesuffix(".pdf")


def _rendered(pdf: str, scale_of: Callable[[Any], float]) -> Iterator[tuple[int, Any]]:
    import pypdfium2 as pdfium

    for number, page in enumerate(pdfium.PdfDocument(pdf), 1):
        yield number, page.render(scale=scale_of(page), rev_byteorder=True).to_pil().convert("RGB")


def tesseract(pdfs: list[str]) -> Pages:
    """Two processes, each with a list of images, as one process reads many."""
    with tempfile.TemporaryDirectory() as folder:
        names: list[tuple[str, int, str]] = []
        for pdf in pdfs:
            file, name = _parts(pdf)
            for number, image in _rendered(file, lambda _: TESSERACT_DPI / 72):
                path = Path(folder) / f"{len(names)}.png"
                image.save(path, compress_level=1, dpi=(TESSERACT_DPI, TESSERACT_DPI))
                names.append((name, number, str(path)))
        halves = [one for k in range(THREADS) if (one := names[k::THREADS])]
        with ThreadPoolExecutor(THREADS) as threads:
            for half, texts in zip(halves, threads.map(_tesseract, halves), strict=True):
                for (name, number, _), text in zip(half, texts, strict=True):
                    yield name, number, text


def _tesseract(images: list[tuple[str, int, str]]) -> list[str]:
    """The texts of images, in order; each ends with a form feed."""
    listed = "\n".join(path for *_, path in images)
    said = subprocess.run(
        ["/usr/bin/tesseract", "stdin", "stdout", "--psm", "3", "-l", "eng"],
        input=listed,
        text=True,
        capture_output=True,
        check=True,
        env={"OMP_THREAD_LIMIT": "1", "PATH": "/usr/bin:/bin"},
    ).stdout
    return said.split("\f")[: len(images)]


def rapidocr(pdfs: list[str]) -> Pages:
    """Its lines as it gives them, one below the other."""
    import numpy as np
    from rapidocr import RapidOCR

    threads = "EngineConfig.onnxruntime.intra_op_num_threads"
    engine = RapidOCR(params={"Global.log_level": "error", threads: THREADS})
    for pdf in pdfs:
        file, name = _parts(pdf)
        for number, image in _rendered(file, lambda page: RAPIDOCR_SIDE / max(page.get_size())):
            found: Any = engine(np.ascontiguousarray(np.asarray(image)[:, :, ::-1]))
            yield name, number, "\n".join(found.txts or ())


def liteparse(pdfs: list[str]) -> Pages:
    from liteparse import LiteParse

    parser = LiteParse(
        output_format="markdown",
        num_workers=THREADS,
        quiet=True,
        tessdata_path=TESSDATA,
        image_mode="off",
    )
    for pdf in pdfs:
        file, name = _parts(pdf)
        for number, page in enumerate(parser.parse(file).pages, 1):
            yield name, number, page.markdown or ""


def kreuzberg(pdfs: list[str]) -> Pages:
    from kreuzberg import (
        ConcurrencyConfig,
        ExtractionConfig,
        OcrConfig,
        PageConfig,
        extract_file_sync,
    )

    config = ExtractionConfig(
        use_cache=False,
        ocr=OcrConfig(backend="tesseract", language="eng"),
        output_format="markdown",
        pages=PageConfig(extract_pages=True),
        concurrency=ConcurrencyConfig(max_threads=THREADS),
    )
    for pdf in pdfs:
        file, name = _parts(pdf)
        result = extract_file_sync(file, config=config)
        pages = [page["content"] for page in result.pages or ()]
        # With one page its text is the document's, which has the Markdown.
        for number, text in enumerate(pages if len(pages) > 1 else [result.content], 1):
            yield name, number, text


ENGINES = {
    "tesseract": tesseract,
    "rapidocr": rapidocr,
    "liteparse": liteparse,
    "kreuzberg": kreuzberg,
}

if __name__ == "__main__":
    main()
