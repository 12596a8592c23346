"""The configuration of the router: a YAML file, validated when it is loaded.

models:
  deepseek-ocr:
    replicas:
      - {engine: vllm, gpus: [0]}
      - {base_url: http://10.0.0.5:8000/v1, max_concurrency: 128}
  embedded:
    replicas:
      - {engine: embedded, threads: 4}
aliases:
  extract: {deepseek-ocr: 9, embedded: 1}
  parse: deepseek-ocr
"""

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from llm_ocr.engines.embedded.serving.command import MODEL_NAME as EMBEDDED_NAME
from llm_ocr.engines.targets import EngineKind, resolve_engine
from llm_ocr.inference.address import split_credentials
from llm_ocr.messages import CodedError
from llm_ocr.models.catalog import PROFILES, profile_named
from llm_ocr.settings import EngineChoice, EngineOptions
from llm_ocr.yaml_files import InvalidYamlError, parse_yaml

# Requests that a server or vLLM gets at a time, if the file doesn't say: a GPU with 80 GB reads 512
# pages at once, one with 24 GB 96, and vLLM queues what is too much.
DEFAULT_CONCURRENCY = 256
# The name that a request uses for a model, and that others use for a server's model.
RequestedName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w./:@-]{0,200}$")]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# The options of replicas by kind, besides `max_concurrency`.
_SERVER_KEYS = ("base_url", "api_key_env", "served_model")
_VLLM_KEYS = ("gpus", "vllm", "vllm_args", "weights", "revision", "tensor_parallel")
_ENGINE_KEYS = {EngineChoice.VLLM: _VLLM_KEYS, EngineChoice.EMBEDDED: ("threads",)}


class InvalidRouterConfigError(CodedError):
    """The configuration is invalid. Each line of the message names the file and line, what is wrong
    and what is allowed."""


