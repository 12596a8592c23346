"""A value with the probability that it is right, by the evidence that it was found with.

The evidence is a set of features: where the value is from its label, how sure the wording of the
label is, how sure the recognizer was of the characters. The weights are in `field_weights`,
learned by `benchmarks/field_weights.py` (logistic regression).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.filling.field_weights import EVIDENCE, READING
from llm_ocr.engines.embedded.filling.phrases import Phrase


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
    score = EVIDENCE.get("bias", 0.0) + sum(
        EVIDENCE.get(key, 0.0) * number for key, number in evidence.items()
    )
    return RatedValue(value, reading_probability(value, phrases) / (1 + math.exp(-score)), evidence)


def reading_probability(value: object, phrases: Sequence[Phrase]) -> float:
    """The probability (0..1) that all characters of a value were read right."""
    given = reading_features(value, phrases)
    return 1 / (1 + math.exp(-sum(READING.get(key, 0.0) * one for key, one in given.items())))


def reading_features(value: object, phrases: Sequence[Phrase]) -> dict[str, float]:
    """What tells how likely a reading error is: the recognizer's doubt and how much was read.

    Text that was not read by a recognizer (a text layer) has a score of 1, and is exact.
    """
    doubt = 1.0 - min((phrase.score for phrase in phrases), default=1.0)
    text = str(value)
    is_recognized = doubt > 0
    is_text = sum(map(str.isalpha, text)) > sum(map(str.isdigit, text))
    return {
        "bias": 1.0,
        "doubt": min(1.0, 5 * doubt),
        "length and doubt": min(1.0, doubt * len(text) / 10) if is_text else 0.0,
        "recognized text": float(is_recognized and is_text),
        "recognized number": float(is_recognized and not is_text),
    }
