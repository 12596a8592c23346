"""The Hub of the tests serves the tools that users have."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError

from tests.servers.hub import serving_hub
from tests.servers.hub_state import Hub


def test_usual_clients_work_with_the_hub_server(hub: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tests.servers.hub_client"]
    done = subprocess.run(command, env={**os.environ, **hub}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@contextmanager
def limited(home: Path, limit: int, window: float) -> Iterator[tuple[Hub, HfApi]]:
    hub = Hub(commit_limit=limit, commit_window=window)
    with serving_hub(home, hub) as environment:
        api = HfApi(environment["HF_ENDPOINT"], token=environment["HF_TOKEN"])
        api.create_repo("user/some", repo_type="dataset")
        yield hub, api


def test_commits_over_the_rate_limit_have_to_wait(tmp_path: Path) -> None:
    def commit(k: int) -> None:
        operations = [CommitOperationAdd(f"{k}", b"%d" % k)]
        api.create_commit("user/some", operations, commit_message="one", repo_type="dataset")

    with limited(tmp_path, 2, 3600) as (hub, api):
        commit(1)
        commit(2)
        with pytest.raises(HfHubHTTPError) as error:
            commit(3)
        assert error.value.response.status_code == 429
        assert 3590 < int(error.value.response.headers["Retry-After"]) <= 3600
        assert hub.refused == 1
        hub.commit_window = 0
        commit(3)
        assert set(api.list_repo_files("user/some", repo_type="dataset")) == {"1", "2", "3"}
