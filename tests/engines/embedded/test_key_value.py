"""Guided requests to the embedded engine: a schema filled from an image, or from a page's text."""

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import aiohttp
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.embedded.key_value.answer import guided_by_text
from llm_ocr.parsing.confidence import logprob_confidences
from llm_ocr.parsing.loading import load_schema
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import normalized_words
from llm_ocr.text.numbers import numbers_in
from tests.engines.embedded.running import running_engine

Schema = dict[str, Any]
TEXT: Schema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
NUMBER: Schema = {"anyOf": [{"type": "number"}, {"type": "null"}]}
DATE: Schema = {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}
BUILT_IN = ("invoice", "receipt", "bank_statement", "purchase_order", "id_card", "resume")


def schema_of(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(fields)}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from running_engine(tmp_path_factory.mktemp("engine") / "engine.log")


async def post(engine: str, body: object) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{engine}/chat/completions", json=body) as response:
            return response.status, await response.json()


def request(schema: object, text: str, image: bytes | None = None) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if image is not None:
        url = "data:image/png;base64," + base64.b64encode(image).decode()
        content.insert(0, {"type": "image_url", "image_url": {"url": url}})
    wanted = {"type": "json_schema", "json_schema": {"name": "wanted", "schema": schema}}
    return {"messages": [{"role": "user", "content": content}], "response_format": wanted}


async def fill(engine: str, schema: Schema, text: str, image: bytes | None = None) -> Any:  # noqa: ANN401
    status, body = await post(engine, request(schema, text, image))
    assert status == 200, body
    assert body["choices"][0]["finish_reason"] == "stop"
    answer = json.loads(body["choices"][0]["message"]["content"])
    jsonschema.validate(answer, schema)
    return answer


