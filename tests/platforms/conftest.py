"""Clouds for the tests of jobs in them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_ocr import __version__
from tests.platforms import aws_module
from tests.platforms.aws_batch_image import ENTRY, IMAGE, SECRET
from tests.platforms.aws_place import PLANTED, QUICK, settle
from tests.platforms.hf import Cloud, signed_in
from tests.servers.aws import Account
from tests.servers.aws_batch import Batch, serving_batch
from tests.servers.hub_images import Image, build_wheel, python_image


@pytest.fixture(autouse=True)
def from_pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This llm_ocr says of itself that pip had it from PyPI, as the released one will.

    Not with the fixture `monkeypatch`: that would then be undone after `cloud`, which sets the
    same variables, and leave them set.
    """
    folder = tmp_path_factory.mktemp("from_pypi")
    about = folder / f"llm_ocr-{__version__}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: llm_ocr\nVersion: {__version__}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


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


@pytest.fixture
def account(tmp_path: Path, s3: dict[str, str]) -> Account:
    environment = {**s3, **QUICK}
    secrets = {"llm-ocr/HF_TOKEN": PLANTED}
    return Account(tmp_path / "batch", environment, {IMAGE: ENTRY}, secrets)


@pytest.fixture
def batch(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batch]:
    """With the queues and the job definitions that `make aws-batch-apply` makes."""
    account.folder.mkdir()
    with serving_batch(account) as running:
        settle(monkeypatch, account.client_environment())
        for kind in ("l4", "cpu"):
            running.make_queue(f"llm-ocr-{kind}")
            running.register(aws_module.definition(kind, IMAGE, {"HF_TOKEN": SECRET}))
        yield running
