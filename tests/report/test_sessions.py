"""What each process that worked on a run was told."""

from collections.abc import Iterator

import pytest

from llm_ocr.report.sessions import SessionLog, delete_session, read_sessions, write_session
from llm_ocr.storage.objects import ObjectStore
from llm_ocr.storage.store import StoredObject, open_store


def record(started: str) -> SessionLog:
    return SessionLog(started, "llm-ocr run in --out out", "0.1.0", ["extract"])


def test_session_deleted_while_read_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store("memory://sessions/run")
    for name in ("a", "b", "c"):
        write_session(store, name, record(name))
    found = ObjectStore.list

    def just_before(self: ObjectStore, prefix: str) -> Iterator[StoredObject]:
        things = list(found(self, prefix))
        delete_session(store, "b")
        return iter(things)

    monkeypatch.setattr(ObjectStore, "list", just_before)
    assert [one.started for one in read_sessions(store)] == ["a", "c"]
