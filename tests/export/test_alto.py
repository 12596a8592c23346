"""ALTO: valid by its schema, and with all words."""

from typing import Any

import pytest

from llm_ocr.export.alto import NAMESPACE, alto
from llm_ocr.export.layout import page_layout
from tests.export.pages import LAYER, model_page, page, read_page
from tests.export.xml_schemas import validated

NAMES = {"a": NAMESPACE}


@pytest.fixture(scope="module")
def root() -> Any:  # noqa: ANN401
    layouts = [page_layout(read_page(1)), page_layout(page(2)), page_layout(model_page(3), LAYER)]
    return validated("".join(alto('/in/a "&" b.pdf', layouts)).encode(), "alto4")


def test_words_have_boxes_and_confidences(root: Any) -> None:  # noqa: ANN401
    strings = root.xpath("//a:Page[1]//a:TextBlock[1]//a:String", namespaces=NAMES)
    assert [one.get("CONTENT") for one in strings] == ["The", "report"]
    places = [[one.get(key) for key in ("HPOS", "VPOS", "WIDTH", "HEIGHT")] for one in strings]
    assert places == [["60", "45", "30", "20"], ["100", "45", "60", "20"]]
    assert strings[0].get("WC") == "0.500"
    assert [one.get("ID") for one in root.xpath("//a:Page", namespaces=NAMES)] == [
        *("page-1", "page-2", "page-3")
    ]


def test_estimated_and_text_layer_words_are_tagged(root: Any) -> None:  # noqa: ANN401
    def tags(words: str) -> set[str]:
        lines = root.xpath("//a:TextLine", namespaces=NAMES)
        said = {
            " ".join(one.get("CONTENT") for one in line.iter(f"{{{NAMESPACE}}}String")): line
            for line in lines
        }
        return {said[words].get("TAGREFS")}

    assert tags("The report") == {None}
    assert tags('second a<b & "c"') == {"words-estimated"}
    assert tags("A paragraph") == {"words-of-text-layer"}


def test_figures_and_the_source_are_there(root: Any) -> None:  # noqa: ANN401
    (figure,) = root.xpath("//a:Illustration", namespaces=NAMES)
    assert figure.get("WIDTH") == "350"
    assert root.findtext(".//a:fileName", namespaces=NAMES) == '/in/a "&" b.pdf'
