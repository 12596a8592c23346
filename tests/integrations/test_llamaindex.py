"""The reader of documents for LlamaIndex, with its own base class."""

from pathlib import Path

from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import MetadataMode

from llm_ocr.integrations.llamaindex import LlmOcrReader
from tests import documents
from tests.evaluation.runs import page, write_run
from tests.servers.chat import serving_beside


def test_pages_are_documents_and_boxes_are_no_text(tmp_path: Path) -> None:
    report = documents.pdf(tmp_path / "report.pdf", pages=2)
    with serving_beside() as server:
        reader = LlmOcrReader(
            blocks=True, base_url=server.base_url, skip_model_check=True, describe=False
        )
        assert isinstance(reader, BaseReader)
        lazily = iter(reader.lazy_load_data(report))
        assert server.requests == []
        first, second = lazily
    assert (first.metadata["page"], second.metadata["page"]) == (1, 2)
    assert first.text.startswith("# Page")
    assert first.id_ != second.id_
    assert first.metadata["blocks"][0]["label"] == "title"
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        seen = first.get_content(mode)
        assert str(report) in seen
        assert "blocks" not in seen
        assert "width" not in seen


def test_a_run_is_loaded(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", page("x", 1, "# One"), page("x", 2, "two"))
    loaded = LlmOcrReader().load_data(run=run)
    assert [(one.text, one.metadata["page"]) for one in loaded] == [("# One", 1), ("two", 2)]
