"""One typed object for everything that can be set: defaults < env file < environment < arguments.

Environment variables are the field's name behind `LLM_OCR_`, for instance `LLM_OCR_BASE_URL`. An
env file is read only where its user names it: with `--env-file` (`_env_file` in Python), or once
and for all as `LLM_OCR_ENV_FILE`. See `llm_ocr.env_file` for what such a file may not set.
"""

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from llm_ocr.env_file import PREFIX, named_env_file, read_env_file, say_unread, variable_of
from llm_ocr.inference.address import BASIC, split_credentials
from llm_ocr.models.catalog import profile_named
from llm_ocr.parsing.schema import InputMode, RecordScope
from llm_ocr.records import TextLayerUse
from llm_ocr.sources.open import PageSelection, parse_pages
from llm_ocr.storage.local_files import local_file

DEFAULT_MODEL = "deepseek-ocr"
_SCHEMA_FILE = re.compile(r"(.+\.(?:json|py))(:[\w.]+)?")


class EngineChoice(StrEnum):
    """Which engine is launched; `auto`: vLLM where it and a GPU are, else the embedded one."""

    AUTO = "auto"
    VLLM = "vllm"
    EMBEDDED = "embedded"


class Fallback(StrEnum):
    """Who reads a page that the model can't; `auto`: the PDF's text, else the embedded engine."""

    AUTO = "auto"
    TEXT_LAYER = "text-layer"
    EMBEDDED = "embedded"
    NONE = "none"


