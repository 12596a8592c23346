from llm_ocr.evaluation.text_differences import MAX_LENGTH, DifferingPassage, differing_passages


def test_a_passage_has_what_both_texts_have_in_its_place() -> None:
    a = "On Monday the bridge was closed for seven weeks in spring"
    b = "On Monday the bridge was closed for eleven long weeks in spring 2024"
    assert differing_passages(a, b, 5) == [
        DifferingPassage("bridge was closed for", "seven", "eleven long"),
        DifferingPassage("seven weeks in spring", "", "2024"),
    ]


def test_neighboring_differences_are_one_passage() -> None:
    (passage,) = differing_passages("a b c d e f g", "a X c Y e f g", 5)
    assert (passage.a, passage.b) == ("b c d", "X c Y")


def test_the_longest_passages_are_kept_in_the_order_of_the_text() -> None:
    same = "the same words again and again "
    a = f"one {same} two three four {same} five {same} six seven {same}"
    b = f"1 {same} 2 {same} 5 {same} 67 {same}"
    assert [one.a for one in differing_passages(a, b, 2)] == ["two three four", "six seven"]


def test_long_passages_are_shortened_and_equal_texts_have_none() -> None:
    (passage,) = differing_passages("", "word " * 500, 5)
    assert len(passage.b) <= MAX_LENGTH
    assert passage.b.endswith("…")
    assert differing_passages("a b", "a  b", 5) == []
