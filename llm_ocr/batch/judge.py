"""Ask a vision model which of two texts of a page is better: blind, and in both orders.

    verdicts-IDENTITY/00000.jsonl ...     verdicts as rows, below the comparison's location

IDENTITY changes with the runs, the model, the prompt and the seed. A verdict that is there is not
asked for again, unless it failed or a text has changed since.
"""

import asyncio
import hashlib
import io
import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from PIL import Image

from llm_ocr.batch.events import ItemsDone, Note, Notify, StageEnded, StageStarted
from llm_ocr.document.items import AskModel, outcome, process_item
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.targets import EngineTarget, resolve_engine
from llm_ocr.evaluation.judgment import (
    PROMPT,
    SCHEMA,
    SCHEMA_NAME,
    A,
    B,
    UnknownJudgeError,
    Verdict,
    read_verdict,
)
from llm_ocr.evaluation.run_agreement import PageKey
from llm_ocr.inference.model_item import (
    ModelRef,
    ModelResult,
    PromptRequest,
    Usage,
    combine_answers,
)
from llm_ocr.inference.quality import QualityAssessment, QualityIssue
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer, EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.models.catalog import FILE_ENDINGS, profile_named
from llm_ocr.models.generic import GENERIC
from llm_ocr.models.profile import ModelProfile, Rung, Task
from llm_ocr.records import ErrorCode, ImagePolicy, PageError, PageStatus, ParsedAnswer
from llm_ocr.settings import Settings
from llm_ocr.sources.raster import encode, fit_size
from llm_ocr.storage.store import Store

STAGE = "judge"
MAX_TOKENS = 512
# Characters of text for each token that the judge's context has left: 3 to 4 in English prose,
# about 2 in tables. At twice this value, pages full of tables would be refused as too long.
CHARACTERS_PER_TOKEN = 2.0
# Verdicts are saved when there are this many, or after this many seconds.
FLUSH_VERDICTS, FLUSH_SECONDS = 32, 20.0
# Requests that are prepared, in addition to those in flight.
AHEAD = 4


