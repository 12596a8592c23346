"""Hold the engines of a process: start each when it is needed, share it, and close it in time.

Engines on different GPUs, servers and the embedded engine run at the same time. Two engines of vLLM
never share a GPU: one is closed before the other starts.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from llm_ocr.engines.embedded.serving.command import check_installed, is_installed
from llm_ocr.engines.memory import memory_guard
from llm_ocr.engines.session import (
    SERVER_READY_SECONDS,
    EngineSession,
    Notify,
    Observe,
    embedded_limit,
)
from llm_ocr.engines.targets import EMBEDDED_TARGET, EngineKind, EngineTarget
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.model_item import ModelRef
from llm_ocr.inference.retry_ladder import Endpoint, FallbackEndpoint, RetryLadder, Route
from llm_ocr.models.catalog import profile_named
from llm_ocr.settings import EngineOptions, Fallback, PageRouting

# A fallback is not worth a long wait.
FALLBACK_READY_SECONDS = 120.0


class LeaseConflictError(RuntimeError):
    """A lease could never begin: it waits for another one, whose holder waits for it."""


class EnginePool:
    """Lends engines: `async with pool.lease(target) as session: await session.ask(request)`.

    The holders of a target share one session, whose engine starts at their first request and stays
    warm after the last has left, until another target needs its GPU or the pool closes. A lease
    that needs a GPU in use waits until the target's holders have left. Waiting leases are served in
    the order in which they came, so that holders of one target can't starve those of another; but
    all who wait for an engine when it gets its GPU come in together. Leases of servers and of the
    embedded engine never wait.

    A task may hold several leases, and so may the tasks that it starts while it holds one: they
    count as holders of it. A lease that would wait for a holder that waits for it raises
    LeaseConflictError.

    An engine that can't be started fails for all who hold it. It is tried again once they have
    left, or after `retry_seconds`; fallbacks, which stay until the pool closes, after
    `retry_seconds` only (None: never). A server that runs already may be starting for
    `server_seconds`, if the options don't say.
    """

    def __init__(
        self,
        options: EngineOptions,
        log_dir: Path,
        notify: Notify,
        observe: Observe,
        *,
        retry_seconds: float | None = None,
        server_seconds: float = SERVER_READY_SECONDS,
    ) -> None:
        self._server_seconds = server_seconds
        self._options, self._log_dir = options, log_dir
        self._notify, self._observe, self._retry_seconds = notify, observe, retry_seconds
        self._memory = memory_guard(options.engine_memory, notify)
        self._engines: list[_PooledEngine] = []
        self._extras: list[EngineSession] = []
        self._route_slots = ConcurrencyLimiter(embedded_limit(options))
        # In the order in which they came.
        self._waiting: list[_LeaseRequest] = []
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        for request in self._pending_requests():
            request.granted.set_exception(_closed_error(request.target))
        async with AsyncExitStack() as stack:
            for session in self:
                stack.push_async_callback(session.close)
            if switches := [engine.switch for engine in self._engines if engine.switch]:
                await asyncio.wait(switches)

    def __iter__(self) -> Iterator[EngineSession]:
        """The sessions of all targets that were leased so far, of fallbacks that were used, and of
        models that checked records."""
        yield from self._extras
        yield from (engine.session for engine in self._engines)

    @asynccontextmanager
    async def lease(self, target: EngineTarget) -> AsyncIterator[EngineSession]:
        """The session of `target`, once its GPUs are free of others. Raises LeaseConflictError."""
        lease = await self._acquire(target)
        _held.set((*_active(_held.get()), lease))
        try:
            await lease.engine.until_switched()
            yield lease.engine.session
        finally:
            self._release(lease)
            _held.set(_active(_held.get()))

    def ladder(
        self, session: EngineSession, *, for_pages: bool, check: EngineTarget | None = None
    ) -> RetryLadder:
        """Asks the session of a lease, then the fallbacks that the options choose; what checks
        another answer is asked of `check`, which never waits for a GPU.

        The text layer and the embedded engine can only stand in where whole pages are read, and
        only these can be routed. Raises EngineNotInstalledError without the extra cpu, if the
        options route pages.
        """
        options = self._options
        fallbacks: list[FallbackEndpoint] = []
        if options.fallback_base_url is not None:
            fallbacks.append(self._fallback_server)
        if for_pages:
            if options.fallback in (Fallback.AUTO, Fallback.TEXT_LAYER):
                fallbacks.append(None)
            wants_embedded = options.fallback is Fallback.EMBEDDED or (
                options.fallback is Fallback.AUTO and is_installed()
            )
            if wants_embedded and not session.target.is_embedded:
                fallbacks.append(self._fallback_embedded)
        is_routed = for_pages and options.route is PageRouting.AUTO
        route = self._route() if is_routed and not session.target.is_embedded else None
        main = Endpoint(session.target.model, session.ask)
        return RetryLadder(main, fallbacks, route, partial(self._checking_endpoint, check))

    def _route(self) -> Route:
        """Simple pages go to the embedded engine, but don't queue there: the slots in which they
        waited would be missing at the GPU."""
        check_installed()
        return Route(self._fallback_embedded, self._route_slots)

    async def _acquire(self, target: EngineTarget) -> "_Lease":
        if self._is_closed:
            raise _closed_error(target)
        request = _LeaseRequest(target, _active(_held.get()))
        self._waiting.append(request)
        self._grant()
        if not request.granted.done() and (conflict := self._deadlock(request)) is not None:
            request.granted.cancel()
            raise LeaseConflictError(
                f"a lease of {target.label} would wait forever for a GPU that is only free after "
                f"this task's lease of {conflict.target.label}: end that lease first"
            )
        try:
            return await request.granted
        except asyncio.CancelledError:
            granted = request.granted
            if not granted.cancelled() and granted.exception() is None:
                self._release(granted.result())
            else:
                # Those who came later may have waited for this one alone.
                self._grant()
            raise

    def _release(self, lease: "_Lease") -> None:
        lease.is_active = False
        lease.engine.leases.remove(lease)
        self._grant()

    def _pending_requests(self) -> "list[_LeaseRequest]":
        """Those that wait, in order. One whose task was cancelled may not have noticed it yet."""
        self._waiting = [request for request in self._waiting if not request.granted.done()]
        return self._waiting

    def _grant(self) -> None:
        """Let in all whom nothing keeps out, in order."""
        if self._is_closed:
            return
        ahead: list[_LeaseRequest] = []
        switched: list[EngineTarget] = []
        for request in self._pending_requests():
            is_kept_out = any(self._leases_in_way(request)) or (
                request.target not in switched and any(map(request.waits_behind, ahead))
            )
            if is_kept_out:
                ahead.append(request)
                continue
            engine = self._engine(request.target)
            if not engine.leases and self._open(engine):
                switched.append(request.target)
            lease = _Lease(engine)
            engine.leases.append(lease)
            request.granted.set_result(lease)

    def _open(self, engine: "_PooledEngine") -> bool:
        """Open the session, once those that have its GPUs are closed; whether it was not warm."""
        was_warm = engine.is_live
        excluded = [
            other
            for other in self._engines
            if other.target.excludes(engine.target) and other.is_live
        ]
        if excluded:
            # Holders may have left before the switch to their engine had ended.
            pending = [other.switch for other in (engine, *excluded) if other.switch is not None]
            engine.switch = asyncio.create_task(self._switch(engine, excluded, pending))
        elif not engine.is_switching:
            engine.switch = None
            engine.session.open(self._log_path(engine.target.kind))
        return not was_warm

    async def _switch(
        self,
        engine: "_PooledEngine",
        excluded: "Iterable[_PooledEngine]",
        pending: "Collection[asyncio.Task[None]]",
    ) -> None:
        if pending:
            await asyncio.wait(pending)
        for other in excluded:
            await other.session.close()
        engine.session.open(self._log_path(engine.target.kind))

    def _engine(self, target: EngineTarget) -> "_PooledEngine":
        for engine in self._engines:
            if engine.target == target:
                return engine
        session = EngineSession(
            self._options,
            target,
            self._notify,
            self._observe,
            self._memory,
            self._retry_seconds,
            self._server_seconds,
        )
        self._engines.append(_PooledEngine(session))
        return self._engines[-1]

    def _log_path(self, kind: EngineKind) -> Path:
        """A log that no other engine writes now, as a failure is found at the log's end."""
        stem = kind.value.replace(" ", "-").lower()
        taken = {session.log_path for session in self}
        names = (f"{stem}-{k}.log" if k > 1 else f"{stem}.log" for k in count(1))
        return next(path for name in names if (path := self._log_dir / name) not in taken)

    def _leases_in_way(self, request: "_LeaseRequest") -> Iterator["_Lease"]:
        for engine in self._engines:
            if engine.target.excludes(request.target):
                yield from engine.leases

    def _deadlock(self, request: "_LeaseRequest") -> "_Lease | None":
        """A lease of the request's own task that it waits for, directly or through others."""
        pending = self._pending_requests()
        seen: list[_LeaseRequest] = []
        unseen = [request]
        while unseen:
            waiting = unseen.pop()
            if waiting in seen:
                continue
            seen.append(waiting)
            unseen += filter(waiting.waits_behind, pending[: pending.index(waiting)])
            for lease in self._leases_in_way(waiting):
                if lease in request.held:
                    return lease
                unseen += [other for other in pending if lease in other.held]
        return None

    async def _fallback_server(self) -> Endpoint:
        options = self._options
        profile = profile_named(options.fallback_model or options.model)
        model = ModelRef(profile, profile.model)
        return self._fallback(EngineTarget(model, EngineKind.SERVER, options.fallback_base_url))

    async def _fallback_embedded(self) -> Endpoint:
        return self._fallback(EMBEDDED_TARGET)

    async def _checking_endpoint(self, target: EngineTarget | None) -> Endpoint:
        assert target is not None, "who checks has a model for it"
        return self._extra(target, self._checking_options)

    def _fallback(self, target: EngineTarget) -> Endpoint:
        return self._extra(target, self._fallback_options)

    def _extra(self, target: EngineTarget, options: EngineOptions) -> Endpoint:
        """An engine beside that of a lease, which stays until the pool closes."""
        for session in self._extras:
            if session.target == target:
                return Endpoint(target.model, session.ask)
        session = EngineSession(
            options, target, self._notify, self._observe, self._memory, self._retry_seconds
        )
        session.open(self._log_path(target.kind))
        self._extras.append(session)
        return Endpoint(target.model, session.ask)

    @property
    def _fallback_options(self) -> EngineOptions:
        """The pool's options, without those that are meant for the main model and its server."""
        changes = {
            "concurrency": None,
            "base_url": self._options.fallback_base_url,
            "api_key": self._options.fallback_api_key,
            "skip_model_check": True,
            "ready_timeout": FALLBACK_READY_SECONDS,
        }
        return self._options.model_copy(update=changes)

    @property
    def _checking_options(self) -> EngineOptions:
        """The pool's options, with the server of the second model and its key, if it has one."""
        options = self._options
        if options.check_base_url is None:
            return options
        changes = {"base_url": options.check_base_url, "api_key": options.check_api_key}
        return options.model_copy(update=changes)


