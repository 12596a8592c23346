"""A value with the probability that it is right, by the evidence that it was found with.

The evidence is a set of features: where the value is from its label, how sure the wording of the
label is. The probability is multiplied by that of the characters having been read right. The
weights are in `field_weights`, learned by `benchmarks/field_weights.py` (logistic regression).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.key_value.field_weights import EVIDENCE, READING
from llm_ocr.engines.embedded.key_value.phrases import Phrase

# A recognizer is never surer of a character than this leaves, and no other model than `MOST`.
LEAST_DOUBT, MOST = 1e-4, 0.999


@dataclass(frozen=True)
class RatedValue:
    """A value, the probability (0..1) that it is the right one, and the evidence for it."""

    value: object
    probability: float
    evidence: Mapping[str, float]


def rate_value(
    value: object, phrases: Sequence[Phrase], evidence: Mapping[str, float]
) -> RatedValue:
    """A value in some phrases, with the probability that the evidence for it gives it."""
    characters = alphanumerics(str(value))
    # Lines of a page are read well or badly together: the worst one decides.
    read = min(
        (
            reading_probability(
                min(characters, alphanumerics(phrase.text)), phrase.text, phrase.score
            )
            for phrase in phrases
        ),
        default=1.0,
    )
    return RatedValue(value, read * probability_of({"bias": 1.0, **evidence}, EVIDENCE), evidence)


def reading_probability(characters: int, text: str, score: float) -> float:
    """The probability (0..1) that so many characters of a line's text were read right, by the
    recognizer's confidence in it; text of a text layer, whose confidence is 1, is exact."""
    return 1.0 if score >= 1 else probability_of(reading_features(characters, text, score), READING)


def reading_features(characters: int, text: str, score: float) -> dict[str, float]:
    """What tells how likely a reading error is: how many characters are expected to be wrong, and
    whether they are letters."""
    return {
        "bias": 1.0,
        "log of expected errors": math.log(max(1, characters) * max(1 - score, LEAST_DOUBT)),
        "letters": float(2 * sum(map(str.isalpha, text)) > alphanumerics(text)),
    }


def alphanumerics(text: str) -> int:
    """How many letters and digits a text has."""
    return sum(map(str.isalnum, text))


def probability_of(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Logistic regression."""
    return 1 / (1 + math.exp(-weighted_sum(features, weights)))


def weighted_sum(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights.get(key, 0.0) * number for key, number in features.items())


def log_odds(probability: float) -> float:
    """Of a learned model's probability: no model is surer than `MOST`."""
    bounded = min(MOST, max(1 - MOST, probability))
    return math.log(bounded / (1 - bounded))
