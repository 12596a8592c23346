"""A vLLM plugin that makes DeepSeek-OCR's vision towers one layer deep.

vLLM does not read their depth from the checkpoint's configuration: SAM's 12 layers and CLIP's 24
are written in its code, and take 2 GB and seconds a page on a CPU. Everything else of the model
(tiles, projector, image tokens) stays as it is. Found through the entry point in the dist-info
beside it, when this folder is on PYTHONPATH and VLLM_PLUGINS names it.
"""

from importlib import import_module
from typing import Any

MODELS = "vllm.model_executor.models"


def register() -> None:
    """Replace what vLLM's model calls to build its towers."""
    deepencoder: Any = import_module(f"{MODELS}.deepencoder")
    deepseek_ocr: Any = import_module(f"{MODELS}.deepseek_ocr")
    whole_clip = deepseek_ocr.CLIPVisionConfig

    def tiny_sam() -> Any:  # noqa: ANN401
        return deepencoder._build_sam(
            encoder_embed_dim=32,
            encoder_depth=1,
            encoder_num_heads=2,
            encoder_global_attn_indexes=[],
        )

    def tiny_clip(**settings: Any) -> Any:  # noqa: ANN401
        return whole_clip(**{**settings, "num_hidden_layers": 1, "intermediate_size": 64})

    deepseek_ocr.build_sam_vit_b = tiny_sam
    deepseek_ocr.CLIPVisionConfig = tiny_clip
