"""The engine pool: sharing, one engine per GPU, waiting leases, restarts and failed starts."""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.engines import launch
from llm_ocr.engines.failures import STARTED
from llm_ocr.engines.gpu import Gpu
from llm_ocr.engines.pool import EnginePool, LeaseConflictError
from llm_ocr.engines.session import EngineSession
from llm_ocr.engines.targets import EMBEDDED_TARGET, EngineKind, EngineTarget
from llm_ocr.inference.model_item import ModelRef, ModelResult, PromptRequest, Usage
from llm_ocr.inference.quality import QualityAssessment
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer, EngineFailedError
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import ModelProfile, Rung
from llm_ocr.records import PageError, ParsedAnswer
from llm_ocr.settings import EngineChoice, EngineOptions, Fallback
from tests.engines.test_launch import engine_processes, until
from tests.servers.chat import answer, refusal, serving, vllm_shim

REQUEST = ChatRequest("Free OCR.", b"x", 100)
# A bound on what would otherwise wait forever.
LEASE_SECONDS = 20


def vllm_target(model: str, *gpus: int) -> EngineTarget:
    """vLLM serving a profile on the GPUs of these numbers."""
    profile = profile_named(model)
    devices = tuple(Gpu("NVIDIA L40S", 45.0, index) for index in gpus)
    return EngineTarget(ModelRef(profile, profile.model), EngineKind.VLLM, gpus=devices)


def server_target(base_url: str, model: str = "deepseek-ocr") -> EngineTarget:
    profile = profile_named(model)
    return EngineTarget(ModelRef(profile, profile.model), EngineKind.SERVER, base_url)


# Of one GPU, and of another.
DEEPSEEK, QWEN = vllm_target("deepseek-ocr", 0), vllm_target("qwen3-vl-8b", 0)
OLMOCR, DOTS = vllm_target("olmocr-2", 1), vllm_target("dots-ocr", 1)
BOTH_GPUS = vllm_target("paddleocr-vl", 0, 1)


def engine_options(vllm: str = "vllm", **options: object) -> EngineOptions:
    chosen = {"engine": EngineChoice.VLLM, "vllm": vllm, "skip_model_check": True, **options}
    return EngineOptions.model_validate(chosen)


def open_pool(
    folder: Path, options: EngineOptions | None = None, retry_seconds: float | None = None
) -> EnginePool:
    return EnginePool(
        options or engine_options(vllm_shim(folder)),
        folder / "logs",
        lambda text: None,
        lambda answer: None,
        retry_seconds=retry_seconds,
    )


def starts(folder: Path, name: str = "vllm.log") -> int:
    return (folder / "logs" / name).read_text().count(STARTED)


def kill(session: EngineSession) -> None:
    """Kill the engine, and leave its supervisor to notice."""
    assert session.engine is not None
    for process in engine_processes(session.engine):
        if "supervisor" not in " ".join(process.cmdline()):
            process.send_signal(signal.SIGKILL)


class Holder:
    """A task that leases a target and holds it until it is let go, and then does `finally_`."""

    def __init__(
        self,
        pool: EnginePool,
        target: EngineTarget,
        finally_: Callable[[], object] = lambda: None,
    ) -> None:
        self._finally = finally_
        self.has_lease, self._may_end = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._hold(pool, target))

    async def _hold(self, pool: EnginePool, target: EngineTarget) -> None:
        async with pool.lease(target):
            self.has_lease.set()
            await self._may_end.wait()
        self._finally()

    async def entered(self) -> None:
        async with asyncio.timeout(LEASE_SECONDS):
            await self.has_lease.wait()

    def let_go(self) -> None:
        self._may_end.set()

    async def end(self) -> None:
        self.let_go()
        await self.task


async def holding(pool: EnginePool, target: EngineTarget) -> Holder:
    holder = Holder(pool, target)
    await holder.entered()
    return holder


async def waiting(pool: EnginePool, target: EngineTarget) -> Holder:
    """One that asked for its lease and has to wait for it."""
    holder = Holder(pool, target)
    await settled()
    assert not holder.has_lease.is_set()
    return holder