class Settings(BaseSettings):
    """How a run is done. Fields with "decides rows" below are part of a run's identity: a run
    goes on only with the same values of them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    model: Annotated[
        str, Field(description="Model profile, by name or as a TOML or YAML file. Decides rows.")
    ] = DEFAULT_MODEL
    describe_model: Annotated[
        str | None, Field(description="Another profile for the figures. Decides rows.")
    ] = None
    parse_model: Annotated[str | None, Field(description="Another profile for the records.")] = None
    revision: Annotated[
        str | None, Field(description="Commit of the weights on the Hub. Decides rows.")
    ] = None
    served_model: Annotated[
        str | None, Field(description="The model's name on the server, if it differs.")
    ] = None
    pages: Annotated[
        str | None, Field(description="Pages of each document, as 1-5,9. Decides rows.")
    ] = None
    limit: Annotated[
        int | None, Field(ge=1, description="Documents to read, the first ones. Decides rows.")
    ] = None
    sample: Annotated[
        int | None, Field(ge=1, description="Documents to read, by chance. Decides rows.")
    ] = None
    seed: Annotated[int, Field(description="Another choice of `sample`. Decides rows.")] = 0
    password: Annotated[SecretStr | None, Field(description="Opens encrypted PDFs.")] = None
    describe: Annotated[bool, Field(description="Run the describe stage.")] = True

    describe_task: Annotated[
        str | None,
        Field(description="What is asked about figures: describe, caption, data, classify."),
    ] = None
    task_prompt: Annotated[
        str | None, Field(description="The prompt of a task of one's own, as text or @FILE.")
    ] = None
    task_schema: Annotated[
        str | None,
        Field(description="Its answer's schema: a file, or module:Class of pydantic."),
    ] = None
    classes: Annotated[
        str | None, Field(description="The classes of the task classify, with commas.")
    ] = None
    min_figure_area: Annotated[
        float,
        Field(ge=0, le=1, description="Share of its page below which a figure is skipped."),
    ] = 0.01

    record_schema: Annotated[
        str | None, Field(description="What parse fills in: a built-in schema, a file or a module.")
    ] = None
    record_per: Annotated[
        RecordScope, Field(description="Whether a record is of a document or of a page.")
    ] = RecordScope.DOCUMENT
    input_mode: Annotated[
        InputMode, Field(description="What the model is shown: image, text, or both.")
    ] = InputMode.BOTH
    drop_unverified: Annotated[
        bool, Field(description="Leave values out of records that the page does not show.")
    ] = False
    redo: Annotated[
        str | None,
        Field(description="Statuses of records that are made again, as failed,truncated."),
    ] = None

    base_url: Annotated[
        str | None, Field(description="A server that runs already, such as http://host:8000/v1.")
    ] = None
    api_key: Annotated[SecretStr | None, Field(description="Sent to `base_url`.")] = None
    engine: Annotated[
        EngineChoice, Field(description="The engine that is launched without `base_url`.")
    ] = EngineChoice.AUTO
    vllm: Annotated[str, Field(description="vLLM's command, by name or path.")] = "vllm"
    vllm_args: Annotated[
        str, Field(description="Arguments for `vllm serve`; they win over llm_ocr's own.")
    ] = ""
    weights: Annotated[
        Path | None, Field(description="Folder with the model's weights, instead of the Hub.")
    ] = None
    tensor_parallel: Annotated[
        int, Field(ge=1, description="GPUs that share one copy of the model.")
    ] = 1
    ready_timeout: Annotated[
        float | None,
        Field(gt=0, description="Seconds for an engine or server to answer (1800 or 120)."),
    ] = None
    skip_model_check: Annotated[
        bool, Field(description="Start without asking the model about known pages first.")
    ] = False
    fallback_base_url: Annotated[
        str | None, Field(description="A server that is asked about pages the model can't read.")
    ] = None
    fallback_model: Annotated[
        str | None, Field(description="Profile of the model at `fallback_base_url`.")
    ] = None
    fallback_api_key: Annotated[
        SecretStr | None, Field(description="Sent to `fallback_base_url`.")
    ] = None
    fallback: Annotated[Fallback, Field(description="Who reads a page that no model can.")] = (
        Fallback.AUTO
    )
    text_layer: Annotated[
        TextLayerUse,
        Field(description="Use of a PDF's own text: auto, off, only. Decides rows."),
    ] = TextLayerUse.AUTO
    # Of 253 pages read from their pixels, beside their own text layers, 5 are accused: of 3 nothing
    # was read, of the others half (a cover, handwriting). Of answers beside the layers of other
    # documents 0.1% to 0.8% pass, beside other pages' of their own 4% to 9%. At half of this 20% to
    # 66% pass; at 0.8 next to none, and 9 are accused.
    min_agreement: Annotated[
        float,
        Field(
            ge=0, le=1, description="Agreement with the page below which to ask again; 0: never."
        ),
    ] = 0.5
    metrics_port: Annotated[
        int | None, Field(ge=0, description="Port of the run's Prometheus metrics; 0: a free one.")
    ] = None
    metrics_host: Annotated[
        str, Field(description="Where `metrics_port` listens; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1"
    engine_threads: Annotated[
        int | None, Field(ge=1, description="Cores of the embedded engine (default: all).")
    ] = None
    concurrency: Annotated[
        int | None,
        Field(ge=1, description="Requests in flight (default: found while running)."),
    ] = None
    request_timeout: Annotated[float, Field(gt=0, description="Seconds for one answer.")] = 600.0
    busy_timeout: Annotated[
        float,
        Field(ge=0, description="Seconds to wait for a server that says it is busy (429, 503)."),
    ] = 600.0

    render_workers: Annotated[
        int | None, Field(ge=1, description="Processes that draw pages (default: cores, up to 8).")
    ] = None
    render_timeout: Annotated[float, Field(gt=0, description="Seconds to draw one page.")] = 120.0
    max_pixels: Annotated[
        int,
        Field(gt=0, description="Pixels that a page's images may decode to, checked before."),
    ] = 178_956_970
    keep_metadata: Annotated[
        bool, Field(description="Store JPEGs with their EXIF, which may say where they were taken.")
    ] = False

    shard_index: Annotated[
        int | None, Field(ge=0, description="Which of `shard_count` workers this is, from 0.")
    ] = None
    shard_count: Annotated[
        int | None, Field(ge=1, description="Workers that share the run's shards.")
    ] = None
    steal_work: Annotated[
        bool, Field(description="Having done one's own shards, do what others have not done yet.")
    ] = False
    shard_pages: Annotated[
        int, Field(ge=1, description="Pages in a shard; a larger document is one alone.")
    ] = 512
    flush_pages: Annotated[
        int, Field(ge=1, description="Finished pages that are held before they are staged.")
    ] = 64
    flush_seconds: Annotated[
        float, Field(gt=0, description="Seconds after which finished pages are staged.")
    ] = 60.0
    stop_seconds: Annotated[
        float, Field(gt=0, description="Seconds from SIGTERM to the end of the process, at most.")
    ] = 25.0
    time_limit: Annotated[
        float | None,
        Field(gt=0, description="Seconds after which the run stops, as by SIGTERM."),
    ] = None
    staging: Annotated[
        str | None,
        Field(description="Where a run to hf://datasets/ORG/NAME keeps its plan and shards."),
    ] = None
    public: Annotated[
        bool, Field(description="Make a dataset repository that isn't there yet a public one.")
    ] = False
    markdown: Annotated[
        bool | None,
        Field(description="A Markdown file for each document (default: of up to 10,000)."),
    ] = None
    viewer_pages: Annotated[
        int, Field(ge=0, description="Pages shown in index.html, problems first; 0 for no viewer.")
    ] = 300
    source_license: Annotated[
        str | None, Field(description="The documents' license, for the dataset card.")
    ] = None
    price_per_hour: Annotated[
        float | None, Field(ge=0, description="US dollars that an hour of this machine costs.")
    ] = None
    max_cost: Annotated[
        float | None,
        Field(gt=0, description="US dollars after which the run stops, all workers together."),
    ] = None
    prices: Annotated[
        Path | None, Field(description="TOML file of prices, over those of the package.")
    ] = None
    throughput: Annotated[
        Path | None, Field(description="TOML file of speeds, over those of the package.")
    ] = None
    max_failed_ratio: Annotated[
        float, Field(ge=0, le=1, description="Share of failed pages that makes the run fail.")
    ] = 0.01
    log_dir: Annotated[
        Path | None, Field(description="Where the engine's log goes (default: OUT/logs).")
    ] = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """As pydantic-settings has them, but for the env file. Raises EnvFileError."""
        assert isinstance(dotenv_settings, DotEnvSettingsSource)
        given = dotenv_settings.env_file
        assert given is None or isinstance(given, str | Path)
        from_file = InitSettingsSource(settings_cls, dict(from_env_file(given)))
        return init_settings, env_settings, from_file

    @model_validator(mode="before")
    @classmethod
    def _credentials_apart(cls, values: object) -> object:
        """A name and password within an address are sent as the key is; see `split_credentials`."""
        if not isinstance(values, dict):
            return values
        changes: dict[str, object] = {}
        for url, key in (("base_url", "api_key"), ("fallback_base_url", "fallback_api_key")):
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
                    f"{url}: it holds a user's name or password, and {key} is set too, but only "
                    "one of them can be sent: leave the other out"
                )
            changes |= {url: address, key: credentials}
        return {**values, **changes}

    @field_validator("model", "describe_model", "parse_model", "fallback_model")
    @classmethod
    def _known_model(cls, value: str | None) -> str | None:
        if value is not None:
            profile_named(value)
        return value

    @field_validator("describe_task", "classes", "redo", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

    @field_validator("task_prompt")
    @classmethod
    def _read(cls, value: str | None) -> str | None:
        """What stands in @FILE: the file may not be where the task is done."""
        if value is None or not value.startswith("@"):
            return value
        try:
            path = local_file(value[1:])
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{value[1:]} can't be read as a prompt: {error}") from error

    @field_validator("weights", "log_dir", "prices", "throughput")
    @classmethod
    def _at_home(cls, value: Path | None) -> Path | None:
        """A shell leaves `--weights=~/model` and `LLM_OCR_WEIGHTS='~/model'` as they are."""
        return None if value is None else Path(os.path.expanduser(value))

    @field_validator("task_schema")
    @classmethod
    def _from_anywhere(cls, value: str | None) -> str | None:
        """A file, which may be followed by a class, as an absolute path; a module as it is."""
        found = _SCHEMA_FILE.fullmatch(value or "")
        if found is None or "://" in found[1]:
            return value
        return f"{Path(os.path.expanduser(found[1])).absolute()}{found[2] or ''}"

    @field_validator("record_schema")
    @classmethod
    def _from_anywhere_if_there(cls, value: str | None) -> str | None:
        """As `task_schema`; a file that isn't here may be where the task is done."""
        found = _SCHEMA_FILE.fullmatch(value or "")
        if found is None or "://" in found[1] or not os.path.isfile(os.path.expanduser(found[1])):
            return value
        return cls._from_anywhere(value)

    @field_validator("pages")
    @classmethod
    def _valid_pages(cls, value: str | None) -> str | None:
        if value is not None:
            parse_pages(value)
        return value

    @field_validator("max_cost")
    @classmethod
    def _with_a_price(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("price_per_hour") is None:
            raise ValueError(
                "give --price-per-hour too, what an hour of this machine costs: without it nobody "
                "knows what is spent"
            )
        return value

    @property
    def selection(self) -> PageSelection | None:
        return None if self.pages is None else parse_pages(self.pages)


def from_env_file(given: str | Path | None = None) -> Mapping[str, str]:
    """The fields that the env file sets: the file `given`, or else that of `LLM_OCR_ENV_FILE`.

    Logs once what was read. Raises EnvFileError for a file that can't be read.
    """
    path = named_env_file(given)
    if path is None:
        say_unread(Settings.model_fields)
        return {}
    return read_env_file(path, Settings.model_fields).values


def gathered(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are set anywhere, not checked yet: `given` before the environment before the
    env file. `Settings(**gathered(given))` is `Settings(**given)`. Raises EnvFileError."""
    environment = {name.lower(): value for name, value in os.environ.items()}
    names = {name: variable_of(name).lower() for name in Settings.model_fields}
    from_environment = {
        name: environment[variable] for name, variable in names.items() if variable in environment
    }
    return {**from_env_file(), **from_environment, **given}
