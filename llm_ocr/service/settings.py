"""Settings of the service: those that all processes share, those of gateways and of workers.

Like those of runs (`llm_ocr.settings`), each setting is declared once. Its environment variable is
its name with the prefix `LLM_OCR_`, such as `LLM_OCR_DATABASE`.
"""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from llm_ocr.env_file import PREFIX
from llm_ocr.settings import EnvFileSettings, MetricsSettings, SettingsGroup, Trait

MEGABYTE = 1 << 20
# The scopes of `access.Scope`, which can't be imported without the extra `service`.
SCOPES = ("documents:read", "documents:write", "review", "admin")
# Environment variables of clients: the service's URL and the API key.
URL_VARIABLE = f"{PREFIX}SERVICE_URL"
KEY_VARIABLE = f"{PREFIX}SERVICE_KEY"
DEFAULT_URL = "http://127.0.0.1:8300"
# What S3 signs is the host and the bucket's path: there is no place for another path.
_SERVER_URL = re.compile(r"https?://[^/@?#\s]+/?")


class StateSettings(SettingsGroup):
    """The database and storage that all processes of a service share."""

    title = "Service"

    database: Annotated[
        SecretStr,
        Field(
            description="Database: postgresql://USER:PASSWORD@HOST/NAME, or on one machine a file "
            "for SQLite (default: service/service.sqlite)."
        ),
    ] = SecretStr("service/service.sqlite")
    storage: Annotated[
        str,
        Field(
            description="Storage for uploads and results: a folder, s3:// or gs:// (default: "
            "service/storage)."
        ),
    ] = "service/storage"
    pipelines: Annotated[
        Path | None,
        Field(description="Folder of [pipelines](service/pipelines.md) in YAML (default: none)."),
    ] = None


class LogSettings(SettingsGroup):
    """How the service's processes log."""

    title = "Logs"

    json_logs: Annotated[
        bool,
        Field(
            description="Write the [logs](service/monitoring.md#logs) of the service to standard "
            "error as JSON lines."
        ),
    ] = False


class RegistrySettings(SettingsGroup):
    """Settings of the registry of models."""

    title = "Registry"

    registry: Annotated[
        str | None,
        Field(
            description="[Registry of models](service/registry.md): URL of an MLflow server "
            "(default: the storage and the database)."
        ),
    ] = None


class GatewaySettings(SettingsGroup):
    """Settings of a gateway: its address, and what it accepts."""

    title = "Gateway"

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int,
        Field(description="Port to listen on; 0 for a free one (default: 8300).", ge=0, le=65535),
    ] = 8300
    public_url: Annotated[
        str | None,
        Field(
            description="URL by which clients reach the gateway (default: that of each request)."
        ),
    ] = None
    storage_public_url: Annotated[
        str | None,
        Field(
            description="URL of the S3 server for clients, if the gateway uses another one, such "
            "as an internal address of a cluster (default: the gateway's)."
        ),
    ] = None
    max_file_mb: Annotated[int, Field(description="Maximum size of a file in MB.", ge=1)] = 512
    max_pages: Annotated[int, Field(description="Maximum number of pages of a document.", ge=1)] = (
        2000
    )
    watch: Annotated[
        str | None,
        Field(
            description="[Folders and buckets](service/api.md#without-http) to watch: new files "
            "become documents (default: none)."
        ),
        Trait.REPEATABLE,
    ] = None
    fetch_hosts: Annotated[
        str | None,
        Field(
            description="Hosts from which files may be [fetched by URL](service/security.md#urls) "
            "(default: none; URLs are refused)."
        ),
        Trait.REPEATABLE,
    ] = None
    allow_private_webhooks: Annotated[
        bool,
        Field(description="Also send webhooks to http:// URLs, and to hosts in private networks."),
    ] = False


