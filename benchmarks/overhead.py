"""What a page costs beside the engine: CPU time of the pipeline against bare rendering.

    python -m benchmarks.overhead [--pages 600] [--side 1600] [--repeats 3] [--base FOLDER] [PDF]

Measured in turn, on the same pages: a single process that only renders each page with pdfium and
encodes it as JPEG, and the whole pipeline (render, encode, request, parse, crop, write, commit,
publish, describe, assemble) against a server that answers at once. All are CPU seconds, user and
system, of all processes but the server's: the median of the repeats, with the least and the most.
The target is at most 25 ms a page over rendering and encoding at 1,600 pixels. `--base` is another
checkout of llm_ocr, which is measured in the same turns. A run that isn't counted compiles the
modules, as an installation does.
"""

import argparse
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pypdfium2 as pdfium

from benchmarks.material import ROOT, UNREAD, instant_server, repeated_pdf
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR

REPORT = ROOT / "examples" / "report.pdf"
# The model's profile with another size of its page images.
PROFILE = """\
id = "overhead"
model = "{model}"
base = "{base}"
[image]
longest_side = {side}
"""


def bare(path: Path, side: int) -> None:
    """Render and encode every page, as the model's profile wants it, and keep nothing."""
    policy = replace(DEEPSEEK_OCR.image, longest_side=side)
    document = pdfium.PdfDocument(path)
    for page in document:
        scale = policy.longest_side / max(page.get_size())
        image = page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")
        image.save(io.BytesIO(), "JPEG", quality=policy.jpeg_quality)
        page.close()


def cpu_of(arguments: Sequence[str], folder: Path = ROOT) -> float:
    """CPU seconds, user and system, of a Python command in a folder and all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Else each process may compile its modules again.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@dataclass
class Pipeline:
    """The CPU seconds of one checkout's runs, and of the same runs again when all is done."""

    checkout: Path
    whole: list[float] = field(default_factory=list)
    finished: list[float] = field(default_factory=list)
    figures: int = 0

    def measure(self, out: Path, inputs: Sequence[str]) -> None:
        self.whole.append(self.run(out, inputs))
        self.finished.append(self.run(out, inputs))
        self.figures = json.loads((out / "summary.json").read_text())["figures"]

    def run(self, out: Path, inputs: Sequence[str]) -> float:
        """The CPU seconds of a run over the inputs."""
        command = ["-m", "llm_ocr", "run", *inputs, "--out", str(out), "--viewer-pages", "0"]
        return cpu_of(command, self.checkout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=REPORT)
    parser.add_argument("--pages", type=int, default=600)
    parser.add_argument("--side", type=int, default=1600, help="the page images' longest side")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--base", type=Path, help="another checkout, measured in the same turns")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        bare(arguments.bare, arguments.side)
        return
    pipelines = {"the whole pipeline": Pipeline(ROOT)}
    if arguments.base:
        pipelines["the base's pipeline"] = Pipeline(arguments.base)
    alone: list[float] = []
    with tempfile.TemporaryDirectory() as name, instant_server() as base_url:
        folder = Path(name)
        path = repeated_pdf(arguments.source, folder / "pages.pdf", arguments.pages)
        profile = folder / "overhead.toml"
        model, base = DEEPSEEK_OCR.model, DEEPSEEK_OCR.id
        profile.write_text(PROFILE.format(model=model, base=base, side=arguments.side))
        options = ["--model", str(profile), "--base-url", base_url, *UNREAD]
        side = ["--side", str(arguments.side)]
        for place, pipeline in enumerate(pipelines.values()):
            pipeline.run(folder / f"compiled-{place}", [str(arguments.source.resolve()), *options])
        for turn in range(arguments.repeats):
            alone.append(cpu_of(["-m", "benchmarks.overhead", "--bare", str(path), *side]))
            for place, pipeline in enumerate(pipelines.values()):
                pipeline.measure(folder / f"out-{turn}-{place}", [str(path), *options])
    figures = next(iter(pipelines.values())).figures
    print(
        f"{arguments.pages} pages of {arguments.source.name} with {figures} figures, "
        f"{arguments.side} pixels; median of {arguments.repeats} (least to most)"
    )
    print("CPU milliseconds a page:")
    _show("render and encode alone", alone, arguments.pages)
    for what, pipeline in pipelines.items():
        over = [whole - least for whole, least in zip(pipeline.whole, alone, strict=True)]
        ratio = statistics.median(pipeline.whole) / statistics.median(alone)
        _show(what, pipeline.whole, arguments.pages)
        _show("  over render and encode", over, arguments.pages)
        _show("  start and finish (all done)", pipeline.finished, arguments.pages)
        print(f"  {'  ratio':30}{ratio:8.2f}")


def _show(what: str, seconds: Sequence[float], pages: int) -> None:
    each = [1000 * one / pages for one in seconds]
    print(f"  {what:30}{statistics.median(each):8.1f}  ({min(each):.1f} to {max(each):.1f})")


if __name__ == "__main__":
    main()
