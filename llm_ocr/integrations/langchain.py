"""A document loader for LangChain. Needs the extra `langchain`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llm_ocr.integrations.loaded_texts import TextOptions, read_texts, run_texts
from llm_ocr.messages import MissingExtraError, how_to_install
from llm_ocr.settings import Settings

try:
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document
except ModuleNotFoundError as error:
    problem = f"the loader for LangChain needs the package {error.name}, which is not installed"
    raise MissingExtraError(f"{problem}: {how_to_install('langchain')}") from error


class LlmOcrLoader(BaseLoader):
    """Loads PDFs and page images as LangChain documents, read when they are asked for.

        loader = LlmOcrLoader("scans/", text_layer="off")
        for document in loader.lazy_load():
            print(document.metadata["source"], document.metadata["page"], document.page_content)

    `sources` are files, folders, globs or `https://` URLs; with `run`, the texts of that run are
    loaded instead, and nothing is read again. One document per page, or with `per_page=False` per
    file. `page_content` is Markdown; `metadata` has `source`, `name`, `page` (or `pages`), `status`
    and `error`: a page that failed is a document without text. With `blocks=True` it also has the
    `blocks` of the page with their boxes in pixels, and the page's `width` and `height`; some
    vector stores don't take such lists. `settings` and `overrides` are as in `llm_ocr.convert`.
    """

    def __init__(
        self,
        sources: str | Path | Sequence[str | Path] = (),
        *,
        run: str | Path | None = None,
        per_page: bool = True,
        blocks: bool = False,
        settings: Settings | None = None,
        **overrides: Any,  # noqa: ANN401
    ) -> None:
        self._sources = [sources] if isinstance(sources, str | Path) else list(sources)
        self._run, self._options = run, TextOptions(per_page, blocks)
        given = {} if settings is None else settings.model_dump()
        self._settings = Settings(**{**given, **overrides})

    def lazy_load(self) -> Iterator[Document]:
        """The documents, one at a time; raises what `llm_ocr.convert` raises."""
        texts = (
            read_texts(self._sources, self._options, self._settings)
            if self._run is None
            else run_texts(self._run, self._options)
        )
        for text in texts:
            yield Document(page_content=text.text, metadata=text.metadata, id=text.text_id)
