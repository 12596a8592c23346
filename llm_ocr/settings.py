"""Settings of a run: each is declared once, with its type, bounds, default and description.

Values come from defaults, an env file, the environment and arguments; later sources win. The
environment variable of a setting is its name behind `LLM_OCR_`, for instance `LLM_OCR_BASE_URL`. An
env file is read only if the user names it: with `--env-file` (`_env_file` in Python), or as
`LLM_OCR_ENV_FILE`. `llm_ocr.env_file` says what such a file may not set.

The groups (`RenderSettings`, `EngineSettings`, ...) are base classes of `Settings`, so that names
are flat everywhere: in Python, in the environment, as options and in a run's plan. The command line
(`llm_ocr.cli.options`) and its reference (`docs/cli.md`) are generated from them. A description may
link to a page of docs/, names other settings in backticks, and ends with `(default: ...)` where the
default value doesn't say it.
"""

import os
import re
from collections.abc import Collection, Mapping
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from llm_ocr.env_file import (
    PREFIX,
    find_env_file,
    read_env_file,
    variable_name,
    warn_of_unread_file,
)
from llm_ocr.inference.address import BASIC, split_credentials
from llm_ocr.parsing.schema import InputMode, RecordScope
from llm_ocr.records import TextLayerUse

if TYPE_CHECKING:
    from llm_ocr.sources.inputs import PageSelection
    from llm_ocr.sources.web import UrlPolicy

DEFAULT_MODEL = "deepseek-ocr"
_SCHEMA_FILE = re.compile(r"(.+\.(?:json|py))(:[\w.]+)?")


class EngineChoice(StrEnum):
    """The engine to start; `auto`: vLLM if it is installed and there is a GPU, else the embedded
    one."""

    AUTO = "auto"
    VLLM = "vllm"
    EMBEDDED = "embedded"


class Fallback(StrEnum):
    """What reads a page that the model can't; `auto`: the PDF's text, else the embedded engine."""

    AUTO = "auto"
    TEXT_LAYER = "text-layer"
    EMBEDDED = "embedded"
    NONE = "none"


class PageRouting(StrEnum):
    """Which pages the embedded engine reads instead of the model; `auto`: those that are simple."""

    OFF = "off"
    AUTO = "auto"


class Trait(Enum):
    """What the type of a setting doesn't say."""

    IDENTITY = "a run resumes only with the same value"
    NO_OPTION = "set in the environment or an env file only"
    REPEATABLE = "a comma-separated list, whose option may be repeated"


def _checked_profile(name: str | None) -> str | None:
    """The name; raises where no profile has it."""
    from llm_ocr.models.catalog import profile_named

    if name is not None:
        profile_named(name)
    return name


def _expanded_home(path: Path | None) -> Path | None:
    """A shell doesn't expand `--weights=~/model` or `LLM_OCR_WEIGHTS='~/model'`."""
    return None if path is None else Path(os.path.expanduser(path))


class SettingsGroup(BaseModel):
    """Settings that belong together; `title` is that of their section in help and docs."""

    title: ClassVar[str]


class EnvFileSettings(BaseSettings):
    """Settings whose values come from arguments, the environment, and the env file that the user
    names, in this order."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The usual sources, with env files read by `llm_ocr.env_file`. Raises EnvFileError."""
        assert isinstance(dotenv_settings, DotEnvSettingsSource)
        given = dotenv_settings.env_file
        assert given is None or isinstance(given, str | Path)
        from_file = InitSettingsSource(
            settings_cls, dict(from_env_file(given, settings_cls.model_fields))
        )
        return init_settings, env_settings, from_file


class ModelSettings(SettingsGroup):
    """Which model reads."""

    title = "Model"

    model: Annotated[
        str,
        Field(
            description="[Model profile](models.md): a name, or a TOML or YAML file (default: "
            "deepseek-ocr; of retry and reparse: the run's)."
        ),
        Trait.IDENTITY,
    ] = DEFAULT_MODEL
    revision: Annotated[
        str | None,
        Field(description="Commit of the weights on the Hub (default: the profile's)."),
        Trait.IDENTITY,
    ] = None


class UrlSettings(SettingsGroup):
    """Which URLs documents are downloaded from."""

    title = "URLs"

    allow_http_urls: Annotated[
        bool, Field(description="Download from http:// URLs too, which are not encrypted.")
    ] = False
    allow_private_urls: Annotated[
        bool,
        Field(
            description="Download from hosts that are [not on the public internet]"
            "(convert.md#urls) too, such as those of your network."
        ),
    ] = False


