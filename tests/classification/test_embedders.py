"""Embedding pages with a model on a server, over HTTP."""

import asyncio
import base64
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from PIL import Image

from llm_ocr.classification.classifier import (
    describe_example,
    fit_classifier,
    load_classifier,
    save_classifier,
)
from llm_ocr.classification.descriptors import PageInput
from llm_ocr.classification.embedders import (
    ServerEmbedder,
    built_in_embedder,
    choose_embedder,
    open_embedder,
)
from llm_ocr.classification.options import ClassifierError
from tests.auxiliary.onnx_detectors import OnnxGraph
from tests.classification.drawn_pages import KINDS, draw_page


@contextmanager
def embedding_server(side: int = 12) -> Iterator[tuple[str, list[Any]]]:
    """An embeddings API whose model reduces images to `side` x `side` pixels. Yields its address
    and the headers and fields of the requests."""
    seen: list[Any] = []

    async def embeddings(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append((request.headers.get("Authorization"), body))
        if body["model"] != "tiny":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        [part] = body["messages"][0]["content"]
        data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
        small = Image.open(io.BytesIO(data)).convert("L").resize((side, side))
        vector = (255 - np.asarray(small, np.float64).ravel()).tolist()
        item = {"object": "embedding", "index": 0, "embedding": vector}
        return web.json_response({"object": "list", "data": [item], "model": "tiny"})

    loop, ports, done = asyncio.new_event_loop(), [], threading.Event()

    async def start() -> None:
        app = web.Application(client_max_size=32 << 20)
        app.router.add_post("/v1/embeddings", embeddings)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ports.append(runner.addresses[0][1])
        done.set()

    loop.create_task(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    assert done.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}/v1", seen
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_a_classifier_is_fitted_and_used_with_a_model_on_a_server(tmp_path: Path) -> None:
    with embedding_server() as (url, seen):
        embedder = ServerEmbedder(url, "tiny", "secret")
        examples = [
            describe_example(f"{kind}{k}", str(k), kind, PageInput(draw_page(kind, k)), embedder)
            for kind in KINDS[1:]
            for k in range(6)
        ]
        assert {key for key, _ in seen} == {"Bearer secret"}
        save_classifier(fit_classifier(examples, embedder), tmp_path)
    # The key is no part of what is saved, and the address may change.
    assert all(b"secret" not in path.read_bytes() for path in tmp_path.rglob("*.json"))
    with embedding_server() as (url, _):
        loaded = load_classifier(tmp_path, location=url)
        votes = loaded.classify([PageInput(draw_page(kind, 50)) for kind in KINDS[1:]])
        assert [vote.class_name for vote in votes] == list(KINDS[1:])
    # A server that has another model under the same name.
    with embedding_server(side=9) as (url, _):
        other = load_classifier(tmp_path, location=url)
        with pytest.raises(ClassifierError, match="vectors of 81 numbers, and the index has 144"):
            other.classify([PageInput(draw_page("form", 1))])


def test_the_backbone_sees_kinds_and_not_how_a_page_was_scanned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbone = built_in_embedder("backbone")
    page = draw_page("invoice", 1)
    scans = [page, page.resize((1280, 1800)), page.convert("RGB"), draw_page("form", 1)]
    vectors = backbone.embed(scans)
    assert vectors.shape == (4, 512)
    near, equal, far = np.linalg.norm(vectors[1:] - vectors[0], axis=1)
    assert near < far / 5
    assert equal == 0
    # Its vectors are those of one file: an index of another version's is refused.
    recorded = {"id": backbone.id}
    assert open_embedder(recorded) == backbone
    with pytest.raises(ClassifierError, match="fit the index again"):
        open_embedder({"id": "backbone-0"})
    monkeypatch.setitem(sys.modules, "rapid_layout", None)
    with pytest.raises(ClassifierError, match="install the extra cpu"):
        open_embedder(recorded)


def save_encoder(folder: Path, output: str = "image_embeds", side: int = 192) -> Path:
    """An image encoder as on the Hub, which averages the colors of 12 x 12 parts of a page."""
    graph = OnnxGraph()
    graph.node("AveragePool", ["images"], "parts", kernel_shape=[16, 16], strides=[16, 16])
    graph.node("Flatten", ["parts"], output)
    (folder / "onnx").mkdir(parents=True)
    network = graph.encode(side, {output: (1, 3 * (side // 16) ** 2)})
    (folder / "onnx/vision_model.onnx").write_bytes(network)
    config = {"do_center_crop": True, "crop_size": {"height": side, "width": side}, "size": 224}
    colors = {"image_mean": [0.99] * 3, "image_std": [0.3] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps({**config, **colors}))
    return folder


def test_a_classifier_is_fitted_and_used_with_an_image_encoder(tmp_path: Path) -> None:
    encoder, index = save_encoder(tmp_path / "clip"), tmp_path / "index"
    embedder = choose_embedder(str(encoder))
    examples = [
        describe_example(f"{kind}{k}", str(k), kind, PageInput(draw_page(kind, k)), embedder)
        for kind in KINDS[1:]
        for k in range(6)
    ]
    save_classifier(fit_classifier(examples, embedder), index)
    # The model may be elsewhere than when the classifier was fitted.
    moved = encoder.rename(tmp_path / "moved")
    with pytest.raises(
        ClassifierError, match=r"clip/preprocessor_config\.json can't be read: No such"
    ):
        load_classifier(index)
    loaded = load_classifier(index, location=str(moved))
    votes = loaded.classify([PageInput(draw_page(kind, 50)) for kind in KINDS[1:]])
    assert [vote.class_name for vote in votes] == list(KINDS[1:])
    # Another one would give other vectors.
    with pytest.raises(ClassifierError, match="can't be compared; fit the index again"):
        load_classifier(index, location=str(save_encoder(tmp_path / "other", side=96)))


def test_what_is_no_image_encoder_is_named(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "logits", output="logits")
    with pytest.raises(ClassifierError, match="takes images and returns logits; needed are"):
        choose_embedder(str(folder))
    (folder / "preprocessor_config.json").write_text('{"image_mean": [1, 2]}')
    with pytest.raises(ClassifierError, match=r"preprocessor_config.json: image_mean.*required"):
        choose_embedder(str(folder))
    folder = save_encoder(tmp_path / "empty")
    (folder / "onnx/vision_model.onnx").write_bytes(b"")
    with pytest.raises(ClassifierError, match=r"vision_model\.onnx can't be loaded"):
        choose_embedder(str(folder))
    with pytest.raises(ClassifierError, match="clip is neither backbone nor layout, nor a folder"):
        choose_embedder("clip")


def test_a_server_that_cannot_embed_is_named() -> None:
    with embedding_server() as (url, _):
        with pytest.raises(ClassifierError, match="can't embed pages with the model huge"):
            ServerEmbedder(url, "huge").embed([draw_page("form", 1)])
