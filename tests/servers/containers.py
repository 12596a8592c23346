"""What platforms run in the tests: a container's command, as a process of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# What a container of ours has, whatever the tests' own environment holds: no token gets in by
# chance.
BASE = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "LANG": "C.UTF-8",
}


@dataclass
class Container:
    """A process group of its own, whose output goes to a file."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    timeout: float | None = None
    timed_out: bool = False
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def run(self) -> int:
        """The exit code; of a signal, 128 and its number, as containers say it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                env={**BASE, **self.environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            code = await asyncio.wait_for(self.process.wait(), self.timeout)
        except TimeoutError:
            self.timed_out = True
            self.send(signal.SIGKILL)
            code = await self.process.wait()
        finally:
            # Whatever it left behind goes with it.
            self.send(signal.SIGKILL)
        return code if code >= 0 else 128 - code

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return

    def lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
