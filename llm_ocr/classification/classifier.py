"""A classifier of pages: examples of known kinds, and the thresholds for accepting a kind.

It is saved as a folder:

    index.json        classes, embedder, thresholds and the curve that they were chosen from
    vectors.npz       the examples' vectors and labels, and the scores of the calibration
    thumbnails/N.jpg  the examples' pictures, for explanations

A page is accepted if its nearest examples agree on a class (the vote), and if it is no stranger to
that class than the class's own examples are to each other (the p-value). Either test alone fails:
a vote always has a winner, also among pages of a kind that nobody has shown to it.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from llm_ocr.classification.calibration import (
    Calibration,
    ThresholdPoint,
    choose_threshold,
    measure,
)
from llm_ocr.classification.descriptors import Array, PageInput, stack_words
from llm_ocr.classification.embedders import (
    Embedder,
    open_embedder,
    record_embedder,
)
from llm_ocr.classification.neighbors import Described, Labels, Neighbors
from llm_ocr.classification.options import OTHER, ClassifierError

FORMAT = 2
SIGNIFICANCE, TARGET_ERROR = 0.05, 0.01
# Fewer examples say nothing of how pages of a class differ.
MIN_EXAMPLES = 3
INDEX_FILE, VECTORS_FILE, THUMBNAILS = "index.json", "vectors.npz", "thumbnails"
THUMBNAIL_SIZE = (240, 320)


@dataclass(frozen=True)
class Example:
    """A page of a known class. `name` is what people know it by; pages with the same `group` (a
    file) are never used to judge each other. `thumbnail` is a JPEG."""

    name: str
    group: str
    class_name: str
    vector: Array
    top_text: str | None
    thumbnail: bytes


def describe_example(
    name: str, group: str, class_name: str, view: PageInput, embedder: Embedder
) -> Example:
    """A page as an example, without its image. Blocks; raises ClassifierError."""
    vector = embedder.embed([view.image])[0]
    return Example(name, group, class_name, vector, view.top_text, _thumbnail(view.image))


@dataclass(frozen=True)
class PageVote:
    """What a classifier says of a page.

    `probability` is the share of the votes for `class_name`, `p_value` that of the class's examples
    that are at least as strange to the others. `plausible` are all classes to which the page isn't
    too strange. `neighbors` are the nearest examples, by number, with their distances.
    """

    class_name: str
    probability: float
    p_value: float
    is_accepted: bool
    plausible: tuple[str, ...]
    neighbors: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PageClassifier:
    """An index of examples with its thresholds, as `fit_classifier` or `load_classifier` make it.
    May be used by several threads at once."""

    classes: tuple[str, ...]
    embedder: Embedder
    examples: Described
    labels: Labels
    names: tuple[str, ...]
    thumbnails: tuple[bytes, ...]
    calibration: Calibration
    curve: tuple[ThresholdPoint, ...]
    significance: float
    target_error: float
    vote_threshold: float
    has_words: bool
    _neighbors: Neighbors = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        neighbors = Neighbors(self.examples, self.labels, len(self.classes))
        object.__setattr__(self, "_neighbors", neighbors)

    def classify(self, views: Sequence[PageInput]) -> list[PageVote]:
        """The votes on pages. Blocks; raises ClassifierError if the embedder can't be used."""
        if not views:
            return []
        vectors = self.embedder.embed([view.image for view in views])
        return self.classify_described(vectors, [view.top_text for view in views])

    def classify_described(self, vectors: Array, top_texts: Sequence[str | None]) -> list[PageVote]:
        """As `classify`, of pages that were embedded before."""
        if vectors.shape[1] != self.examples.vectors.shape[1]:
            raise ClassifierError(
                f"the embedder {self.embedder.id} returned vectors of {vectors.shape[1]} numbers, "
                f"and the index has {self.examples.vectors.shape[1]}: it is another model; use the "
                "one that the index was fitted with, or fit the index again"
            )
        texts = [text if self.has_words else None for text in top_texts]
        pages = Described(vectors, stack_words(texts))
        compared = self._neighbors.compare(pages)
        distances = self._neighbors.distances(pages)
        p_values = self.calibration.p_values(compared.strangeness)
        found = []
        for row in range(len(vectors)):
            label = int(compared.votes[row].argmax())
            vote, p_value = float(compared.votes[row, label]), float(p_values[row, label])
            plausible = np.flatnonzero(p_values[row] >= self.significance)
            nearest = np.argsort(distances[row], kind="stable")[:12]
            found.append(
                PageVote(
                    self.classes[label],
                    vote,
                    p_value,
                    vote >= self.vote_threshold and p_value >= self.significance,
                    tuple(self.classes[one] for one in plausible),
                    tuple((int(one), float(distances[row, one])) for one in nearest),
                )
            )
        return found

    @property
    def operating_point(self) -> ThresholdPoint:
        """What is expected of the threshold in use."""
        return next(point for point in self.curve if point.vote == self.vote_threshold)

    def loose_classes(self) -> dict[str, float]:
        """The classes that may hold several kinds, with how many times as far from each other as
        usual their examples lie."""
        return {self.classes[k]: ratio for k, ratio in self.calibration.loose.items()}

    def counts(self) -> dict[str, int]:
        """The number of examples of each class."""
        return {name: int((self.labels == k).sum()) for k, name in enumerate(self.classes)}


