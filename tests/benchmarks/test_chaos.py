"""The service under faults, on a small scale; `python -m benchmarks.chaos` runs the full one."""

from pathlib import Path

import pytest

from benchmarks.chaos import Ledger, Submission, Verdict, check_requests, run_chaos
from llm_ocr import Converter
from llm_ocr.settings import Settings
from tests.servers.chat import serving_beside
from tests.servers.known_pages import (
    KnownPages,
    Shown,
    expected_paragraphs,
    known_pdf,
    paragraphs_of,
)
from tests.servers.postgresql import MISSING, find_postgresql


def test_the_engine_reads_known_documents() -> None:
    engine = KnownPages()
    with serving_beside(engine.reply) as chat:
        settings = Settings(base_url=chat.base_url, skip_model_check=True, min_agreement=0)
        with Converter(settings, render_workers=1) as converter:
            result = converter.convert(known_pdf(4711, pages=4))
    assert paragraphs_of(result.markdown) == expected_paragraphs(4711, pages=4)
    assert "> A strip that says 4711 and 2." in paragraphs_of(result.markdown)
    assert paragraphs_of(result.markdown) != expected_paragraphs(4712, pages=4)
    assert (engine.asked.total(), engine.repeated, engine.refused) == (5, 0, 0)


def test_chaos_finds_requests_that_were_repeated_or_never_sent() -> None:
    engine, verdict = KnownPages(), Verdict()
    ledger = Ledger([Submission(1, 2, "doc_1"), Submission(4, 1, "doc_4")])
    ledger.faults["worker killed"] = 1
    engine.asked.update({Shown(1, 1): 1, Shown(1, 2): 11, Shown(2, 1): 1, Shown(4, 1): 2})
    check_requests(verdict, ledger, engine, claims={"doc_1": 2, "doc_4": 1})
    assert verdict.errors == [
        "images never sent to the engine: 1, expected 0",
        "unknown images: 1, expected 0",
        "doc_1: 10 requests were repeated, interruptions: 1",
        "doc_4: 1 requests were repeated, interruptions: 0",
        "11 requests were repeated, faults: 1",
    ]
    assert ("repeated requests", "11 of 15; 1 interruptions") in verdict.rows
    # A replica's death repeats the requests that it had.
    ledger.faults["replica killed"], verdict = 1, Verdict()
    check_requests(verdict, ledger, engine, claims={"doc_1": 2, "doc_4": 1})
    assert [line for line in verdict.errors if "doc_1" in line] == []


@pytest.mark.long
@pytest.mark.parametrize(("kind", "replicas"), [("postgresql", 0), ("sqlite", 2)])
def test_every_document_finishes_once_with_the_right_result(
    kind: str, replicas: int, tmp_path: Path
) -> None:
    if kind == "postgresql" and find_postgresql() is None:
        pytest.skip(MISSING)
    verdict = run_chaos(kind, tmp_path, count=60, faults=10, seed=3, replicas=replicas)
    assert verdict.errors == []
    # With a tier, all gateways, workers and the tier itself are replaced in the end.
    assert dict(verdict.rows).get("replaced processes") == ("7" if replicas else None)
