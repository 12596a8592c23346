"""What papers of trade have in common: who, for what, and sums."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Self

from pydantic import AliasChoices, BaseModel, Field, model_validator

CENT = Decimal("0.01")


class Party(BaseModel):
    """A company or a person, as the paper names it."""

    name: str | None = Field(default=None, title="Name", examples=["Nordlicht GmbH"])
    address: str | None = Field(
        default=None,
        title="Address",
        description="Street, postcode, town and country, in one line",
        validation_alias=AliasChoices("Anschrift", "Adresse"),
        examples=["Hafenstraße 12, 20457 Hamburg"],
    )
    vat_id: str | None = Field(
        default=None,
        title="VAT ID",
        validation_alias=AliasChoices(
            "VAT No", "VAT Reg No", "VAT number", "Tax ID", "USt-IdNr", "USt-ID"
        ),
        examples=["DE123456789"],
    )


class Line(BaseModel):
    """A line of the table of goods or services."""

    description: str | None = Field(
        default=None,
        title="Description",
        validation_alias=AliasChoices(
            "Item", "Product", "Service", "Bezeichnung", "Beschreibung", "Artikel"
        ),
        examples=["Paper A4, 80 g"],
    )
    quantity: Decimal | None = Field(
        default=None,
        title="Quantity",
        validation_alias=AliasChoices("Qty", "Menge", "Anzahl", "Hours", "Stunden"),
        examples=[3],
    )
    unit_price: Decimal | None = Field(
        default=None,
        title="Unit price",
        validation_alias=AliasChoices(
            "Price", "Rate", "Einzelpreis", "E-Preis", "Preis", "Stückpreis"
        ),
        examples=[4.5],
    )
    amount: Decimal | None = Field(
        default=None,
        title="Amount",
        description="Of the line, without VAT where the paper has it so",
        validation_alias=AliasChoices(
            "Line total", "Total", "Betrag", "Gesamtpreis", "Gesamt", "Summe"
        ),
        examples=[13.5],
    )

    @model_validator(mode="after")
    def amount_is_quantity_times_price(self) -> Self:
        if self.quantity is None or self.unit_price is None or self.amount is None:
            return self
        product = self.quantity * self.unit_price
        rounded = abs(self.quantity) * CENT / 2  # a price of full cents was rounded by up to half
        if abs(product - self.amount) > CENT + rounded:
            raise ValueError(
                f"quantity {self.quantity} × unit price {self.unit_price} is {product}, "
                f"not the amount {self.amount}"
            )
        return self


def check_sum(name: str, parts: Sequence[Decimal | None], total: Decimal | None) -> None:
    """Raise ValueError unless the parts add up to the total within a cent. Sums with a missing
    value are not checked.

    `name` describes the sum, such as "subtotal + VAT = total".
    """
    known = [part for part in parts if part is not None]
    if total is None or len(known) < len(parts):
        return
    found = sum(known, Decimal(0))
    if abs(found - total) > CENT:
        raise ValueError(f"{name}: {' + '.join(map(str, known))} is {found}, not {total}")


def check_lines(amounts: Sequence[Decimal | None], *totals: Decimal | None) -> None:
    """ValueError unless the lines' amounts add up to one of the totals, within a cent a line."""
    known = [amount for amount in amounts if amount is not None]
    given = [total for total in totals if total is not None]
    if not known or not given or len(known) < len(amounts):
        return
    found = sum(known, Decimal(0))
    if all(abs(found - total) > CENT * len(known) for total in given):
        raise ValueError(f"the lines add up to {found}, not to {' or '.join(map(str, given))}")
