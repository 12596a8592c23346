"""Lines of a paragraph of which only the text and the number of lines are known."""

from collections.abc import Sequence


def evenly_broken(starts: Sequence[int], lines: int) -> tuple[int, ...]:
    """Where each line but the first begins, so that lines differ least in length.

    `starts` are the places where words begin, and one for the end; takes words squared times lines.
    """
    count = len(starts) - 1
    lines = min(lines, count)
    # cost[k]: the least sum of squares for the first k words in the lines so far.
    cost = [float((starts[k] - starts[0]) ** 2) for k in range(count + 1)]
    steps: list[list[int]] = []
    for _ in range(lines - 1):
        better, chosen = [float("inf")] * (count + 1), [0] * (count + 1)
        for end in range(1, count + 1):
            for cut in range(end):
                whole = cost[cut] + (starts[end] - starts[cut]) ** 2
                if cut and whole < better[end]:
                    better[end], chosen[end] = whole, cut
        cost = better
        steps.append(chosen)
    breaks: list[int] = []
    at = count
    for chosen in reversed(steps):
        at = chosen[at]
        breaks.insert(0, starts[at])
    return tuple(breaks)
