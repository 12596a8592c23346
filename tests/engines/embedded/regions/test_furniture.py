from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.regions.furniture import furniture
from llm_ocr.engines.embedded.regions.layout import Region

HEIGHT = 1300


def line(text: str, x: float, y: float, height: float = 20.0) -> OcrLine:
    return OcrLine(text, (Word((x, y, x + 0.5 * height * len(text), y + height), text),), 0.9)


def body(top: float = 200, bottom: float = 1100) -> list[OcrLine]:
    count = int((bottom - top) / 26)
    text = "a line of the text that the page is there for, and goes on"
    return [line(text, 100, top + 26 * k) for k in range(count)]


def found(
    *edge: OcrLine, regions: tuple[Region, ...] = (), text: list[OcrLine] | None = None
) -> dict[str, str]:
    """What is furniture, with its labels, beside a page's text."""
    blocks, rest = furniture([*edge, *(body() if text is None else text)], regions, HEIGHT, 20.0)
    assert len(rest) + sum(len(block.lines) for block in blocks) == len(edge) + len(
        body() if text is None else text
    )
    return {block.text: block.label for block in blocks}


def test_a_row_of_parts_with_a_number_is_a_header_even_close_above_the_text() -> None:
    row = line("400", 100, 120), line("BRITISH HUSBANDRY", 400, 120), line("[Ch. XIX.", 800, 120)
    assert found(*row, text=body(top=150)) == {
        "400": "page_number",
        "BRITISH HUSBANDRY": "header",
        "[Ch. XIX.": "header",
    }


def test_rows_between_furniture_and_the_edge_are_furniture() -> None:
    stamp = line("Downloaded from http://example.org/ on July 12", 300, 20)
    assert found(stamp, line("Advocacy in Action", 100, 45), line("447", 900, 45)) == {
        "Downloaded from http://example.org/ on July 12": "header",
        "Advocacy in Action": "header",
        "447": "page_number",
    }


def test_a_title_at_the_top_and_a_note_at_the_foot_are_none() -> None:
    title = line("How rivers rise", 100, 60, height=40)
    note = line("* Doncaster Report, p. 8.", 100, 1200)
    assert found(title, note) == {}


def test_an_item_below_a_header_goes_on_from_the_page_before() -> None:
    head = line("Form 101-02", 100, 40), line("Initial issue", 800, 40)
    item = line("b) Was a conviction recorded?", 100, 90), line("Yes", 800, 90)
    region = Region("header", (90, 20, 900, 115), 0.9)
    kept = {"Form 101-02": "header", "Initial issue": "header"}
    assert found(*head, *item, regions=(region,)) == kept
    issued = line("Issued in March", 100, 90), item[1]
    assert found(*head, *issued, regions=(region,)) == {
        **kept,
        "Issued in March": "header",
        "Yes": "header",
    }


def test_a_letterhead_of_many_rows_is_none() -> None:
    head = [
        line(text, 100, 30 + 26 * k)
        for k, text in enumerate(["A Ltd.", "Main St 1", "Bristol", "Tel. 645"])
    ]
    region = Region("header", (90, 20, 400, 140), 0.9)
    assert found(*head, regions=(region,), text=body(top=145)) == {}


def test_text_that_reaches_the_foot_of_the_page_stays() -> None:
    assert found(text=body(top=200, bottom=1290)) == {}


def test_the_end_of_a_form_beside_other_text_stays() -> None:
    form = [line("Currency", 30, 1170), line("Amount", 130, 1170), line("CHF", 30, 1195)]
    assert found(*form, line("Acceptance point", 200, 1220), text=body(bottom=1180)) == {}


def test_a_page_number_before_a_running_title_is_no_notes_mark() -> None:
    foot = line("28", 100, 1230), line("Control of access", 148, 1230)
    assert found(*foot) == {"28": "page_number", "Control of access": "footer"}


def test_a_caption_at_the_top_belongs_to_its_table() -> None:
    caption = line("Table A-3. Rainfall by year", 100, 60, height=17)
    region = Region("header", (90, 50, 900, 80), 0.9)
    assert found(caption, regions=(region,), text=body(top=160)) == {}
    title = line("Rainfall by year", 100, 60, height=17)
    assert found(title, regions=(region,), text=body(top=160)) == {"Rainfall by year": "header"}


def test_a_row_that_touches_the_text_is_a_part_of_it() -> None:
    text = body(top=200, bottom=1240)
    end = text[-1].rect[3]
    region = Region("footer", (90, end, 900, end + 45), 0.9)
    assert found(line("the last words", 100, end + 4, 17), regions=(region,), text=text) == {}
    apart = line("the last words", 100, end + 20, 17)
    assert found(apart, regions=(region,), text=text) == {"the last words": "footer"}


