"""What is particular to the Hub: revisions, commits, claims, and what is said when it fails."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from llm_ocr.storage import hub_client
from llm_ocr.storage.hub import HubDatasetStore
from llm_ocr.storage.hub_address import parse_hub_uri, run_uri
from llm_ocr.storage.hub_client import CommitConflictError
from llm_ocr.storage.store import StorageError, Store, create_repository, open_snapshot, open_store
from tests.servers.hub import serving_hub
from tests.servers.hub_state import Hub
from tests.servers.ports import free_port

OPERATIONS: tuple[Callable[[Store], object], ...] = (
    lambda store: store.put("a", b"1"),
    lambda store: store.get("a"),
    lambda store: list(store.list("a")),
    lambda store: store.create("a", b"1"),
)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_client, "RETRY_SECONDS", 0.0)


@pytest.fixture
def name(hub: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset repository and a bucket of this name, both empty."""
    for key, value in hub.items():
        monkeypatch.setenv(key, value)
    name = f"user/{uuid.uuid4().hex}"
    for kind in ("datasets", "buckets"):
        create_repository(f"hf://{kind}/{name}", private=True)
    return name


def dataset(name: str) -> HubDatasetStore:
    return HubDatasetStore(parse_hub_uri(f"hf://datasets/{name}"))


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("hf://datasets/a/b", ("datasets", "a/b", None, "")),
        ("hf://datasets/a/b@v1/c/d", ("datasets", "a/b", "v1", "c/d")),
        ("hf://datasets/a/b@refs/pr/7/c/", ("datasets", "a/b", "refs/pr/7", "c")),
        ("hf://datasets/a/b@feature%2Fx", ("datasets", "a/b", "feature/x", "")),
        ("hf://buckets/a/b/c", ("buckets", "a/b", None, "c")),
    ],
)
def test_uris_are_parsed(uri: str, parts: tuple[str, str, str | None, str]) -> None:
    found = parse_hub_uri(uri)
    assert (found.kind, found.name, found.revision, found.prefix) == parts
    assert parse_hub_uri(found.uri) == found


@pytest.mark.parametrize(
    "uri", ["hf://datasets/alone", "hf://a/b", "hf://models/a/b", "hf://buckets/a/b@v1", "hf://"]
)
def test_an_invalid_uri_is_refused(uri: str) -> None:
    with pytest.raises(StorageError, match="write hf://datasets/ORG/NAME"):
        open_store(uri)


def test_run_uri() -> None:
    assert run_uri("s3://b/run") == "s3://b/run"
    assert run_uri("hf://buckets/a/b/c") == "hf://buckets/a/b/c"
    assert run_uri("hf://datasets/a/b") == "hf://buckets/a/b-run"
    assert run_uri("hf://datasets/a/b", "s3://b/run") == "s3://b/run"


def test_a_revision_is_pinned_and_read_only(name: str) -> None:
    store = dataset(name)
    store.put("a", b"first")
    HfApi(os.environ["HF_ENDPOINT"]).create_tag(name, tag="v1", repo_type="dataset")
    before = open_snapshot(store.uri)
    store.put_many({"a": b"second", "b": b"new"}, "Two at once")
    tagged = open_store(f"{store.uri}@v1")
    for old in (before, tagged):
        assert old.get("a") == b"first"
        assert [one.path for one in old.list("")] == ["a"]
        with pytest.raises(StorageError, match="a revision is read-only"):
            old.put("a", b"third")
    assert {one.path for one in open_snapshot(store.uri).list("")} == {"a", "b"}


def test_many_files_are_one_commit(name: str, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(200_000))
    before = dataset(name).head_commit()
    dataset(name).put_many({"small": b"1", "large.bin": large, "c": b"3"}, "Three files")
    commits = HfApi(os.environ["HF_ENDPOINT"]).list_repo_commits(name, repo_type="dataset")
    assert [commits[0].title, commits[1].commit_id] == ["Three files", before]
    assert dataset(name).get("large.bin") == large.read_bytes()


