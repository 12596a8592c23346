"""Define what is searched for on pages besides text, and what is expected of it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from llm_ocr.auxiliary.expectations import (
    BarcodeExpectation,
    Expectation,
    SignatureExpectation,
    find_unmet,
)
from llm_ocr.records import AuxiliaryFinding, FindingKind, UnmetExpectation


class BackEnd(StrEnum):
    """What searches for a kind of finding: `onnx` is a detector, `vlm` a vision model."""

    HEURISTICS = "heuristics"
    ONNX = "onnx"
    VLM = "vlm"


class KindOptions(BaseModel):
    """How a kind of finding is searched for, and what the pages of a type should have. `prompt` is
    for a vision model, in place of the built-in one; the form of its answer stays. `detector` is a
    folder, or NAME@ALIAS or NAME/VERSION of the registry."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    expect: tuple[Expectation, ...] = ()
    back_end: BackEnd = BackEnd.HEURISTICS
    prompt: str | None = None
    detector: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check(self) -> "KindOptions":
        if self.prompt is not None and self.back_end is not BackEnd.VLM:
            raise ValueError("prompt is for a vision model: add back_end: vlm")
        if self.detector is not None and self.back_end is not BackEnd.ONNX:
            raise ValueError("detector is for a detector's findings: add back_end: onnx")
        if self.detector is None and self.back_end is BackEnd.ONNX:
            raise ValueError("back_end: onnx needs a detector, such as marks@production")
        return self


class BarcodeOptions(KindOptions):
    """Barcodes, of some symbologies only if these are given, which is faster. Those that a
    detector or a vision model sees are read with more effort."""

    symbologies: tuple[str, ...] = ()
    expect: tuple[BarcodeExpectation, ...] = ()

    @field_validator("symbologies")
    @classmethod
    def _check_symbologies(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        # Imported on demand: it takes the extra service or cpu.
        from llm_ocr.auxiliary.barcodes import parse_symbologies

        parse_symbologies(names)
        return names


class SignatureOptions(KindOptions):
    """Places for signatures; by default, those that are signed are expected."""

    expect: tuple[SignatureExpectation, ...] = ()


class AuxiliaryOptions(BaseModel):
    """The kinds that are searched for: those that have options, which may be empty."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    barcode: BarcodeOptions | None = None
    date: KindOptions | None = None
    signature: SignatureOptions | None = None
    stamp: KindOptions | None = None

    def of(self, back_end: BackEnd) -> Mapping[FindingKind, KindOptions]:
        """The kinds that a back end searches for."""
        return {
            kind: options for kind, options in self._by_kind.items() if options.back_end is back_end
        }

    @property
    def detectors(self) -> list[str]:
        """The detectors that kinds name, each once."""
        named = [options.detector for options in self._by_kind.values()]
        return list(dict.fromkeys(name for name in named if name is not None))

    @property
    def has_expectations(self) -> bool:
        """Whether any kind has something to expect."""
        return any(options.expect for options in self._by_kind.values())

    @property
    def _by_kind(self) -> Mapping[FindingKind, KindOptions]:
        kinds = {
            FindingKind.BARCODE: self.barcode,
            FindingKind.DATE: self.date,
            FindingKind.SIGNATURE: self.signature,
            FindingKind.STAMP: self.stamp,
        }
        return {kind: options for kind, options in kinds.items() if options is not None}

    def find_unmet(
        self, pages: Sequence[tuple[int, Sequence[AuxiliaryFinding]]]
    ) -> list[UnmetExpectation]:
        """The expectations that a document's pages, in order, don't meet: number and findings."""
        return [
            unmet
            for kind, options in self._by_kind.items()
            for unmet in find_unmet(kind, options.expect, pages)
        ]
