"""A retry that kills itself with SIGKILL at a point of its way to disk, as dying_run does.

python -m tests.batch.dying_retry OUT BASE_URL POINT
"""

import sys

from llm_ocr.batch.maintenance import retry
from llm_ocr.settings import Fallback, Settings
from tests.batch.dying_run import SETTINGS, arm


def main() -> None:
    out, base_url, point = sys.argv[1:]
    arm(point)
    retry(out, Settings(base_url=base_url, fallback=Fallback.NONE, **SETTINGS))


if __name__ == "__main__":
    main()