def test_a_commit_on_an_outdated_parent_is_refused(name: str) -> None:
    store = dataset(name)
    parent = store.head_commit()
    store.put("theirs", b"1")
    with pytest.raises(CommitConflictError):
        store.commit([store.addition("ours", b"1")], "Ours", parent=parent)
    assert not store.exists("ours")


def test_the_earliest_of_two_claims_wins(name: str) -> None:
    store = open_store(f"hf://buckets/{name}/run")
    late, early = "f" * 32, "0" * 32
    store.put(f"plan.claims/{late}", b"came first")
    store.put(f"plan.claims/{early}", b"came later")
    assert store.get("plan") == b"came first"
    assert store.stat("plan").size == len(b"came first")
    assert not store.create("plan", b"too late")
    assert [one.path for one in store.list("")] == ["plan"]
    files = HfApi(os.environ["HF_ENDPOINT"]).list_bucket_tree(name, recursive=True)
    assert len(list(files)) == 2, "a late caller deletes its claim"


@pytest.mark.parametrize("kind", ["datasets", "buckets"])
def test_missing_and_forbidden_repositories_raise_errors_with_advice(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assert_raises(uri: str, match: str) -> None:
        for operation in OPERATIONS:
            with pytest.raises(StorageError, match=match):
                operation(open_store(uri))

    here = f"hf://{kind}/{name}/run"
    open_store(here).put("b", b"1")
    what = {"datasets": "dataset", "buckets": "bucket"}[kind]
    assert_raises(f"hf://{kind}/user/nothing", f"the {what} 'user/nothing' does not exist")
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    assert_raises(here, f"the {what} '{name}' does not exist or is not visible")
    for wrong in ("hf_nobody", "hf_expired"):
        monkeypatch.setenv("HF_TOKEN", wrong)
        assert_raises(here, r"the token was rejected: it is wrong or has expired; log in")
    monkeypatch.delenv("HF_TOKEN")
    assert_raises(here, "without a token; log in with")


@pytest.mark.parametrize("kind", ["datasets", "buckets"])
def test_a_read_only_token_can_read_but_not_write(
    hub: dict[str, str], name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"hf://{kind}/user/{uuid.uuid4().hex}"
    create_repository(place, private=False)
    open_store(place).put("b", b"1")
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    assert open_store(place).get("b") == b"1"
    with pytest.raises(StorageError, match="it needs write access"):
        open_store(place).put("a", b"1")


def test_an_unknown_revision(name: str) -> None:
    with pytest.raises(StorageError, match="has no such revision"):
        open_store(f"hf://datasets/{name}@v9")


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StorageError, match=r"can't be reached; check the network, and HF_ENDPOINT"):
        open_store("hf://datasets/a/b").get("a")


def test_a_gated_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    with serving_hub(tmp_path, hub) as environment:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        create_repository("hf://datasets/user/gated", private=False)
        open_store("hf://datasets/user/gated").put("a", b"1")
        hub.repositories["dataset", "user/gated"].gated = True
        with pytest.raises(StorageError, match="is gated; request access on its page"):
            open_store("hf://datasets/user/gated").get("a")


def test_transient_errors_are_retried_and_retry_after_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Hub(commit_limit=2, commit_window=1.0)
    with serving_hub(tmp_path, hub) as environment:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        create_repository("hf://datasets/user/some", private=False)
        store = open_store("hf://datasets/user/some")
        for k in range(3):
            store.put(f"{k}", b"%d" % k)
        assert {one.path for one in store.list("")} == {"0", "1", "2"}
        assert hub.refused == 1
        assert "rate limited by the Hub" in caplog.text
        monkeypatch.setattr(hub_client, "RETRY_SECONDS", 30.0)
        hub.failures = [503, 500]
        assert store.get("1") == b"1"


def test_the_hub_client_is_optional_and_named_when_missing() -> None:
    program = """
import sys
import llm_ocr
from llm_ocr.storage.store import StorageError, open_store
assert "huggingface_hub" not in sys.modules
sys.modules["huggingface_hub"] = None
try:
    open_store("hf://datasets/a/b")
except StorageError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'uv sync --inexact --extra hub, or pip install ".[hub]"' in said.stdout, said.stderr