def fit_classifier(
    examples: Sequence[Example],
    embedder: Embedder,
    *,
    significance: float = SIGNIFICANCE,
    target_error: float = TARGET_ERROR,
) -> PageClassifier:
    """Fit a classifier to examples, all described with `embedder`: calibrate it, and choose the
    vote that it needs. Raises ClassifierError if a class has too few examples."""
    classes = _check_classes(examples)
    labels = np.array([classes.index(example.class_name) for example in examples], np.int64)
    vectors = np.stack([example.vector for example in examples])
    # As they are saved: a classifier that was loaded is equal to the one that was fitted.
    vectors = vectors.astype(np.float16).astype(np.float32)
    described = Described(vectors, stack_words([example.top_text for example in examples]))
    groups = [example.group for example in examples]
    measured = measure(described, labels, groups, len(classes), significance)
    return PageClassifier(
        classes,
        embedder,
        described,
        labels,
        tuple(example.name for example in examples),
        tuple(example.thumbnail for example in examples),
        measured.calibration,
        measured.curve,
        significance,
        target_error,
        choose_threshold(measured.curve, target_error).vote,
        any(example.top_text is not None for example in examples),
    )


def save_classifier(classifier: PageClassifier, folder: Path) -> None:
    """Save a classifier to a folder, which is created. The same classifier is the same bytes."""
    thumbnails = folder / THUMBNAILS
    thumbnails.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(classifier.thumbnails):
        (thumbnails / f"{number}.jpg").write_bytes(picture)
    scores: dict[str, Any] = {
        f"scores_{k}": one for k, one in enumerate(classifier.calibration.scores)
    }
    np.savez_compressed(
        folder / VECTORS_FILE,
        vectors=classifier.examples.vectors.astype(np.float16),
        words=np.packbits(classifier.examples.words, axis=1),
        labels=classifier.labels,
        **scores,
    )
    content = {
        "format": FORMAT,
        "embedder": record_embedder(classifier.embedder),
        "words": classifier.has_words,
        "classes": classifier.counts(),
        "significance": classifier.significance,
        "target_error": classifier.target_error,
        "vote_threshold": classifier.vote_threshold,
        "loose": classifier.loose_classes(),
        "curve": [asdict(point) for point in classifier.curve],
        "examples": list(classifier.names),
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (folder / INDEX_FILE).write_text(f"{text}\n", "utf-8")


def load_classifier(
    folder: Path, location: str | None = None, api_key: str | None = None
) -> PageClassifier:
    """Load a classifier. `location` is the current address or folder of its embedder, if it isn't
    built in.

    Raises ClassifierError if the folder is no classifier, or has another embedder's vectors.
    """
    try:
        content = json.loads((folder / INDEX_FILE).read_text("utf-8"))
        if content["format"] != FORMAT:
            raise ClassifierError(
                f"{folder}: the index has the format {content['format']}, and this version reads "
                f"{FORMAT}; fit the index again"
            )
        return _read(folder, content, location, api_key)
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise ClassifierError(
            f"{folder} is not a classifier: {missing} is missing; fit one to examples first"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClassifierError(f"{folder}: the classifier is damaged: {error}") from error


def _read(
    folder: Path, content: Mapping[str, Any], location: str | None, api_key: str | None
) -> PageClassifier:
    try:
        embedder = open_embedder(content["embedder"], location, api_key)
    except ClassifierError as error:
        raise ClassifierError(f"{folder}: {error}") from error
    classes, names = tuple(content["classes"]), tuple(content["examples"])
    with np.load(folder / VECTORS_FILE, allow_pickle=False) as stored:
        words = np.unpackbits(stored["words"], axis=1).astype(np.bool_)
        described = Described(stored["vectors"].astype(np.float32), words)
        labels = stored["labels"]
        scores = tuple(stored[f"scores_{k}"] for k in range(len(classes)))
    if not len(described) == len(labels) == len(names):
        raise ValueError(f"{VECTORS_FILE} and {INDEX_FILE} have different numbers of examples")
    loose = {classes.index(name): ratio for name, ratio in content["loose"].items()}
    pictures = folder / THUMBNAILS
    return PageClassifier(
        classes,
        embedder,
        described,
        labels,
        names,
        tuple((pictures / f"{number}.jpg").read_bytes() for number in range(len(names))),
        Calibration(scores, loose),
        tuple(ThresholdPoint(**point) for point in content["curve"]),
        content["significance"],
        content["target_error"],
        content["vote_threshold"],
        content["words"],
    )


def _check_classes(examples: Sequence[Example]) -> tuple[str, ...]:
    classes = tuple(sorted({example.class_name for example in examples}))
    if len(classes) < 2:
        raise ClassifierError(
            f"there are examples of {len(classes)} classes; a classifier needs at least 2"
        )
    if OTHER in classes:
        raise ClassifierError(
            f"{OTHER!r} can't be a class: it means pages of no known class; leave its pages out"
        )
    for name in classes:
        count = sum(example.class_name == name for example in examples)
        if count < MIN_EXAMPLES:
            raise ClassifierError(
                f"the class {name} has {count} examples; a class needs at least {MIN_EXAMPLES}, "
                "and 20 for a calibration of its own"
            )
    return classes


def _thumbnail(image: Image.Image) -> bytes:
    small = image.convert("L")
    small.thumbnail(THUMBNAIL_SIZE)
    data = io.BytesIO()
    small.save(data, "JPEG", quality=60)
    return data.getvalue()