@dataclass(eq=False)
class _PooledEngine:
    """A target's session, and who holds it. `switch` frees its GPUs and opens the session."""

    session: EngineSession
    leases: "list[_Lease]" = field(default_factory=list)
    switch: asyncio.Task[None] | None = None

    @property
    def target(self) -> EngineTarget:
        return self.session.target

    @property
    def is_switching(self) -> bool:
        return self.switch is not None and not self.switch.done()

    @property
    def is_live(self) -> bool:
        """Whether its engine runs, or may yet start, or has not ended yet."""
        return self.session.is_live or self.is_switching

    async def until_switched(self) -> None:
        """Wait until the session is open; whoever is cancelled meanwhile leaves it to others."""
        if self.switch is not None:
            await asyncio.shield(self.switch)


@dataclass(eq=False)
class _Lease:
    engine: _PooledEngine
    is_active: bool = True

    @property
    def target(self) -> EngineTarget:
        return self.engine.target


@dataclass(eq=False)
class _LeaseRequest:
    """A lease that was asked for by who holds the leases `held`."""

    target: EngineTarget
    held: tuple[_Lease, ...]
    granted: "asyncio.Future[_Lease]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def waits_behind(self, earlier: "_LeaseRequest") -> bool:
        """Whether `earlier` needs the same GPU, and doesn't itself wait for who asks here."""
        return self.target.excludes(earlier.target) and not any(
            lease.target.excludes(earlier.target) for lease in self.held if lease.is_active
        )


# The leases that the current task holds, or held when it was started.
_held: ContextVar[tuple[_Lease, ...]] = ContextVar("held_leases", default=())


def _active(leases: tuple[_Lease, ...]) -> tuple[_Lease, ...]:
    return tuple(lease for lease in leases if lease.is_active)


def _closed_error(target: EngineTarget) -> RuntimeError:
    return RuntimeError(f"{target.label} can't be leased: the pool is closed")