@dataclass(frozen=True)
class JudgedPage:
    """A page with its image (JPEG) and the two texts that differ."""

    key: PageKey
    jpeg: bytes
    a: str
    b: str

    @property
    def texts(self) -> str:
        """Identifies the two texts."""
        return hashlib.sha256(json.dumps([self.a, self.b]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Judge:
    """The judge's engine and the settings to ask it with."""

    target: EngineTarget
    settings: Settings
    seed: int = 0

    @property
    def model(self) -> str:
        return self.target.model.name


def resolve_judge(name: str, settings: Settings, seed: int) -> Judge:
    """The judge of that name: a profile (or its file), or else the name of a model on the server
    `base_url`, which is asked as the profile `generic`. Raises UnknownJudgeError or
    EngineFailedError."""
    try:
        profile_named(name)
        changes: dict[str, object] = {"model": name}
    except ValueError as error:
        is_file = Path(name).suffix.lower() in FILE_ENDINGS
        if settings.base_url is None or is_file:
            advice = "" if is_file else "; or name a model of a server, with `base_url`"
            raise UnknownJudgeError(f"`judge`: {error}{advice}") from error
        changes = {"model": GENERIC.id, "served_model": name}
    chosen = Settings(**{**settings.model_dump(), **changes})
    target = resolve_engine(chosen, chosen.model)
    if target.is_embedded:
        raise EngineFailedError(
            "the embedded engine can't judge: it reads pages and follows no instructions; use a "
            "vision model, with `base_url`",
            ProblemCode.MODEL_NEEDS_GPU,
        )
    return Judge(target, chosen, seed)


class VerdictItem:
    """One page and one order: an `Item` of `Verdict`, and what the judge is asked about."""

    def __init__(self, page: JudgedPage, first: str) -> None:
        self._page, self._first = page, first
        self._is_cut = False

    @property
    def item_id(self) -> str:
        name, number = self._page.key
        return f"{name}/{number}/{self._first} first"

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        return await ask_model(self, usage)

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """What a rung says of other prompts and of strips of the page is not for a judge."""
        return [rung for rung in profile.ladder if rung.bands == 1 and rung.task is Task.DOCUMENT]

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        jpeg = await asyncio.to_thread(_fit, self._page.jpeg, profile.image)
        return [PromptRequest(self._request(profile, rung, jpeg))]

    def _request(self, profile: ModelProfile, rung: Rung, jpeg: bytes) -> ChatRequest:
        limit = _max_characters(profile)
        texts = (self._page.a, self._page.b)
        self._is_cut = any(len(text) > limit for text in texts)
        first, second = (text[:limit] for text in (texts if self._first == A else texts[::-1]))
        prompt = profile.custom_prompt(PROMPT.format(first=first, second=second), MAX_TOKENS)
        json_schema = {"name": SCHEMA_NAME, "schema": SCHEMA}
        return ChatRequest(
            prompt.text,
            jpeg,
            prompt.max_tokens,
            {**profile.sampling, **rung.sampling},
            structured_output={
                "response_format": {"type": "json_schema", "json_schema": json_schema}
            },
            prompt_without_schema=prompt.text,
        )

    def read(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answer = combine_answers([answer for _, answer in exchanges])
        issue = None if read_verdict(answer.text, self._first) else QualityIssue.UNREADABLE
        assessment = QualityAssessment(issue, len(answer.text), None)
        return ModelResult(model, rung.name, None, answer, ParsedAnswer(()), assessment)

    def read_without_model(self) -> None:
        return None

    async def result(self, answer: ModelResult | None, usage: Usage) -> Verdict:
        assert answer is not None, "something is always asked"
        assert answer.answer is not None, "a model answered"
        read = read_verdict(answer.answer.text, self._first)
        if read is None:
            message = (
                f"{self.item_id}: the judge's answer has no choice in it; it starts with "
                f"{answer.answer.text[:80]!r}"
            )
            raise PageError(ErrorCode.UNREADABLE_ANSWER, message)
        verdict = self._verdict(PageStatus.OK, answer, usage)
        return replace(verdict, preferred=read[0], reason=read[1])

    def failure(self, error: PageError, usage: Usage) -> Verdict:
        return self._verdict(PageStatus.FAILED, None, usage, error)

    def _verdict(
        self,
        status: PageStatus,
        answer: ModelResult | None,
        usage: Usage,
        error: PageError | None = None,
    ) -> Verdict:
        ended = outcome(status, answer, usage, error)
        return Verdict(
            *(*self._page.key, self._first, self._page.texts),
            status=ended.status.value,
            error_code=None if ended.error_code is None else ended.error_code.value,
            error=ended.error,
            is_cut=self._is_cut,
            attempts=ended.attempts,
            prompt_tokens=ended.prompt_tokens,
            completion_tokens=ended.completion_tokens,
            seconds=ended.seconds,
            model=ended.model,
        )


def _max_characters(profile: ModelProfile) -> int:
    """How much of each text fits beside the page's image."""
    tokens = profile.serving.max_model_len - profile.serving.page_tokens - MAX_TOKENS
    return max(2_000, int(tokens * CHARACTERS_PER_TOKEN / 2))


def _fit(jpeg: bytes, policy: ImagePolicy) -> bytes:
    with Image.open(io.BytesIO(jpeg)) as image:
        size = fit_size(*image.size, policy)
        if size == image.size:
            return jpeg
        image.draft(None, (2 * size[0], 2 * size[1]))
        fitted = image.convert("RGB").resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
        return encode(fitted, policy.jpeg_quality)


class VerdictRows:
    """The verdicts of one comparison in a store."""

    def __init__(self, store: Store, identity: Sequence[object]) -> None:
        self._store = store
        digest = hashlib.sha256(json.dumps(list(identity)).encode()).hexdigest()[:12]
        self.folder = f"verdicts-{digest}"
        self._pending: list[Verdict] = []
        self._flushed_at = time.monotonic()

    def load(self) -> Mapping[tuple[PageKey, str], Verdict]:
        """The verdicts that are saved, by page and by the run that was shown first: the newest."""
        found: dict[tuple[PageKey, str], Verdict] = {}
        for path in self._paths():
            for line in self._store.get(path).decode().splitlines():
                verdict = Verdict(**json.loads(line))
                found[(verdict.document, verdict.number), verdict.first] = verdict
        return found

    def add(self, verdict: Verdict) -> None:
        self._pending.append(verdict)
        is_late = time.monotonic() - self._flushed_at > FLUSH_SECONDS
        if len(self._pending) >= FLUSH_VERDICTS or is_late:
            self.flush()

    def flush(self) -> None:
        """Save what was added. Raises StorageError."""
        self._flushed_at = time.monotonic()
        if not self._pending:
            return
        lines = (json.dumps(asdict(verdict), ensure_ascii=False) for verdict in self._pending)
        data = ("\n".join(lines) + "\n").encode("utf-8", "replace")
        number = len(self._paths())
        # Another process may be judging the same runs.
        while not self._store.create(f"{self.folder}/{number:05}.jsonl", data):
            number += 1
        self._pending.clear()

    def _paths(self) -> list[str]:
        return sorted(stored.path for stored in self._store.list(self.folder))


@dataclass
class _Progress:
    """Tells of verdicts, and saves them."""

    rows: VerdictRows
    notify: Notify
    verdicts: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict, *, fresh: bool) -> None:
        self.verdicts.append(verdict)
        if fresh:
            self.rows.add(verdict)
        self.notify(ItemsDone(STAGE, verdict.status, 1, fresh=fresh))


async def judge_pages(
    judge: Judge,
    pages: Iterable[JudgedPage],
    expected: int,
    rows: VerdictRows,
    log_dir: Path,
    notify: Notify,
) -> list[Verdict]:
    """The verdicts about `pages` in both orders, of which one is drawn to be asked first; those in
    `rows` are not asked for again. What the judge can't answer is a verdict with the status failed.

    Raises EngineFailedError where the judge can't be reached, and StorageError: what was saved
    until then stays.
    """
    notify(StageStarted(STAGE, 2 * expected))
    saved = await asyncio.to_thread(rows.load)
    progress = _Progress(rows, notify)
    try:
        async with EnginePool(
            judge.settings, log_dir, lambda line: notify(Note(line)), lambda answer: None
        ) as pool:
            await _ask_all(judge, pages, saved, pool, progress)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await asyncio.to_thread(rows.flush)
    notify(StageEnded(STAGE, len(progress.verdicts)))
    return progress.verdicts


async def _ask_all(
    judge: Judge,
    pages: Iterable[JudgedPage],
    saved: Mapping[tuple[PageKey, str], Verdict],
    pool: EnginePool,
    progress: _Progress,
) -> None:
    remaining = iter(pages)
    async with pool.lease(judge.target) as session:
        ask_model = pool.ladder(session, for_pages=False).run
        in_flight: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while (page := await asyncio.to_thread(next, remaining, None)) is not None:
                for first in orders(page.key, judge.seed):
                    known = saved.get((page.key, first))
                    if known is not None and known.is_known and known.texts == page.texts:
                        progress.add(known, fresh=False)
                        continue
                    while len(in_flight) >= session.limiter.limit + AHEAD:
                        _, in_flight = await asyncio.wait(
                            in_flight, return_when=asyncio.FIRST_COMPLETED
                        )
                    work = _judge(VerdictItem(page, first), ask_model, progress)
                    in_flight.add(group.create_task(work))


async def _judge(item: VerdictItem, ask_model: AskModel, progress: _Progress) -> None:
    progress.add(await process_item(item, ask_model, Usage()), fresh=True)


def orders(key: PageKey, seed: int) -> Iterator[str]:
    """The runs whose text is shown first, in the order in which they are asked: random for each
    page, by the seed."""
    drawn = random.Random(f"{seed}/{key[0]}/{key[1]}").random() < 0.5
    yield from ((A, B) if drawn else (B, A))


def judge_identity(judge: Judge, a: str, b: str) -> list[object]:
    """What verdicts depend on, but for the texts."""
    profile = judge.target.model.profile
    return [a, b, judge.model, profile.id, PROMPT, dict(profile.sampling), judge.seed]
