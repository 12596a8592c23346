"""What a page costs beside the engine: CPU time of the pipeline against bare rendering.

    python -m benchmarks.overhead [--pages 600] [INPUT.pdf]

Two measurements in one run, on the same pages: a single process that only renders each page with
pdfium and encodes it as JPEG, and the whole pipeline (render, encode, request, parse, crop, write,
commit, publish, describe, assemble) against a server that answers at once. Both are CPU seconds
of all processes but the server's. The ratio is what to look at; the target is at most 1.8.
"""

import argparse
import io
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pypdfium2 as pdfium

from benchmarks.material import UNREAD, instant_server, repeated_pdf
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR

REPORT = Path(__file__).parent.parent / "examples" / "report.pdf"


def bare(path: Path) -> None:
    """Render and encode every page, as the model's profile wants it, and keep nothing."""
    policy = DEEPSEEK_OCR.image
    document = pdfium.PdfDocument(path)
    for page in document:
        scale = policy.longest_side / max(page.get_size())
        image = page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")
        image.save(io.BytesIO(), "JPEG", quality=policy.jpeg_quality)
        page.close()


def cpu_of(arguments: list[str]) -> float:
    """CPU seconds, user and system, of a command and all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=REPORT)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        bare(arguments.bare)
        return
    with tempfile.TemporaryDirectory() as name, instant_server() as base_url:
        folder = Path(name)
        path = repeated_pdf(arguments.source, folder / "pages.pdf", arguments.pages)
        me = [sys.executable, "-m", "benchmarks.overhead"]
        alone = cpu_of([*me, "--bare", str(path)])
        run = ["run", str(path), "--out", str(folder / "out"), "--base-url", base_url, *UNREAD]
        command = [sys.executable, "-m", "llm_ocr", *run, "--viewer-pages", "0"]
        whole = cpu_of(command)
        fixed = cpu_of([sys.executable, "-m", "llm_ocr", *run, "--viewer-pages", "0"])
        figures = json.loads((folder / "out" / "summary.json").read_text())["figures"]
    pages = arguments.pages
    print(f"{pages} pages of {arguments.source.name} with {figures} figures")
    print("CPU milliseconds a page:")
    print(f"  render and encode alone   {1000 * alone / pages:8.1f}")
    print(f"  the whole pipeline        {1000 * whole / pages:8.1f}")
    print(
        f"    of it start and finish  {1000 * fixed / pages:8.1f}  (the same run again, all done)"
    )
    print(f"  ratio                     {whole / alone:8.2f}")


if __name__ == "__main__":
    main()
