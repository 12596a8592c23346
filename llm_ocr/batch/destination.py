"""Open a run's destination: where its outputs go, and where its workers keep their state."""

from dataclasses import dataclass

from llm_ocr.batch.events import Note, Notify
from llm_ocr.messages import ProblemCode
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings
from llm_ocr.storage.hub_address import is_repository, parse_hub_uri, run_uri
from llm_ocr.storage.store import StorageError, Store, create_repository, open_store
from llm_ocr.tables.plan import read_plan


@dataclass(frozen=True)
class Destination:
    """`out` as the user gave it; `store` holds the plan, the shards and the tables.

    They are the same place but for a dataset repository on the Hub, which takes few commits: there
    the outputs of a finished run are published.
    """

    out: str
    store: Store

    @property
    def uri(self) -> str:
        return parse_hub_uri(self.out).uri if is_repository(self.out) else self.store.uri

    def prepare(self, *, private: bool) -> None:
        """Create on the Hub what isn't there: the repository as wished, buckets private.

        Raises NoRunError if the repository holds tables of a run that isn't in `store`.
        """
        create_repository(self.store.uri, private=True)
        if is_repository(self.out):
            create_repository(self.out, private=private)
            if read_plan(self.store) is None:
                self._check_free()

    def _check_free(self) -> None:
        from llm_ocr.report.publish import holds_tables

        if holds_tables(open_store(self.out)):
            raise NoRunError(
                f"{self.out} holds the tables of another run, whose plan is not in "
                f"{self.store.uri}",
                ProblemCode.OTHER_TABLES,
            )

    def publish(self, notify: Notify) -> None:
        """Bring a finished run's outputs to the repository, if they go to one."""
        if not is_repository(self.out):
            return
        from llm_ocr.report.publish import publish_run
        from llm_ocr.storage.hub import HubDatasetStore

        repository = HubDatasetStore(parse_hub_uri(self.out))
        publish_run(repository, self.store, lambda text: notify(Note(text)))


def open_destination(out: str, settings: Settings) -> Destination:
    """Where a run with these settings goes. Raises StorageError."""
    if is_repository(out) and parse_hub_uri(out).revision is not None:
        raise StorageError(f"{out}: a run can't be written to a revision; remove the part after @")
    return Destination(out, open_store(run_uri(out, settings.staging)))
