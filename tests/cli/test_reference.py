"""The generated part of docs/cli.md, and the groups that it is made of."""

import re
from pathlib import Path

from llm_ocr.cli.reference import BEGIN, END, with_reference
from llm_ocr.service.settings import SERVICE_GROUPS, ServiceSettings
from llm_ocr.settings import GROUPS, MetricsSettings, Settings

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_reference_page_has_the_settings_as_declared() -> None:
    page = PAGE.read_text("utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert page == with_reference(page), "run `make reference`"


def test_every_setting_is_documented_in_one_group() -> None:
    grouped = [name for group in (*GROUPS, *SERVICE_GROUPS) for name in group.model_fields]
    assert grouped == list(dict.fromkeys([*Settings.model_fields, *ServiceSettings.model_fields]))
    # `llm-ocr serve` has the options of both.
    shared = Settings.model_fields.keys() & ServiceSettings.model_fields.keys()
    assert shared == MetricsSettings.model_fields.keys()
    page = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| `(\w+)`(?: \*)? \| (.+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert [name for name, *_ in rows] == grouped
    assert all(option and default and meaning for _, option, default, meaning in rows)
