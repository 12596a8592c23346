"""The same pages through all stores, each as input and each as output: equal tables?

    python -m benchmarks.same_pages [--pages 200]

Puts the same documents (PDFs of the examples' pages, images, a broken file) on a disk, on S3, GCS
and the Hub, reads them from each into each with an engine whose answers depend on the image alone,
and compares every column of every table with the run from disk to disk. Ids stand for the
documents' names, since they come from where a document is; only `seconds` is left out. Then opens
each output with `datasets`. The servers are those of the tests.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from obstore.fsspec import register

from benchmarks.material import instant_server, repeated_pdf
from llm_ocr import run
from llm_ocr.records import PageStatus
from llm_ocr.storage.store import create_repository, open_store
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import SCHEMAS, Row
from tests import documents
from tests.servers.gcs import serving_gcs
from tests.servers.hub import serving_hub
from tests.servers.s3 import serving_s3

EXAMPLES = Path(__file__).parent.parent / "examples"
PDF_PAGES = 12
# What a run makes; `records` come of another command.
TABLES = ("pages", "figures", "descriptions", "documents")


def tables_of(out: str) -> dict[str, list[Row]]:
    """All rows of a run, as they would be wherever its documents are and whoever's clock ran."""
    store = open_store(out)
    pages = list(read_table(store, "pages", ["doc_id", "source_uri", "name"]))
    names = {row["doc_id"]: row["name"] for row in pages}
    sources = {row["source_uri"]: row["name"] for row in pages}
    return {
        table: [_anywhere(row, names, sources) for row in read_table(store, table)]
        for table in TABLES
    }


def _anywhere(row: Row, names: Mapping[str, str], sources: Mapping[str, str]) -> Row:
    kept = {key: value for key, value in row.items() if key != "seconds"}
    for key in ("doc_id", "page_id", "figure_id", "description_id"):
        if key in kept:
            doc_id, slash, rest = kept[key].partition("/")
            kept[key] = names[doc_id] + slash + rest
    if "source_uri" in kept:
        kept["source_uri"] = sources[row["source_uri"]]
    # A document's Markdown says of its failed pages what their errors say.
    for key in ("error", "markdown"):
        if row.get("status") != PageStatus.OK and kept.get(key):
            for uri, name in sources.items():
                kept[key] = kept[key].replace(uri, name)
    if kept.get("image"):
        kept["image"] = kept["image"]["bytes"]
    return kept


def differing(here: Mapping[str, list[Row]], there: Mapping[str, list[Row]]) -> list[str]:
    """`table.column` of each column that differs, or `table` where the number of rows does."""
    found: list[str] = []
    for table, rows in here.items():
        if len(rows) != len(there[table]):
            found.append(table)
            continue
        pairs = list(zip(rows, there[table], strict=True))
        found += [
            f"{table}.{key}"
            for key in SCHEMAS[table].names
            if any(one.get(key) != other.get(key) for one, other in pairs)
        ]
    return found


def opened(out: str, table: str, cache: Path, *, streaming: bool) -> Any:  # noqa: ANN401
    """A table of a run as `datasets` opens it: by its card, or from a bucket by its files."""
    from datasets import load_dataset

    scheme = out.partition("://")[0]
    chosen: dict[str, Any] = {"split": "train", "streaming": streaming, "cache_dir": str(cache)}
    if scheme not in ("s3", "gs"):
        return load_dataset(out.removeprefix("hf://datasets/"), table, **chosen)
    register(scheme)
    options: dict[str, Any] = {"client_options": {"allow_http": True}}
    if scheme == "gs":
        account = {"gcs_base_url": os.environ["STORAGE_EMULATOR_HOST"], "disable_oauth": True}
        key = {**account, "client_email": "none", "private_key": "", "private_key_id": ""}
        options["service_account_key"] = json.dumps(key)
    files = f"{out}/data/{table}/*.parquet"
    return load_dataset("parquet", data_files=files, storage_options=options, **chosen)


def make_documents(folder: Path, pages: int) -> Path:
    """PDFs of twelve pages each, an image for every twenty pages, and a file that can't be read."""
    for number in range(pages // 20):
        documents.picture(folder / "images" / f"{number:03d}.png", f"picture {number}")
    left = pages - pages // 20 - 1
    for number, start in enumerate(range(0, left, PDF_PAGES)):
        path = folder / f"{number:03d}.pdf"
        repeated_pdf(EXAMPLES / "report.pdf", path, min(PDF_PAGES, left - start))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    return folder


def upload(folder: Path, place: str) -> None:
    create_repository(place, private=True)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    open_store(place).put_many(files, "documents")


@contextmanager
def places(folder: Path) -> Iterator[dict[str, str]]:
    """A URI on each store, by its name; the environment finds them."""
    with ExitStack() as stack:
        os.environ.update(stack.enter_context(serving_s3(folder / "s3")).environment)
        os.environ.update(stack.enter_context(serving_gcs(folder / "gcs")))
        os.environ.update(stack.enter_context(serving_hub(folder / "hub")))
        buckets = {"S3": "s3://bucket/run", "GCS": "gs://bucket/run"}
        yield {"local": str(folder / "local"), **buckets, "Hub": "hf://datasets/user"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llm-ocr-same-") as name, ExitStack() as stack:
        folder = Path(name)
        base_url = stack.enter_context(instant_server())
        stores = stack.enter_context(places(folder))
        made = make_documents(folder / "documents", arguments.pages)
        for place in stores.values():
            upload(made, f"{place}/in")
        failed = compare(stores, base_url, folder / "cache")
    sys.exit(1 if failed else 0)


def compare(stores: Mapping[str, str], base_url: str, cache: Path) -> int:
    """Print a line for each way through the stores; the number of those that differ."""
    first: dict[str, list[Row]] | None = None
    failed = 0
    print(f"{'from':6} {'to':6} {'pages':>6} {'seconds':>8}  tables equal to local's, and opened")
    for source, place in stores.items():
        for target, other in stores.items():
            out, started = f"{other}/from-{source}", time.monotonic()
            settings: dict[str, Any] = {"skip_model_check": True, "min_agreement": 0.0}
            summary = run(f"{place}/in", out, base_url=base_url, viewer_pages=0, **settings)
            seconds = time.monotonic() - started
            found = tables_of(out)
            first = first or found
            wrong = differing(first, found) + unopened(found, out, cache / f"{source}-{target}")
            failed += bool(wrong)
            rows = ", ".join(f"{table} {len(rows)}" for table, rows in found.items())
            said = f"DIFFERENT: {', '.join(wrong)}" if wrong else f"equal ({rows})"
            print(f"{source:6} {target:6} {summary.pages:6} {seconds:8.1f}  {said}", flush=True)
    return failed


def unopened(tables: Mapping[str, list[Row]], out: str, cache: Path) -> list[str]:
    """Tables of which `datasets` does not give the same number of rows."""
    return [
        f"load_dataset {table}"
        for table, rows in tables.items()
        if rows and len(opened(out, table, cache, streaming=False)) != len(rows)
    ]


if __name__ == "__main__":
    main()
