"""Hugging Face's cloud for the tests of its jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platforms.hf import Cloud, signed_in
from tests.servers.hub_images import Image, build_wheel, python_image


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as a wheel, alone in its folder."""
    return build_wheel(tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Image:
    """A Python, and the released package at hand."""
    return python_image(tmp_path_factory.mktemp("image") / "python", wheel)


@pytest.fixture
def cloud(tmp_path: Path, image: Image) -> Iterator[Cloud]:
    with signed_in(tmp_path / "hub", image) as opened:
        yield opened
