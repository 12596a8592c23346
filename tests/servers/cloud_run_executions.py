"""Executions of Cloud Run jobs: each task an own process, with its attempts, limits and log."""

import asyncio
import json
import re
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from google.cloud import run_v2
from google.rpc import code_pb2

from tests.servers.containers import Container

Condition = run_v2.Condition
# Between SIGTERM and SIGKILL.
GRACE_SECONDS = 10.0
EXIT = "The container exited with an error."


@dataclass
class Attempt:
    """One container of a task. `said` is what the platform itself writes of it."""

    container: Container
    said: list[str] = field(default_factory=list)
    is_over: bool = False


@dataclass
class Running:
    """An execution, its tasks, and what they run: `entry` is the image's entry point."""

    execution: run_v2.Execution
    tasks: list[run_v2.Task]
    entry: list[str]
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    work: "asyncio.Task[None] | None" = None
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Ask all that runs to end, and let nothing else begin."""
        self.is_cancelled = True
        for attempts in self.attempts.values():
            if not attempts[-1].is_over:
                attempts[-1].container.send(signal.SIGTERM)
                loop = asyncio.get_running_loop()
                loop.call_later(GRACE_SECONDS, attempts[-1].container.send, signal.SIGKILL)

    async def kill(self) -> None:
        """End it at once, and wait for that."""
        self.is_cancelled = True
        while self.work is not None and not self.work.done():
            for attempts in self.attempts.values():
                attempts[-1].container.send(signal.SIGKILL)
            await asyncio.wait({self.work}, timeout=0.05)


@dataclass
class Machines:
    """Where containers run: `network` is what they find around them, as variables; `secrets` are
    those of Secret Manager. `kill_when` is asked about each first attempt (task's index) until it
    says that this one is to be killed."""

    folder: Path
    network: Mapping[str, str]
    secrets: dict[str, str] = field(default_factory=dict)
    kill_when: Callable[[int], bool] = lambda task: False

    def begin(self, job: run_v2.Job, entry: list[str]) -> Running:
        """A new execution, whose tasks begin at once."""
        short = job.name.rpartition("/")[2]
        name = f"{job.name}/executions/{short}-{secrets.token_hex(3)}"
        count = job.template.task_count or 1
        execution = run_v2.Execution(
            name=name,
            uid=secrets.token_hex(8),
            job=short,
            create_time=now(),
            task_count=count,
            parallelism=job.template.parallelism or count,
            template=job.template.template,
        )
        tasks = [
            run_v2.Task(
                name=f"{name}/tasks/{short}-task{index}",
                job=short,
                execution=name.rpartition("/")[2],
                index=index,
                create_time=now(),
            )
            for index in range(count)
        ]
        running = Running(execution, tasks, entry)
        running.work = asyncio.create_task(self._run(running))
        return running

    async def _run(self, running: Running) -> None:
        execution = running.execution
        execution.start_time = now()
        places = asyncio.Semaphore(execution.parallelism)
        await asyncio.gather(*(self._task(running, task, places) for task in running.tasks))
        execution.completion_time = now()
        failed = [task for task in running.tasks if _failed(task)]
        if not failed:
            state, reason, said = "CONDITION_SUCCEEDED", "EXECUTION_REASON_UNDEFINED", ""
        elif running.is_cancelled:
            state, reason, said = "CONDITION_FAILED", "CANCELLED", "Execution was cancelled."
        else:
            state, reason = "CONDITION_FAILED", "NON_ZERO_EXIT_CODE"
            task = failed[0]
            message = task.last_attempt_result.status.message or EXIT
            said = f"Task {task.name.rpartition('/')[2]} failed with message: {message}"
        execution.conditions.append(
            Condition(type_="Completed", state=state, execution_reason=reason, message=said)
        )

    async def _task(self, running: Running, task: run_v2.Task, places: asyncio.Semaphore) -> None:
        execution, template = running.execution, running.execution.template
        async with places:
            if not running.is_cancelled:
                task.start_time = now()
                execution.running_count += 1
                for number in range(template.max_retries + 1):
                    task.retried = number
                    await self._attempt(running, task, number)
                    if not _failed(task) or running.is_cancelled:
                        break
                execution.running_count -= 1
        task.completion_time = now()
        is_good = bool(task.start_time) and not _failed(task)
        if is_good:
            execution.succeeded_count += 1
        elif running.is_cancelled:
            execution.cancelled_count += 1
        else:
            execution.failed_count += 1
        reason = "CANCELLED" if running.is_cancelled else "NON_ZERO_EXIT_CODE"
        task.conditions.append(
            Condition(type_="Completed", state="CONDITION_SUCCEEDED")
            if is_good
            else Condition(type_="Completed", state="CONDITION_FAILED", execution_reason=reason)
        )

    async def _attempt(self, running: Running, task: run_v2.Task, number: int) -> None:
        template = running.execution.template
        seconds = template.timeout.total_seconds() or 600
        container = Container(
            command=[
                *(template.containers[0].command or running.entry),
                *template.containers[0].args,
            ],
            environment=self._environment(running, task, number),
            log=self.folder / task.execution / f"{task.index}-{number}.log",
            timeout=seconds,
        )
        attempt = Attempt(container)
        running.attempts.setdefault(task.index, []).append(attempt)
        memory = _mebibytes(template.containers[0].resources.limits["memory"])
        killer = asyncio.create_task(self._watch(attempt, task.index, number, memory))
        try:
            code = await container.run()
        finally:
            killer.cancel()
            await asyncio.wait({killer})
            attempt.is_over = True
        _settle(task, attempt, code)

    def _environment(self, running: Running, task: run_v2.Task, number: int) -> dict[str, str]:
        given = {
            one.name: self.secrets[one.value_source.secret_key_ref.secret]
            if one.value_source
            else one.value
            for one in running.execution.template.containers[0].env
        }
        return {
            **self.network,
            **given,
            "CLOUD_RUN_JOB": task.job,
            "CLOUD_RUN_EXECUTION": task.execution,
            "CLOUD_RUN_TASK_INDEX": str(task.index),
            "CLOUD_RUN_TASK_ATTEMPT": str(number),
            "CLOUD_RUN_TASK_COUNT": str(running.execution.task_count),
        }

    async def _watch(self, attempt: Attempt, task: int, number: int, memory: int) -> None:
        """Kill what takes more memory than it has, or what a test wants killed."""
        while True:
            await asyncio.sleep(0.1)
            used = await asyncio.to_thread(_used, attempt.container)
            if used > memory:
                attempt.said.append(
                    f"Memory limit of {memory} MiB exceeded with {used} MiB used. Consider "
                    "increasing the memory limit, see "
                    "https://cloud.google.com/run/docs/configuring/memory-limits"
                )
            is_chosen = number == 0 and await asyncio.to_thread(self.kill_when, task)
            if used > memory or is_chosen:
                attempt.container.send(signal.SIGKILL)
                return


def now() -> datetime:
    return datetime.now(UTC)


def _failed(task: run_v2.Task) -> bool:
    last = task.last_attempt_result
    return bool(last.exit_code or last.term_signal or last.status.code)


def _settle(task: run_v2.Task, attempt: Attempt, code: int) -> None:
    """How the attempt ended, in the platform's words."""
    result: dict[str, Any] = {"exitCode": code} if code <= 128 or code == 143 else {}
    if code and not result:
        result = {"termSignal": code - 128}
    if attempt.container.timed_out:
        status = {
            "code": code_pb2.DEADLINE_EXCEEDED,
            "message": "The configured timeout was reached.",
        }
        result["status"] = status
    elif attempt.said:
        result["status"] = {"code": code_pb2.RESOURCE_EXHAUSTED, "message": attempt.said[0]}
    elif code:
        result["status"] = {"code": code_pb2.UNKNOWN, "message": EXIT}
    attempt.said.append(f"Container called exit({code}).")
    task.last_attempt_result = run_v2.TaskAttemptResult.from_json(json.dumps(result))


def _mebibytes(limit: str) -> int:
    size, unit = re.fullmatch(r"(\d+)([GM])i", limit).groups()  # type: ignore[union-attr]
    return int(size) * (1024 if unit == "G" else 1)


def _used(container: Container) -> int:
    """MiB that the container's processes hold."""
    if container.process is None:
        return 0
    used = 0
    try:
        first = psutil.Process(container.process.pid)
        for one in (first, *first.children(recursive=True)):
            used += one.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
    return used >> 20
