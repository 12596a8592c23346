"""Sample result of a document, with blocks of every kind."""

import json
from typing import Any

FIGURE = b"\xff\xd8\xff a picture"
TABLE = "<table><tr><th>Item</th><th>Price</th></tr><tr><td colspan='2'>none</td></tr></table>"
BLOCKS: list[dict[str, Any]] = [
    {"label": "header", "text": "Acme & Co", "box": [10, 5, 90, 9]},
    {"label": "title", "text": "# The **report**", "box": [10, 10, 90, 20]},
    {"label": "sub_title", "text": "## Prices", "box": [10, 22, 90, 26]},
    {"label": "text", "text": "Prices of *this* year.", "box": None},
    {"label": "table", "text": TABLE, "box": [10, 30, 90, 50]},
    {"label": "equation", "text": "$$a^2$$", "box": [10, 51, 90, 55]},
    {"label": "image", "text": "", "box": [10, 60, 90, 80]},
    {"label": "image_caption", "text": "Figure 1: a river", "box": [10, 81, 90, 85]},
    {"label": "poem", "text": "Roses are red", "box": [10, 86, 90, 90]},
]
MARKDOWN = f"""<a id="page-1"></a>

# The **report**

## Prices

Prices of *this* year.

{TABLE}

$$a^2$$

![Figure 1: a river](figures/a%20report-p1-1.jpg)

<a id="page-2"></a>

The end.
"""


def content(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """The content of `document.json`, as far as its readers need it."""
    page = {"status": "ok", "error_code": None, "error": None, "width": 100, "height": 100}
    return {
        "name": "a report",
        "markdown": MARKDOWN,
        "pages": [
            {"number": 1, **page, "blocks": BLOCKS},
            {"number": 2, **page, "blocks": [{"label": "text", "text": "The end.", "box": None}]},
        ],
        "figures": [
            {
                "file": "figures/a report-p1-1.jpg",
                "page": 1,
                "box": [10, 60, 90, 80],
                "width": 80,
                "height": 20,
            }
        ],
        **changes,
    }


def result_files(**changes: Any) -> dict[str, bytes]:  # noqa: ANN401
    made = content(**changes)
    return {
        "document.json": json.dumps(made).encode(),
        "document.md": made["markdown"].encode(),
        "figures/a report-p1-1.jpg": FIGURE,
    }
