"""A till receipt."""

from datetime import date, time
from decimal import Decimal
from typing import Self

from pydantic import AliasChoices, BaseModel, Field, model_validator

from llm_ocr.parsing.schemas.trade import Line, Party, check_lines, check_sum


class Receipt(BaseModel):
    """A till receipt, as it is printed; what it doesn't say is null."""

    merchant: Party = Field(
        default_factory=Party, title="Merchant", description="The shop, mostly at the top"
    )
    receipt_number: str | None = Field(
        default=None,
        title="Receipt number",
        validation_alias=AliasChoices(
            "Receipt no", "Receipt", "Transaction", "Bon-Nr", "Beleg-Nr", "Belegnummer"
        ),
        examples=["000417"],
    )
    receipt_date: date | None = Field(
        default=None,
        title="Date",
        validation_alias="Datum",
        examples=["2026-03-01"],
    )
    receipt_time: time | None = Field(
        default=None,
        title="Time",
        validation_alias=AliasChoices("Uhrzeit", "Zeit"),
        examples=["14:05:00"],
    )
    currency: str | None = Field(
        default=None,
        title="Currency",
        description="As printed: a code or a sign",
        validation_alias="Währung",
        examples=["EUR", "$"],
    )
    lines: list[Line] = Field(
        default_factory=list, title="Lines", description="What was bought, one line each"
    )
    subtotal: Decimal | None = Field(
        default=None,
        title="Subtotal",
        description="Without tax, where it is printed",
        validation_alias=AliasChoices("Sub-total", "Net", "Zwischensumme", "Netto"),
        examples=[10.0],
    )
    vat: Decimal | None = Field(
        default=None,
        title="VAT",
        description="All tax on the receipt",
        validation_alias=AliasChoices("Tax", "Sales tax", "MwSt", "USt"),
        examples=[1.9],
    )
    tip: Decimal | None = Field(
        default=None,
        title="Tip",
        validation_alias=AliasChoices("Gratuity", "Service charge", "Trinkgeld"),
        examples=[1.0],
    )
    total: Decimal | None = Field(
        default=None,
        title="Total",
        description="What was paid",
        validation_alias=AliasChoices(
            "Grand total", "Amount paid", "Summe", "Gesamt", "Gesamtbetrag", "Zu zahlen"
        ),
        examples=[12.9],
        json_schema_extra={"merge": "last"},
    )
    payment_method: str | None = Field(
        default=None,
        title="Payment",
        description="As printed",
        validation_alias=AliasChoices("Paid by", "Tender", "Zahlung", "Zahlart", "Bezahlt"),
        examples=["Visa", "cash"],
    )

    @model_validator(mode="after")
    def lines_add_up(self) -> Self:
        check_lines([line.amount for line in self.lines], self.subtotal, self.total)
        return self

    @model_validator(mode="after")
    def subtotal_vat_and_tip_are_total(self) -> Self:
        tip = self.tip or Decimal(0)
        check_sum("subtotal + VAT + tip = total", [self.subtotal, self.vat, tip], self.total)
        return self
