"""What doing committed shards again, in whatever way, is for the worker that does it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from llm_ocr.pipeline.loop import Work
from llm_ocr.pipeline.share import Share
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.stage import Stage
from llm_ocr.storage.store import Store
from llm_ocr.tables.ledger import Ledger
from llm_ocr.tables.plan import Plan


class Again(Protocol):
    """What of shards that are committed is to be extracted anew."""

    @property
    def command(self) -> str:
        """The command that does this, with its own options."""
        ...

    @property
    def asks(self) -> bool:
        """Whether a model is asked."""
        ...

    def work(self, plan: Plan) -> list[Work]: ...

    def expected(self, work: Work) -> int:
        """How many items a shard will have, as far as it is known."""
        ...

    def stage(self, extract: ExtractStage) -> Stage[Any]: ...

    def elsewhere(self) -> "Elsewhere":
        """What makes the same in another process, from the run's store as it sees that."""
        ...

    def done_elsewhere(self, shards: Collection[str]) -> None:
        """Take note that other processes have done these shards."""
        ...

    @property
    def left_alone(self) -> Mapping[str, int]:
        """Pages that stayed as they are, counted by the reason."""
        ...


# Goes to other processes.
Elsewhere = Callable[[Store, Ledger], Again]

# Finds it, from a ledger that was just read; None where there is nothing to do again.
Prepare = Callable[[Store, Ledger, Plan, Share], Again | None]