class PageSettings(SettingsGroup):
    """Which pages are read, and what a PDF's own text is used for."""

    title = "Pages"

    pages: Annotated[
        str | None,
        Field(description="Pages to read of each document, such as 1-5,9 or 3- (default: all)."),
        Trait.IDENTITY,
    ] = None
    limit: Annotated[
        int | None,
        Field(
            ge=1,
            description="Read only the first N documents or "
            "[rows](datasets.md#reading-some-of-the-rows) (default: all).",
        ),
        Trait.IDENTITY,
    ] = None
    sample: Annotated[
        int | None,
        Field(ge=1, description="Read N documents or rows, chosen at random (default: all)."),
        Trait.IDENTITY,
    ] = None
    seed: Annotated[int, Field(description="Random seed for `sample`."), Trait.IDENTITY] = 0
    text_layer: Annotated[
        TextLayerUse,
        Field(
            description="Use of a [PDF's own text](how-it-works.md#the-pdfs-own-text): auto (where "
            "it can be trusted), off, or only: no model is asked."
        ),
        Trait.IDENTITY,
    ] = TextLayerUse.AUTO
    # Of 253 pages read from their pixels and compared with their text layers, 5 are below: 3 with
    # no text read, 2 with half of it (a cover, handwriting). Compared with the layers of other
    # documents 0.1% to 0.8% of answers pass, with other pages of the same document 4% to 9%. At
    # half of this value 20% to 66% pass; at 0.8 almost none, and 9 of the 253 are below.
    min_agreement: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Retry an answer that agrees less than this with the PDF's own text; 0 "
            "turns [all checks of answers](how-it-works.md#judging-answers) off.",
        ),
    ] = 0.5


class RenderSettings(SettingsGroup):
    """How pages become images."""

    title = "Rendering"

    password: Annotated[
        SecretStr | None,
        Field(description="Password of encrypted PDFs; prefer LLM_OCR_PASSWORD (default: none)."),
    ] = None
    render_workers: Annotated[
        int | None,
        Field(ge=1, description="Processes that render pages (default: one per core, up to 8)."),
    ] = None
    render_timeout: Annotated[
        float, Field(gt=0, description="Seconds allowed for rendering one page.")
    ] = 120.0
    max_pixels: Annotated[
        int,
        Field(
            gt=0,
            description="Largest size, in pixels, that the images on a page may decode to; larger "
            "ones are refused before decoding.",
        ),
    ] = 178_956_970
    keep_metadata: Annotated[
        bool,
        Field(
            description="Store JPEGs with their EXIF and other metadata, which may include where "
            "they were taken."
        ),
        Trait.NO_OPTION,
    ] = False


class DescribeSettings(SettingsGroup):
    """Tasks for figures."""

    title = "Figures"

    describe: Annotated[bool, Field(description="Describe the figures.")] = True
    describe_model: Annotated[
        str | None,
        Field(description="Model profile for the figures (default: `model`)."),
        Trait.IDENTITY,
    ] = None
    describe_task: Annotated[
        str | None,
        Field(
            description="What to [ask about figures](figures.md): describe, caption, data, "
            "classify, or the name of your own task; comma-separated, or repeat the option "
            "(default: describe)."
        ),
        Trait.REPEATABLE,
    ] = None
    task_prompt: Annotated[
        str | None,
        Field(
            description="Prompt of [your own task](figures.md#your-own-tasks) about each "
            "figure: text or @FILE (default: none)."
        ),
    ] = None
    task_schema: Annotated[
        str | None,
        Field(
            description="Schema of the answers to `task_prompt`: a JSON Schema file, a Python file "
            "or module:Class (default: none)."
        ),
    ] = None
    classes: Annotated[
        str | None,
        Field(
            description="Classes of the task classify, comma-separated (default: chart, table, "
            "diagram, photo, logo, other)."
        ),
        Trait.REPEATABLE,
    ] = None
    min_figure_area: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Skip figures that cover a [smaller share](figures.md#small-figures) of "
            "their page than this.",
        ),
    ] = 0.01


