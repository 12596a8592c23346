"""A DocumentProcessor with two models and four steps that kills itself at a point of its way.

    python -m tests.document.dying_processor PDF STORE PAGE_MODEL_URL OTHER_MODEL_URL SCHEMA POINT

POINT is as in `tests.batch.dying_run`. What came of the document is printed as JSON, without times.
"""

import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_ocr.document.checkpoints import StoreCheckpoints
from llm_ocr.document.figure_tasks import TaskConfig, task_of
from llm_ocr.document.page import ExtractOptions
from llm_ocr.document.processor import DocumentProcessor
from llm_ocr.document.record import ParseSpec
from llm_ocr.document.steps import Assemble, Describe, Extract, Parse, SizedTask, Step
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.targets import EngineKind, EngineTarget
from llm_ocr.inference.model_item import ModelRef
from llm_ocr.models.catalog import profile_named
from llm_ocr.parsing.loading import load_schema
from llm_ocr.parsing.schema import RecordScope
from llm_ocr.records import DocumentResult
from llm_ocr.settings import EngineOptions
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import open_store
from tests.batch.dying_run import arm


def target(model: str, base_url: str) -> EngineTarget:
    profile = profile_named(model)
    return EngineTarget(ModelRef(profile, profile.model), EngineKind.SERVER, base_url)


async def process(pdf: str, store: str, page_url: str, other_url: str, schema: str) -> Any:  # noqa: ANN401
    pages, others = target("deepseek-ocr", page_url), target("qwen3-vl-8b", other_url)
    options = EngineOptions(skip_model_check=True, concurrency=3)
    with tempfile.TemporaryDirectory() as logs:
        async with (
            RenderPool(1) as pool,
            EnginePool(options, Path(logs), print, lambda _: None) as engines,
        ):
            steps: list[Step[Any]] = [
                Extract(ExtractOptions(pool, pages.model.profile)),
                Describe([SizedTask(task_of(TaskConfig("describe")))]),
                Assemble(),
                Parse(ParseSpec(load_schema(schema), RecordScope.PAGE), others.model.profile),
            ]
            targets = {"extract": pages, "describe": others, "parse": others}
            processor = DocumentProcessor(steps, engines, targets, ahead=1)
            document = list_documents([pdf])[0]
            return await processor.process(document, StoreCheckpoints(open_store(store)))


def as_json(result: DocumentResult) -> str:
    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key != "seconds"}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return value.hex() if isinstance(value, bytes) else value

    return json.dumps(plain(asdict(result)), sort_keys=True)


def main() -> None:
    *arguments, point = sys.argv[1:]
    arm(point)
    print(as_json(asyncio.run(process(*arguments))))


if __name__ == "__main__":
    main()
