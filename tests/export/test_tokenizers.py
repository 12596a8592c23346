"""Tokenizers: from a file, and what can't be loaded."""

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from llm_ocr.export.document import ExportError
from llm_ocr.export.tokenizers import estimate_tokens, token_counter
from llm_ocr.messages import MissingExtraError


def test_a_tokenizer_of_a_file_or_folder_counts(tmp_path: Path) -> None:
    letters = {one: k for k, one in enumerate("abc")}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for name in (tmp_path / "tokenizer.json", tmp_path):
        assert token_counter(str(name))("abcab") == 5
    assert token_counter(None) is estimate_tokens


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    with pytest.raises(ExportError, match=r"tokenizer\.json: the tokenizer can't be loaded"):
        token_counter(str(broken))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match="install the extra tokenizers"):
        token_counter("some/model")
