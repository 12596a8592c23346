"""Compare two runs of the same pages: their texts, what they took, and what a judge model says."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from llm_ocr.batch.comparison_files import PageDifference, RunComparison, write_comparison
from llm_ocr.batch.events import ItemsDone, Note, Notify, StageEnded, StageStarted
from llm_ocr.batch.interruption import CancellationToken, run_until_stopped
from llm_ocr.batch.judge import (
    Judge,
    JudgedPage,
    VerdictRows,
    judge_identity,
    judge_pages,
    resolve_judge,
)
from llm_ocr.batch.progress import shown
from llm_ocr.evaluation.judgment import Judgment, Verdict
from llm_ocr.evaluation.predictions import (
    NothingToEvaluateError,
    Predictions,
    RunPredictions,
    open_predictions,
)
from llm_ocr.evaluation.run_agreement import (
    PageAgreement,
    PageKey,
    RunAgreement,
    RunPair,
    measure_runs,
    pair_runs,
)
from llm_ocr.evaluation.text_differences import DifferingPassage, differing_passages
from llm_ocr.evaluation.text_similarity import strip_markup
from llm_ocr.records import PageStatus
from llm_ocr.report.run_usage import RunUsage, read_usage
from llm_ocr.settings import Settings
from llm_ocr.storage.store import Store, open_store

STAGE = "compare"
# Where the files of a comparison go if no place is given: a folder in run A.
FOLDER = "evaluation"
DEFAULT_SHOWN = 50
MAX_PASSAGES = 8


def compare(
    a: str | Path,
    b: str | Path,
    out: str | Path | None = None,
    *,
    sample: int | None = None,
    seed: int = 0,
    pages_shown: int = DEFAULT_SHOWN,
    include_headers_footers: bool = False,
    judge: str | None = None,
    settings: Settings | None = None,
    notify: Notify | None = None,
    progress: bool = True,
    stop: CancellationToken | None = None,
) -> RunComparison:
    """Compare two runs of the same pages, without ground truth: how far their texts agree, which
    pages differ most and in what, and what both took.

    `a` and `b` are the locations of runs, or folders of Markdown files. The `pages_shown` pages
    that differ most are written to `out` side by side, each with its image and the differences
    marked, and all numbers as JSON; without `out`, that is a folder in run A if that is on a local
    disk, else nothing is written. `sample` compares so many random pages.

    `judge` is a model that is asked which text is better, page by page and in both orders: a model
    profile, or the name of a model on the server `base_url` of `settings`. Its verdicts are kept
    with the other files: the same call resumes.

    Raises NothingToEvaluateError where there is nothing to compare, StorageError, and with a judge
    UnknownJudgeError, EngineFailedError and StoppedError.
    """
    chosen = settings or Settings()
    first, second = (open_predictions(str(one), include_headers_footers) for one in (a, b))
    store = _destination(first, second, out)
    judging = None if judge is None else resolve_judge(judge, chosen, seed)
    if judging is not None and store is None:
        raise NothingToEvaluateError(
            f"{first.uri} is not on a local disk, and the judge's verdicts must be kept somewhere: "
            "give `out`"
        )
    with shown(notify, progress) as show:
        show(Note(f"comparing {first.uri} and {second.uri}"))
        runs = pair_runs(first, second)
        agreement = _measure(runs, sample, seed, show)
        judgment = None
        if judging is not None and store is not None:
            judgment = _judge(judging, runs, agreement, store, show, stop)
        differing = agreement.most_different(pages_shown)
        comparison = RunComparison(
            agreement,
            (_usage(first), _usage(second)),
            tuple(_differences(runs, differing, judgment)),
            judgment,
        )
        if store is None:
            return comparison
        return replace(comparison, files=write_comparison(comparison, runs, store))


def _destination(a: Predictions, b: Predictions, out: str | Path | None) -> Store | None:
    if out is not None:
        return open_store(str(out))
    folder = a.store.folder if isinstance(a, RunPredictions) else None
    if folder is None:
        return None
    name = PurePosixPath(b.uri.rstrip("/")).name
    return open_store(str(folder / FOLDER / f"compared-with-{name}"))


def _measure(runs: RunPair, sample: int | None, seed: int, notify: Notify) -> RunAgreement:
    notify(StageStarted(STAGE, sample or sum(1 for _ in runs.a.page_numbers())))
    done = ItemsDone(STAGE, PageStatus.OK, 1, fresh=True)
    agreement = measure_runs(runs, sample=sample, seed=seed, on_page=lambda: notify(done))
    notify(StageEnded(STAGE, agreement.sampled))
    return agreement


def _usage(predictions: Predictions) -> RunUsage | None:
    return read_usage(predictions.store) if isinstance(predictions, RunPredictions) else None


def _judge(
    judge: Judge,
    runs: RunPair,
    agreement: RunAgreement,
    store: Store,
    notify: Notify,
    stop: CancellationToken | None,
) -> Judgment:
    """The verdicts about all pages that were compared and differ."""
    different = agreement.most_different(len(agreement.pages))
    keys = [page.key for page in different]
    rows = VerdictRows(store, judge_identity(judge, agreement.a, agreement.b))

    async def work(own: CancellationToken) -> list[Verdict]:
        with tempfile.TemporaryDirectory(prefix="llm-ocr-judge-") as folder:
            log_dir = judge.settings.log_dir or Path(folder)
            pages = _judged_pages(runs, keys)
            return await own.guard(judge_pages(judge, pages, len(keys), rows, log_dir, notify))

    verdicts = run_until_stopped(work, stop)
    judged = {(verdict.document, verdict.number) for verdict in verdicts}
    if keys and not judged:
        raise NothingToEvaluateError(
            f"neither {agreement.a} nor {agreement.b} has images of its pages, which a judge needs"
        )
    return Judgment(
        judge.model,
        tuple(sorted(verdicts, key=lambda one: (one.document, one.number, one.first))),
        identical=len(agreement.pages) - len(different),
        without_image=len(keys) - len(judged),
    )


def _judged_pages(runs: RunPair, keys: Sequence[PageKey]) -> Iterator[JudgedPage]:
    """The pages that have an image, of A or else of B."""
    for pair in runs.pages_with_images(keys):
        if pair.a is not None and pair.b is not None and (jpeg := pair.a.jpeg or pair.b.jpeg):
            yield JudgedPage(pair.key, jpeg, pair.a.markdown, pair.b.markdown)


def _differences(
    runs: RunPair, pages: Sequence[PageAgreement], judgment: Judgment | None
) -> Iterator[PageDifference]:
    keys = {page.key for page in pages}
    passages: dict[PageKey, Sequence[DifferingPassage]] = {}
    for pair in runs.pages({page.document for page in pages}):
        if pair.key in keys and pair.a is not None and pair.b is not None:
            a, b = strip_markup(pair.a.markdown), strip_markup(pair.b.markdown)
            passages[pair.key] = differing_passages(a, b, MAX_PASSAGES)
    verdicts = _by_page(judgment)
    for page in pages:
        yield PageDifference(page, passages.get(page.key, ()), verdicts.get(page.key, ()))


def _by_page(judgment: Judgment | None) -> Mapping[PageKey, Sequence[Verdict]]:
    found: dict[PageKey, list[Verdict]] = {}
    for verdict in judgment.verdicts if judgment is not None else ():
        found.setdefault((verdict.document, verdict.number), []).append(verdict)
    return found
