import pytest

from llm_ocr.text.headings import class_of, numbered_level, size_classes


@pytest.mark.parametrize(
    ("title", "level"),
    [
        ("3 Results", 2),
        ("3. Results", 2),
        ("3\\. Results", 2),
        ("3.1 Rivers", 3),
        ("3.1. Rivers", 3),
        ("12.10.3 Old bridges", 4),
        ("1984", None),
        ("1984 in review", None),
        ("Results", None),
        ("3 12", None),
    ],
)
def test_numbers_give_levels(title: str, level: int | None) -> None:
    assert numbered_level(title) == level


def test_sizes_that_differ_little_are_of_one_class() -> None:
    classes = size_classes([10, 24, 16, 10.5, 16.5], 1.1)
    assert classes == [24, 16, 10]
    assert [class_of(size, classes) for size in (24, 16.5, 16, 10.5, 10)] == [0, 1, 1, 2, 2]


def test_classes_do_not_grow_step_by_step() -> None:
    assert size_classes([10, 10.7, 11.4, 12.1], 1.08) == [11.4, 10]
