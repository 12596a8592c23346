"""A compaction that kills itself with SIGKILL at a point of its way to disk, as dying_run does.

python -m tests.pipeline.dying_compact OUT POINT
"""

import sys

from llm_ocr.pipeline.compacting import compact_run
from tests.pipeline.dying_run import arm


def main() -> None:
    out, point = sys.argv[1:]
    arm(point)
    compact_run(out)


if __name__ == "__main__":
    main()
