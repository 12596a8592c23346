"""Embed images of pages with an image encoder in a folder: CLIP, SigLIP, DINO and others as ONNX.

Exports on the Hugging Face Hub have the encoder in `onnx/vision_model.onnx` (CLIP, SigLIP) or
`onnx/model.onnx` (DINO), and a `preprocessor_config.json`, which says how images become its input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_ocr.classification.descriptors import Array
from llm_ocr.classification.options import ClassifierError
from llm_ocr.engines.embedded.serving.command import is_installed, missing

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

CONFIG = "preprocessor_config.json"
NETWORKS = ("onnx/vision_model.onnx", "vision_model.onnx", "onnx/model.onnx", "model.onnx")
# The output that describes the whole image; of `last_hidden_state` its first token does.
OUTPUTS = ("image_embeds", "pooler_output", "last_hidden_state")


class PreprocessorConfig(BaseModel):
    """What is needed of `preprocessor_config.json`. Sizes are in pixels, `image_mean` and
    `image_std` those of red, green and blue."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    size: int | Mapping[str, int] = 224
    crop_size: int | Mapping[str, int] | None = None
    do_center_crop: bool = False
    rescale_factor: float = Field(1 / 255, gt=0)
    image_mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    image_std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    @property
    def input_size(self) -> tuple[int, int]:
        """Width and height of the input. Pages are scaled to it whole: where photographs are
        cropped to their middle, pages would lose their heads."""
        size = self.crop_size if self.do_center_crop and self.crop_size else self.size
        if isinstance(size, int):
            return size, size
        edge = size.get("shortest_edge", 224)
        return size.get("width", edge), size.get("height", edge)

    def prepare(self, image: Image.Image) -> Array:
        """The input of the network: 1 x 3 x height x width."""
        small = image.convert("RGB").resize(self.input_size, Image.Resampling.BICUBIC)
        pixels = np.asarray(small, np.float32) * self.rescale_factor
        normal = (pixels - np.array(self.image_mean)) / np.array(self.image_std)
        return np.ascontiguousarray(normal.transpose(2, 0, 1)[None], np.float32)


@dataclass(frozen=True)
class OnnxEmbedder:
    """The image encoder in a folder. Raises ClassifierError."""

    folder: Path

    @cached_property
    def id(self) -> str:
        digest = sha256(self._network.read_bytes())
        digest.update((self.folder / CONFIG).read_bytes())
        return f"onnx-{digest.hexdigest()[:12]}"

    def embed(self, images: Sequence[Image.Image]) -> Array:
        return np.stack([self._embed(image) for image in images])

    def _embed(self, image: Image.Image) -> Array:
        batch = self._config.prepare(image)
        session, name, output = self._session
        try:
            (features,) = session.run([output], {name: batch})
        except Exception as error:
            # onnxruntime's errors have no common class.
            raise ClassifierError(f"{self._network} can't be run: {error}") from error
        array = cast(Array, features)[0]
        vector = array[0] if array.ndim == 2 else array.ravel()
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise ClassifierError(f"{self._network} returned an invalid vector")
        return np.asarray(vector / length, np.float32)

    @cached_property
    def _network(self) -> Path:
        for name in NETWORKS:
            if (self.folder / name).is_file():
                return self.folder / name
        raise ClassifierError(
            f"{self.folder} has no image encoder: there is none of {', '.join(NETWORKS)}"
        )

    @cached_property
    def _config(self) -> PreprocessorConfig:
        path = self.folder / CONFIG
        try:
            return PreprocessorConfig.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ClassifierError(f"{path} can't be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ClassifierError(f"{path}: {place}: {first['msg']}") from error

    @cached_property
    def _session(self) -> tuple["InferenceSession", str, str]:
        """The network, and the names of its input and of the output that is used."""
        if not is_installed():
            raise ClassifierError(f"{self.folder} can't be used: {missing()}")
        from llm_ocr.engines.embedded.models import open_session

        try:
            session: Any = open_session(str(self._network))
        except Exception as error:
            raise ClassifierError(f"{self._network} can't be loaded: {error}") from error
        inputs = [one.name for one in session.get_inputs()]
        outputs = [one.name for one in session.get_outputs()]
        output = next((name for name in OUTPUTS if name in outputs), None)
        if len(inputs) != 1 or output is None:
            raise ClassifierError(
                f"{self._network} isn't an image encoder: it takes {', '.join(inputs)} and returns "
                f"{', '.join(outputs)}; needed are an image alone and one of {', '.join(OUTPUTS)}"
            )
        return session, inputs[0], output
