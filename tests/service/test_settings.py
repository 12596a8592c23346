"""Where the service's settings come from: arguments, the environment, and a named env file."""

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from llm_ocr.env_file import REFUSED, variable_name
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.settings import Settings, gather_settings

# A value of each setting that isn't its default, as text.
VALUES = {
    "metrics_port": "9300",
    "metrics_host": "0.0.0.0",
    "database": "postgresql://me:planted-secret@db/ocr",
    "storage": "s3://bucket/service",
    "registry": "https://mlflow.example.com",
    "pipelines": "/etc/pipelines",
    "host": "0.0.0.0",
    "port": "8400",
    "public_url": "https://ocr.example.com",
    "storage_public_url": "https://s3.example.com",
    "max_file_mb": "7",
    "max_pages": "11",
    "watch": "/inbox,s3://inbox",
    "fetch_hosts": "files.example.com",
    "allow_private_webhooks": "true",
    "oidc_issuer": "https://login.example.com",
    "oidc_client_id": "ocr",
    "oidc_client_secret": "planted-secret",
    "oidc_scopes": "openid groups",
    "oidc_roles_claim": "roles",
    "oidc_roles": "clerks=review",
    "oidc_tenant": "invoices",
    "oidc_tenant_claim": "tenant",
    "tasks": "9",
    "lease_seconds": "4.5",
    "poll_seconds": "0.25",
    "drain_seconds": "3.0",
    "json_logs": "true",
}
# Those that say where documents and keys are, what is read, who can reach the service, and how it
# logs what a file says.
NOT_FROM_FILES = {
    *("database", "storage", "registry", "pipelines", "host", "public_url", "storage_public_url"),
    *("watch", "fetch_hosts", "allow_private_webhooks"),
    *("oidc_issuer", "oidc_client_id", "oidc_roles", "oidc_roles_claim"),
    *("oidc_tenant", "oidc_tenant_claim", "metrics_host", "json_logs"),
}


def value_of(settings: ServiceSettings, name: str) -> str:
    value: Any = getattr(settings, name)
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
    return text.lower() if isinstance(value, bool) else text


def test_each_setting_is_tested() -> None:
    assert VALUES.keys() == ServiceSettings.model_fields.keys()
    assert REFUSED.keys() & VALUES.keys() == NOT_FROM_FILES


@pytest.mark.parametrize("name", VALUES)
def test_a_setting_comes_from_every_place_in_its_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    variable, default = variable_name(name), value_of(ServiceSettings(), name)
    file = tmp_path / "service.env"
    file.write_text(f"{variable}={VALUES[name]}\nLLM_OCR_CONCURRENCY=3\nLLM_OCR_TASK=5\n")
    monkeypatch.setenv("LLM_OCR_ENV_FILE", str(file))
    is_refused = name in NOT_FROM_FILES
    assert value_of(ServiceSettings(), name) == (default if is_refused else VALUES[name])
    assert (f"not taken from a file: {variable}" in caplog.text) == is_refused
    assert "unknown settings: LLM_OCR_TASK" in caplog.text
    assert "planted-secret" not in caplog.text
    assert Settings().concurrency == 3

    file.write_text(f"{variable}={default}\n")
    monkeypatch.setenv(variable, VALUES[name])
    assert value_of(ServiceSettings(), name) == VALUES[name]
    monkeypatch.setenv(variable, default if default != "None" else VALUES[name])
    given: dict[str, Any] = {name: VALUES[name]}
    assert value_of(ServiceSettings(**given), name) == VALUES[name]


def test_a_file_for_both_is_read_by_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "worker.env"
    file.write_text("LLM_OCR_TASKS=9\nLLM_OCR_CONCURRENCY=3\n")
    monkeypatch.setenv("LLM_OCR_ENV_FILE", str(file))
    assert (ServiceSettings().tasks, Settings().concurrency) == (9, 3)
    assert gather_settings({}) == {"concurrency": "3"}
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert said == [f"{file}: read LLM_OCR_TASKS", f"{file}: read LLM_OCR_CONCURRENCY"]


def test_a_file_in_the_working_directory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".env").write_text("LLM_OCR_TASKS=9\nLLM_OCR_DATABASE=elsewhere.sqlite\n")
    monkeypatch.chdir(tmp_path)
    settings = ServiceSettings()
    assert (settings.tasks, value_of(settings, "database")) == (5, "service/service.sqlite")
    assert f"{tmp_path}/.env is not read; it sets LLM_OCR_TASKS, LLM_OCR_DATABASE" in caplog.text
