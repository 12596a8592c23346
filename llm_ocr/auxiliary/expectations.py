"""Check what was found on a document's pages against what its type expects."""

import re
from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from llm_ocr.records import AuxiliaryFinding, FindingKind, UnmetExpectation


class Expectation(BaseModel):
    """What pages must have: findings whose value or text matches the whole of `pattern`, exactly
    `count` of them (by default at least one), on a page (by default anywhere in the document)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str | None = None
    count: Annotated[int, Field(ge=0)] | None = None
    page: int | str | None = None

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return pattern

    @field_validator("page")
    @classmethod
    def _check_page(cls, page: int | str | None) -> int | str | None:
        if page not in (None, "first", "last") and (isinstance(page, str) or page < 1):
            raise ValueError(f"{page!r} is no page: use first, last, or a page's number")
        return page

    def matches(self, finding: AuxiliaryFinding) -> bool:
        """Whether a finding is one of those that are expected, on whatever page."""
        text = finding.value or finding.text or ""
        return self.pattern is None or re.fullmatch(self.pattern, text) is not None

    def applies_to(self, number: int, is_first: bool, is_last: bool) -> bool:
        """Whether what is expected may be on this page."""
        if self.page == "first":
            return is_first
        return is_last if self.page == "last" else self.page in (None, number)

    def is_met(self, found: int) -> bool:
        return found > 0 if self.count is None else found == self.count

    def describe(self, kind: FindingKind) -> str:
        """What is expected, in words."""
        amount = "at least one"
        if self.count is not None:
            amount = {0: "no", 1: "one"}.get(self.count, f"{self.count:,}")
        name = self._name(kind) if self.count in (None, 1) else f"{self._name(kind)}s"
        pattern = "" if self.pattern is None else f" like {self.pattern}"
        where = "" if self.page is None else f" on page {self.page}"
        if self.page in ("first", "last"):
            where = f" on the {self.page} page"
        return f"{amount} {name}{pattern}{where}"

    def _name(self, kind: FindingKind) -> str:
        return kind.value


class BarcodeExpectation(Expectation):
    """Codes of one of some symbologies (by default of any), with this value."""

    symbology: str | tuple[str, ...] = ()

    @field_validator("symbology")
    @classmethod
    def _check_symbology(cls, names: str | tuple[str, ...]) -> tuple[str, ...]:
        listed = (names,) if isinstance(names, str) else names
        _parse_symbologies(listed)
        return listed

    def matches(self, finding: AuxiliaryFinding) -> bool:
        return super().matches(finding) and (
            not self.symbology or _is_of(finding, _parse_symbologies(self.symbology))
        )

    def _name(self, kind: FindingKind) -> str:
        return f"{' or '.join(self.symbology)} {kind.value}".strip()


class SignatureExpectation(Expectation):
    """Places for signatures that are `present`, unless `pattern` says otherwise."""

    pattern: str | None = "present"


def find_unmet(
    kind: FindingKind,
    expectations: Sequence[Expectation],
    pages: Sequence[tuple[int, Sequence[AuxiliaryFinding]]],
) -> list[UnmetExpectation]:
    """The expectations that a document's pages don't meet: `pages` are the number of each page,
    in order, and what was found on it."""
    unmet: list[UnmetExpectation] = []
    last = len(pages) - 1
    for expectation in expectations:
        found = sum(
            finding.kind is kind and expectation.matches(finding)
            for k, (number, findings) in enumerate(pages)
            if expectation.applies_to(number, k == 0, k == last)
            for finding in findings
        )
        if not expectation.is_met(found):
            expected = expectation.describe(kind)
            page = expectation.page
            if pages and page in ("first", "last"):
                page = pages[0 if page == "first" else last][0]
            unmet.append(
                UnmetExpectation(
                    kind,
                    expected,
                    found,
                    f"expected {expected}, found {f'{found:,}' if found else 'none'}",
                    page if isinstance(page, int) else None,
                )
            )
    return unmet


def _parse_symbologies(names: Collection[str]) -> frozenset[str]:
    # Imported on demand: it takes the extra service or cpu.
    from llm_ocr.auxiliary.barcodes import parse_symbologies

    return parse_symbologies(names)


def _is_of(finding: AuxiliaryFinding, symbologies: frozenset[str]) -> bool:
    if finding.symbology in symbologies:
        return True
    # A UPC-A code is an EAN-13 code whose first digit is 0.
    is_upc_a = finding.symbology == "EAN-13" and (finding.value or "").startswith("0")
    return is_upc_a and "UPC-A" in symbologies