class ParseSettings(SettingsGroup):
    """How documents become records."""

    title = "Records"

    record_schema: Annotated[
        str | None,
        Field(
            description="[Schema](parse.md#a-schema) of the records: a built-in's name, "
            "module:Class, a Python file or a JSON Schema file (default: none)."
        ),
        Trait.NO_OPTION,
    ] = None
    parse_model: Annotated[
        str | None, Field(description="Model profile for the records (default: `model`).")
    ] = None
    record_per: Annotated[
        RecordScope, Field(description="Make one record per document or per page.")
    ] = RecordScope.DOCUMENT
    input_mode: Annotated[
        InputMode,
        Field(
            description="What the model receives: the page image, the text that was read on it, or "
            "both."
        ),
    ] = InputMode.BOTH
    drop_unverified: Annotated[
        bool, Field(description="Leave out values that were not found on the page.")
    ] = False
    second_pass: Annotated[
        bool,
        Field(
            description="Ask models again for [rows that a list lacks](parse.md#a-second-pass), "
            "where the page seems to have more."
        ),
    ] = False
    check_model: Annotated[
        str | None,
        Field(
            description="A second model that [answers each request again](parse.md#a-second-model) "
            "to find the values on which the two disagree: a profile, or embedded (default: none)."
        ),
    ] = None
    redo: Annotated[
        str | None,
        Field(
            description="Redo the records with these statuses, such as failed,truncated "
            "(default: none)."
        ),
        Trait.REPEATABLE,
    ] = None


class ServerSettings(SettingsGroup):
    """A server that is already running."""

    title = "Server"

    base_url: Annotated[
        str | None,
        Field(
            description="Address of a running server, such as http://host:8000/v1 (default: none; "
            "an engine is started)."
        ),
    ] = None
    api_key: Annotated[
        SecretStr | None,
        Field(description="API key for `base_url`; prefer LLM_OCR_API_KEY (default: none)."),
    ] = None
    served_model: Annotated[
        str | None,
        Field(description="The model's name on the server (default: the profile's model)."),
        Trait.IDENTITY,
    ] = None


class EngineSettings(SettingsGroup):
    """An engine that is started for the run."""

    title = "Engine"

    engine: Annotated[
        EngineChoice,
        Field(
            description="Engine to start without `base_url`: vllm, embedded (runs on the CPU), or "
            "auto: vLLM if it is installed and a GPU is present, else embedded."
        ),
        Trait.IDENTITY,
    ] = EngineChoice.AUTO
    engine_threads: Annotated[
        int | None, Field(ge=1, description="CPU cores of the embedded engine (default: all).")
    ] = None
    ready_timeout: Annotated[
        float | None,
        Field(
            gt=0,
            description="Seconds allowed for an engine or server to become ready (default: 1800 "
            "for vLLM, else 120).",
        ),
    ] = None
    engine_memory: Annotated[
        float | None,
        Field(
            ge=0,
            description="Memory of this machine, in GiB, above which launched engines are "
            "[restarted](how-it-works.md#memory-of-the-engine) between two requests; 0: never "
            "(default: 70% of the machine's or container's).",
        ),
    ] = None
    vllm: Annotated[str, Field(description="The vLLM command: a name or a path.")] = "vllm"
    vllm_args: Annotated[
        str,
        Field(
            description="More arguments for `vllm serve`; they override llm_ocr's own "
            "(default: none)."
        ),
    ] = ""
    weights: Annotated[
        Path | None,
        Field(description="Local folder with the model's weights (default: from the Hub)."),
    ] = None
    tensor_parallel: Annotated[
        int,
        Field(
            ge=1,
            description="Number of GPUs that share one copy of the model; further GPUs get copies "
            "of their own.",
        ),
    ] = 1


class RequestSettings(SettingsGroup):
    """Requests to model servers."""

    title = "Requests"

    concurrency: Annotated[
        int | None,
        Field(
            ge=1,
            description="Maximum number of concurrent requests (default: "
            "[adapts to the server](how-it-works.md#the-window)).",
        ),
    ] = None
    request_timeout: Annotated[
        float, Field(gt=0, description="Seconds allowed for one answer.")
    ] = 600.0
    busy_timeout: Annotated[
        float,
        Field(
            ge=0,
            description="Seconds to keep retrying a server that reports that it is busy "
            "(429, 503).",
        ),
    ] = 600.0
    skip_model_check: Annotated[
        bool,
        Field(
            description="Start without [testing the server](how-it-works.md#the-check) on known "
            "pages."
        ),
    ] = False


