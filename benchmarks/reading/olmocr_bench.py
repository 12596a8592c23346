"""Documents with tests in olmOCR-bench's format: FOLDER/*.jsonl beside the PDFs that they name.

PDFs may also lie in FOLDER/pdfs, as in olmOCR-bench itself. Tests of formulas are left out: the
engine reads none.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.reading.samples import Sample, body_markdown
from benchmarks.reading.scores import Ratio
from llm_ocr.evaluation.olmocr_bench.page_tests import PageTest, load_tests
from llm_ocr.evaluation.olmocr_bench.page_view import PageView
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict
from llm_ocr.records import DocumentResult

KINDS = ("present", "absent", "order", "table")


def load_samples(folder: Path) -> list[Sample]:
    by_document: dict[str, list[PageTest]] = defaultdict(list)
    for test in load_tests(sorted(folder.rglob("*.jsonl"))).tests:
        if test.kind in KINDS:
            by_document[test.pdf].append(test)
    samples = []
    for pdf, tests in sorted(by_document.items()):
        places = (folder / pdf, folder / "pdfs" / pdf)
        path = next((place for place in places if place.exists()), None)
        if path is not None:
            samples.append(Sample(pdf, path, pdf, partial(score, tests)))
    return samples


def score(
    tests: Sequence[PageTest], result: DocumentResult
) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    """The tests that passed: all, those that an empty page doesn't pass, and by kind."""
    views = {page.page_number: PageView(body_markdown(page)) for page in result.pages}
    passed: dict[str, list[bool]] = defaultdict(list)
    failures = []
    for test in tests:
        view = views.get(test.page)
        is_passed = view is not None and test.rule.check(view).verdict is RuleVerdict.PASSED
        kinds = ("tests", test.kind) if test.kind == "absent" else ("tests", "not absent")
        for kind in dict.fromkeys((*kinds, test.kind)):
            passed[kind].append(is_passed)
        if not is_passed:
            failures.append(f"{test.kind} {test.id}")
    order = ("tests", "not absent", *KINDS)
    measures = {kind: (float(sum(passed[kind])), len(passed[kind])) for kind in order}
    return {kind: ratio for kind, ratio in measures.items() if ratio[1]}, failures
