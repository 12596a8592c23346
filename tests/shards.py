"""Files of datasets made for tests: Parquet as `datasets` writes it, and WebDataset tars."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw


def picture(number: int, kind: str = "JPEG") -> bytes:
    """A page that says its number."""
    image = Image.new("RGB", (300, 400), "white")
    ImageDraw.Draw(image).text((40, 50), f"page {number}", fill="black", font_size=40)
    sink = io.BytesIO()
    image.save(sink, kind)
    return sink.getvalue()


def images(path: Path, rows: int, group: int = 4, first: int = 0) -> Path:
    """A row has one image, its number as `id`, and a word; written by `datasets`."""
    from datasets import Dataset, Features, Value
    from datasets import Image as ImageFeature

    path.parent.mkdir(parents=True, exist_ok=True)
    features = Features({"id": Value("int64"), "image": ImageFeature(), "word": Value("string")})
    columns = {
        "id": list(range(first, first + rows)),
        "image": [
            {"bytes": picture(number), "path": f"{number}.jpg"}
            for number in range(first, first + rows)
        ],
        "word": [f"word {number}" for number in range(first, first + rows)],
    }
    Dataset.from_dict(columns, features=features).to_parquet(str(path), batch_size=group)
    return path


def albums(path: Path, counts: Sequence[int], group: int = 4) -> Path:
    """A row has a list of so many images, as FineVision's have, and texts that are not plain."""
    from datasets import Dataset, Features, List, Value
    from datasets import Image as ImageFeature

    path.parent.mkdir(parents=True, exist_ok=True)
    features = Features(
        {
            "images": List(ImageFeature()),
            "texts": List({"user": Value("string"), "assistant": Value("string")}),
            "source": Value("string"),
        }
    )
    columns = {
        "images": [
            [{"bytes": picture(100 * row + k), "path": None} for k in range(count)]
            for row, count in enumerate(counts)
        ],
        "texts": [[{"user": "read it", "assistant": "…"}] for _ in counts],
        "source": [f"mix {row}" for row, _ in enumerate(counts)],
    }
    Dataset.from_dict(columns, features=features).to_parquet(str(path), batch_size=group)
    return path


def table(path: Path, rows: Mapping[str, Sequence[Any]], group: int = 4) -> Path:
    """Columns as pyarrow takes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(rows)), path, row_group_size=group)
    return path


def tar(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as whole:
        for name, body in files:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            whole.addfile(member, io.BytesIO(body))
    return path


def samples(path: Path, count: int) -> Path:
    """A WebDataset: an image and its JSON for each sample."""
    return tar(
        path,
        (
            one
            for k in range(count)
            for one in (
                (f"{k:04d}.jpg", picture(k)),
                (f"{k:04d}.json", json.dumps({"id": k, "boxes": [1, 2]}).encode()),
            )
        ),
    )
