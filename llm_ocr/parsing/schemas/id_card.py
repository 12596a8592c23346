"""A passport, an identity card or a driving license: the side with the name."""

from datetime import date
from itertools import pairwise
from typing import Literal, Self

from pydantic import AliasChoices, BaseModel, Field, model_validator


class IdCard(BaseModel):
    """An identity document, as it is printed; what it doesn't say is null."""

    document_type: Literal["passport", "identity card", "driving license", "other"] | None = Field(
        default=None, title="Document", examples=["identity card"]
    )
    document_number: str | None = Field(
        default=None,
        title="Document number",
        validation_alias=AliasChoices(
            "Document no",
            "Passport no",
            "Card no",
            "Licence no",
            "Ausweisnummer",
            "Passnummer",
            "Dokumentennummer",
        ),
        examples=["L01X00T47"],
    )
    surname: str | None = Field(
        default=None,
        title="Surname",
        validation_alias=AliasChoices("Last name", "Family name", "Name", "Nachname"),
        examples=["Lindgren"],
    )
    given_names: str | None = Field(
        default=None,
        title="Given names",
        validation_alias=AliasChoices("First name", "Vornamen", "Vorname"),
        examples=["Ada Marie"],
    )
    date_of_birth: date | None = Field(
        default=None,
        title="Date of birth",
        validation_alias=AliasChoices("Born", "Geburtsdatum", "Geburtstag"),
        examples=["1988-08-12"],
    )
    place_of_birth: str | None = Field(
        default=None,
        title="Place of birth",
        validation_alias="Geburtsort",
        examples=["Bremen"],
    )
    sex: Literal["F", "M", "X"] | None = Field(
        default=None, title="Sex", validation_alias="Geschlecht"
    )
    nationality: str | None = Field(
        default=None,
        title="Nationality",
        validation_alias="Staatsangehörigkeit",
        examples=["DEUTSCH"],
    )
    issue_date: date | None = Field(
        default=None,
        title="Date of issue",
        validation_alias=AliasChoices("Issued", "Ausstellungsdatum"),
        examples=["2021-11-02"],
    )
    expiry_date: date | None = Field(
        default=None,
        title="Date of expiry",
        validation_alias=AliasChoices("Expires", "Valid until", "Gültig bis"),
        examples=["2031-11-01"],
    )
    authority: str | None = Field(
        default=None,
        title="Authority",
        validation_alias=AliasChoices("Issued by", "Behörde", "Ausstellende Behörde"),
        examples=["Stadt Bremen"],
    )
    address: str | None = Field(
        default=None,
        title="Address",
        description="In one line",
        validation_alias=AliasChoices("Residence", "Anschrift", "Wohnort"),
    )

    @model_validator(mode="after")
    def dates_are_in_order(self) -> Self:
        dates = [
            ("the date of birth", self.date_of_birth),
            ("the date of issue", self.issue_date),
            ("the date of expiry", self.expiry_date),
        ]
        known = [(name, day) for name, day in dates if day]
        for (before, first), (after, then) in pairwise(known):
            if then < first:
                raise ValueError(f"{after} {then} is before {before} {first}")
        return self
