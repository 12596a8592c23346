"""A bank statement: an account's movements over some time."""

from datetime import date
from decimal import Decimal
from typing import Self

from pydantic import AliasChoices, BaseModel, Field, model_validator

from llm_ocr.parsing.schemas.trade import check_sum


class Movement(BaseModel):
    """One booking."""

    booking_date: date | None = Field(
        default=None,
        title="Date",
        validation_alias=AliasChoices("Booking date", "Buchungstag", "Datum", "Buchung"),
        examples=["2026-03-02"],
    )
    value_date: date | None = Field(
        default=None,
        title="Value date",
        validation_alias=AliasChoices("Value", "Valuta", "Wertstellung"),
        examples=["2026-03-02"],
    )
    description: str | None = Field(
        default=None,
        title="Description",
        validation_alias=AliasChoices(
            "Details", "Transaction", "Verwendungszweck", "Buchungstext", "Text"
        ),
        examples=["Rent March"],
    )
    amount: Decimal | None = Field(
        default=None,
        title="Amount",
        description="Below zero for money that went out, also where the page has a column for it",
        validation_alias=AliasChoices("Betrag", "Umsatz"),
        examples=[-850.0],
    )
    balance: Decimal | None = Field(
        default=None,
        title="Balance",
        description="Of the account after this booking, where it is printed",
        validation_alias=AliasChoices("Saldo", "Kontostand"),
        examples=[1204.5],
    )


class BankStatement(BaseModel):
    """A bank statement, as it is printed; what it doesn't say is null."""

    bank: str | None = Field(default=None, title="Bank", validation_alias="Kreditinstitut")
    account_holder: str | None = Field(
        default=None,
        title="Account holder",
        validation_alias=AliasChoices("Account name", "Kontoinhaber"),
        examples=["Ada Lindgren"],
    )
    account_number: str | None = Field(
        default=None,
        title="Account number",
        validation_alias=AliasChoices("Account no", "Account", "Kontonummer"),
        examples=["0532013000"],
    )
    iban: str | None = Field(default=None, title="IBAN", examples=["DE89 3704 0044 0532 0130 00"])
    bic: str | None = Field(
        default=None, title="BIC", validation_alias=AliasChoices("SWIFT", "BIC/SWIFT")
    )
    statement_number: str | None = Field(
        default=None,
        title="Statement number",
        validation_alias=AliasChoices("Statement no", "Auszug Nr", "Auszug"),
        examples=["3/2026"],
    )
    period_start: date | None = Field(
        default=None,
        title="From",
        validation_alias=AliasChoices("Period start", "Von", "Vom"),
        examples=["2026-03-01"],
    )
    period_end: date | None = Field(
        default=None,
        title="To",
        validation_alias=AliasChoices("Period end", "Statement date", "Bis", "Bis zum"),
        examples=["2026-03-31"],
    )
    currency: str | None = Field(
        default=None,
        title="Currency",
        description="As printed: a code or a sign",
        validation_alias="Währung",
        examples=["EUR"],
    )
    opening_balance: Decimal | None = Field(
        default=None,
        title="Opening balance",
        description="Before the first movement",
        validation_alias=AliasChoices(
            "Previous balance",
            "Balance brought forward",
            "Anfangssaldo",
            "Alter Saldo",
        ),
        examples=[2054.5],
        json_schema_extra={"merge": "first"},
    )
    closing_balance: Decimal | None = Field(
        default=None,
        title="Closing balance",
        description="After the last movement",
        validation_alias=AliasChoices(
            "New balance",
            "Ending balance",
            "Endsaldo",
            "Neuer Saldo",
            "Schlusssaldo",
        ),
        examples=[1204.5],
        json_schema_extra={"merge": "last"},
    )
    movements: list[Movement] = Field(
        default_factory=list,
        title="Movements",
        validation_alias=AliasChoices("Transactions", "Umsätze", "Buchungen"),
    )

    @model_validator(mode="after")
    def period_does_not_end_before_it_starts(self) -> Self:
        if self.period_start and self.period_end and self.period_end < self.period_start:
            raise ValueError(f"it ends {self.period_end}, before it starts, {self.period_start}")
        return self

    @model_validator(mode="after")
    def movements_lead_from_opening_to_closing_balance(self) -> Self:
        amounts = [movement.amount for movement in self.movements]
        check_sum(
            "opening balance + movements = closing balance",
            [self.opening_balance, *amounts],
            self.closing_balance,
        )
        return self

    @model_validator(mode="after")
    def each_balance_follows_from_the_one_before(self) -> Self:
        before = self.opening_balance
        for number, movement in enumerate(self.movements, start=1):
            name = f"the balance after movement {number}"
            check_sum(name, [before, movement.amount], movement.balance)
            before = movement.balance
        return self
