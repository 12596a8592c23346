"""A reader for LlamaIndex. Needs the extra `llamaindex`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llm_ocr.integrations.loaded_texts import (
    TECHNICAL_KEYS,
    TextOptions,
    read_texts,
    run_texts,
)
from llm_ocr.messages import MissingExtraError, how_to_install
from llm_ocr.settings import Settings

try:
    from llama_index.core.readers.base import BaseReader
    from llama_index.core.schema import Document
except ModuleNotFoundError as error:
    problem = f"the reader for LlamaIndex needs the package {error.name}, which is not installed"
    raise MissingExtraError(f"{problem}: {how_to_install('llamaindex')}") from error


class LlmOcrReader(BaseReader):
    """Reads PDFs and page images as LlamaIndex documents.

        documents = LlmOcrReader(text_layer="off").load_data("scans/")

    One document per page, or with `per_page=False` per file. The text is Markdown; the metadata has
    `source`, `name`, `page` (or `pages`), `status` and `error`: a page that failed is a document
    without text. With `blocks=True` it also has the `blocks` of the page with their boxes in
    pixels, and the page's `width` and `height`. What is no text is left out of what models see.
    `settings` and `overrides` are as in `llm_ocr.convert`.
    """

    def __init__(
        self,
        *,
        per_page: bool = True,
        blocks: bool = False,
        settings: Settings | None = None,
        **overrides: Any,  # noqa: ANN401
    ) -> None:
        self._options = TextOptions(per_page, blocks)
        given = {} if settings is None else settings.model_dump()
        self._settings = Settings(**{**given, **overrides})

    def lazy_load_data(
        self,
        sources: str | Path | Sequence[str | Path] = (),
        *,
        run: str | Path | None = None,
    ) -> Iterator[Document]:
        """The documents, one at a time: of files, folders, globs or `https://` URLs; with `run` of
        that run, of which nothing is read again. Raises what `llm_ocr.convert` raises."""
        several = [sources] if isinstance(sources, str | Path) else sources
        texts = (
            read_texts(several, self._options, self._settings)
            if run is None
            else run_texts(run, self._options)
        )
        for text in texts:
            keys = [key for key in TECHNICAL_KEYS if key in text.metadata]
            yield Document(
                id_=text.text_id,
                text=text.text,
                metadata=text.metadata,
                excluded_embed_metadata_keys=keys,
                excluded_llm_metadata_keys=keys,
            )
