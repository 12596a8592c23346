"""Use engines without a run: start one alone, show its command, check it on known pages."""

import asyncio
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from llm_ocr.engines.check import Finding, check
from llm_ocr.engines.embedded.command import EMBEDDED, check_installed, embedded_command
from llm_ocr.engines.gpu import find_gpus
from llm_ocr.engines.launch import EngineCommand
from llm_ocr.engines.vllm import check_version, vllm_arguments, vllm_command, vllm_version
from llm_ocr.models.catalog import profile_named
from llm_ocr.pipeline.engine_session import EngineSession
from llm_ocr.pipeline.engine_targets import EngineKind, resolve_engine, vllm_options
from llm_ocr.pipeline.events import Note, Notify
from llm_ocr.settings import EngineChoice, Settings


def engine_command(settings: Settings, notify: Notify, name: str | None = None) -> EngineCommand:
    """What starts the engine that the settings choose; `name` is what an embedded one serves as.

    Raises EngineFailedError.
    """
    target = resolve_engine(settings, settings.model)
    if target.kind is EngineKind.EMBEDDED:
        check_installed()
        return embedded_command(settings.engine_threads, name or EMBEDDED.model)
    profile = target.reader.profile
    command = vllm_command(profile, target.gpus, vllm_options(settings))
    warning = check_version(profile, vllm_version(command.argv[0]))
    if warning:
        notify(Note(warning))
    return command


def describe_command(settings: Settings, host: str, port: int) -> str:
    """The command as one can paste it, each argument with its reason.

    vLLM's is shown where it isn't installed and where no GPU is, unless the embedded engine was
    asked for: it may be meant for another machine.
    """
    if settings.engine is EngineChoice.EMBEDDED:
        return shlex.join(
            [*embedded_command(settings.engine_threads).argv, "--host", host, "--port", str(port)]
        )
    profile, options, gpus = profile_named(settings.model), vllm_options(settings), find_gpus()
    found = ", ".join(f"{gpu.name} ({gpu.memory_gib:.0f} GiB)" for gpu in gpus)
    lines = [f"# {profile.id} on {found or 'no GPU: sized for the smallest'}"]
    parts = [f"{options.executable} serve {options.weights or profile.model}"]
    for one in vllm_arguments(profile, gpus, options):
        parts.append(shlex.join([one.flag] if one.value is None else [one.flag, one.value]))
        lines.append(f"#   {one.flag}: {one.why}")
    if options.extra:
        parts.append(options.extra)
        lines.append(f"#   {options.extra}: as given with --vllm-args")
    parts.append(f"--host {host} --port {port}")
    return "\n".join([*lines, " \\\n  ".join(parts)])


def check_target(settings: Settings, notify: Notify) -> tuple[str, Sequence[Finding]]:
    """Where was asked, and what came of each known page. Raises EngineFailedError."""
    target = resolve_engine(settings, settings.model)
    unchecked = settings.model_copy(update={"skip_model_check": True})

    async def asked() -> tuple[str, Sequence[Finding]]:
        with tempfile.TemporaryDirectory(prefix="llm-ocr-check-") as folder:
            log_dir = settings.log_dir or Path(folder)
            async with EngineSession(
                unchecked, target, log_dir, notify, lambda _: None
            ) as engine_session:
                await engine_session.start()
                notify(Note(f"checking {target.reader.model} on known pages"))
                findings = await check(engine_session.client, target.reader.profile)
                return engine_session.client.base_url, findings

    return asyncio.run(asked())