class ProbeKind(StrEnum):
    """The request that tests whether a replica works: a page, a line of text, an embedding, or
    only the list of its models."""

    PAGE = "page"
    TEXT = "text"
    EMBEDDING = "embedding"
    MODELS = "models"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplicaConfig(_Table):
    """A server that runs already (`base_url`), or an engine to launch (`engine`: vLLM on `gpus`, or
    the embedded engine on `threads` cores).

    `max_concurrency` is the number of requests that it gets at a time. `api_key_env` names the
    environment variable with the server's API key.
    """

    base_url: str | None = None
    api_key_env: str | None = None
    served_model: str | None = None
    engine: EngineChoice | None = None
    gpus: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    vllm: str | None = None
    vllm_args: str | None = None
    weights: Path | None = None
    revision: str | None = None
    tensor_parallel: Annotated[int, Field(ge=1)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    ready_timeout: Annotated[float, Field(gt=0)] | None = None
    max_concurrency: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> "ReplicaConfig":
        if (self.base_url is None) == (self.engine is None):
            raise ValueError("a replica has either base_url or engine: vllm or embedded")
        if self.engine is None:
            allowed: tuple[str, ...] = _SERVER_KEYS
        elif self.engine not in _ENGINE_KEYS:
            raise ValueError("engine must be vllm or embedded")
        else:
            allowed = ("engine", "ready_timeout", *_ENGINE_KEYS[self.engine])
        for name in sorted(self.model_fields_set - {"max_concurrency", *allowed}):
            kind = f"engine: {self.engine}" if self.engine else "base_url"
            keys = ", ".join((*allowed, "max_concurrency"))
            raise ValueError(f"a replica with {kind} can't have {name}; use {keys}")
        if self.base_url is not None and split_credentials(self.base_url)[1] is not None:
            raise ValueError("base_url contains a user name or password; use api_key_env")
        return self

    def engine_options(self, profile: str | None) -> EngineOptions:
        """The options of the engine to launch, for a model with this profile."""
        names = {name: name for name in (*_VLLM_KEYS[1:], "engine", "ready_timeout")}
        names["threads"] = "engine_threads"
        given = {names[key]: getattr(self, key) for key in self.model_fields_set if key in names}
        if profile is not None:
            given["model"] = profile
        return EngineOptions.model_validate(given)


class ModelConfig(_Table):
    """A model and its replicas. `profile` is its model profile (default: that with its name, if
    any), `queue_size` the number of requests that may wait while all replicas are at their
    limits."""

    profile: str | None = None
    probe: ProbeKind = ProbeKind.PAGE
    queue_size: Annotated[int, Field(ge=0)] = 256
    replicas: Annotated[list[ReplicaConfig], Field(min_length=1)]

    @field_validator("profile")
    @classmethod
    def _check_profile(cls, name: str | None) -> str | None:
        if name is not None:
            profile_named(name)
        return name

    @property
    def is_embedded(self) -> bool:
        """Whether the embedded engine answers."""
        return self.replicas[0].engine is EngineChoice.EMBEDDED


class RouterConfig(_Table):
    """The models and their aliases, by name, and limits. Seconds are those allowed for an answer
    (`request_timeout`), between probes of an idle replica (`probe_seconds`), and for requests in
    progress at SIGTERM (`drain_seconds`). `engine_memory` is in GiB, as in the settings.

    A replica is not used any more after `max_failures` failures in a row. `api_key_env` names the
    environment variable with the API key that clients must send.
    """

    models: Annotated[dict[RequestedName, ModelConfig], Field(min_length=1)]
    aliases: dict[RequestedName, dict[RequestedName, Weight]] = {}
    api_key_env: str | None = None
    request_timeout: Annotated[float, Field(gt=0)] = 600.0
    probe_seconds: Annotated[float, Field(gt=0)] = 10.0
    max_failures: Annotated[int, Field(ge=1)] = 3
    drain_seconds: Annotated[float, Field(ge=0)] = 25.0
    engine_memory: Annotated[float, Field(ge=0)] | None = None
    log_dir: Path | None = None

    @field_validator("aliases", mode="before")
    @classmethod
    def _expand_names(cls, aliases: object) -> object:
        if not isinstance(aliases, dict):
            return aliases
        return {
            alias: {target: 1.0} if isinstance(target, str) else target
            for alias, target in aliases.items()
        }

    def profile_of(self, name: str) -> str | None:
        """The name of a model's profile, if it has one."""
        return self.models[name].profile or (name if name in PROFILES else None)

    def served_name(self, name: str) -> str:
        """The name of a model on its replicas, unless a server has another one."""
        if self.models[name].is_embedded:
            return EMBEDDED_NAME
        profile = self.profile_of(name)
        return name if profile is None else profile_named(profile).model

    def routes(self) -> dict[str, dict[str, float]]:
        """The models that each name stands for, with their shares, which add up to 1. The name of a
        model on its replicas stands for it, too, unless another model or alias has it."""
        routes: dict[str, dict[str, float]] = {}
        for name in self.models:
            routes.setdefault(self.served_name(name), {name: 1.0})
        routes.update({name: {name: 1.0} for name in self.models})
        for alias, weights in self.aliases.items():
            total = sum(weights.values())
            routes[alias] = {name: weight / total for name, weight in weights.items()}
        return routes


def single_model_config(options: EngineOptions) -> RouterConfig:
    """The configuration for the one engine that `options` choose. Raises EngineFailedError."""
    target = resolve_engine(options, options.model)
    profile = profile_named(options.model)
    is_vllm = target.kind is EngineKind.VLLM
    kind = EngineChoice.VLLM if is_vllm else EngineChoice.EMBEDDED
    keys = {"ready_timeout": "ready_timeout"}
    keys |= {key: key for key in _VLLM_KEYS[1:]} if is_vllm else {"threads": "engine_threads"}
    values = {key: getattr(options, name) for key, name in keys.items()}
    replica = {key: value for key, value in values.items() if value is not None}
    config: dict[str, Any] = {"replicas": [{"engine": kind, **replica}]}
    limits = {"engine_memory": options.engine_memory}
    if is_vllm:
        models = {profile.id: {"profile": options.model, **config}}
        return RouterConfig.model_validate({"models": models, **limits})
    # Results name what answered, which isn't the model of this profile.
    aliases = {profile.id: EMBEDDED_NAME, profile.model: EMBEDDED_NAME}
    models = {EMBEDDED_NAME: config}
    return RouterConfig.model_validate({"models": models, "aliases": aliases, **limits})


def read_api_key(variable: str | None) -> str | None:
    """The API key in an environment variable; None without one. Raises
    InvalidRouterConfigError."""
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise InvalidRouterConfigError(f"the environment variable {variable} is not set")
    return os.environ[variable]


def load_config(path: Path) -> RouterConfig:
    """Load a configuration from a YAML file. Raises InvalidRouterConfigError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRouterConfigError(f"{path} can't be read: {error}") from error
    return parse_config(text, str(path))


def parse_config(text: str, name: str) -> RouterConfig:
    """Parse a configuration from YAML text, which messages call `name`. Raises
    InvalidRouterConfigError."""
    try:
        data, lines = parse_yaml(text, name)
    except InvalidYamlError as error:
        raise InvalidRouterConfigError(str(error)) from error
    try:
        config = RouterConfig.model_validate(data)
    except ValidationError as error:
        problems = [
            f"{name}:{lines.line_of(problem['loc'])}: {_explain_problem(problem)}"
            for problem in error.errors()
        ]
        raise InvalidRouterConfigError("\n".join(dict.fromkeys(problems))) from error
    problems = [f"{name}:{lines.line_of(where)}: {what}" for where, what in _find_conflicts(config)]
    if problems:
        raise InvalidRouterConfigError("\n".join(problems))
    return config


def _find_conflicts(config: RouterConfig) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The conflicts between parts of a configuration: location, and what is wrong."""
    known = ", ".join(config.models)
    for alias, weights in config.aliases.items():
        if alias in config.models:
            yield ("aliases", alias), f"a model has the name {alias!r}, too; choose another one"
        if not weights:
            yield ("aliases", alias), f"the alias {alias!r} names no model; use {known}"
        for name in weights:
            if name not in config.models:
                yield (
                    ("aliases", alias, name),
                    f"there is no model {name!r}; this file's models: {known}",
                )
    vllm: list[tuple[str, set[int]]] = []
    for name, model in config.models.items():
        for k, replica in enumerate(model.replicas):
            where, label = ("models", name, "replicas", k), f"{name}/{k}"
            if (replica.engine is EngineChoice.EMBEDDED) != model.is_embedded:
                yield (
                    where,
                    "the embedded engine can't be a replica of another model: give it a model "
                    "of its own, and an alias that names both",
                )
            if replica.engine is not EngineChoice.VLLM:
                continue
            if config.profile_of(name) is None:
                yield (
                    ("models", name),
                    f"vLLM needs a model profile: add profile, one of {', '.join(PROFILES)}, or "
                    "a file",
                )
            gpus = set(replica.gpus or ())
            for other, others in vllm:
                if not gpus or not others or gpus & others:
                    yield where, f"{label} and {other} share a GPU: give each its own gpus"
            vllm.append((label, gpus))


def _explain_problem(problem: Any) -> str:  # noqa: ANN401
    """What is wrong, and what is allowed."""
    where, kind = problem["loc"], problem["type"]
    where = tuple(part for part in where if part != "[key]")
    key = str(where[-1]) if where else "the file"
    if kind == "extra_forbidden":
        return f"unknown key {key!r}; use {', '.join(_allowed_keys(where))}"
    if kind == "missing":
        return f"{key!r} is missing"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        message = "a name has up to 200 of A-Z, a-z, 0-9 and _ . / : @ -"
    if kind == "model_type":
        message = "this must be a mapping with keys"
    if kind == "value_error" and isinstance(where[-1], int):
        # It is about a replica as a whole, and names the key.
        return message
    return f"{key}: {message[0].lower()}{message[1:]}"


def _allowed_keys(where: tuple[str | int, ...]) -> list[str]:
    """The keys that are allowed where an unknown one is."""
    models: Mapping[int, type[BaseModel]] = {1: RouterConfig, 3: ModelConfig, 5: ReplicaConfig}
    return list(models[len(where)].model_fields)
