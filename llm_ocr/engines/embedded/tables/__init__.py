"""Tables: the words, and the rules on the image, of a table -> HTML."""

from llm_ocr.engines.embedded.tables.areas import ruled_areas
from llm_ocr.engines.embedded.tables.read import table_html

__all__ = ["ruled_areas", "table_html"]
