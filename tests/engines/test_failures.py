"""What is told of an engine's log: excerpts of what real vLLM 0.32 wrote, where not said else."""

from pathlib import Path

import pytest

from llm_ocr.engines.failures import LINES_SHOWN, STARTED, Diagnosis, diagnose
from llm_ocr.messages import ProblemCode

# Written at every start on a machine with a low limit of open files.
WARNING = (
    "(APIServer pid=24854) WARNING 11-21 10:52:06 [system_utils.py:255] Found ulimit of 20000 and "
    "failed to automatically increase with error current limit exceeds maximum limit.\n"
)
ARGUMENT = """\
usage: vllm [-h] [-v]
            {chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch}
            ...
vllm: error: unrecognized arguments: --max-numb-seqs 8
"""
TOO_LONG = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len \
(max_position_embeddings=8192.0 or model_max_length=None in model's config.json).
"""
EMPTY_FOLDER = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Invalid repository ID or local directory specified: '/tmp/vt/empty'.
Please verify the following requirements:
 [type=value_error, input_value=ArgsKwargs((), {'model': ...nderer_num_workers': 1})]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
NO_REPOSITORY = """\
httpx2.HTTPStatusError: Client error '401 Unauthorized' for url 'https://huggingface.co/a/b'
huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.
OSError: a/b is not a local folder and is not a valid model identifier listed on \
'https://huggingface.co/models'
"""
NO_REVISION = """\
huggingface_hub.errors.RevisionNotFoundError: 404 Client Error.
OSError: 9f30c71 is not a valid git identifier (branch name, tag name or commit id) that exists \
for this model name.
"""
OFFLINE = """\
    raise LocalEntryNotFoundError(
huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder \
for the specified revision on the local disk and outgoing traffic has been disabled.
"""
HUB_AWAY = """\
httpx2.ConnectError: [Errno 111] Connection refused
OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find \
them in the cached files.
"""
GATED = """\
huggingface_hub.errors.GatedRepoError: 403 Client Error.
OSError: You are trying to access a gated repo.
"""
WRONG_TOKEN = """\
OSError: There was a specific connection error when trying to load deepseek-ai/DeepSeek-OCR:
Client error '401 Unauthorized' for url 'https://huggingface.co/a/b/resolve/main/config.json'

Invalid credentials in Authorization header
"""
SMALL_CACHE = """\
(EngineCore pid=24913) ERROR 11-21 10:52:33 [core.py:1510] EngineCore failed to start.
(EngineCore pid=24913) ERROR 11-21 10:52:33 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=24913) ERROR 11-21 10:52:33 [core.py:1510]   File "/v/kv_cache_utils.py", line 7, \
in _check_enough_kv_cache_memory
(EngineCore pid=24913) ERROR 11-21 10:52:33 [core.py:1510]     raise ValueError(
(EngineCore pid=24913) ERROR 11-21 10:52:33 [core.py:1510] ValueError: To serve at least one \
request with the model's max seq len (8192), (0.0 GiB KV cache is needed, which is larger than \
the available KV cache memory (0.0 GiB).
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
# As PyTorch words it; not provoked here.
OUT_OF_MEMORY = """\
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity \
of 22.03 GiB of which 1.06 GiB is free.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
ARCHITECTURE = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Model architectures ['TotallyNewForCausalLM'] are not supported for now.
"""
PORT = "OSError: [Errno 98] Address already in use\n"
# The messages of vLLM, PyTorch and Linux, from their sources; not provoked here.
NO_GPU = "RuntimeError: Failed to infer device type, please set the environment variable\n"
OLD_DRIVER = "RuntimeError: The NVIDIA driver on your system is too old: Found no NVIDIA driver\n"
DISK = "OSError: [Errno 28] No space left on device\n"
SHARED_MEMORY = "RuntimeError: unable to open shared memory object </torch_9> in read-write mode\n"
WAITING = "(EngineCore pid=9) No available shared memory broadcast block found in 60 seconds.\n"


def diagnose_log(tmp_path: Path, text: str) -> Diagnosis:
    log_path = tmp_path / "engine.log"
    log_path.write_text(STARTED + WARNING + text)
    return diagnose(log_path)


def diagnosis_text(tmp_path: Path, text: str) -> str:
    return diagnose_log(tmp_path, text).text


# From transformers' source, as its words are where a model brings code.
CODE = """\
ValueError: The repository me/tuned contains custom code which must be executed to correctly load \
the model. You can inspect the repository content at https://hf.co/me/tuned .
Please pass the argument `trust_remote_code=True` to allow custom code to be run.
"""


@pytest.mark.parametrize(
    ("text", "cause", "code", "words"),
    [
        (CODE, "[[serving.arguments]]", ProblemCode.REMOTE_CODE, "contains custom code"),
        (
            *(ARGUMENT, "does not accept one of its arguments", ProblemCode.VLLM_ARGUMENTS),
            "unrecognized arguments: --max-numb-seqs 8",
        ),
        (
            *(TOO_LONG, "does not accept one of its arguments", ProblemCode.VLLM_ARGUMENTS),
            "max_model_len (100000) is greater",
        ),
        (EMPTY_FOLDER, "model or revision", ProblemCode.MODEL_NOT_FOUND, "'/tmp/vt/empty'"),
        (
            *(NO_REPOSITORY, "model or revision", ProblemCode.MODEL_NOT_FOUND),
            "a/b is not a local folder",
        ),
        (
            *(NO_REVISION, "model or revision", ProblemCode.MODEL_NOT_FOUND),
            "9f30c71 is not a valid git",
        ),
        (
            *(OFFLINE, "HF_HUB_OFFLINE", ProblemCode.WEIGHTS_UNAVAILABLE),
            "outgoing traffic has been disabled",
        ),
        (HUB_AWAY, "HF_HUB_OFFLINE", ProblemCode.WEIGHTS_UNAVAILABLE, "couldn't connect to"),
        (GATED, "set HF_TOKEN", ProblemCode.WEIGHTS_UNAVAILABLE, "gated repo"),
        (WRONG_TOKEN, "set HF_TOKEN", ProblemCode.WEIGHTS_UNAVAILABLE, "401 Unauthorized"),
        (SMALL_CACHE, "free GPU memory", ProblemCode.GPU_MEMORY, "KV cache is needed"),
        (OUT_OF_MEMORY, "free GPU memory", ProblemCode.GPU_MEMORY, "Tried to allocate 2.00 GiB"),
        (ARCHITECTURE, "does not support the model", None, "TotallyNewForCausalLM"),
        (PORT, "the port is in use by another process", None, "Address already in use"),
        (NO_GPU, "no usable GPU", ProblemCode.NO_GPU, "Failed to infer device type"),
        (OLD_DRIVER, "nvidia-smi and the driver", ProblemCode.NO_GPU, "Found no NVIDIA driver"),
        (DISK, "the disk is full", None, "No space left"),
        (SHARED_MEMORY, "--shm-size", None, "unable to open shared memory"),
    ],
)
def test_known_cause_is_shown_with_its_code(
    tmp_path: Path, text: str, cause: str, code: ProblemCode | None, words: str
) -> None:
    found = diagnose_log(tmp_path, text)
    assert found.code is code
    first, *lines = found.text.splitlines()
    assert cause in first
    assert first.endswith(f"From its log ({tmp_path / 'engine.log'}):")
    assert words in "\n".join(lines)


def test_error_message_is_shown_without_its_traceback(tmp_path: Path) -> None:
    _, *lines = diagnosis_text(tmp_path, SMALL_CACHE).splitlines()
    assert lines == [
        "  EngineCore failed to start.",
        "  ValueError: To serve at least one request with the model's max seq len (8192), (0.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (0.0 GiB).",
        "  RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}",
    ]


def test_last_of_several_causes_is_shown(tmp_path: Path) -> None:
    """Each follows from the one before: no token was needed for a model that isn't there."""
    missing = diagnose_log(tmp_path, WRONG_TOKEN + NO_REPOSITORY)
    assert missing.code is ProblemCode.MODEL_NOT_FOUND
    assert "HF_TOKEN" in diagnosis_text(tmp_path, NO_REPOSITORY + WRONG_TOKEN).splitlines()[0]


def test_only_the_last_start_is_reported(tmp_path: Path) -> None:
    said = diagnosis_text(tmp_path, DISK + STARTED + PORT)
    assert "the port is in use by another process" in said
    assert "disk" not in said
    assert "No space" not in said


def test_an_unknown_cause_is_shown_without_advice(tmp_path: Path) -> None:
    said = diagnosis_text(tmp_path, "loading\nZeroDivisionError: division by zero\n" + WAITING)
    assert said == (
        f". From its log ({tmp_path / 'engine.log'}):\n  ZeroDivisionError: division by zero"
    )


def test_log_without_errors_shows_its_last_lines(tmp_path: Path) -> None:
    said = diagnosis_text(tmp_path, "".join(f"line {number}\n" for number in range(20)))
    assert said.splitlines()[1:] == [f"  line {20 - left}" for left in range(LINES_SHOWN, 0, -1)]


def test_long_logs_are_read_from_their_end_and_long_lines_are_cut(tmp_path: Path) -> None:
    said = diagnosis_text(
        tmp_path, "noise without end\n" * 40_000 + "ValueError: " + "x" * 1000 + "\n"
    )
    assert said.splitlines()[1:] == ["  ValueError: " + "x" * 288]


def test_empty_or_missing_log_is_reported(tmp_path: Path) -> None:
    assert diagnose(tmp_path / "none.log") == Diagnosis("")
    (tmp_path / "engine.log").write_text(STARTED)
    assert diagnose(tmp_path / "engine.log") == Diagnosis("")


def test_log_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_bytes(STARTED.encode() + b"\xff\xfe\nfailed: \xc3\n")
    assert "failed: �" in diagnose(tmp_path / "engine.log").text
