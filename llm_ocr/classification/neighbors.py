"""Compare pages with the examples of known kinds: distances, votes and strangeness."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Words = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int64]
# Neighbors that vote, and examples of a class whose mean distance says how strange a page is to it.
# Measured with `benchmarks.classification --seed 1`: with 5 or 7 voters, classes of few examples
# are outvoted more often.
VOTERS, NEAREST = 3, 3
# How much words count beside the picture in the vote, as a share of the squared distance. More than
# half, because twins (an invoice, a credit note) differ by nothing else.
WORD_SHARE = 0.85
# The variation of pictures within classes is measured in some hundred dimensions with as many
# examples: so much of it is replaced by its mean over all dimensions. Measured with seed 4 of the
# benchmark: 0.1 to 0.3 refuse the same share of known pages, and no unknown ones get in; with what
# Ledoit and Wolf's formula says (0.03), more known pages are refused than expected.
SHRINKAGE = 0.2
# Pictures are reduced to principal components, found in at most so many examples: one for each four
# examples, within these bounds. With half of what 48 examples have, the whitening fits these so
# closely that they seem nearer to each other than new pages are to them.
MIN_DIMENSIONS, MAX_DIMENSIONS, EXAMPLES_PER_DIMENSION, MAX_PCA_EXAMPLES = 8, 128, 4, 1000
# A class is loose if its examples lie so many times as far from each other as those of the other
# classes do in the median, by their pictures and by their words. Measured: 1.8 to 2.0 for a folder
# of unlike reports, 1.4 for receipts of 40 shops, up to 1.5 for the generated kinds. Half of it
# finds half of the classes loose, twice of it none. It takes this many other classes to say what is
# usual.
LOOSE, MIN_OTHERS = 1.7, 5
# The variation of all classes counts like that of so many further examples of each class.
PRIOR = 5


@dataclass(frozen=True)
class Described:
    """Pages as vectors, a row each: of the image, and the presence of words."""

    vectors: Array
    words: Words

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, chosen: npt.NDArray[np.bool_] | Labels) -> "Described":
        return Described(self.vectors[chosen], self.words[chosen])


@dataclass(frozen=True)
class ClassScores:
    """Pages compared with examples, a row each: `votes` is each class's share of the votes (0..1).
    `strangeness` says how much further from each class a page is than the class's own examples are
    from each other, in standard deviations of these."""

    votes: Array
    strangeness: Array


class Neighbors:
    """Examples of classes 0 to `class_count` - 1, to which pages are compared."""

    def __init__(self, examples: Described, labels: Labels, class_count: int) -> None:
        self._labels, self._class_count = labels, class_count
        weights = _weigh_words(examples.words, labels, class_count)
        # Most buckets say nothing of the class: only the others are compared.
        self._buckets = np.flatnonzero(weights)
        self._word_weights = weights[self._buckets]
        self._mean = examples.vectors.mean(axis=0)
        self._whitening = _whiten(examples.vectors - self._mean, labels)
        self._examples = self._parts(examples)
        distances = self._part_distances(examples)
        for part in distances:
            np.fill_diagonal(part, np.inf)
        self._usual = [self._usual_distances(part) for part in distances]
        self.loose = self._find_loose()
        # Pictures and words are compared in units of what is usual within classes.
        self._units = [max(float(means.mean()), 1e-6) for means, _ in self._usual]

    def compare(self, pages: Described) -> ClassScores:
        """The pages' votes and strangeness. To loose classes all pages are stranger, their own
        ones too: their spread would make pages of any kind seem usual."""
        parts = self._part_distances(pages)
        # A page is as strange as its strangest part: one that has the words of a class and another
        # layout, or the layout and other words, would pass by the mean of both.
        strangeness = np.max(
            [
                (self._class_distances(part) - means) / spreads
                for part, (means, spreads) in zip(parts, self._usual, strict=True)
            ],
            axis=0,
        )
        return ClassScores(self._votes(self._total(parts)), strangeness.astype(np.float32))

    def distances(self, pages: Described) -> Array:
        """The distance of each page (row) to each example (column), over picture and words."""
        return self._total(self._part_distances(pages))

    def _votes(self, distances: Array) -> Array:
        """Votes of the nearest examples; a nearer one counts more, so that a class of few examples
        isn't outvoted by a large one that lies further away."""
        count = min(VOTERS, distances.shape[1])
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :count]
        near = np.take_along_axis(distances, nearest, axis=1)
        weights = 1 / (near**2 + 1e-4)
        votes = np.zeros((len(distances), self._class_count), np.float32)
        rows = np.arange(len(distances))[:, None]
        np.add.at(votes, (rows, self._labels[nearest]), weights)
        shares: Array = votes / votes.sum(axis=1, keepdims=True)
        return shares

    def _usual_distances(self, distances: Array) -> tuple[Array, Array]:
        """For each class, how far its examples lie from the others of it, and how much that varies:
        loose classes and tight ones become comparable. Of few examples the variation is uncertain,
        so that of all classes counts as if it were from `PRIOR` more."""
        means = np.full(self._class_count, np.nan)
        squares, counts = np.zeros(self._class_count), np.zeros(self._class_count)
        for label in range(self._class_count):
            own = self._class_distances(distances[self._labels == label])[:, label]
            own = own[np.isfinite(own)]
            if len(own):
                means[label], counts[label] = own.mean(), len(own)
                # Relative to the class's distance, as which it is compared between classes.
                squares[label] = ((own / max(means[label], 1e-6) - 1) ** 2).sum()
        usual = float(np.nanmean(means)) if counts.any() else 1.0
        means = np.where(np.isfinite(means), means, usual)
        common = squares.sum() / max(counts.sum(), 1)
        spread = np.sqrt((squares + PRIOR * common) / (counts + PRIOR))
        spreads = np.maximum(means * spread, 0.01)
        return means.astype(np.float32), spreads.astype(np.float32)

    def _find_loose(self) -> dict[int, float]:
        """The classes that are loose, with how many times as far as usual their examples lie from
        each other. What is usual for them is replaced by the most that is for a class that isn't.
        """
        # By its picture alone, a kind of many layouts can't be told from several kinds.
        if self._class_count <= MIN_OTHERS or len(self._usual) < 2:
            return {}
        ratios = []
        for means, _ in self._usual:
            others = [np.median(np.delete(means, k)) for k in range(self._class_count)]
            ratios.append(means / np.maximum(others, 1e-6))
        ratio = np.min(ratios, axis=0)
        loose = np.flatnonzero(ratio > LOOSE)
        for (means, spreads), view in zip(self._usual, ratios, strict=True):
            factors = LOOSE / view[loose]
            means[loose] *= factors
            spreads[loose] *= factors
        return {int(label): float(ratio[label]) for label in loose}

    def _class_distances(self, distances: Array) -> Array:
        """The mean distance to the nearest examples of each class; infinite if it has none."""
        found = np.full((len(distances), self._class_count), np.inf, np.float32)
        for label in range(self._class_count):
            own = np.sort(distances[:, self._labels == label], axis=1)[:, :NEAREST]
            # The distance of an example to itself is infinite.
            counts = np.isfinite(own).sum(axis=1)
            sums = np.where(np.isfinite(own), own, 0).sum(axis=1)
            found[counts > 0, label] = sums[counts > 0] / counts[counts > 0]
        return found

    def _parts(self, pages: Described) -> list[Array]:
        """The pages' vectors: of the pictures, in which all directions vary alike within classes,
        and, if they tell anything, of the words."""
        pictures: Array = (pages.vectors - self._mean) @ self._whitening
        parts = [pictures]
        if len(self._buckets):
            parts.append(_unit_rows(pages.words[:, self._buckets] * self._word_weights))
        return parts

    def _part_distances(self, pages: Described) -> list[Array]:
        pairs = zip(self._parts(pages), self._examples, strict=True)
        return [_euclidean(part, examples) for part, examples in pairs]

    def _total(self, parts: Sequence[Array]) -> Array:
        scaled = [part / unit for part, unit in zip(parts, self._units, strict=True)]
        if len(scaled) == 1:
            return scaled[0]
        picture, words = scaled
        total: Array = np.sqrt((1 - WORD_SHARE) * picture**2 + WORD_SHARE * words**2)
        return total


