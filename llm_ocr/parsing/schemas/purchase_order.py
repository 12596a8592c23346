"""A purchase order: who orders what from whom, and when it is to come."""

from datetime import date
from decimal import Decimal
from typing import Self

from pydantic import AliasChoices, BaseModel, Field, model_validator

from llm_ocr.parsing.schemas.trade import Line, Party, check_lines, check_sum


class OrderLine(Line):
    """A line of the order."""

    item_number: str | None = Field(
        default=None,
        title="Item number",
        description="The supplier's or the buyer's number for it",
        validation_alias=AliasChoices(
            "Item no", "Part number", "SKU", "Article", "Artikelnummer", "Art.-Nr"
        ),
        examples=["A-1001"],
    )


class PurchaseOrder(BaseModel):
    """A purchase order, as it is printed; what it doesn't say is null."""

    order_number: str | None = Field(
        default=None,
        title="Order number",
        validation_alias=AliasChoices(
            "PO number", "PO no", "Purchase order", "Bestellnummer", "Bestell-Nr"
        ),
        examples=["PO-7781"],
    )
    order_date: date | None = Field(
        default=None,
        title="Order date",
        validation_alias=AliasChoices("Date", "Bestelldatum", "Datum"),
        examples=["2026-02-12"],
    )
    delivery_date: date | None = Field(
        default=None,
        title="Delivery date",
        description="When it is to arrive",
        validation_alias=AliasChoices("Deliver by", "Required by", "Lieferdatum", "Liefertermin"),
        examples=["2026-03-01"],
    )
    buyer: Party = Field(
        default_factory=Party,
        title="Buyer",
        description="Who orders",
        validation_alias=AliasChoices("Ordered by", "Besteller", "Käufer"),
    )
    supplier: Party = Field(
        default_factory=Party,
        title="Supplier",
        description="Who is to deliver",
        validation_alias=AliasChoices("Vendor", "Seller", "To", "Lieferant"),
    )
    ship_to: str | None = Field(
        default=None,
        title="Ship to",
        description="Where it is to be delivered, in one line",
        validation_alias=AliasChoices("Deliver to", "Lieferadresse", "Lieferanschrift"),
        examples=["Tor 3, Hafenstraße 12, 20457 Hamburg"],
    )
    payment_terms: str | None = Field(
        default=None,
        title="Payment terms",
        validation_alias=AliasChoices("Terms", "Zahlungsbedingungen"),
        examples=["30 days net"],
    )
    currency: str | None = Field(
        default=None,
        title="Currency",
        description="As printed: a code or a sign",
        validation_alias="Währung",
        examples=["EUR", "$"],
    )
    lines: list[OrderLine] = Field(default_factory=list, title="Lines")
    subtotal: Decimal | None = Field(
        default=None,
        title="Subtotal",
        validation_alias=AliasChoices("Net total", "Zwischensumme", "Nettobetrag"),
        examples=[100.0],
    )
    vat: Decimal | None = Field(
        default=None,
        title="VAT",
        validation_alias=AliasChoices("Tax", "MwSt", "USt", "Umsatzsteuer"),
        examples=[19.0],
    )
    total: Decimal | None = Field(
        default=None,
        title="Total",
        validation_alias=AliasChoices(
            "Grand total", "Order total", "Gesamtbetrag", "Gesamtsumme", "Bestellwert"
        ),
        examples=[119.0],
        json_schema_extra={"merge": "last"},
    )

    @model_validator(mode="after")
    def delivery_is_not_before_order(self) -> Self:
        if self.order_date and self.delivery_date and self.delivery_date < self.order_date:
            raise ValueError(
                f"the delivery date {self.delivery_date} is before the order date {self.order_date}"
            )
        return self

    @model_validator(mode="after")
    def lines_add_up(self) -> Self:
        check_lines([line.amount for line in self.lines], self.subtotal, self.total)
        return self

    @model_validator(mode="after")
    def subtotal_and_vat_are_total(self) -> Self:
        check_sum("subtotal + VAT = total", [self.subtotal, self.vat], self.total)
        return self
