"""Lines of text -> rows of lines that stand side by side."""

from collections.abc import Sequence

from llm_ocr.engines.embedded.geometry import OcrLine


def rows_of(lines: Sequence[OcrLine]) -> list[list[OcrLine]]:
    """Lines that stand side by side, as rows from top to bottom, each from left to right."""
    rows: list[list[OcrLine]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        last = rows[-1][0] if rows else None
        if last is not None and abs(line.middle - last.middle) < 0.5 * min(
            line.height, last.height
        ):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.rect[0]) for row in rows]
