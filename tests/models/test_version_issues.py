"""Releases with which a model is known to fail."""

import pytest

from llm_ocr.models.catalog import PROFILES
from llm_ocr.models.lighton_ocr import LIGHTON_OCR_2, LOOPS
from llm_ocr.models.olmocr import OLMOCR_2
from llm_ocr.models.qwen_vl import QWEN_3_VL_8B
from llm_ocr.models.version_issues import VersionIssue


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [
        ("0.27.0", False),
        ("0.27.1", True),
        ("v0.27.1+cu130", True),
        ("0.27.1.post1", True),
        ("0.27.2", False),
        ("0.28.0", False),
        ("0.9.3", False),
        ("", False),
        ("dev", False),
    ],
)
def test_releases_of_a_range(version: str, is_affected: bool) -> None:
    assert LOOPS.affects(version) is is_affected


def test_a_range_without_an_end_includes_all_newer_releases() -> None:
    issue = VersionIssue("0.11", None, "p", "s")
    assert [issue.affects(version) for version in ("0.10.2", "0.11.0", "0.11", "1.0")] == [
        *(False, True, True, True)
    ]
    assert issue.range == "vllm 0.11 and newer"
    assert LOOPS.range == "vllm from 0.27.1 to before 0.27.2"


def test_issues_are_those_of_the_installed_packages() -> None:
    known = LIGHTON_OCR_2.serving.known_issues
    assert known({"vllm": "0.27.1"}) == [LOOPS]
    assert known({"vllm": "0.30.0"}) == []
    assert [one.package for one in known({"vllm": "0.30.0", "transformers": "5.17.0"})] == [
        "transformers"
    ]


def test_which_profiles_have_issues() -> None:
    """What they are is in vLLM's issues and the models' READMEs."""
    with_issues = {name for name, profile in PROFILES.items() if profile.serving.issues}
    lighton = {name for name in PROFILES if name.startswith("lighton")}
    assert with_issues == lighton | {"glm-ocr", "olmocr-2", "qwen2.5-vl-3b", "qwen2.5-vl-7b"}
    assert not OLMOCR_2.serving.issues[0].stops
    assert not QWEN_3_VL_8B.serving.issues
    small = {name for name in lighton if PROFILES[name].serving.known_issues({"transformers": "6"})}
    assert small == {"lighton-ocr-2", "lighton-ocr-2-bbox", "lighton-ocr-3-1b"}
