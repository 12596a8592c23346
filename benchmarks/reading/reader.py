"""Reads documents with the embedded engine in this process, as `llm_ocr.Converter` does.

What doesn't depend on the engine's rules (pages as images, and the neural networks' answers) is
kept in a cache, so that a changed rule is tried in a fraction of the time. The rules can be
replaced in memory: see `benchmarks.reading.ablation`.
"""

import hashlib
import importlib
import pickle
import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

import llm_ocr
from benchmarks.reading.samples import Sample, SampleSet
from benchmarks.reading.scores import DocumentScore, is_check
from llm_ocr.document import configure
from llm_ocr.document.converter import Converter
from llm_ocr.documents import Document
from llm_ocr.engines.embedded import models
from llm_ocr.engines.targets import EngineKind, EngineTarget
from llm_ocr.records import Box, DocumentResult, ImagePolicy, Page, PageImage, TextLayerUse
from llm_ocr.settings import EngineChoice, Settings
from llm_ocr.sources.raster import Crop
from llm_ocr.sources.render_pool import DocumentInfo, RenderPool

Array = npt.NDArray[np.float32]
# A detector's map of probabilities is kept in steps of this size.
HEAT_STEP = 1 / 4096
# From so many classes on, only the best of each step is kept.
MANY_CLASSES = 1000
PACKAGE = Path(llm_ocr.__file__).parent


class Reader:
    """Reads sets of documents, two at once. `cache` is a file, None for no cache."""

    def __init__(self, cache: Path | None, threads: int = 2) -> None:
        self._threads = threads
        _answer_in_this_process()
        if cache is not None:
            _cache_rendering_and_models(Cache(cache))

    def score(
        self, samples: SampleSet, before: Callable[[Sample], None] = lambda _: None
    ) -> list[DocumentScore]:
        """Read and score all documents of a set; `before` is called with each."""
        with self._converter(samples) as converter, ThreadPoolExecutor(self._threads) as pool:

            def read(sample: Sample) -> DocumentScore:
                before(sample)
                return _score(sample, converter.convert(sample.path))

            return list(pool.map(read, samples.samples))

    def _converter(self, samples: SampleSet) -> Converter:
        settings = Settings(
            engine=EngineChoice.EMBEDDED,
            engine_threads=self._threads,
            describe=False,
            text_layer=TextLayerUse.AUTO if samples.text_layer else TextLayerUse.OFF,
        )
        return Converter(settings, schema=samples.schema)


def _score(sample: Sample, result: DocumentResult) -> DocumentScore:
    measures, failures = sample.score(result)
    if result.error is not None:
        failures = [f"error: {result.error}", *failures]
    return DocumentScore(sample.name, is_check(sample.key), measures, failures)


def replace_everywhere(module: str, attribute: str, value: object) -> Callable[[], None]:
    """Replace a module's function or constant there and in all modules of llm_ocr that imported it.

    Returns a function that restores it. Modules that are imported later get the replaced one.
    """
    old = getattr(importlib.import_module(module), attribute)
    changed = []
    for name, other in list(sys.modules.items()):
        # A small number may be the value of another constant, too.
        is_shared = name == module or (callable(old) and name.startswith("llm_ocr."))
        if is_shared and vars(other).get(attribute) is old:
            setattr(other, attribute, value)
            changed.append(other)

    def restore() -> None:
        for other in changed:
            setattr(other, attribute, old)

    return restore


def _answer_in_this_process() -> None:
    def without_server(settings: Settings, target: EngineTarget) -> EngineTarget:
        return replace(target, kind=EngineKind.IN_PROCESS) if target.is_embedded else target

    replace_everywhere(configure.__name__, "_without_server", without_server)


# The cache ---------------------------------------------------------------------------------------


class Cache:
    """Pickled values by digests of what they were made from, in a SQLite file that processes may
    share."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=60, check_same_thread=False)
        with self._lock, self._database as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=OFF")
            database.execute("CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, value BLOB)")

    def get(self, key: bytes) -> Any | None:  # noqa: ANN401
        with self._lock:
            row = self._database.execute("SELECT value FROM kept WHERE key=?", (key,)).fetchone()
        return None if row is None else pickle.loads(zlib.decompress(row[0]))

    def put(self, key: bytes, value: object) -> None:
        packed = zlib.compress(pickle.dumps(value), 1)
        with self._lock, self._database as database:
            database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, packed))


@dataclass(frozen=True)
class BestSteps:
    """A recognizer's answer of which only the best class of each step is known: as much of an array
    (steps x classes) as decoding needs."""

    best: npt.NDArray[np.int64]
    sure: Array

    def argmax(self, axis: int) -> npt.NDArray[np.int64]:
        return self.best

    def __getitem__(self, _: object) -> Array:
        return self.sure


def _cache_rendering_and_models(kept: Cache) -> None:
    load, render, inspect = models.load, RenderPool.render, RenderPool.inspect

    def cached_load(path: Path, layers: Sequence[str] = ()) -> models.Model:
        # Where all answers are known, no network is loaded.
        model = cache(partial(load, path, layers))
        name = hashlib.sha256(f"{path.name} {layers}".encode()).digest()

        def run(batch: Array) -> list[Array]:
            key = _digest(name, str(batch.shape).encode(), np.ascontiguousarray(batch).tobytes())
            outputs = kept.get(key)
            if outputs is None:
                outputs = [_smaller(output) for output in model()(batch)]
                kept.put(key, outputs)
            return [_restored(output) for output in outputs]

        return run

    # What the PDF itself gives depends on this code.
    files = [PACKAGE / "records.py", *sorted(PACKAGE.glob("sources/*.py"))]
    code = _digest(*(path.read_bytes() for path in files))

    async def cached_render(pool: RenderPool, page: Page, policy: ImagePolicy) -> PageImage:
        key = _digest(code, _content(page.document), f"{page.number} {policy}".encode())
        image = kept.get(key)
        if image is None:
            image = await render(pool, page, policy)
            kept.put(key, image)
        assert isinstance(image, PageImage)
        return image

    async def cached_inspect(pool: RenderPool, document: Document) -> DocumentInfo:
        key = _digest(code, _content(document))
        info = kept.get(key)
        if info is None:
            info = await inspect(pool, document)
            kept.put(key, info)
        assert isinstance(info, DocumentInfo)
        return info

    replace_everywhere(models.__name__, "load", cached_load)
    RenderPool.render = cached_render  # type: ignore[method-assign, assignment]
    RenderPool.inspect = cached_inspect  # type: ignore[method-assign, assignment]
    RenderPool.crop = _no_crops  # type: ignore[assignment]


async def _no_crops(
    pool: RenderPool, page: Page, width: int, height: int, boxes: Sequence[Box], *rest: object
) -> list[Crop]:
    """Figures are not looked at."""
    return [Crop(b"", 1, 1) for _ in boxes]


def _content(document: Document) -> bytes:
    return Path(unquote(urlsplit(document.source_uri).path)).read_bytes()


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.digest()


def _smaller(output: Array) -> object:
    """What is kept of a network's output."""
    if output.ndim == 4:
        return np.round(output / HEAT_STEP).astype(np.uint16)
    if output.ndim == 3 and output.shape[2] >= MANY_CLASSES:
        best = output[0].argmax(axis=1)
        return BestSteps(best, output[0][np.arange(len(best)), best])
    return output


def _restored(output: Any) -> Any:  # noqa: ANN401
    if isinstance(output, BestSteps):
        return [output]
    if output.dtype == np.uint16:
        return output.astype(np.float32) * np.float32(HEAT_STEP)
    return output
