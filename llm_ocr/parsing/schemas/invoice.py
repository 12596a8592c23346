"""An invoice: who bills whom, for what, and how much."""

from datetime import date
from decimal import Decimal
from typing import Self

from pydantic import AliasChoices, BaseModel, Field, model_validator

from llm_ocr.parsing.schemas.trade import Line, Party, check_lines, check_sum


class Invoice(BaseModel):
    """An invoice, as it is printed; what it doesn't say is null."""

    invoice_number: str | None = Field(
        default=None,
        title="Invoice number",
        validation_alias=AliasChoices(
            "Invoice no",
            "Invoice #",
            "Invoice",
            "Rechnungsnummer",
            "Rechnungs-Nr",
            "Rechnung Nr",
            "Rechnung",
            "Beleg-Nr",
        ),
        examples=["2026-0042"],
    )
    invoice_date: date | None = Field(
        default=None,
        title="Invoice date",
        validation_alias=AliasChoices("Date of issue", "Date", "Issued", "Rechnungsdatum", "Datum"),
        examples=["2026-03-01"],
    )
    due_date: date | None = Field(
        default=None,
        title="Due date",
        validation_alias=AliasChoices(
            "Payment due",
            "Due",
            "Pay by",
            "Fälligkeitsdatum",
            "Fällig am",
            "Zahlbar bis",
        ),
        examples=["2026-03-31"],
    )
    order_number: str | None = Field(
        default=None,
        title="Order number",
        description="The buyer's order that is billed",
        validation_alias=AliasChoices(
            "Order no", "PO number", "Your order", "Bestellnummer", "Auftragsnummer"
        ),
        examples=["PO-7781"],
    )
    seller: Party = Field(
        default_factory=Party,
        title="Seller",
        description="Who bills",
        validation_alias=AliasChoices(
            "From", "Supplier", "Vendor", "Verkäufer", "Lieferant", "Rechnungssteller"
        ),
    )
    buyer: Party = Field(
        default_factory=Party,
        title="Buyer",
        description="Who is billed",
        validation_alias=AliasChoices(
            "Bill to",
            "Billed to",
            "Invoice to",
            "Customer",
            "Käufer",
            "Kunde",
            "Rechnung an",
            "Rechnungsempfänger",
        ),
    )
    currency: str | None = Field(
        default=None,
        title="Currency",
        description="As printed: a code or a sign",
        validation_alias="Währung",
        examples=["EUR", "$"],
    )
    lines: list[Line] = Field(default_factory=list, title="Lines")
    subtotal: Decimal | None = Field(
        default=None,
        title="Subtotal",
        description="All lines, without VAT",
        validation_alias=AliasChoices(
            "Sub-total",
            "Net total",
            "Net amount",
            "Total excl. VAT",
            "Zwischensumme",
            "Nettobetrag",
            "Summe netto",
            "Netto",
        ),
        examples=[100.0],
    )
    vat_rate: Decimal | None = Field(
        default=None,
        title="VAT rate",
        description="In per cent, where there is one for the whole invoice",
        validation_alias=AliasChoices("Tax rate", "MwSt-Satz", "USt-Satz"),
        examples=[19],
    )
    vat: Decimal | None = Field(
        default=None,
        title="VAT",
        description="The tax as an amount",
        validation_alias=AliasChoices(
            "VAT amount", "Tax", "Sales tax", "MwSt", "USt", "Umsatzsteuer", "Mehrwertsteuer"
        ),
        examples=[19.0],
    )
    total: Decimal | None = Field(
        default=None,
        title="Total",
        description="What is to be paid, with VAT",
        validation_alias=AliasChoices(
            "Grand total",
            "Total due",
            "Amount due",
            "Balance due",
            "Total incl. VAT",
            "Gesamtbetrag",
            "Rechnungsbetrag",
            "Gesamtsumme",
            "Endbetrag",
            "Zu zahlen",
            "Brutto",
        ),
        examples=[119.0],
        json_schema_extra={"merge": "last"},  # pages before the last may carry sums forward
    )

    @model_validator(mode="after")
    def due_date_is_not_before_invoice_date(self) -> Self:
        if self.invoice_date and self.due_date and self.due_date < self.invoice_date:
            raise ValueError(
                f"the due date {self.due_date} is before the invoice date {self.invoice_date}"
            )
        return self

    @model_validator(mode="after")
    def lines_add_up(self) -> Self:
        check_lines([line.amount for line in self.lines], self.subtotal, self.total)
        return self

    @model_validator(mode="after")
    def vat_is_its_rate_of_subtotal(self) -> Self:
        if self.subtotal is not None and self.vat_rate is not None:
            part = self.subtotal * self.vat_rate / 100
            check_sum(f"{self.vat_rate}% VAT of {self.subtotal}", [part], self.vat)
        return self

    @model_validator(mode="after")
    def subtotal_and_vat_are_total(self) -> Self:
        check_sum("subtotal + VAT = total", [self.subtotal, self.vat], self.total)
        return self
