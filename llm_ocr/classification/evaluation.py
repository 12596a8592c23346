"""Evaluate a classifier's votes on labeled pages: errors, fallback, and unknown kinds accepted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from llm_ocr.classification.classifier import PageVote


@dataclass(frozen=True)
class ClassCounts:
    """Pages of a class: how many were accepted, and how many of these with the right class."""

    pages: int
    accepted: int
    right: int


@dataclass(frozen=True)
class Mistake:
    """An accepted page with a wrong class; `is_known` says whether the classifier has the class."""

    page: str
    class_name: str
    predicted: str
    probability: float
    p_value: float
    is_known: bool


@dataclass(frozen=True)
class ClassifierEvaluation:
    """Counts by class, of known classes and of others, and the mistakes."""

    known: dict[str, ClassCounts]
    unknown: dict[str, ClassCounts]
    mistakes: list[Mistake]

    @property
    def error(self) -> float:
        """The share of wrong classes among the accepted pages of known classes."""
        total = _total(self.known)
        return (total.accepted - total.right) / max(1, total.accepted)

    @property
    def fallback(self) -> float:
        """The share of pages of known classes that weren't accepted."""
        total = _total(self.known)
        return 1 - total.accepted / max(1, total.pages)

    @property
    def unknown_accepted(self) -> float | None:
        """The share of pages of unknown classes that were accepted; None if there are none."""
        total = _total(self.unknown)
        return total.accepted / total.pages if total.pages else None


def evaluate_votes(
    classes: Collection[str], rows: Sequence[tuple[str, str, PageVote]]
) -> ClassifierEvaluation:
    """Evaluate votes, each with the page's name and its true class."""
    counts: dict[str, ClassCounts] = {}
    mistakes = []
    for name, true_class, vote in rows:
        is_right = vote.is_accepted and vote.class_name == true_class
        before = counts.get(true_class, ClassCounts(0, 0, 0))
        counts[true_class] = ClassCounts(
            before.pages + 1, before.accepted + vote.is_accepted, before.right + is_right
        )
        if vote.is_accepted and not is_right:
            probability, p_value = round(vote.probability, 4), round(vote.p_value, 4)
            is_known = true_class in classes
            mistakes.append(
                Mistake(name, true_class, vote.class_name, probability, p_value, is_known)
            )
    known = {name: counts[name] for name in sorted(counts) if name in classes}
    unknown = {name: counts[name] for name in sorted(counts) if name not in classes}
    return ClassifierEvaluation(known, unknown, mistakes)


def render_evaluation(evaluation: ClassifierEvaluation, max_mistakes: int) -> str:
    """An evaluation as lines of text."""
    known, unknown = _total(evaluation.known), _total(evaluation.unknown)
    width = max(map(len, (*evaluation.known, *evaluation.unknown, "class")))
    lines = [
        f"Known kinds: {known.pages} pages, {known.accepted} accepted (fallback "
        f"{evaluation.fallback:.1%}), {known.accepted - known.right} of these with the wrong class "
        f"(error {evaluation.error:.1%})"
    ]
    if evaluation.unknown_accepted is not None:
        lines.append(
            f"Unknown kinds: {unknown.pages} pages, {unknown.accepted} accepted "
            f"({evaluation.unknown_accepted:.1%})"
        )
    lines.append(f"{'class':{width}}  pages  accepted  right")
    for name, count in (*evaluation.known.items(), *evaluation.unknown.items()):
        lines.append(f"{name:{width}}  {count.pages:5}  {count.accepted:8}  {count.right:5}")
    for mistake in evaluation.mistakes[:max_mistakes]:
        what = "" if mistake.is_known else ", an unknown kind,"
        lines.append(
            f"{mistake.page}: {mistake.class_name}{what} accepted as {mistake.predicted} (vote "
            f"{mistake.probability:.2f}, p-value {mistake.p_value:.3f})"
        )
    if len(evaluation.mistakes) > max_mistakes:
        lines.append(f"and {len(evaluation.mistakes) - max_mistakes} more")
    return "\n".join(lines)


def _total(counts: dict[str, ClassCounts]) -> ClassCounts:
    return ClassCounts(
        sum(count.pages for count in counts.values()),
        sum(count.accepted for count in counts.values()),
        sum(count.right for count in counts.values()),
    )
