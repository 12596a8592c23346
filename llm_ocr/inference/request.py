"""What a server is asked: one image, one prompt, and how it shall answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class ChatRequest:
    """One image (JPEG bytes, or none) and one prompt; `sampling` goes into the body.

    A streamed answer longer than `watched_from` characters is stopped when it runs into a loop;
    None: never. `guide` goes into the body too, to bind the answer to a form; `unguided` is the
    prompt for a server that refuses to (400). `extension` is for the embedded engine alone.
    """

    prompt: str
    jpeg: bytes | None
    max_tokens: int
    sampling: Mapping[str, object] = field(default_factory=dict)
    watched_from: int | None = None
    guide: Mapping[str, object] = field(default_factory=dict)
    unguided: str = ""
    extension: Mapping[str, object] = field(default_factory=dict)

    @property
    def bound(self) -> Mapping[str, object]:
        """`sampling` and `guide` as they go together.

        A logits processor of a model's own (DeepSeek-OCR's ban of n-grams) knows no form: where it
        bans the one token that the form allows, vLLM 0.32 ends the request with an error. And what
        repeats in data stands there twice.
        """
        without = ("vllm_xargs",) if self.guide else ()
        kept = {key: value for key, value in self.sampling.items() if key not in without}
        return {**kept, **self.guide}

    @property
    def without_guide(self) -> "ChatRequest":
        return replace(self, prompt=self.unguided, guide={}, unguided="")
