"""Calibrate the test for unknown kinds, and measure what a classifier gets wrong and leaves open.

A page's strangeness to a class is compared with that of the class's own examples, each measured
against an index without its fold (split-conformal prediction, with the folds taking turns, so that
a class of 20 examples has 20 calibration scores and not 10). The p-value is the share of examples
that are at least as strange: of pages of the class, about as many are below 0.05 as 5 in 100.

A class that isn't a kind (a folder of unlike pages) would accept most of what is unknown, if its
own examples were the measure. Such a class is found and measured like the other classes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from llm_ocr.classification.neighbors import Array, ClassScores, Described, Labels, Neighbors

# With fewer folds, the examples that remain say less of a class than all of them will.
FOLDS = 10
# A class with fewer examples is calibrated with those of all classes: of 19 scores none can be
# below 0.05.
MIN_OWN_SCORES = 20
# The shares of votes whose error and fallback are measured.
VOTES = (0.0, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True)
class ThresholdPoint:
    """What is expected if pages need this share of the votes.

    `error` is the share of accepted pages with the wrong class, `fallback` that of the known pages
    that aren't accepted, and `unknown_accepted` that of pages of a class that the index doesn't
    have: the mean over classes left out in turn; None with fewer than three classes.
    """

    vote: float
    error: float
    fallback: float
    unknown_accepted: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The strangeness of each class's own examples, by class, sorted. `loose` are the classes whose
    examples differ too much to be the measure, with how many times as far as usual they lie from
    each other."""

    scores: tuple[Array, ...]
    loose: Mapping[int, float] = field(default_factory=dict)

    def p_values(self, strangeness: Array) -> Array:
        """For pages (rows) and classes (columns): the share of the class's examples, and of the
        page itself, that are at least as strange."""
        found = np.empty_like(strangeness, np.float32)
        for label in range(len(self.scores)):
            scores = self._scores_of(label)
            below = np.searchsorted(scores, strangeness[:, label], side="left")
            found[:, label] = (len(scores) - below + 1) / (len(scores) + 1)
        return found

    def is_pooled(self, label: int) -> bool:
        """Whether a class is measured with the examples of all classes: it has too few of its own,
        or is loose."""
        return len(self.scores[label]) < MIN_OWN_SCORES or label in self.loose

    def held_out_p_values(self, strangeness: Array, labels: Labels) -> Array:
        """As `p_values`, for the examples themselves: their own score is among the others, and
        doesn't count twice. Where scores are few, p-values are steps: these have the same steps."""
        found = self.p_values(strangeness)
        all_loose = len(self.loose) == len(self.scores)
        for row, label in enumerate(map(int, labels)):
            if label not in self.loose or all_loose:
                found[row, label] -= 1 / (len(self._scores_of(label)) + 1)
        return found

    def _scores_of(self, label: int) -> Array:
        if not self.is_pooled(label):
            return self.scores[label]
        tight = [scores for k, scores in enumerate(self.scores) if k not in self.loose]
        pooled: Array = np.sort(np.concatenate(tight or self.scores))
        return pooled


@dataclass(frozen=True)
class Measured:
    """A calibration, and the curve of thresholds that was measured with it."""

    calibration: Calibration
    curve: tuple[ThresholdPoint, ...]
    # Examples that could be held out: each class needs others.
    tested: int


def measure(
    examples: Described,
    labels: Labels,
    groups: Sequence[str],
    class_count: int,
    significance: float,
) -> Measured:
    """Hold out each fold in turn, and each class in turn. Examples of a group (the pages of a
    document) are held out together: they resemble each other more than pages that will come."""
    held_out, tested = _cross_compare(examples, labels, groups, class_count)
    own = held_out.strangeness[np.arange(len(labels)), labels]
    scores = [np.sort(own[tested & (labels == label)]) for label in range(class_count)]
    calibration = Calibration(tuple(scores), Neighbors(examples, labels, class_count).loose)
    p_values = calibration.held_out_p_values(held_out.strangeness, labels)
    chosen = held_out.votes.argmax(axis=1)
    rows = np.arange(len(labels))
    vote, p_value = held_out.votes[rows, chosen], p_values[rows, chosen]
    is_right = chosen == labels
    unknown = _leave_classes_out(examples, labels, class_count, calibration)
    curve = []
    for threshold in VOTES:
        accepted = tested & (vote >= threshold) & (p_value >= significance)
        wrong = int((accepted & ~is_right).sum())
        strangers = None
        if unknown is not None:
            shares = [np.mean((votes >= threshold) & (p >= significance)) for votes, p in unknown]
            strangers = float(np.mean(shares))
        curve.append(
            ThresholdPoint(
                threshold,
                wrong / max(1, int(accepted.sum())),
                1 - int(accepted.sum()) / max(1, int(tested.sum())),
                strangers,
            )
        )
    return Measured(calibration, tuple(curve), int(tested.sum()))


def choose_threshold(curve: Sequence[ThresholdPoint], target_error: float) -> ThresholdPoint:
    """The point with the least fallback whose error is at most the target; if none is, that with
    the least error."""
    good = [point for point in curve if point.error <= target_error]
    if good:
        return min(good, key=lambda point: (point.fallback, -point.vote))
    return min(curve, key=lambda point: (point.error, point.fallback))


def _cross_compare(
    examples: Described, labels: Labels, groups: Sequence[str], class_count: int
) -> tuple[ClassScores, npt.NDArray[np.bool_]]:
    """Each example compared with those of the other folds, and which of them could be: those of
    which other examples of the class remain."""
    folds = _assign_folds(labels, groups)
    votes = np.zeros((len(labels), class_count), np.float32)
    strangeness = np.full((len(labels), class_count), np.inf, np.float32)
    tested = np.zeros(len(labels), np.bool_)
    for fold in range(FOLDS):
        held, rest = folds == fold, folds != fold
        if not held.any() or not rest.any():
            continue
        compared = Neighbors(examples[rest], labels[rest], class_count).compare(examples[held])
        votes[held], strangeness[held] = compared.votes, compared.strangeness
        tested[held] = np.isin(labels[held], labels[rest])
    return ClassScores(votes, strangeness), tested


def _assign_folds(labels: Labels, groups: Sequence[str]) -> Labels:
    """A fold for each example: the groups of a class, in random but reproducible order, in turn."""
    keys = [hashlib.sha256(group.encode()).hexdigest() for group in groups]
    folds = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        order = {key: k for k, key in enumerate(sorted({keys[one] for one in members}))}
        for one in members:
            folds[one] = (order[keys[one]] + label) % FOLDS
    return folds


def _leave_classes_out(
    examples: Described, labels: Labels, class_count: int, calibration: Calibration
) -> list[tuple[Array, Array]] | None:
    """For each class: the best vote and its p-value of its pages, if the index didn't have it."""
    if class_count < 3:
        return None
    found = []
    for label in range(class_count):
        out = labels == label
        compared = Neighbors(examples[~out], labels[~out], class_count).compare(examples[out])
        p_values = calibration.p_values(compared.strangeness)
        chosen = compared.votes.argmax(axis=1)
        rows = np.arange(len(chosen))
        found.append((compared.votes[rows, chosen], p_values[rows, chosen]))
    return found