class FallbackSettings(SettingsGroup):
    """What reads pages instead of the model: simple ones, and those that it can't read."""

    title = "Routing and fallback"

    route: Annotated[
        PageRouting,
        Field(
            description="auto: [simple pages](how-it-works.md#routing) of born-digital PDFs are "
            "read by the embedded engine, and the model reads the others."
        ),
    ] = PageRouting.OFF
    fallback: Annotated[
        Fallback,
        Field(
            description="Fallback for pages that no model can read: text-layer (the PDF's own "
            "text), embedded, none, or auto: text-layer, else embedded if it is installed."
        ),
    ] = Fallback.AUTO
    fallback_base_url: Annotated[
        str | None,
        Field(
            description="Address of a second server, which gets the pages that the model can't "
            "read (default: none)."
        ),
    ] = None
    fallback_model: Annotated[
        str | None, Field(description="Model profile of `fallback_base_url` (default: `model`).")
    ] = None
    fallback_api_key: Annotated[
        SecretStr | None,
        Field(description="API key for `fallback_base_url` (default: none)."),
        Trait.NO_OPTION,
    ] = None


class CheckSettings(SettingsGroup):
    """Where the second model answers that checks records."""

    title = "Check of records"

    check_base_url: Annotated[
        str | None,
        Field(description="Address of the server of `check_model` (default: `base_url`)."),
    ] = None
    check_api_key: Annotated[
        SecretStr | None,
        Field(description="API key for `check_base_url` (default: none)."),
        Trait.NO_OPTION,
    ] = None


# The addresses of servers, each with the setting of its key.
SERVER_KEYS = {
    "base_url": "api_key",
    "fallback_base_url": "fallback_api_key",
    "check_base_url": "check_api_key",
}


