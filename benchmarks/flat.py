"""Speed and memory over a long dataset: neither may change with how much was done.

    python -m benchmarks.flat [--pages 3000] [--rows-a-group 100] [--shard-pages 512]

Small pages in Parquet files on an S3 server of this machine are read against an engine that
answers at once. Prints the seconds a page in each tenth of the pages, and the peak of the
proportional set size (PSS) of the worker, alone and with the processes that draw; servers are not
counted. Linux only (/proc/PID/smaps_rollup).
"""

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from benchmarks.material import UNREAD, instant_server
from benchmarks.memory import MB, pss
from llm_ocr.storage.store import open_store
from tests.servers.ports import free_port
from tests.servers.s3 import serving_s3

ROWS_A_FILE = 10_000
FACES = 50
PLACE = "s3://bucket"
DONE = re.compile(r'^llm_ocr_items_total\{[^}]*stage="extract"[^}]*\} (\S+)', re.MULTILINE)


def pages(count: int) -> Iterator[bytes]:
    """JPEGs of which no two are the same."""
    faces = [_face(k) for k in range(FACES)]
    for k in range(count):
        said = b"%016d" % k
        face = faces[k % FACES]
        # A comment behind the start of the image: another file, drawn in no time.
        yield face[:2] + b"\xff\xfe" + (len(said) + 2).to_bytes(2, "big") + said + face[2:]


def _face(number: int) -> bytes:
    image = Image.new("RGB", (480, 640), "white")
    draw = ImageDraw.Draw(image)
    for line in range(20):
        draw.text((40, 30 + 30 * line), f"Page {number}, line {line} of twenty lines", fill="black")
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=80)
    return sink.getvalue()


def upload(count: int, rows_a_group: int, folder: Path) -> None:
    store, bodies = open_store(f"{PLACE}/in"), pages(count)
    for number, first in enumerate(range(0, count, ROWS_A_FILE)):
        rows = min(ROWS_A_FILE, count - first)
        path = folder / "shard.parquet"
        schema = pa.schema([("image", pa.binary()), ("id", pa.int64())])
        with pq.ParquetWriter(path, schema, compression={"image": "none", "id": "zstd"}) as writer:
            for start in range(0, rows, rows_a_group):
                some = min(rows_a_group, rows - start)
                ids = range(first + start, first + start + some)
                columns = {"image": [next(bodies) for _ in ids], "id": ids}
                writer.write_table(pa.table(columns, schema=schema))
        store.put(f"train-{number:05d}.parquet", path)
        path.unlink()


def done(port: int) -> int | None:
    """Pages that are rows by now; None once, or before, the worker tells."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            said = answer.read().decode()
    except OSError:
        return None
    return int(sum(float(count) for count in DONE.findall(said)))


def watch(run: "subprocess.Popen[bytes]", port: int) -> list[tuple[float, int, int, int]]:
    """`(time, pages, PSS of the worker, PSS with its children)` twice a second."""
    samples: list[tuple[float, int, int, int]] = []
    worker = psutil.Process(run.pid)
    while run.poll() is None:
        count = done(port)
        now = time.monotonic()
        try:
            alone = int(worker.memory_full_info().pss)
        except psutil.Error:
            break
        # When nothing more is reported at the end, all pages are done.
        last = samples[-1][1] if samples else 0
        samples.append((now, last if count is None else count, alone, pss(run.pid)))
        time.sleep(0.5)
    run.wait()
    return samples


def report(samples: list[tuple[float, int, int, int]], count: int, code: int) -> None:
    print(f"{count} pages, exit code {code}")
    print(f"  peak PSS of the worker        {max(one[2] for one in samples) / MB:7.0f} MB")
    print(f"  with the processes that draw  {max(one[3] for one in samples) / MB:7.0f} MB")
    tenth = count / 10
    times = [_when(samples, k * tenth) for k in range(11)]
    for k in range(10):
        seconds = (times[k + 1] - times[k]) / tenth
        held = max(one[3] for one in samples if times[k] - 1 <= one[0] <= times[k + 1] + 1) / MB
        print(f"  tenth {k + 1:2}  {1000 * seconds:7.2f} ms a page, up to {held:5.0f} MB")
    first, last = times[1] - times[0], times[10] - times[9]
    print(f"  the last tenth took {last / first:.2f} times as long as the first")


def _when(samples: list[tuple[float, int, int, int]], pages: float) -> float:
    """When so many pages were done, between two samples."""
    before = next(one for one in reversed(samples) if one[1] <= pages)
    after = next((one for one in samples if one[1] > pages), None)
    if after is None:
        return next(one[0] for one in samples if one[1] == before[1])
    return before[0] + (pages - before[1]) / (after[1] - before[1]) * (after[0] - before[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--rows-a-group", type=int, default=100)
    parser.add_argument("--shard-pages", type=int, default=512)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        serving_s3(Path(name) / "s3") as server,
        instant_server() as base_url,
    ):
        os.environ |= server.environment
        upload(arguments.pages, arguments.rows_a_group, Path(name))
        port = free_port()
        command = [sys.executable, "-m", "llm_ocr", "run", f"{PLACE}/in", "--out", f"{PLACE}/out"]
        command += ["--base-url", base_url, *UNREAD, "--no-describe", "--viewer-pages", "0"]
        command += ["--metrics-port", str(port), "--shard-pages", str(arguments.shard_pages)]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=_quiet(os.environ))
        samples = watch(run, port)
    report(samples, arguments.pages, run.returncode)


def _quiet(environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, "LLM_OCR_LOG_DIR": tempfile.gettempdir()}


if __name__ == "__main__":
    main()
