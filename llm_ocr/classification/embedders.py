"""Embed images of pages: with the layout detector, without any model, or with another one.

CLIP, SigLIP, DINO and other models are read from a folder, or used through a server with the OpenAI
embeddings API that takes images as chat messages, as vLLM does.
"""

import asyncio
import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from llm_ocr.classification.descriptors import DESCRIPTOR_VERSION, Array, describe_layout
from llm_ocr.classification.onnx_embedder import OnnxEmbedder
from llm_ocr.classification.options import ClassifierError
from llm_ocr.engines.embedded.serving.command import is_installed, missing

if TYPE_CHECKING:
    from llm_ocr.engines.embedded.models import Model

# The built-in embedders. The first one needs the extra cpu.
BACKBONE, LAYOUT = BUILT_IN = "backbone", "layout"
# The last layer of the layout detector's backbone: 512 maps of 25 x 19 cells.
LAYER = "hardswish_53.tmp_0"
# A larger image tells such models no more, and takes longer to send.
SENT_SIDE = 1024
# Requests in progress at the same time.
CONCURRENCY = 8


class Embedder(Protocol):
    """Turns images into vectors of length 1. `id` changes with whatever changes the vectors."""

    @property
    def id(self) -> str: ...

    def embed(self, images: Sequence[Image.Image]) -> Array:
        """A row for each image. Blocks; raises ClassifierError."""
        ...


@dataclass(frozen=True)
class BackboneEmbedder:
    """The embedder that is built in: what the layout detector's backbone sees, averaged over the
    page. Its vectors depend on the detector's file. Raises ClassifierError without the extra cpu.
    """

    @property
    def id(self) -> str:
        return f"{BACKBONE}-{_detector_digest()}"

    def embed(self, images: Sequence[Image.Image]) -> Array:
        return np.stack([self._embed(image) for image in images])

    @staticmethod
    def _embed(image: Image.Image) -> Array:
        # Takes onnxruntime, which only comes with the extra cpu.
        from llm_ocr.engines.embedded.regions.layout import INPUT_HEIGHT, INPUT_WIDTH, as_batch

        # Without colors, and averaged to the size: the vector doesn't depend on how it was scanned.
        gray = image.convert("L").resize((INPUT_WIDTH, INPUT_HEIGHT), Image.Resampling.BILINEAR)
        batch = as_batch(np.asarray(gray.convert("RGB"), np.uint8))
        features = _load_backbone()(batch)[0][0].mean(axis=(1, 2))
        vector: Array = features / max(float(np.linalg.norm(features)), 1e-6)
        return vector.astype(np.float32)


@dataclass(frozen=True)
class LayoutEmbedder:
    """The embedder without a model: where a page's ink is and which way its strokes run. It takes
    a tenth of the time, and accepts more pages of unknown kinds."""

    id: str = f"{LAYOUT}-{DESCRIPTOR_VERSION}"

    def embed(self, images: Sequence[Image.Image]) -> Array:
        return np.stack([describe_layout(image) for image in images])


@dataclass(frozen=True)
class ServerEmbedder:
    """A model on a server with the OpenAI embeddings API."""

    base_url: str
    model: str
    api_key: str | None = None

    @property
    def id(self) -> str:
        return f"server:{self.model}"

    def embed(self, images: Sequence[Image.Image]) -> Array:
        rows = asyncio.run(self._embed_all(images))
        if len({len(row) for row in rows}) > 1:
            raise ClassifierError(f"{self.base_url}: the model's vectors differ in length")
        vectors = np.array(rows, np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(vectors).all() and (lengths > 0).all()):
            raise ClassifierError(f"{self.base_url}: the model returned an invalid vector")
        return np.asarray(vectors / lengths, np.float32)

    async def _embed_all(self, images: Sequence[Image.Image]) -> list[list[float]]:
        # Takes half a second to import.
        from openai import AsyncOpenAI, OpenAIError

        slots = asyncio.Semaphore(CONCURRENCY)
        key = self.api_key or "none"
        async with AsyncOpenAI(base_url=self.base_url, api_key=key) as client:

            async def embed_one(image: Image.Image) -> list[float]:
                async with slots:
                    body = {"model": self.model, "encoding_format": "float"}
                    answer: Any = await client.post(
                        "/embeddings", cast_to=object, body={**body, "messages": _messages(image)}
                    )
                return _read_vector(answer)

            try:
                return list(await asyncio.gather(*map(embed_one, images)))
            except OpenAIError as error:
                raise ClassifierError(
                    f"{self.base_url}: the server can't embed pages with the model {self.model}: "
                    f"{error}"
                ) from error
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise ClassifierError(
                    f"{self.base_url}: the server's answer is not that of the OpenAI embeddings API"
                ) from error