class EngineOptions(
    CheckSettings, FallbackSettings, RequestSettings, EngineSettings, ServerSettings, ModelSettings
):
    """What engines are started and asked with. A service makes its own, as in
    `EngineOptions(base_url=...)`: only `Settings` read the environment and an env file.

    `model` is the profile that `revision` and `served_model` are about.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _split_credentials(cls, values: object) -> object:
        """Move a user name and password within an address into the key's setting; see
        `split_credentials`."""
        if not isinstance(values, dict):
            return values
        changes: dict[str, object] = {}
        for url, key in SERVER_KEYS.items():
            if not isinstance(given := values.get(url), str):
                continue
            try:
                address, credentials = split_credentials(given)
            except ValueError as error:
                raise ValueError(f"{url}: {error}") from error
            if credentials is None:
                continue
            set_before = values.get(key)
            if isinstance(set_before, SecretStr):
                set_before = set_before.get_secret_value()
            if set_before and not str(set_before).startswith(BASIC):
                raise ValueError(
                    f"{url}: it contains a user name or password, and {key} is set too, but only "
                    "one of them can be sent: remove the other"
                )
            changes |= {url: address, key: credentials}
        return {**values, **changes}

    @field_validator("model", "fallback_model")
    @classmethod
    def _check_engine_profile(cls, value: str | None) -> str | None:
        return _checked_profile(value)

    @field_validator("weights")
    @classmethod
    def _expand_weights(cls, value: Path | None) -> Path | None:
        return _expanded_home(value)


class MetricsSettings(SettingsGroup):
    """Where a running run, or a process of the service, can be watched."""

    title = "Metrics"

    metrics_port: Annotated[
        int | None,
        Field(
            ge=0,
            description="Port for Prometheus metrics of [runs](how-it-works.md#metrics) and of the "
            "[service](service/monitoring.md); 0 picks a free one (default: no metrics).",
        ),
    ] = None
    metrics_host: Annotated[
        str, Field(description="Address that the metrics listen on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1"


class RunSettings(SettingsGroup):
    """How the work is split among workers, saved, and stopped."""

    title = "Workers, saving and stopping"

    shard_index: Annotated[
        int | None,
        Field(
            ge=0,
            description="This [worker's](stores.md#several-workers) number, from 0 (default: the "
            "platform's, else 0).",
        ),
    ] = None
    shard_count: Annotated[
        int | None,
        Field(
            ge=1,
            description="Number of workers that share the run (default: the platform's, else 1).",
        ),
    ] = None
    steal_work: Annotated[
        bool,
        Field(
            description="After finishing its own shards, take over unfinished shards of other "
            "workers."
        ),
    ] = False
    shard_pages: Annotated[
        int,
        Field(
            ge=1,
            description="Pages per shard, the unit of work that is committed; a larger document is "
            "a shard of its own.",
        ),
    ] = 512
    flush_pages: Annotated[
        int,
        Field(ge=1, description="Save finished pages when there are this many of them."),
        Trait.NO_OPTION,
    ] = 64
    flush_seconds: Annotated[
        float, Field(gt=0, description="Save finished pages after this many seconds.")
    ] = 60.0
    time_limit: Annotated[
        float | None,
        Field(
            gt=0,
            description="[Stop gracefully](cli.md#interruptions) after this many "
            "seconds; the run can be resumed (default: none).",
        ),
    ] = None
    stop_seconds: Annotated[
        float,
        Field(
            gt=0,
            description="Seconds from SIGTERM to the end of the process, "
            "[at most](cli.md#interruptions).",
        ),
        Trait.NO_OPTION,
    ] = 25.0
    max_failed_ratio: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Exit with code 1 if a larger share of the pages, or of the records, "
            "failed.",
        ),
    ] = 0.01
    public: Annotated[
        bool, Field(description="Create a new hf://datasets/ repository as public, not private.")
    ] = False


class OutputSettings(SettingsGroup):
    """What a run writes in addition to its tables."""

    title = "Output"

    staging: Annotated[
        str | None,
        Field(
            description="Where a run to [hf://datasets/...](stores.md#the-hugging-face-hub) keeps "
            "its plan and shards (default: a bucket next to the repository)."
        ),
    ] = None
    markdown: Annotated[
        bool | None,
        Field(
            description="Write one Markdown file per document (default: if there are at most "
            "10,000 documents)."
        ),
    ] = None
    viewer_pages: Annotated[
        int,
        Field(ge=0, description="Pages in index.html, problems first; 0 writes no viewer."),
    ] = 300
    source_license: Annotated[
        str | None,
        Field(
            description="License of the documents, for the "
            "[dataset card](outputs.md#the-dataset-card) (default: none)."
        ),
    ] = None
    log_dir: Annotated[
        Path | None,
        Field(description="Folder of the engine's log (default: `logs` in the run)."),
        Trait.NO_OPTION,
    ] = None


class CostSettings(SettingsGroup):
    """What the run may cost."""

    title = "Cost"

    price_per_hour: Annotated[
        float | None,
        Field(
            ge=0,
            description="Hourly price of this machine in US dollars; enables cost reporting "
            "(default: none).",
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        Field(
            gt=0,
            description="[Budget](costs.md#a-budget-for-a-run) in US dollars, for all workers "
            "together: the run stops when it is spent. Requires `price_per_hour` "
            "(default: none).",
        ),
    ] = None


class EstimateSettings(SettingsGroup):
    """What cost estimates are computed from."""

    title = "Prices and speeds"

    prices: Annotated[
        Path | None,
        Field(
            description="TOML file of [prices](costs.md#prices-and-speeds-are-files) that override "
            "the built-in ones (default: none)."
        ),
    ] = None
    throughput: Annotated[
        Path | None,
        Field(
            description="TOML file of [speeds](costs.md#prices-and-speeds-are-files) that override "
            "the built-in ones (default: none)."
        ),
    ] = None


class ExportSettings(SettingsGroup):
    """How documents are [exported](export.md)."""

    title = "Export"

    chunk_tokens: Annotated[
        int,
        Field(
            ge=16,
            description="Largest number of tokens in a [chunk](export.md#chunks); only a row of a "
            "table that has more makes a longer one.",
        ),
    ] = 512
    chunk_tokenizer: Annotated[
        str | None,
        Field(
            description="What counts the tokens of chunks: the path of a `tokenizer.json`, or the "
            "name of a model on the Hub (default: an "
            "[estimate](export.md#chunks) from the letters)."
        ),
    ] = None


# In the order of the help pages and of docs/cli.md.
GROUPS: tuple[type[SettingsGroup], ...] = (
    ModelSettings,
    UrlSettings,
    PageSettings,
    RenderSettings,
    DescribeSettings,
    ParseSettings,
    ServerSettings,
    EngineSettings,
    RequestSettings,
    FallbackSettings,
    CheckSettings,
    MetricsSettings,
    RunSettings,
    OutputSettings,
    CostSettings,
    EstimateSettings,
    ExportSettings,
)


# pydantic takes the fields of the last base class first.
class Settings(
    ExportSettings,
    EstimateSettings,
    CostSettings,
    OutputSettings,
    RunSettings,
    MetricsSettings,
    EngineOptions,
    ParseSettings,
    DescribeSettings,
    RenderSettings,
    PageSettings,
    UrlSettings,
    ModelSettings,
    EnvFileSettings,
):
    """All settings of a run. Those with `Trait.IDENTITY` are part of its identity: a run is resumed
    only with the same values of them."""

    # `EngineOptions` has another one.
    model_config = EnvFileSettings.model_config

    @field_validator("describe_model", "parse_model")
    @classmethod
    def _check_step_profile(cls, value: str | None) -> str | None:
        return _checked_profile(value)

    @field_validator("check_model")
    @classmethod
    def _check_checking_profile(cls, value: str | None) -> str | None:
        return value if value == EngineChoice.EMBEDDED else _checked_profile(value)

    @field_validator("describe_task", "classes", "redo", mode="before")
    @classmethod
    def _join_list(cls, value: object) -> object:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

    @field_validator("task_prompt")
    @classmethod
    def _read_prompt_file(cls, value: str | None) -> str | None:
        """The content of @FILE: the file may not exist where the task is done."""
        from llm_ocr.storage.local_files import local_file

        if value is None or not value.startswith("@"):
            return value
        try:
            path = local_file(value[1:])
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{value[1:]} can't be read as a prompt: {error}") from error

    @field_validator("log_dir", "prices", "throughput")
    @classmethod
    def _expand_paths(cls, value: Path | None) -> Path | None:
        return _expanded_home(value)

    @field_validator("task_schema")
    @classmethod
    def _absolute_schema_file(cls, value: str | None) -> str | None:
        """A file, which may be followed by a class, as an absolute path; a module unchanged."""
        found = _SCHEMA_FILE.fullmatch(value or "")
        if found is None or "://" in found[1]:
            return value
        return f"{Path(os.path.expanduser(found[1])).absolute()}{found[2] or ''}"

    @field_validator("record_schema")
    @classmethod
    def _absolute_schema_file_if_present(cls, value: str | None) -> str | None:
        """Like `task_schema`, but a file that isn't here may exist where the task is done."""
        found = _SCHEMA_FILE.fullmatch(value or "")
        if found is None or "://" in found[1] or not os.path.isfile(os.path.expanduser(found[1])):
            return value
        return cls._absolute_schema_file(value)

    @field_validator("pages")
    @classmethod
    def _check_pages(cls, value: str | None) -> str | None:
        from llm_ocr.sources.inputs import parse_pages

        if value is not None:
            parse_pages(value)
        return value

    @field_validator("max_cost")
    @classmethod
    def _require_price(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("price_per_hour") is None:
            raise ValueError(
                "it requires `price_per_hour`, the hourly price of this machine, to know what has "
                "been spent"
            )
        return value

    @property
    def selection(self) -> "PageSelection | None":
        from llm_ocr.sources.inputs import parse_pages

        return None if self.pages is None else parse_pages(self.pages)

    @property
    def url_policy(self) -> "UrlPolicy":
        from llm_ocr.sources.web import UrlPolicy

        return UrlPolicy(self.allow_http_urls, self.allow_private_urls)


def from_env_file(
    given: str | Path | None = None, fields: Collection[str] | None = None
) -> Mapping[str, str]:
    """Settings from the env file `given`, or else from the one in `LLM_OCR_ENV_FILE`: those among
    `fields`, which are by default those of a run.

    Logs once what was read. Raises EnvFileError for a file that can't be read.
    """
    path, known = find_env_file(given), _known_fields()
    if path is None:
        warn_of_unread_file(known)
        return {}
    return read_env_file(path, fields or Settings.model_fields, known).values


def _known_fields() -> Collection[str]:
    """The names of the settings of all groups, those of the service included where it is there."""
    groups, names = [SettingsGroup], set[str]()
    while groups:
        group = groups.pop()
        names |= group.model_fields.keys()
        groups += group.__subclasses__()
    return names


def gather_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings that are set, not validated yet: from `given`, else from the environment, else
    from the env file. `Settings(**gather_settings(given))` equals `Settings(**given)`. Raises
    EnvFileError.
    """
    environment = {name.lower(): value for name, value in os.environ.items()}
    names = {name: variable_name(name).lower() for name in Settings.model_fields}
    from_environment = {
        name: environment[variable] for name, variable in names.items() if variable in environment
    }
    return {**from_env_file(), **from_environment, **given}
