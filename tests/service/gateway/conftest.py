"""Fixtures: a gateway on each database, with a folder as its storage, and a client."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from llm_ocr.service.database import Database
from tests.service.gateway_server import Gateway, serving_gateway


@pytest.fixture
def gateway(database: Database, tmp_path: Path) -> Iterator[Gateway]:
    with serving_gateway(database, tmp_path / "storage", max_file_mb=100, max_pages=5) as served:
        yield served


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client
