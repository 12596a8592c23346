"""Count the tokens of texts: by a model's tokenizer, or as an estimate."""

import math
import unicodedata
from collections.abc import Callable
from pathlib import Path

from llm_ocr.export.document import ExportError
from llm_ocr.messages import MissingExtraError, how_to_install

# Letters per token that tokenizers of today's models have in European languages, about.
LETTERS_PER_TOKEN = 4.0


def estimate_tokens(text: str) -> int:
    """About the number of tokens of a text: one for each Chinese, Japanese or Korean character, and
    one for four of all others."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return math.ceil(wide + (len(text) - wide) / LETTERS_PER_TOKEN)


def token_counter(name: str | None) -> Callable[[str], int]:
    """What counts tokens: `name` is the path of a `tokenizer.json`, or of a folder with one, or a
    model's name on the Hub; the estimate for None.

    Raises MissingExtraError without the extra tokenizers, and ExportError where the tokenizer can't
    be loaded.
    """
    if name is None:
        return estimate_tokens
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"a tokenizer needs the package tokenizers: {how_to_install('tokenizers')}"
        ) from error
    path = Path(name).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        is_file = path.exists()
        loaded = Tokenizer.from_file(str(path)) if is_file else Tokenizer.from_pretrained(name)
    # The library raises plain exceptions for whatever is wrong with the file or the download.
    except Exception as error:
        raise ExportError(
            f"{name}: the tokenizer can't be loaded ({error}); give the path of a tokenizer.json, "
            "or the name of a model on the Hub"
        ) from error

    def count(text: str) -> int:
        return len(loaded.encode(text, add_special_tokens=False).ids)

    return count