def test_rows_close_together_at_an_edge_are_one_footer() -> None:
    """None of them is set apart from the other, and only one has a number."""
    rows = [
        line("Received 11 Sep 2012; published 8 Nov 2012", 100, 1170),
        *(line("(C) 2012 OSA", 100, 1194), line("3203", 900, 1194)),
    ]
    text = body(bottom=1160)
    assert found(*rows, text=text) == {
        "Received 11 Sep 2012; published 8 Nov 2012": "footer",
        "(C) 2012 OSA": "footer",
        "3203": "page_number",
    }


def test_a_note_close_above_a_footer_stays() -> None:
    note = line("31 In two cases there were several", 100, 1150), line("of them.", 100, 1174)
    footer = line("Campus Attacks", 100, 1240), line("Page 15", 800, 1240)
    text = body(bottom=1100)
    assert found(*note, *footer, text=text) == {
        "Campus Attacks": "footer",
        "Page 15": "page_number",
    }


def test_a_numbered_heading_below_a_header_stays() -> None:
    head = line("Nonbinding Recommendations", 400, 40)
    heading = line("2.", 150, 110), line("Intended Population", 230, 110)
    assert found(head, *heading, text=body(top=160)) == {"Nonbinding Recommendations": "header"}


def test_a_large_word_beside_a_running_title_makes_no_heading_of_it() -> None:
    row = line("Annex", 100, 40, height=40), line("Highlights of the survey", 600, 45)
    assert set(found(*row).values()) <= {"header", "page_number"}
    assert len(found(*row)) == 2


def test_a_page_number_alone_in_its_row_may_stand_far_from_the_edge() -> None:
    assert found(line("7", 480, 1110), text=body(bottom=700)) == {"7": "page_number"}
    assert found(line("Rivers", 480, 1110), text=body(bottom=700)) == {}
    assert found(line("7", 480, 1000), text=body(bottom=700)) == {}


def test_page_numbers_say_so_in_other_languages() -> None:
    row = line("ANEXO I-A-1", 600, 1180), line("Página 12 de 14", 800, 1180)
    assert found(*row, text=body(bottom=1170)) == {
        "ANEXO I-A-1": "footer",
        "Página 12 de 14": "page_number",
    }


def test_numbers_that_count_the_lines_in_a_margin_are_furniture() -> None:
    text = body()
    for step in (1, 5):
        numbers = [line(str(step * (k + 1)), 40, one.rect[1]) for k, one in enumerate(text[::step])]
        said = " ".join(one.text for one in numbers)
        assert found(text=[*numbers, *text]) == {said: "page_number"}
    prices = [line(str(7 * k * k), 40, one.rect[1]) for k, one in enumerate(text)]
    assert found(text=[*prices, *text]) == {}, "numbers that don't count"
    marks = [line("²", 40, one.rect[1]) for one in text]
    assert found(text=[*marks, *text]) == {}, "marks of notes"
    inside = [line(str(k), 110, 1110 + 26 * k) for k in range(6)]
    assert found(text=[*inside, *text]) == {}, "no margin: text stands above"


def test_a_numbered_line_of_code_at_an_edge_is_no_furniture() -> None:
    code = [(f"{k + 200}", 1010 + 26 * k) for k in range(8)]
    lines = [part for n, y in code for part in (line(n, 100, y), line("print(x)", 180, y))]
    page = line("12", 500, 1250)
    assert found(page, text=[*body(bottom=980), *lines]) == {"12": "page_number"}


def test_a_header_with_a_page_number_may_stand_further_from_the_edge() -> None:
    row = line("2.2 The flood and its keepers", 100, 180), line("19", 800, 180)
    header = {"2.2 The flood and its keepers": "header", "19": "page_number"}
    assert found(*row, text=body(top=240)) == header
    assert found(*row, text=body(top=206)) == {}, "as near as the text's lines"
    assert found(row[0], text=body(top=240)) == {}, "without a number"


def test_a_word_aslant_across_the_text_is_a_header() -> None:
    mark = OcrLine("DRAFT", (Word((300, 400, 700, 800), "DRAFT"),), 1.0)
    assert found(text=[*body(), mark]) == {"DRAFT": "header"}
    for large in ((100, 40, 400, 140), (300, 400, 700, 500)):
        title = OcrLine("DRAFT", (Word(large, "DRAFT"),), 1.0)
        assert found(text=[*body(), title]) == {}
