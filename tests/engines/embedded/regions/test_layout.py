"""What the detector saw, put together with the tables that the page's rules show."""

from llm_ocr.engines.embedded.regions.layout import Region, with_ruled_tables


def test_a_figure_around_a_ruled_table_goes_and_text_around_it_stays() -> None:
    ruled = (100.0, 200.0, 700.0, 500.0)
    around = (80.0, 150.0, 720.0, 560.0)
    text, photo = Region("text", around, 0.8), Region("figure", (100, 700, 700, 900), 0.9)
    found = with_ruled_tables([Region("figure", around, 0.9), text, photo], [ruled])
    assert found == [text, photo, Region("table", ruled, 1.0)]