class OidcSettings(SettingsGroup):
    """Settings of the login of people by OpenID Connect."""

    title = "OpenID Connect"

    oidc_issuer: Annotated[
        str | None,
        Field(
            description="Issuer URL of the [OpenID Connect](service/security.md#openid-connect) "
            "provider by which people log in (default: none; they log in with API keys)."
        ),
    ] = None
    oidc_client_id: Annotated[
        str | None, Field(description="Id of the gateway at the provider (default: none).")
    ] = None
    oidc_client_secret: Annotated[
        SecretStr | None,
        Field(description="Secret of the gateway at the provider (default: none; PKCE only)."),
        Trait.NO_OPTION,
    ] = None
    oidc_scopes: Annotated[
        str, Field(description="Scopes to request, which decide on the claims of ID tokens.")
    ] = "openid profile email"
    oidc_roles_claim: Annotated[
        str,
        Field(description="Claim with a person's roles or groups, such as realm_access.roles."),
    ] = "groups"
    oidc_roles: Annotated[
        str | None,
        Field(
            description="Roles and the scopes that they give: ROLE=SCOPE, such as clerks=review "
            "(default: none)."
        ),
        Trait.REPEATABLE,
    ] = None
    oidc_tenant: Annotated[str, Field(description="Tenant of people who log in.")] = "default"
    oidc_tenant_claim: Annotated[
        str | None, Field(description="Claim with the tenant of a person (default: `oidc_tenant`).")
    ] = None


class WorkerSettings(SettingsGroup):
    """Settings of a worker."""

    title = "Worker"

    tasks: Annotated[
        int, Field(description="Number of documents to process at the same time.", ge=1)
    ] = 5
    lease_seconds: Annotated[
        float,
        Field(
            description="Seconds without a sign of life after which a worker's documents go to "
            "another worker.",
            ge=1,
        ),
    ] = 15.0
    poll_seconds: Annotated[
        float, Field(description="Seconds between polls of an empty queue.", gt=0)
    ] = 0.5
    drain_seconds: Annotated[
        float,
        Field(description="Seconds to finish requests in progress when stopped.", ge=0),
    ] = 8.0


# In the order of the reference.
SERVICE_GROUPS: tuple[type[SettingsGroup], ...] = (
    StateSettings,
    GatewaySettings,
    OidcSettings,
    WorkerSettings,
    RegistrySettings,
    LogSettings,
)


class ServiceSettings(
    LogSettings,
    RegistrySettings,
    MetricsSettings,
    WorkerSettings,
    OidcSettings,
    GatewaySettings,
    StateSettings,
    EnvFileSettings,
):
    """All settings of the service. Arguments override environment variables, and these the env
    file."""

    @field_validator("storage_public_url")
    @classmethod
    def _check_server_url(cls, value: str | None) -> str | None:
        if value is not None and not _SERVER_URL.fullmatch(value):
            raise ValueError("use the form https://HOST or https://HOST:PORT, without a path")
        return value.rstrip("/") if value else value

    @field_validator("oidc_issuer")
    @classmethod
    def _check_issuer(cls, value: str | None) -> str | None:
        if value is not None and not is_safe_url(value):
            raise ValueError("use an https:// URL, or http:// for a provider on this machine")
        return value

    @field_validator("oidc_roles")
    @classmethod
    def _check_roles(cls, value: str | None) -> str | None:
        parse_roles(value)
        return value

    @field_validator("watch", "fetch_hosts", "oidc_roles", mode="before")
    @classmethod
    def _join_list(cls, value: object) -> object:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


class ProcessLogSettings(LogSettings, BaseSettings):
    """How a process of the service logs: from arguments and the environment, and before all other
    settings, whose errors are logged already."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, hide_input_in_errors=True)


def is_safe_url(url: str) -> bool:
    """Whether a URL has https, or http on this machine."""
    parts = urlsplit(url)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and parts.scheme in (("http", "https") if is_local else ("https",))


def parse_roles(roles: str | None) -> list[tuple[str, str]]:
    """The roles of `oidc_roles` with the scope that each gives. Raises ValueError."""
    found = []
    for entry in filter(None, (roles or "").split(",")):
        role, _, scope = (part.strip() for part in entry.rpartition("="))
        if not role or scope not in SCOPES:
            raise ValueError(f"{entry!r} is not ROLE=SCOPE; scopes are {', '.join(SCOPES)}")
        found.append((role, scope))
    return found
