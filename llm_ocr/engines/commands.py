"""Use an engine without a run: show its command, check it on known pages."""

import asyncio
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from llm_ocr.engines.check import Finding, check
from llm_ocr.engines.embedded.serving.command import embedded_command
from llm_ocr.engines.gpu import find_gpus
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.session import Notify
from llm_ocr.engines.targets import EngineTarget, vllm_options
from llm_ocr.engines.vllm import find_vllm, vllm_arguments, vllm_version
from llm_ocr.models.catalog import profile_named
from llm_ocr.settings import EngineChoice, EngineOptions


def describe_command(options: EngineOptions, host: str, port: int) -> str:
    """The command as one can paste it, each argument with its reason.

    vLLM's is shown where it isn't installed and where no GPU is, unless the embedded engine was
    asked for: it may be meant for another machine. Raises EngineFailedError where the model can't
    fit, or the installed vLLM does not report its version.
    """
    if options.engine is EngineChoice.EMBEDDED:
        return shlex.join(
            [*embedded_command(options.engine_threads).argv, "--host", host, "--port", str(port)]
        )
    profile, serving, gpus = profile_named(options.model), vllm_options(options), find_gpus()
    found = ", ".join(f"{gpu.name} ({gpu.memory_gib:.0f} GiB)" for gpu in gpus)
    path = find_vllm(serving.executable)
    version = "" if path is None else vllm_version(path)
    lines = [f"# {profile.id} on {found or 'no GPU: sized for the smallest'}"]
    parts = [f"{serving.executable} serve {serving.weights or profile.model}"]
    for argument in vllm_arguments(profile, gpus, serving, version):
        parts.append(
            shlex.join(
                [argument.flag] if argument.value is None else [argument.flag, argument.value]
            )
        )
        lines.append(f"#   {argument.flag}: {argument.why}")
    if serving.extra:
        parts.append(serving.extra)
        lines.append(f"#   {serving.extra}: from the settings")
    parts.append(shlex.join(["--host", host, "--port", str(port)]))
    return "\n".join([*lines, " \\\n  ".join(parts)])


def check_target(
    options: EngineOptions, target: EngineTarget, log_dir: Path | None, notify: Notify
) -> tuple[str, Sequence[Finding]]:
    """The address that was asked, and the result for each known page. Raises EngineFailedError."""
    # Its findings are the result here, not a condition of the start.
    unchecked = options.model_copy(update={"skip_model_check": True})

    async def check_started() -> tuple[str, Sequence[Finding]]:
        with tempfile.TemporaryDirectory(prefix="llm-ocr-check-") as folder:
            logs = log_dir or Path(folder)
            async with EnginePool(unchecked, logs, notify, lambda _: None) as pool:
                async with pool.lease(target) as session:
                    await session.start()
                    notify(f"checking {target.model.name} on known pages")
                    findings = await check(session.client, target.model.profile)
                    return session.client.base_url, findings

    return asyncio.run(check_started())
