"""What goes wrong with a bucket, and what is said of it."""

import pytest

from llm_ocr.storage import buckets
from llm_ocr.storage.store import StorageError, open_store
from tests.servers.ports import free_port


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "RETRIES", {"max_retries": 1})


def use(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, **other: str) -> None:
    for key, value in {**environment, **other}.items():
        monkeypatch.setenv(key, value)


@pytest.mark.parametrize(
    "other", [{"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "nobody"}]
)
def test_a_rejected_access_key(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, other: dict[str, str]
) -> None:
    use(s3, monkeypatch, **other)
    store = open_store("s3://bucket/run")
    for ask in (
        lambda: store.put("a", b"1"),
        lambda: store.get("a"),
        lambda: list(store.list("a")),
        lambda: store.create("a", b"1"),
    ):
        with pytest.raises(StorageError, match=r"s3://bucket/run: .*AWS_SECRET_ACCESS_KEY"):
            ask()


def test_an_unreachable_s3_server(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(s3, monkeypatch, AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StorageError, match=r"can't be reached.*AWS_ENDPOINT_URL"):
        open_store("s3://bucket").get("a")


def test_a_missing_gcs_bucket(gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(gcs, monkeypatch)
    with pytest.raises(StorageError, match="bucket 'no-such-bucket' does not exist"):
        list(open_store("gs://no-such-bucket/run").list("a"))


def test_an_unreachable_gcs_server(monkeypatch: pytest.MonkeyPatch) -> None:
    use({}, monkeypatch, STORAGE_EMULATOR_HOST=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StorageError, match=r"can't be reached.*STORAGE_EMULATOR_HOST"):
        open_store("gs://bucket").get("a")
