"""A compaction that kills itself with SIGKILL at a point of its way to disk, as dying_run does.

python -m tests.batch.dying_compact OUT POINT
"""

import sys

from llm_ocr.batch.compacting import compact_run
from tests.batch.dying_run import arm


def main() -> None:
    out, point = sys.argv[1:]
    arm(point)
    compact_run(out)


if __name__ == "__main__":
    main()
