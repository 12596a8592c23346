"""A tiny DeepSeek-OCR without weights, which vLLM serves with `--load-format dummy`.

Its tokenizer has the real one's size and special ids (`<td>` is 128821), and a token for each
byte; the other ids are words like `w4711`, of which a random model's answers are made.
"""

import json
from collections.abc import Mapping
from pathlib import Path

VOCABULARY_SIZE = 129_280
CONTEXT = 8192
BEGIN, END, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
# As in deepseek-ai/DeepSeek-OCR's tokenizer.json.
SPECIAL = {
    BEGIN: 0,
    END: 1,
    PAD: 2,
    "<image>": 128815,
    "<|ref|>": 128816,
    "<|/ref|>": 128817,
    "<|det|>": 128818,
    "<|/det|>": 128819,
    "<|grounding|>": 128820,
    "<td>": 128821,
    "</td>": 128822,
    "<tr>": 128823,
    "</tr>": 128824,
    "<|User|>": 128825,
    "<|Assistant|>": 128826,
}
FIRST_BYTE = 3

_LANGUAGE = {
    "model_type": "deepseek_v2",
    "architectures": ["DeepseekV2ForCausalLM"],
    "vocab_size": VOCABULARY_SIZE,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": SPECIAL[BEGIN],
    "eos_token_id": SPECIAL[END],
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    # One dense layer, then one with four experts of which two work on a token.
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
    # As the real one: plain attention in place of DeepSeek's latent attention.
    "use_mla": False,
    "kv_lora_rank": None,
    "q_lora_rank": None,
    "qk_nope_head_dim": 0,
    "qk_rope_head_dim": 0,
    "v_head_dim": 0,
    "lm_head": True,
    "rm_head": False,
}
# vLLM reads no depth or width here, see plugin/; the projector takes what the towers give.
_VISION = {
    "model_type": "vision",
    "model_name": "deeplip_b_l",
    "image_size": 1024,
    "mlp_ratio": 3.7362,
    "width": {
        "clip-l-14-224": {
            "heads": 16,
            "image_size": 224,
            "layers": 24,
            "patch_size": 14,
            "width": 1024,
        },
        "sam_vit_b": {
            "downsample_channels": [512, 1024],
            "global_attn_indexes": [2, 5, 8, 11],
            "heads": 12,
            "layers": 12,
            "width": 768,
        },
    },
}
_PROJECTOR = {
    "model_type": "mlp_projector",
    "projector_type": "linear",
    "input_dim": 2048,
    "n_embed": _LANGUAGE["hidden_size"],
}
_TILES = {"candidate_resolutions": [[1024, 1024]]}
_CONFIG = {
    **_LANGUAGE,
    **_TILES,
    "model_type": "deepseek_vl_v2",
    "architectures": ["DeepseekOCRForCausalLM"],
    "global_view_pos": "head",
    "tile_tag": "2D",
    "language_config": _LANGUAGE,
    "vision_config": _VISION,
    "projector_config": _PROJECTOR,
}
_PROCESSOR = {
    **_TILES,
    "processor_class": "DeepseekVLV2Processor",
    "patch_size": 16,
    "downsample_ratio": 4,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "normalize": True,
    "image_token": "<image>",
    "pad_token": PAD,
    "add_special_token": False,
    "mask_prompt": False,
    "ignore_id": -100,
    "sft_format": "deepseek",
}


def pushed(letters: Mapping[str, float]) -> dict[str, float]:
    """The `logit_bias` that makes letters likelier. Noise takes one word of 129,280 as soon as
    another, so that without one it ends no string."""
    return {str(FIRST_BYTE + ord(letter)): by for letter, by in letters.items()}


def make_checkpoint(folder: Path) -> Path:
    """Write the files of a model folder but its weights; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "config.json": _CONFIG,
        "processor_config.json": _PROCESSOR,
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": _TOKENIZER_CONFIG,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1))
    return folder


_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": BEGIN,
    "eos_token": END,
    "pad_token": PAD,
    "unk_token": None,
    "add_bos_token": True,
    "add_eos_token": False,
    "clean_up_tokenization_spaces": False,
    "model_max_length": CONTEXT,
}


def _tokenizer() -> dict[str, object]:
    """Byte-level BPE without merges, in the format of the `tokenizers` library."""
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(content, number) for content, number in SPECIAL.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": _vocabulary(),
            "merges": [],
        },
    }


def _special(content: str, number: int) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": True, **flags}


def _vocabulary() -> dict[str, int]:
    """No id is without a token: vLLM decodes whatever the model says."""
    known = {**SPECIAL, **{letter: FIRST_BYTE + byte for byte, letter in enumerate(_letters())}}
    taken = set(known.values())
    return known | {f"w{free}": free for free in range(VOCABULARY_SIZE) if free not in taken}


def _letters() -> list[str]:
    """The letter that stands for each byte, after GPT-2: itself where it can be printed."""
    printed = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printed]
    return [chr(byte if byte in printed else 256 + others.index(byte)) for byte in range(256)]