async def settled() -> None:
    """All that can happen without waiting for anyone has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


# Sharing.


async def test_holders_share_an_engine_that_stays_warm_until_the_pool_closes(
    tmp_path: Path,
) -> None:
    async with open_pool(tmp_path) as pool:
        async with pool.lease(DEEPSEEK) as first, pool.lease(DEEPSEEK) as second:
            assert first is second
            answers = await asyncio.gather(first.ask(REQUEST), second.ask(REQUEST))
            assert all(answer.text for answer in answers)
        engine = first.engine
        assert engine is not None
        assert len(engine_processes(engine)) == 2
        async with pool.lease(DEEPSEEK) as third:
            assert (await third.ask(REQUEST)).text
    assert starts(tmp_path) == 1
    assert engine_processes(engine) == []


async def test_a_lease_starts_no_engine_before_the_first_request(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool, pool.lease(DEEPSEEK) as session:
        await settled()
        assert session.engine is None
    assert not (tmp_path / "logs").exists()


async def test_engines_on_different_gpus_run_at_once_each_with_a_log(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        async with pool.lease(DEEPSEEK) as on_first, pool.lease(OLMOCR) as on_second:
            await asyncio.gather(on_first.ask(REQUEST), on_second.ask(REQUEST))
            assert on_first.engine is not None
            assert on_second.engine is not None
            assert on_first.engine.base_url != on_second.engine.base_url
        assert len(engine_processes(on_first.engine)) == 2
        assert len(engine_processes(on_second.engine)) == 2
    assert [starts(tmp_path, name) for name in ("vllm.log", "vllm-2.log")] == [1, 1]


async def test_servers_and_the_embedded_engine_never_wait(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool, asyncio.timeout(LEASE_SECONDS):
        async with pool.lease(BOTH_GPUS):
            one, other = server_target("http://one/v1"), server_target("http://other/v1")
            async with pool.lease(one), pool.lease(other), pool.lease(EMBEDDED_TARGET):
                assert len({id(session) for session in pool}) == 4


async def test_api_key_is_sent_to_the_server_of_the_options_only(tmp_path: Path) -> None:
    async with serving() as ours, serving() as other:
        options = engine_options(base_url=ours.base_url, api_key="secret")
        async with open_pool(tmp_path, options) as pool:
            for server in (ours, other):
                async with pool.lease(server_target(server.base_url)) as session:
                    await session.ask(REQUEST)
        assert [headers.get("Authorization") for headers in ours.headers] == ["Bearer secret"]
        assert [headers.get("Authorization") for headers in other.headers] == [None]


# One engine on each GPU.

# Ends at once where another engine has one of its GPUs.
EXCLUSIVE_ENGINE = """
import fcntl, os, runpy, sys
folder = sys.argv.pop(1)
locks = [open(f"{folder}/{gpu}", "w") for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
for lock in locks:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
runpy.run_module("tests.servers.chat", run_name="__main__", alter_sys=True)
"""


def exclusive_vllm(folder: Path) -> str:
    """A vLLM of which only one can run on each GPU."""
    path = Path(vllm_shim(folder))
    (folder / "engine.py").write_text(EXCLUSIVE_ENGINE)
    (folder / "gpus").mkdir()
    chat, exclusive = "-m tests.servers.chat", f'"{folder}/engine.py" "{folder}/gpus"'
    script = path.read_text().replace(chat, exclusive)
    path.write_text(script.replace("exec ", "PYTHONSAFEPATH= PYTHONPATH=. exec ", 1))
    return str(path)


async def test_an_engine_ends_before_another_starts_on_its_gpu(tmp_path: Path) -> None:
    options = engine_options(exclusive_vllm(tmp_path))
    async with open_pool(tmp_path, options) as pool:
        for target in (DEEPSEEK, QWEN, OLMOCR, BOTH_GPUS, DEEPSEEK):
            async with pool.lease(target) as session:
                assert (await session.ask(REQUEST)).text
        runs = {session.target.model.name: session.engine is not None for session in pool}
        # The last took back one GPU of two.
        assert runs == {
            DEEPSEEK.model.name: True,
            QWEN.model.name: False,
            OLMOCR.model.name: False,
            BOTH_GPUS.model.name: False,
        }
        assert sum(session.client.stats.answers for session in pool) == 5
    assert starts(tmp_path) + starts(tmp_path, "vllm-2.log") == 5
    assert sorted(path.name for path in (tmp_path / "gpus").iterdir()) == ["0", "1"]


async def test_engines_with_unknown_gpus_never_run_together(tmp_path: Path) -> None:
    """As with a build of vLLM for CPUs, or devices that NVML doesn't know."""
    async with open_pool(tmp_path) as pool:
        holder = await holding(pool, vllm_target("deepseek-ocr"))
        other = await waiting(pool, vllm_target("qwen3-vl-8b"))
        await holder.end()
        await other.entered()
        await other.end()


async def test_leases_of_a_gpu_are_served_in_order(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        first = await holding(pool, DEEPSEEK)
        switched = await waiting(pool, QWEN)
        late = await waiting(pool, DEEPSEEK)
        elsewhere = await holding(pool, OLMOCR)
        await first.end()
        await switched.entered()
        assert not late.has_lease.is_set()
        await switched.end()
        await late.entered()
        await asyncio.gather(late.end(), elsewhere.end())


async def test_stream_of_holders_of_one_engine_does_not_starve_another(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        holders = [await holding(pool, DEEPSEEK)]
        starved = await waiting(pool, QWEN)
        for _ in range(5):
            holders.append(Holder(pool, DEEPSEEK))
            await holders.pop(0).end()
            if starved.has_lease.is_set():
                break
        await starved.entered()
        await starved.end()
        await asyncio.gather(*(holder.end() for holder in holders))


async def test_requests_for_the_same_engine_are_granted_together(tmp_path: Path) -> None:
    """A start takes minutes: it is not undone for who came between two of them."""
    async with open_pool(tmp_path) as pool:
        first = await holding(pool, DEEPSEEK)
        one = await waiting(pool, QWEN)
        between = await waiting(pool, DEEPSEEK)
        other = await waiting(pool, QWEN)
        await first.end()
        await asyncio.gather(one.entered(), other.entered())
        assert not between.has_lease.is_set()
        later = await waiting(pool, QWEN)
        await asyncio.gather(one.end(), other.end())
        await between.entered()
        assert not later.has_lease.is_set()
        await between.end()
        await later.entered()
        await later.end()


async def test_a_lease_of_two_gpus_waits_for_both(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        one, other = await holding(pool, DEEPSEEK), await holding(pool, OLMOCR)
        both = await waiting(pool, BOTH_GPUS)
        await one.end()
        await settled()
        assert not both.has_lease.is_set()
        await other.end()
        await both.entered()
        await both.end()


async def test_cancelled_request_does_not_block_later_ones(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        first = await holding(pool, DEEPSEEK)
        impatient = await waiting(pool, QWEN)
        second = await waiting(pool, DEEPSEEK)
        impatient.task.cancel()
        await second.entered()
        await asyncio.gather(first.end(), second.end())
        assert impatient.task.cancelled()
        async with asyncio.timeout(LEASE_SECONDS), pool.lease(QWEN):
            pass


async def test_lease_cancelled_as_it_is_granted_is_released(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        # Before the other notices that it has the lease.
        leaving: list[Callable[[], object]] = []
        first = Holder(pool, DEEPSEEK, lambda: leaving.pop()())
        await first.entered()
        impatient = await waiting(pool, QWEN)
        leaving.append(impatient.task.cancel)
        await first.end()
        await asyncio.wait({impatient.task})
        assert impatient.task.cancelled()
        assert not impatient.has_lease.is_set()
        async with asyncio.timeout(LEASE_SECONDS), pool.lease(DEEPSEEK):
            pass


async def test_request_cancelled_as_the_gpu_is_freed_is_skipped(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        first, impatient = await holding(pool, DEEPSEEK), await waiting(pool, QWEN)
        second = await waiting(pool, DEEPSEEK)
        # It has not run since it was cancelled when the lease ends.
        first.let_go()
        impatient.task.cancel()
        await first.task
        await second.entered()
        await second.end()
        assert impatient.task.cancelled()


# Leases that could never begin.


async def test_lease_of_another_engine_on_the_holders_gpu_is_an_error(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        async with pool.lease(DEEPSEEK), asyncio.timeout(LEASE_SECONDS):
            with pytest.raises(LeaseConflictError) as caught:
                async with pool.lease(QWEN):
                    pass
            for target in (DEEPSEEK, QWEN):
                assert target.model.name in str(caught.value)
        async with asyncio.timeout(LEASE_SECONDS), pool.lease(QWEN):
            pass


async def test_task_started_by_a_holder_is_a_holder_until_the_lease_ends(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool, pool.lease(DEEPSEEK):
        with pytest.raises(LeaseConflictError):
            async with asyncio.timeout(LEASE_SECONDS):
                await Holder(pool, QWEN).task
    # One that outlives the lease is none any more.
    async with open_pool(tmp_path) as pool:
        lease_ended = asyncio.Event()

        async def lease_later() -> None:
            await lease_ended.wait()
            first = await holding(pool, DEEPSEEK)
            second = await waiting(pool, QWEN)
            await first.end()
            await second.entered()
            await second.end()

        async with pool.lease(DEEPSEEK):
            started = asyncio.create_task(lease_later())
        lease_ended.set()
        await started


async def test_holder_may_lease_its_engine_again_while_another_waits(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        ready, go = asyncio.Event(), asyncio.Event()

        async def lease_twice() -> None:
            async with pool.lease(DEEPSEEK):
                ready.set()
                await go.wait()
                async with asyncio.timeout(LEASE_SECONDS), pool.lease(DEEPSEEK):
                    pass

        twice = asyncio.create_task(lease_twice())
        await ready.wait()
        other = await waiting(pool, QWEN)
        go.set()
        await twice
        await other.entered()
        await other.end()


async def test_lease_cycle_of_two_holders_is_an_error(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        both_hold = asyncio.Barrier(2)

        async def lease_both(first: EngineTarget, second: EngineTarget) -> None:
            async with pool.lease(first):
                await both_hold.wait()
                async with pool.lease(second):
                    pass

        async with asyncio.timeout(LEASE_SECONDS):
            ended = await asyncio.gather(
                lease_both(DEEPSEEK, DOTS), lease_both(OLMOCR, QWEN), return_exceptions=True
            )
    # One of them gives way, and the other goes on.
    assert [type(result) for result in ended if result is not None] == [LeaseConflictError]


async def test_holder_overtakes_requests_that_wait_for_it(tmp_path: Path) -> None:
    """Who waits for both GPUs is behind the holder of one, who needs the other to go on."""
    async with open_pool(tmp_path) as pool:
        ready, go = asyncio.Event(), asyncio.Event()

        async def lease_both() -> None:
            async with pool.lease(DEEPSEEK):
                ready.set()
                await go.wait()
                async with asyncio.timeout(LEASE_SECONDS), pool.lease(OLMOCR):
                    pass

        holder = asyncio.create_task(lease_both())
        await ready.wait()
        both = await waiting(pool, BOTH_GPUS)
        go.set()
        await holder
        await both.entered()
        await both.end()


# Deaths, and starts that fail.


async def test_killed_engine_is_restarted_and_answers_all_holders(
    tmp_path: Path,
) -> None:
    hung = tmp_path / "hung"
    options = engine_options(vllm_shim(tmp_path, f"--hangs-once {hung}"))
    async with open_pool(tmp_path, options) as pool:
        async with pool.lease(DEEPSEEK) as one, pool.lease(DEEPSEEK) as other:
            asking = asyncio.gather(one.ask(REQUEST), other.ask(REQUEST))
            await until(hung.exists)
            await until(lambda: one.limiter.in_flight == 2)
            kill(one)
            assert [bool(answer.text) for answer in await asking] == [True, True]
            assert one.restarts == 1
    assert starts(tmp_path) == 2


def failing_vllm(folder: Path) -> tuple[str, Path]:
    """A vLLM that ends at its start until a file exists, and that file."""
    repaired = folder / "repaired"
    path = Path(vllm_shim(folder))
    script = path.read_text()
    check = f'[ -e "{repaired}" ] || {{ echo "No space left on device"; exit 1; }}\n'
    path.write_text(script.replace("cd ", check + "cd ", 1))
    return str(path), repaired


async def test_failed_start_is_an_error_for_all_holders_and_retried_by_a_later_lease(
    tmp_path: Path,
) -> None:
    vllm, repaired = failing_vllm(tmp_path)
    async with open_pool(tmp_path, engine_options(vllm)) as pool:
        async with pool.lease(DEEPSEEK) as session, pool.lease(DEEPSEEK) as other:
            failures = await asyncio.gather(
                session.ask(REQUEST), other.ask(REQUEST), return_exceptions=True
            )
            assert all("No space left" in str(failure) for failure in failures)
            assert starts(tmp_path) == 1
            repaired.touch()
            with pytest.raises(EngineFailedError, match="No space left"):
                await session.ask(REQUEST)
            assert starts(tmp_path) == 1
        async with pool.lease(DEEPSEEK) as later:
            assert (await later.ask(REQUEST)).text
    assert starts(tmp_path) == 2


async def test_failed_start_is_retried_after_retry_seconds(tmp_path: Path) -> None:
    vllm, repaired = failing_vllm(tmp_path)
    async with open_pool(tmp_path, engine_options(vllm), retry_seconds=0.0) as pool:
        async with pool.lease(DEEPSEEK) as session:
            for _ in range(2):
                with pytest.raises(EngineFailedError, match="No space left"):
                    await session.ask(REQUEST)
            repaired.touch()
            assert (await session.ask(REQUEST)).text
    assert starts(tmp_path) == 3


async def test_engine_that_was_given_up_is_started_by_a_later_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "MAX_RESTARTS", 0)
    async with open_pool(tmp_path) as pool:
        async with pool.lease(DEEPSEEK) as session:
            await session.ask(REQUEST)
            kill(session)
            for _ in range(2):
                with pytest.raises(EngineFailedError, match="died 1 times in a row"):
                    await session.ask(REQUEST)
        async with pool.lease(DEEPSEEK) as session:
            assert (await session.ask(REQUEST)).text
    assert starts(tmp_path) == 2


async def test_cancelled_request_does_not_stop_the_start(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool, pool.lease(DEEPSEEK) as session:
        impatient = asyncio.create_task(session.ask(REQUEST))
        await until((tmp_path / "logs" / "vllm.log").exists)
        patient = asyncio.create_task(session.ask(REQUEST))
        await settled()
        impatient.cancel()
        assert (await patient).text
        assert impatient.cancelled()
    assert starts(tmp_path) == 1


# Fallbacks.


class ItemWithText:
    """An item that is asked about in one request, and has a text of its own."""

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return ()

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        return [PromptRequest(REQUEST)]

    def read(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answers = ParsedAnswer((), tuple(answer.text for _, answer in exchanges))
        return ModelResult(model, rung.name, None, exchanges[0][1], answers, FLAWLESS)

    def read_without_model(self) -> ModelResult | None:
        return ModelResult(None, "text layer", None, None, ParsedAnswer((), ("its own",)), FLAWLESS)


FLAWLESS = QualityAssessment(None, kept_length=0, agreement=None)


async def read_with_fallback(
    pool: EnginePool, target: EngineTarget, *, for_pages: bool
) -> ModelResult | None:
    async with pool.lease(target) as session:
        return await pool.ladder(session, for_pages=for_pages).run(ItemWithText(), Usage())


async def test_text_layer_is_a_fallback_for_pages_only(tmp_path: Path) -> None:
    async with serving(lambda body: refusal(400, "too large")) as server:
        options = engine_options(base_url=server.base_url, fallback=Fallback.TEXT_LAYER)
        target = server_target(server.base_url)
        async with open_pool(tmp_path, options) as pool:
            result = await read_with_fallback(pool, target, for_pages=True)
            assert result is not None
            assert (result.strategy, result.is_fallback) == ("text layer", True)
            with pytest.raises(PageError, match="too large"):
                await read_with_fallback(pool, target, for_pages=False)


async def test_fallback_server_answers_for_any_item_with_its_own_key(tmp_path: Path) -> None:
    async with serving(lambda body: refusal(400, "too large")) as server, serving() as other:
        options = engine_options(
            base_url=server.base_url,
            api_key="secret",
            fallback_base_url=other.base_url,
            fallback_api_key="another",
            fallback_model="qwen3-vl-8b",
        )
        async with open_pool(tmp_path, options) as pool:
            for for_pages in (True, False):
                target = server_target(server.base_url)
                result = await read_with_fallback(pool, target, for_pages=for_pages)
                assert result is not None
                assert result.model is not None
                assert result.model.profile.id == "qwen3-vl-8b"
        assert [headers["Authorization"] for headers in other.headers] == ["Bearer another"] * 2


# The end.


async def test_closing_the_pool_during_a_start_leaves_no_process(tmp_path: Path) -> None:
    hung = tmp_path / "hung"
    os.mkfifo(hung)
    vllm = Path(vllm_shim(tmp_path))
    # Waits for ever where it is to be ready.
    vllm.write_text(vllm.read_text().replace("cd ", f'cat "{hung}"; cd ', 1))
    async with open_pool(tmp_path, engine_options(str(vllm))) as pool:
        async with pool.lease(DEEPSEEK) as session:
            asking = asyncio.create_task(session.ask(REQUEST))
            await until((tmp_path / "logs" / "vllm.log").exists)
            # As it is written: the engine is the session's only when it is ready.
            await until(lambda: bool(children_of(str(vllm))))
    with pytest.raises(EngineFailedError, match="closed while it started"):
        async with asyncio.timeout(60):
            await asking
    assert children_of(str(vllm)) == []


def children_of(command: str) -> list[int]:
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if command in process.cmdline():
                found.append(process.pid)
    return found


async def test_a_closed_pool_lends_nothing(tmp_path: Path) -> None:
    async with open_pool(tmp_path) as pool:
        async with pool.lease(DEEPSEEK) as session:
            pass
        holder = await holding(pool, DEEPSEEK)
        late = await waiting(pool, QWEN)
    with pytest.raises(RuntimeError, match="the pool is closed"):
        await late.task
    await holder.end()
    with pytest.raises(RuntimeError, match="the pool is closed"):
        async with pool.lease(DEEPSEEK):
            pass
    with pytest.raises(RuntimeError, match="outside a lease"):
        await session.ask(REQUEST)


@pytest.mark.long
async def test_more_requests_are_in_flight_than_files_may_be_open_at_first(tmp_path: Path) -> None:
    """No limit on the way is near 1,000: of files, of connections, of those to be accepted."""
    several, before = 1500, resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 2 * several + 500:
        pytest.skip("the client and the server in this process may not open enough files")
    everyone = asyncio.Event()

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if len(server.requests) == several:
            everyone.set()
        await everyone.wait()
        return answer("read")

    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        async with (
            serving(reply) as server,
            open_pool(tmp_path, engine_options(concurrency=several)) as pool,
            pool.lease(server_target(server.base_url)) as session,
            asyncio.timeout(60),
        ):
            answers = await asyncio.gather(*(session.ask(REQUEST) for _ in range(several)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert server.most_in_flight == several
    assert {one.attempts for one in answers} == {1}
