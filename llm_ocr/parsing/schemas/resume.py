"""A resume. Times are text, as printed: "2019", "03/2019", "to date"."""

import re
from typing import Self

from pydantic import AliasChoices, BaseModel, Field, field_validator, model_validator

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


class Period(BaseModel):
    """Some time at one place."""

    start: str | None = Field(
        default=None,
        title="From",
        validation_alias=AliasChoices("Start", "Von"),
        examples=["2019-04"],
    )
    end: str | None = Field(
        default=None,
        title="To",
        validation_alias=AliasChoices("End", "Bis"),
        examples=["2023-09", "present"],
    )

    @model_validator(mode="after")
    def does_not_end_before_it_starts(self) -> Self:
        start, end = _YEAR.search(self.start or ""), _YEAR.search(self.end or "")
        if start and end and int(end[0]) < int(start[0]):
            raise ValueError(f"it ends {self.end}, before it starts, {self.start}")
        return self


class Position(Period):
    """A job."""

    title: str | None = Field(default=None, title="Title", examples=["Data engineer"])
    organization: str | None = Field(
        default=None,
        title="Organization",
        validation_alias=AliasChoices("Employer", "Company", "Arbeitgeber", "Firma"),
        examples=["Nordlicht GmbH"],
    )
    location: str | None = Field(default=None, title="Location", examples=["Hamburg"])
    description: str | None = Field(default=None, title="Description")


class Education(Period):
    """A school, a degree or a training."""

    degree: str | None = Field(
        default=None,
        title="Degree",
        validation_alias="Abschluss",
        examples=["MSc"],
    )
    subject: str | None = Field(
        default=None,
        title="Subject",
        validation_alias=AliasChoices("Field of study", "Fach", "Studiengang"),
        examples=["Statistics"],
    )
    school: str | None = Field(
        default=None,
        title="School",
        validation_alias=AliasChoices("University", "Institution", "Universität", "Schule"),
        examples=["Universität Bremen"],
    )


class Language(BaseModel):
    """A language, and how well it is spoken."""

    language: str | None = Field(default=None, title="Language", examples=["German"])
    level: str | None = Field(
        default=None,
        title="Level",
        validation_alias="Niveau",
        examples=["native", "C1"],
    )


class Resume(BaseModel):
    """A resume, as it is written; what it doesn't say is null."""

    name: str | None = Field(default=None, title="Name", examples=["Ada Lindgren"])
    headline: str | None = Field(
        default=None,
        title="Headline",
        description="The line below the name, if there is one",
        examples=["Data engineer"],
    )
    email: str | None = Field(
        default=None,
        title="E-mail",
        validation_alias=AliasChoices("Email", "Mail"),
        examples=["ada@example.org"],
    )
    phone: str | None = Field(
        default=None,
        title="Phone",
        validation_alias=AliasChoices("Tel", "Telephone", "Mobile", "Telefon", "Mobil"),
        examples=["+49 421 1234567"],
    )
    address: str | None = Field(
        default=None,
        title="Address",
        description="In one line",
        validation_alias=AliasChoices("Anschrift", "Adresse"),
    )
    links: list[str] = Field(default_factory=list, title="Links", examples=[["example.org/ada"]])
    summary: str | None = Field(
        default=None,
        title="Summary",
        validation_alias=AliasChoices("Profile", "About", "Profil", "Über mich"),
    )
    experience: list[Position] = Field(
        default_factory=list,
        title="Experience",
        validation_alias=AliasChoices("Employment", "Work history", "Berufserfahrung"),
    )
    education: list[Education] = Field(
        default_factory=list,
        title="Education",
        validation_alias=AliasChoices("Ausbildung", "Bildungsweg", "Studium"),
    )
    skills: list[str] = Field(
        default_factory=list,
        title="Skills",
        validation_alias=AliasChoices("Kenntnisse", "Fähigkeiten"),
        examples=[["Python", "SQL"]],
    )
    languages: list[Language] = Field(
        default_factory=list,
        title="Languages",
        validation_alias="Sprachen",
    )

    @field_validator("email")
    @classmethod
    def email_has_an_at_sign(cls, value: str | None) -> str | None:
        if value and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", value):
            raise ValueError("this is no e-mail address")
        return value