def _whiten(vectors: Array, labels: Labels) -> Array:
    """A matrix to multiply centered vectors with, so that distances count in the directions in
    which pages of a class resemble each other (Mahalanobis distance, with the covariance within
    classes, shrunk): there, a page of an unknown kind is far from all classes."""
    basis = _principal_components(vectors)
    points = (vectors @ basis).astype(np.float64)
    for label in np.unique(labels):
        points[labels == label] -= points[labels == label].mean(axis=0)
    covariance = points.T @ points / max(1, len(points) - len(np.unique(labels)))
    mean = float(np.trace(covariance)) / len(covariance)
    if mean < 1e-12:
        return basis
    covariance *= 1 - SHRINKAGE
    covariance[np.diag_indices_from(covariance)] += SHRINKAGE * mean
    variances, directions = np.linalg.eigh(covariance)
    whitening: Array = (basis @ (directions / np.sqrt(variances))).astype(np.float32)
    return whitening


def _principal_components(vectors: Array) -> Array:
    """The directions (columns) in which centered vectors vary most."""
    step = -(-len(vectors) // MAX_PCA_EXAMPLES)
    _, strengths, directions = np.linalg.svd(vectors[::step], full_matrices=False)
    varying = int((strengths > 1e-4 * strengths[0]).sum())
    affordable = max(MIN_DIMENSIONS, len(vectors) // EXAMPLES_PER_DIMENSION)
    basis: Array = directions[: max(1, min(varying, affordable, MAX_DIMENSIONS))].T
    return basis


def _euclidean(rows: Array, others: Array) -> Array:
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)[None, :]
    distances: Array = np.sqrt(np.maximum(squares - 2 * rows @ others.T, 0)).astype(np.float32)
    return distances


def _weigh_words(words: Words, labels: Labels, class_count: int) -> Array:
    """The square root of how much each bucket says of the class, in nats; 0 if it says nothing.

    Names, addresses and numbers stand on one page each: what a bucket must tell beyond chance
    removes them, and leaves what all pages of a kind have and others don't.
    """
    count = len(labels)
    sizes = np.bincount(labels, minlength=class_count).astype(np.float64)
    present = np.zeros((class_count, words.shape[1]))
    np.add.at(present, labels, words.astype(np.float64))
    total = present.sum(axis=0)
    information = np.zeros(words.shape[1])
    for joint, margin in ((present, total), (sizes[:, None] - present, count - total)):
        expected = sizes[:, None] * margin[None, :] / count
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = joint / count * np.log(joint / expected)
        information += np.nan_to_num(terms, nan=0.0, posinf=0.0, neginf=0.0).sum(axis=0)
    # The expectation where a word has nothing to do with the class (Miller and Madow).
    by_chance = (class_count - 1) / (2 * count)
    weights: Array = np.sqrt(np.maximum(information - by_chance, 0)).astype(np.float32)
    return weights


def _unit_rows(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Array = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return unit
