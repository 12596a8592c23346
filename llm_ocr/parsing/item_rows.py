"""Which row of a page each item of a list stands in."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

# A row of a table by its number, or else a piece by its own.
Line = tuple[bool, int]


def item_rows(lines: Mapping[str, Sequence[frozenset[Line]]]) -> dict[str, Line]:
    """For each item of a list, told by the lines of each of its values, the row that has the most
    of them, if it has two.

    Of rows with as many the first that no item before it has, so that equal items follow each
    other.
    """
    taken: dict[str, set[Line]] = defaultdict(set)
    known: dict[tuple[int, ...], list[Line]] = {}
    # How many of them are taken, by the list and what its items have in common.
    starts: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    rows: dict[str, Line] = {}
    for item, sets in lines.items():
        # Sets are shared by equal values, and so are the best rows of equal items.
        key = tuple(sorted(map(id, sets)))
        if key not in known:
            known[key] = sorted(_shared_by_most(sets))
        best, siblings = known[key], item.rpartition(".")[0]
        at = starts[siblings, key]
        while at < len(best) and best[at] in taken[siblings]:
            at += 1
        starts[siblings, key] = at
        if best:
            rows[item] = best[at] if at < len(best) else best[0]
            taken[siblings].add(rows[item])
    return rows


def _shared_by_most(sets: Sequence[frozenset[Line]]) -> Iterable[Line]:
    """What is in the most of some sets, and in two at least.

    What is in `count` of them is in one of all but the `count - 1` largest: a value that stands
    everywhere, as a quantity of 1 does, is only looked at where others are.
    """
    ordered = sorted(filter(None, sets), key=len)
    for count in range(len(ordered), 1, -1):
        rare = ordered[: len(ordered) - count + 1]
        if len(rare) == 1:
            if best := rare[0].intersection(*ordered[1:]):
                return best
            continue
        votes = Counter(line for one in rare for line in one)
        for line in votes:
            votes[line] += sum(line in one for one in ordered[len(rare) :])
        if best_of := [line for line, votes_of in votes.items() if votes_of == count]:
            return best_of
    return ()
