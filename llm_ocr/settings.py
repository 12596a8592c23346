"""One typed object for everything that can be set: defaults < .env < environment < arguments.

Environment variables are the field's name behind `LLM_OCR_`, for instance `LLM_OCR_BASE_URL`.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from llm_ocr.models.catalogue import profile_named
from llm_ocr.models.profile import ModelProfile, Task
from llm_ocr.sources.open import PageSelection, parse_pages


class Settings(BaseSettings):
    """How a run is done. Fields with "decides rows" below are part of a run's identity: a run
    goes on only with the same values of them."""

    model_config = SettingsConfigDict(
        env_prefix="LLM_OCR_", env_file=".env", extra="ignore", frozen=True
    )

    model: Annotated[str, Field(description="Model profile. Decides rows.")] = "deepseek-ocr"
    served_model: Annotated[
        str | None, Field(description="The model's name on the server, if it differs.")
    ] = None
    pages: Annotated[
        str | None, Field(description="Pages of each document, as 1-5,9. Decides rows.")
    ] = None
    password: Annotated[SecretStr | None, Field(description="Opens encrypted PDFs.")] = None
    describe: Annotated[bool, Field(description="Run the describe stage.")] = True

    base_url: Annotated[
        str | None, Field(description="A server that runs already, such as http://host:8000/v1.")
    ] = None
    api_key: Annotated[SecretStr | None, Field(description="Sent to `base_url`.")] = None
    engine_threads: Annotated[
        int | None, Field(ge=1, description="Cores of the embedded engine (default: all).")
    ] = None
    concurrency: Annotated[
        int | None,
        Field(ge=1, description="Requests in flight (default: 2 a core, or 32 with `base_url`)."),
    ] = None
    request_timeout: Annotated[float, Field(gt=0, description="Seconds for one answer.")] = 600.0

    render_workers: Annotated[
        int | None, Field(ge=1, description="Processes that draw pages (default: cores, up to 8).")
    ] = None
    render_timeout: Annotated[float, Field(gt=0, description="Seconds to draw one page.")] = 120.0
    max_pixels: Annotated[
        int,
        Field(gt=0, description="Pixels that a page's images may decode to, checked before."),
    ] = 178_956_970

    shard_pages: Annotated[
        int, Field(ge=1, description="Pages in a shard; a larger document is one alone.")
    ] = 512
    part_pages: Annotated[
        int, Field(ge=1, description="Finished pages that are held before they are staged.")
    ] = 64
    part_seconds: Annotated[
        float, Field(gt=0, description="Seconds after which finished pages are staged.")
    ] = 60.0
    viewer_pages: Annotated[
        int, Field(ge=0, description="Pages shown in index.html, problems first; 0 for no viewer.")
    ] = 300
    max_failed_ratio: Annotated[
        float, Field(ge=0, le=1, description="Share of failed pages that makes the run fail.")
    ] = 0.01
    log_dir: Annotated[
        Path | None, Field(description="Where the engine's log goes (default: OUT/logs).")
    ] = None

    @field_validator("model")
    @classmethod
    def _known_model(cls, value: str) -> str:
        profile_named(value)
        return value

    @field_validator("pages")
    @classmethod
    def _valid_pages(cls, value: str | None) -> str | None:
        if value is not None:
            parse_pages(value)
        return value

    @property
    def profile(self) -> ModelProfile:
        return profile_named(self.model)

    @property
    def selection(self) -> PageSelection | None:
        return None if self.pages is None else parse_pages(self.pages)

    def identity(self, inputs: list[str], model: str) -> dict[str, object]:
        """What decides a run's rows, by name; two runs with the same identity are one run.

        `model` is the name of the model that answers.
        """
        profile = self.profile
        return {
            "inputs": inputs,
            "model": model,
            "profile": self.model,
            "pages": self.pages,
            "image_longest_side": profile.image.longest_side,
            "image_jpeg_quality": profile.image.jpeg_quality,
            "prompts": {task.value: profile.prompt_hash(task) for task in Task},
            "parser_version": profile.parser_version,
        }