class Pen:
    """Draws a page."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (1000, 1300), "white")
        self._draw = ImageDraw.Draw(self.image)

    def text(self, x: int, y: int, words: str, size: int = 24) -> None:
        self._draw.text((x, y), words, fill="black", font=ImageFont.load_default(size=size))

    def png(self) -> bytes:
        sink = io.BytesIO()
        self.image.save(sink, "PNG")
        return sink.getvalue()


def invoice() -> bytes:
    pen = Pen()
    pen.text(80, 60, "Orrin Instruments Ltd", 40)
    for k, line in enumerate(("Bill to", "Arle Rivers Trust", "The Old Mill", "Fenwick FK1 7AB")):
        pen.text(80, 180 + 34 * k, line)
    pairs = {
        "Invoice number": "AB-1701",
        "Invoice date": "1 March 2024",
        "Due date": "31 March 2024",
    }
    for k, (label, value) in enumerate(pairs.items()):
        pen.text(560, 180 + 40 * k, label)
        pen.text(800, 180 + 40 * k, value)
    rows = [("Description", "Quantity", "Price", "Amount"), ("Steel arm", "2", "146.50", "293.00")]
    rows += [("Long cable", "10", "1.85", "18.50")]
    for r, row in enumerate(rows):
        for x, cell in zip((80, 480, 660, 840), row, strict=True):
            pen.text(x, 420 + 50 * r, cell)
    for k, (label, value) in enumerate(
        (("Subtotal", "£311.50"), ("VAT 20%", "£62.30"), ("Total", "£373.80"))
    ):
        pen.text(600, 620 + 44 * k, label)
        pen.text(840, 620 + 44 * k, value)
    return pen.png()


async def test_a_number_has_the_decimals_that_stand_on_the_page(engine: str) -> None:
    schema = schema_of(total=NUMBER, vat=NUMBER, count=NUMBER)
    body = request(schema, "<page>Total: EUR 2,298.00\n\nVAT: EUR 0.50\n\nCount: 3</page>")
    status, reply = await post(engine, body)
    assert status == 200
    said = reply["choices"][0]["message"]["content"]
    assert said == '{"total": 2298.00, "vat": 0.50, "count": 3}'


async def test_log_probabilities_are_returned_if_they_are_asked_for(engine: str) -> None:
    body = request(schema_of(total=NUMBER), "<page>Total: EUR 2,298.00</page>")
    _, silent = await post(engine, body)
    assert "logprobs" not in silent["choices"][0]
    _, reply = await post(engine, {**body, "logprobs": True})
    choice = reply["choices"][0]
    tokens = [(one["token"], one["logprob"]) for one in choice["logprobs"]["content"]]
    found = logprob_confidences(choice["message"]["content"], tokens)
    assert 0.5 < found["total"] < 1


async def test_an_invoice_image_fills_the_built_in_schema(engine: str) -> None:
    schema = load_schema("invoice")
    answer = await fill(engine, dict(schema.json_schema), "Fill in the schema.", invoice())
    assert answer["invoice_number"] == "AB-1701"
    assert (answer["invoice_date"], answer["due_date"]) == ("2024-03-01", "2024-03-31")
    assert answer["seller"] == {"name": "Orrin Instruments Ltd", "address": None, "vat_id": None}
    buyer = {
        "name": "Arle Rivers Trust",
        "address": "The Old Mill, Fenwick FK1 7AB",
        "vat_id": None,
    }
    assert answer["buyer"] == buyer
    assert answer["lines"] == [
        {"description": "Steel arm", "quantity": 2, "unit_price": 146.5, "amount": 293.0},
        {"description": "Long cable", "quantity": 10, "unit_price": 1.85, "amount": 18.5},
    ]
    sums = [answer[name] for name in ("subtotal", "vat_rate", "vat", "total")]
    assert sums == [311.5, 20, 62.3, 373.8]
    assert answer["order_number"] is None
    assert not schema.validate(answer).errors


async def test_rows_of_a_page_seen_from_a_slant_stay_rows(engine: str) -> None:
    with Image.open(io.BytesIO(invoice())) as straight:
        turned = straight.rotate(3, Image.Resampling.BICUBIC, fillcolor="white")
    sink = io.BytesIO()
    turned.save(sink, "PNG")
    schema = dict(load_schema("invoice").json_schema)
    answer = await fill(engine, schema, "Fill in the schema.", sink.getvalue())
    assert [line["amount"] for line in answer["lines"]] == [293.0, 18.5]
    assert (answer["invoice_number"], answer["total"]) == ("AB-1701", 373.8)


async def test_a_text_without_an_image_is_read_as_the_page(engine: str) -> None:
    text = "# Invoice\n\nInvoice no.: 70145\n\nDate of issue: 23.01.2024\n\nTotal payable: 473,76 €"
    schema = dict(load_schema("invoice").json_schema)
    answer = await fill(engine, schema, text)
    found = {name: value for name, value in answer.items() if isinstance(value, str | float)}
    assert found == {
        "invoice_number": "70145",
        "invoice_date": "2024-01-23",
        "total": 473.76,
        "currency": "€",
    }


async def test_only_what_is_marked_as_the_page_is_read(engine: str) -> None:
    wanted = schema_of(total=NUMBER, color=TEXT)
    prompt = (
        f"Total: 1.00\n{json.dumps(wanted)}\n<page>\nTotal: 12.50\nColor: red\n</page>\nColor: blue"
    )
    assert await fill(engine, wanted, prompt) == {"total": 12.5, "color": "red"}


CASES: list[tuple[Schema, str, object]] = [
    # A label left of its value, above it, in front of it; by name, title, alias, description.
    (schema_of(color=TEXT), "Color    red", "red"),
    (schema_of(color=TEXT, size=TEXT), "Color     Size\nred       large", "red"),
    (schema_of(color=TEXT), "Color: red", "red"),
    (schema_of(color=TEXT), "| Color | red |\n| --- | --- |", "red"),
    (schema_of(color=TEXT), "<table><tr><td>Color</td><td>red</td></tr></table>", "red"),
    (schema_of(k1=TEXT | {"title": "Shade"}), "Shade: red", "red"),
    (schema_of(k1=TEXT | {"aliases": ["Farbe", "Tint"]}), "Tint: red", "red"),
    (schema_of(k1=TEXT | {"description": "The hue, shade"}), "Shade: red", "red"),
    (schema_of(eyeColor=TEXT), "Eye color: red", "red"),
    (schema_of(customer_number=TEXT), "Kundennr.: K-17", "K-17"),
    (schema_of(customer_number=TEXT), "Customer no. 4711", "4711"),
    (schema_of(invoice_number=TEXT), "Invoice nunber: 4711", "4711"),
    (schema_of(color=TEXT, size=TEXT), "Size     Color     about\nlarge    red       x", "red"),
    # Types.
    (schema_of(weight=NUMBER), "Weight: 1.234,50 kg", 1234.5),
    (schema_of(weight=NUMBER), "Weight: 1,234.50", 1234.5),
    (schema_of(weight=NUMBER), "Weight: 1.234\nSize: 3,50", 1234),
    (schema_of(weight=NUMBER), "Weight: 1.234\nSize: 3.50", 1.234),
    (schema_of(weight=NUMBER), "Weight: heavy", None),
    (schema_of(weight={"type": ["integer", "null"]}), "Weight: 12", 12),
    (schema_of(weight={"type": ["integer", "null"]}), "Weight: 12.5", None),
    (schema_of(vat_rate=NUMBER), "VAT 19 %   12,00", 19),
    (schema_of(vat=NUMBER), "VAT 19 %   12,00", 12.0),
    (schema_of(vat=NUMBER), "VAT     100.00     20.00", 20.0),
    (schema_of(weight=NUMBER), "Weight: it fell to 12 in the spring", None),
    (schema_of(vat_rate={"type": ["number", "null"], "maximum": 1}), "VAT 19 %   12,00", 0.19),
    (schema_of(due_date=DATE), "Fällig am: 1. März 2024", "2024-03-01"),
    (schema_of(due_date=DATE), "Due date: 03/04/2024", "2024-04-03"),
    (schema_of(due_date=DATE), "Due date: 03/04/2024\nShipped: 03/25/2024", "2024-03-04"),
    (schema_of(due_date=DATE), "Due date: soon", None),
    (schema_of(paid={"type": ["boolean", "null"]}), "Paid: yes", True),
    (schema_of(paid={"type": ["boolean", "null"]}), "Paid: nein", False),
    (schema_of(paid={"type": ["boolean", "null"]}), "Paid: perhaps", None),
    (schema_of(size={"enum": ["small", "large", None]}), "Size: LARGE", "large"),
    (schema_of(size={"enum": ["small", "large", None]}), "Size: medium", None),
    (schema_of(size={"enum": ["small", "very large", None]}), "Very large", None),
    (schema_of(size={"enum": ["small", "very large", None]}), "Size\nvery large", "very large"),
    (schema_of(currency={"enum": ["EUR", "USD", None]}), "Total: 12,00 €", "EUR"),
    (schema_of(currency=TEXT), "Total: 12,00 €", "€"),
    (schema_of(currency=TEXT), "Currency: GBP", "GBP"),
    (schema_of(email=TEXT), "Write to ada@example.org today", "ada@example.org"),
    # What stands by another label, or by none, is not it.
    (schema_of(total=NUMBER, subtotal=NUMBER), "Subtotal: 10.00", None),
    (schema_of(vat=NUMBER), "VAT Reg No GB 218456093", None),
    (schema_of(invoice_number=TEXT), "Invoice number    pending", None),
    (schema_of(color=TEXT), "The color of it is red", None),
    (schema_of(color=TEXT, size=TEXT), "Color     Size", None),
    (schema_of(color=TEXT), "", None),
]


@pytest.mark.parametrize(("schema", "text", "expected"), CASES)
async def test_a_value_is_found_by_its_label(
    engine: str, schema: Schema, text: str, expected: object
) -> None:
    answer = await fill(engine, schema, text)
    [first, *_others] = answer.values()
    assert first == expected
    assert type(first) is type(expected)


async def test_references_alternatives_and_nested_objects_are_followed(engine: str) -> None:
    party = schema_of(name=TEXT, address=TEXT, vat_id=TEXT)
    schema = schema_of(
        seller={"$ref": "#/$defs/Party", "title": "Verkäufer"},
        buyer={"anyOf": [{"$ref": "#/$defs/Party"}, {"type": "null"}]},
    )
    text = (
        "Kunde:                        Verkäufer:\n"
        "Praxis Voss                   Alte Mühle\n"
        "Lange Gasse 11                Mühlweg 4\n"
        "90403 Nürnberg                35285 Gemünden\n"
        "USt-ID: DE 247 615 309        USt-ID: DE 266 083 541\n"
    )
    answer = await fill(engine, {**schema, "$defs": {"Party": party}}, text)
    assert answer == {
        "seller": {
            "name": "Alte Mühle",
            "address": "Mühlweg 4, 35285 Gemünden",
            "vat_id": "DE 266 083 541",
        },
        "buyer": {
            "name": "Praxis Voss",
            "address": "Lange Gasse 11, 90403 Nürnberg",
            "vat_id": "DE 247 615 309",
        },
    }


TABLE = """
| Pos. | Artikel | Menge | Preis | Gesamt |
| --- | --- | --- | --- | --- |
| 1 | Kabel | 2 | 1,50 | 3,00 |
| 2 | Klemme | 4 | 0,50 | 2,00 |
| | mit Schrauben | | | |
| | Zwischensumme | | | 5,00 |
| | Gesamtbetrag | | | 5,95 |
"""


async def test_a_table_becomes_a_list_and_ends_at_its_sums(engine: str) -> None:
    line = schema_of(description=TEXT, quantity=NUMBER, unit_price=NUMBER, amount=NUMBER, sku=TEXT)
    schema = schema_of(
        lines={"type": "array", "items": line}, subtotal=NUMBER, total=NUMBER, vat=NUMBER
    )
    answer = await fill(engine, schema, TABLE)
    assert answer == {
        "lines": [
            {"description": "Kabel", "quantity": 2, "unit_price": 1.5, "amount": 3.0, "sku": None},
            {
                "description": "Klemme mit Schrauben",
                "quantity": 4,
                "unit_price": 0.5,
                "amount": 2.0,
                "sku": None,
            },
        ],
        "subtotal": 5.0,
        "total": 5.95,
        "vat": None,
    }


async def test_a_list_of_texts_is_what_is_listed_behind_its_label(engine: str) -> None:
    schema = schema_of(skills={"type": "array", "items": {"type": "string"}})
    assert await fill(engine, schema, "Skills: Python, SQL; welding") == {
        "skills": ["Python", "SQL", "welding"]
    }
    assert await fill(engine, schema, "Hobbies: chess") == {"skills": []}


async def test_an_answer_is_cut_at_max_tokens(engine: str) -> None:
    body = {**request(schema_of(color=TEXT), "Color: red"), "max_tokens": 2}
    status, said = await post(engine, body)
    assert (status, said["choices"][0]["finish_reason"]) == (200, "length")
    assert said["choices"][0]["message"]["content"] == '{"color"'


async def test_the_schema_may_come_in_the_words_of_vllm(engine: str) -> None:
    body = request(schema_of(color=TEXT), "Color: red")
    body["structured_outputs"] = {"json": body.pop("response_format")["json_schema"]["schema"]}
    status, said = await post(engine, body)
    assert (status, said["choices"][0]["message"]["content"]) == (200, '{"color": "red"}')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"response_format": {"type": "json_object"}}, "must be text or json_schema"),
        ({"response_format": {"type": "json_schema"}}, "is not a JSON object"),
        ({"response_format": {"type": "text"}}, "one image is needed, 0 were sent"),
        ({"response_format": "json"}, "must be text or json_schema"),
        ({"response_format": None}, "one image is needed, 0 were sent"),
    ],
)
async def test_a_request_without_a_schema_or_an_image_is_refused(
    engine: str, change: dict[str, Any], said: str
) -> None:
    status, answer = await post(engine, {**request(schema_of(), "Color: red"), **change})
    assert status == 400
    assert said in answer["error"]["message"]


async def test_a_schema_that_is_no_schema_gives_an_answer_all_the_same(engine: str) -> None:
    odd: Schema = {
        "properties": {
            "a": {"$ref": "#/nowhere"},
            "b": {"anyOf": []},
            "c": 7,
            "d": {"type": "array"},
            "e": {"$ref": "#/properties/e"},
            "f": {"enum": "red", "pattern": "(", "title": 3},
        }
    }
    status, said = await post(engine, request(odd, "A: 1\nB: 2"))
    assert status == 200, said
    assert set(json.loads(said["choices"][0]["message"]["content"])) == set("abcdef")


WORDS = st.sampled_from(
    (
        *("Invoice", "number", "date", "Total", "VAT", "20%", "£12.50", "1.234,00", "€", "Datum"),
        *("01.03.2024", "Bill", "to", "Description", "Qty", "Price", "Amount", "AB-17", "Name"),
        *("Address", "IBAN", "Balance", "Surname", ":", "|", "Orrin", "Ltd", "2", "FK1", "7AB"),
    )
)
LINES = st.lists(
    st.lists(st.tuples(WORDS, st.sampled_from([" ", "     "])), max_size=8), max_size=14
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BUILT_IN), LINES)
def test_every_value_is_on_the_page(name: str, lines: list[list[tuple[str, str]]]) -> None:
    text = "\n".join("".join(word + gap for word, gap in line) for line in lines)
    schema = load_schema(name).json_schema
    answer = json.loads(guided_by_text(schema, text).text)
    jsonschema.validate(answer, schema)
    for value in values_in(answer):
        assert stands_in(value, text), value


def values_in(value: Any) -> Iterator[Any]:  # noqa: ANN401
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from values_in(inner)
    elif value is not None:
        yield value


def stands_in(value: object, text: str) -> bool:
    if isinstance(value, int | float):
        numbers = {one for amount in numbers_in(text) for one in amount.values}
        return Decimal(str(value)) in numbers
    said = str(value)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", said):
        days = {day.isoformat() for found in dates_in(text) for day in found.values}
        return said in days
    words = set(normalized_words(text))
    return said in text or all(word in words for word in normalized_words(said))
