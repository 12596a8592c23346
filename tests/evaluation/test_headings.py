from llm_ocr.evaluation.headings import Heading, HeadingScore, find_headings, score_headings

TRUTH = "# The title\n\nText.\n\n## First part\n\n## Second part\n\ntext\n\n### Details"


def test_headings_in_every_notation_are_found() -> None:
    text = (
        "# One *more* ##\n\nTwo\n===\n\nwords\n\nThree\n---\n\n<h4>Four &amp; more</h4>\n\n"
        "#no heading\n\na line\nand another\n---\n\n   ## Indented"
    )
    assert find_headings(text) == [
        Heading("One more", 1),
        Heading("Two", 1),
        Heading("Three", 2),
        Heading("Four & more", 4),
        Heading("Indented", 2),
    ]


def test_all_found() -> None:
    score = score_headings(TRUTH, TRUTH.replace("First", "Fjrst"))
    assert (score.precision, score.recall, score.level_accuracy) == (1.0, 1.0, 1.0)


def test_missing_invented_and_of_another_level() -> None:
    score = score_headings(TRUTH, "# The title\n\n# First part\n\n# Page 3 of 9")
    assert score == HeadingScore(expected=4, predicted=3, matched=2, same_level=1)
    assert (score.recall, score.level_accuracy) == (0.5, 0.5)


def test_repeated_heading_is_matched_once() -> None:
    assert score_headings("# Same title", "# Same title\n\n# Same title").precision == 0.5
    assert score_headings("# Same title\n\n# Same title", "# Same title").recall == 0.5


def test_scores_add_up() -> None:
    none = score_headings("no headings", "none")
    assert (none.precision, none.recall, none.level_accuracy) == (None, None, None)
    assert none + score_headings(TRUTH, TRUTH) == score_headings(TRUTH, TRUTH)
