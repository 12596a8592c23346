"""The whole service on mixed scans: `python examples/demo_service.py`, or `make demo-service`.

Draws scans of mixed mail and examples of the classes of their pages, with different random
numbers; fits a classifier to the examples and publishes it in the registry; starts `llm-ocr serve`
with the pipeline in `examples/mail`; submits the scans, and compares the results with what was
drawn. Everything is below --out; --keep leaves the service running.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mail_pages import CLASSES, Mail, make_examples, make_mail, scan
from mail_score import print_scores, score_mail

PIPELINES = Path(__file__).parent / "mail"
LLM_OCR = [sys.executable, "-m", "llm_ocr"]
MODEL = "mail-pages"
READY = "(press Ctrl-C to stop)"
# Folders below --out, which each demo begins without.
EXAMPLES, SCANS, STATE, RESULTS = "examples", "scans", "state", "results"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/mail"), help="folder for everything")
    parser.add_argument("--scans", type=int, default=3, help="scans of eight pages (3)")
    parser.add_argument(
        "--examples", type=int, default=12, help="documents per class (default: 12)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="of the service (default: a free one)")
    parser.add_argument("--keep", action="store_true", help="leave the service running at the end")
    options = parser.parse_args()
    out: Path = options.out
    for name in (EXAMPLES, SCANS, STATE, RESULTS):
        shutil.rmtree(out / name, ignore_errors=True)
    started = time.monotonic()

    def step(text: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)

    step(f"drawing {options.scans} scans and the examples of {len(CLASSES)} classes")
    mails = draw_scans(out / SCANS, options.scans, options.seed)
    draw_examples(out / EXAMPLES, options.examples, options.seed)
    state = state_options(out / STATE)
    step("fitting the classifier and publishing it")
    version = publish(out / EXAMPLES, state)
    step(f"starting the service with {version} in production")
    serve = ["--pipelines", str(PIPELINES), "--engine", "embedded", *state]
    with serving(*serve, "--port", str(options.port)) as (url, key):
        step(f"submitting the scans to {url}")
        documents = submit(out, url, key)
        step("comparing the results with what was drawn")
        scores = [
            score_mail(mail, json.loads((out / RESULTS / f"{name}.json").read_text("utf-8")))
            for name, mail in zip(sorted(documents), mails, strict=True)
        ]
        print()
        print_scores(scores)
        print(f"\nResults:  {out / RESULTS}, of the scans in {out / SCANS}")
        if options.keep:
            print(f"Review:   {url}/review\nAPI key:  {key}\nCtrl-C ends the service.", flush=True)
            wait_for_interrupt()
    if not options.keep:
        print("Review:   start the service again, and open http://127.0.0.1:8300/review")
        print(f"          llm-ocr serve {' '.join(serve)}\nAPI key:  {key}")
    return 0


def draw_scans(folder: Path, count: int, seed: int) -> Sequence[Mail]:
    """Write scans as PDFs of images, in the order of their names."""
    folder.mkdir(parents=True)
    mails = []
    for number in range(1, count + 1):
        chance = random.Random(f"{seed}/scan/{number}")
        mails.append(make_mail(chance))
        images = [scan(page.pdf, chance) for page in mails[-1].pages]
        path = folder / f"scan-{number:02}.pdf"
        images[0].save(path, save_all=True, append_images=images[1:], resolution=200, quality=80)
    return mails


def draw_examples(folder: Path, count: int, seed: int) -> None:
    """Write examples: a folder per class, with the pages of `count` documents."""
    for class_name in CLASSES:
        (folder / class_name).mkdir(parents=True)
        for number in range(1, count + 1):
            chance = random.Random(f"{seed}/example/{class_name}/{number}")
            for page, pdf in enumerate(make_examples(class_name, chance), 1):
                path = folder / class_name / f"{number:03}-{page}.jpg"
                scan(pdf, chance).save(path, quality=80, dpi=(200, 200))


def state_options(folder: Path) -> list[str]:
    return ["--database", str(folder / "service.sqlite"), "--storage", str(folder / "storage")]


def publish(examples: Path, state: Sequence[str]) -> str:
    """Fit a classifier, put it into production, and return its version."""
    fit = ["classifier", "fit", str(examples), "--register", MODEL, *state]
    printed = run(*fit)
    found = re.search(rf"{MODEL}/\w+", printed)
    assert found is not None, printed
    run("registry", "promote", found[0], "production", "--reason", "demo", *state)
    return found[0]


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, str]]:
    """Run `llm-ocr serve`, which is stopped at the end; gives its address and its first API key."""
    process = subprocess.Popen(
        [*LLM_OCR, "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Ctrl-C is for this process, which stops the service.
        start_new_session=True,
    )
    assert process.stdout is not None
    printed = ""
    try:
        for line in process.stdout:
            printed += line
            if "/v1/documents:upload" in line:
                break
        url = re.search(r"http://127\S+:\d+", printed)
        key = re.search(r"lo_\w{8}_\w{32}", printed)
        if url is None or key is None:
            raise SystemExit(f"the service did not start:\n{printed}")
        # Nothing may fill the pipe.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield url[0], key[0]
    finally:
        process.terminate()
        process.wait(60)


def submit(out: Path, url: str, key: str) -> Sequence[str]:
    """Submit the scans, wait, and save all results; returns the names of the scans.

    `llm-ocr submit` saves the results of finished documents. Those that wait for review are
    fetched over the API.
    """
    scans, results = str(out / SCANS), out / RESULTS
    command = ["submit", scans, "--type", "mail", "--to", url, "--wait", "--out", str(results)]
    print(run(*command, LLM_OCR_SERVICE_KEY=key).rstrip(), flush=True)
    listed = fetch(url, key, "/v1/documents?limit=100")["documents"]
    for document in listed:
        path = results / f"{Path(document['name']).stem}.json"
        if not path.exists():
            result = fetch(url, key, f"/v1/documents/{document['id']}/result")
            path.write_text(json.dumps(result, indent=2, ensure_ascii=False), "utf-8")
    return [Path(document["name"]).stem for document in listed]


def fetch(url: str, key: str, path: str) -> Mapping[str, Any]:
    """Get JSON from the API."""
    request = urllib.request.Request(f"{url}{path}", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        found: Mapping[str, Any] = json.load(response)
    return found


def run(*arguments: str, **environment: str) -> str:
    """Run llm-ocr; returns what it printed. Ends this program if it fails."""
    done = subprocess.run(
        [*LLM_OCR, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"llm-ocr {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for_interrupt() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    sys.exit(main())