def open_embedder(
    recorded: Mapping[str, str], location: str | None = None, api_key: str | None = None
) -> Embedder:
    """The embedder of an index, as it recorded it; `location` replaces the server's address or the
    model's folder.

    Raises ClassifierError if this version computes other vectors.
    """
    if recorded.get("model"):
        address = location or recorded.get("base_url", "")
        return ServerEmbedder(address, recorded["model"], api_key)
    recorded_id = recorded.get("id", "")
    embedder: Embedder
    if recorded.get("folder"):
        embedder = open_encoder(Path(location or recorded["folder"]))
    else:
        embedder = built_in_embedder(BACKBONE if recorded_id.startswith(BACKBONE) else LAYOUT)
    if recorded_id != embedder.id:
        raise ClassifierError(
            f"the index was fitted with the embedder {recorded_id}, and this version has "
            f"{embedder.id}: their vectors can't be compared; fit the index again"
        )
    return embedder


def choose_embedder(name: str, model: str | None = None, api_key: str | None = None) -> Embedder:
    """A built-in embedder, the image encoder in a folder, or the `model` of a server.

    Raises ClassifierError if it can't be used.
    """
    if model is not None:
        return ServerEmbedder(name, model, api_key)
    if name in BUILT_IN:
        return built_in_embedder(name)
    if not Path(name).is_dir():
        raise ClassifierError(
            f"the embedder {name} is neither {' nor '.join(BUILT_IN)}, nor a folder"
        )
    return open_encoder(Path(name))


def built_in_embedder(name: str) -> Embedder:
    """The embedder of this name. Raises ClassifierError if it needs an extra that is missing."""
    if name == LAYOUT:
        return LayoutEmbedder()
    if not is_installed():
        raise ClassifierError(f"the embedder {BACKBONE} can't be used: {missing()}")
    return BackboneEmbedder()


def open_encoder(folder: Path) -> OnnxEmbedder:
    """The image encoder in a folder, tried on an empty page. Raises ClassifierError."""
    embedder = OnnxEmbedder(folder)
    embedder.embed([Image.new("RGB", (64, 64), "white")])
    return embedder


@cache
def _load_backbone() -> "Model":
    from llm_ocr.engines.embedded.models import in_wheel, load
    from llm_ocr.engines.embedded.regions.layout import MODEL_FILE

    return load(in_wheel(*MODEL_FILE), [LAYER])


@cache
def _detector_digest() -> str:
    from llm_ocr.engines.embedded.models import in_wheel
    from llm_ocr.engines.embedded.regions.layout import MODEL_FILE

    return sha256(in_wheel(*MODEL_FILE).read_bytes()).hexdigest()[:12]


def record_embedder(embedder: Embedder) -> dict[str, str]:
    """What an index records of its embedder: never a key."""
    if isinstance(embedder, ServerEmbedder):
        return {"id": embedder.id, "model": embedder.model, "base_url": embedder.base_url}
    if isinstance(embedder, OnnxEmbedder):
        return {"id": embedder.id, "folder": str(embedder.folder.resolve())}
    return {"id": embedder.id}


def _messages(image: Image.Image) -> list[dict[str, Any]]:
    small = image.convert("RGB")
    small.thumbnail((SENT_SIDE, SENT_SIDE))
    data = io.BytesIO()
    small.save(data, "JPEG", quality=90)
    url = f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


def _read_vector(answer: Any) -> list[float]:  # noqa: ANN401
    return [float(value) for value in answer["data"][0]["embedding"]]
