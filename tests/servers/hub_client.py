"""What users' own tools do on a Hub: `huggingface_hub`, its file system, `datasets`.

Run by test_hub.py in a process of its own: these tools read the environment when imported.
"""

import os
import tempfile
from pathlib import Path

import datasets
import pandas as pd  # type: ignore[import-untyped]
from huggingface_hub import (
    BucketFile,
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import BucketNotFoundError, HfHubHTTPError, RepositoryNotFoundError

REPO, BUCKET = "user/scans", "user/scratch"
KIND = "dataset"


def status_of(call: object, *arguments: object, **named: object) -> int:
    try:
        call(*arguments, **named)  # type: ignore[operator]
    except HfHubHTTPError as error:
        return int(error.response.status_code)
    return 200


def repositories(api: HfApi) -> None:
    api.create_repo(REPO, repo_type=KIND, private=True)
    api.create_repo(REPO, repo_type=KIND, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    (folder / "deep").mkdir()
    (folder / "deep" / "a.json").write_text("{}")
    (folder / "large.bin").write_bytes(os.urandom(3_000_000))
    for k in range(30):
        (folder / f"{k}.png").write_bytes(os.urandom(500))
    api.upload_folder(folder_path=folder, repo_id=REPO, repo_type=KIND)
    assert len(api.list_repo_files(REPO, repo_type=KIND)) == 32
    found = Path(hf_hub_download(REPO, "large.bin", repo_type=KIND)).read_bytes()
    assert found == (folder / "large.bin").read_bytes()
    assert len(list(Path(snapshot_download(REPO, repo_type=KIND)).rglob("*.png"))) == 30
    head = api.repo_info(REPO, repo_type=KIND).sha
    operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = [
        CommitOperationAdd("new", b"1"),
        CommitOperationCopy("large.bin", "larger.bin"),
        CommitOperationDelete("deep/", is_folder=True),
    ]
    done = api.create_commit(
        REPO, operations, commit_message="a", parent_commit=head, repo_type=KIND
    )
    late = [CommitOperationAdd("late", b"1")]
    status = status_of(
        api.create_commit, REPO, late, commit_message="b", parent_commit=head, repo_type=KIND
    )
    assert status == 412
    assert api.file_exists(REPO, "larger.bin", repo_type=KIND)
    assert not api.file_exists(REPO, "deep/a.json", repo_type=KIND)
    assert api.file_exists(REPO, "deep/a.json", repo_type=KIND, revision=head)
    api.create_tag(REPO, tag="first", revision=head, repo_type=KIND)
    assert api.repo_info(REPO, repo_type=KIND, revision="first").sha == head
    assert api.list_repo_commits(REPO, repo_type=KIND)[0].commit_id == done.oid


def file_system() -> None:
    system = HfFileSystem()
    with system.open(f"datasets/{REPO}/by-fs.txt", "w") as file:
        file.write("written")
    assert system.cat(f"datasets/{REPO}/by-fs.txt") == b"written"
    assert len(system.glob(f"datasets/{REPO}/*.png")) == 30
    with system.open(f"datasets/{REPO}/large.bin", "rb") as file:
        file.seek(2_999_990)
        assert len(file.read()) == 10


def as_datasets() -> None:
    rows = datasets.Dataset.from_dict({"n": list(range(2000)), "text": ["some words"] * 2000})
    rows.push_to_hub("user/rows", private=True, max_shard_size="10KB")
    rows.push_to_hub("user/rows", config_name="other", split="test")
    assert datasets.load_dataset("user/rows", split="train").num_rows == 2000
    assert datasets.load_dataset("user/rows", "other", split="test[:10]").num_rows == 10
    streamed = datasets.load_dataset("user/rows", split="train", streaming=True)
    assert [row["n"] for row in streamed] == list(range(2000))
    files = sorted(HfFileSystem().glob("datasets/user/rows/data/*.parquet"))
    assert len(files) > 1
    assert len(pd.read_parquet(f"hf://{files[0]}")) > 0
    by_pattern = "hf://datasets/user/rows/data/train-*.parquet"
    assert datasets.load_dataset("parquet", data_files=by_pattern, split="train").num_rows == 2000


def buckets(api: HfApi) -> None:
    api.create_bucket(BUCKET, private=True)
    api.create_bucket(BUCKET, private=True, exist_ok=True)
    assert api.bucket_info(BUCKET).private
    large, text = os.urandom(300_000) + bytes(200_000), b"many words " * 30_000
    numbers = b"".join(k.to_bytes(4, "little") for k in range(50_000))
    api.batch_bucket_files(
        BUCKET, add=[(large, "a/large"), (text, "a/b/text"), (numbers, "numbers"), (b"", "empty")]
    )
    found = {
        one.path: one.size
        for one in api.list_bucket_tree(BUCKET, recursive=True)
        if isinstance(one, BucketFile)
    }
    assert found == {"a/large": 500_000, "a/b/text": 330_000, "numbers": 200_000, "empty": 0}
    system = HfFileSystem()
    for path, content in (("a/large", large), ("a/b/text", text), ("numbers", numbers)):
        assert system.cat(f"buckets/{BUCKET}/{path}") == content
    one = next(iter(api.get_bucket_paths_info(BUCKET, ["a/large"])))
    copied = ("bucket", BUCKET, one.xet_hash, "copied")
    api.batch_bucket_files(BUCKET, copy=[copied], delete=["a/large"])
    assert {one.path for one in api.list_bucket_tree(BUCKET, recursive=True)} == {
        "a/b/text",
        "numbers",
        "empty",
        "copied",
    }


def refusals(api: HfApi) -> None:
    reader, stranger = HfApi(token="hf_reader"), HfApi(token="hf_nobody")
    assert status_of(api.repo_info, "user/nothing", repo_type=KIND) == 404
    assert status_of(reader.repo_info, REPO, repo_type=KIND) == 404
    assert status_of(stranger.repo_info, REPO, repo_type=KIND) == 401
    assert status_of(reader.create_repo, "user/mine", repo_type=KIND) == 403
    try:
        api.bucket_info("user/nothing")
    except BucketNotFoundError:
        pass
    else:
        raise AssertionError("there is no such bucket")
    api.delete_repo(REPO, repo_type=KIND)
    try:
        api.repo_info(REPO, repo_type=KIND)
    except RepositoryNotFoundError:
        pass
    else:
        raise AssertionError("it was deleted")


if __name__ == "__main__":
    api = HfApi()
    repositories(api)
    file_system()
    as_datasets()
    buckets(api)
    refusals(api)
