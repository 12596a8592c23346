"""Find model profiles by name: built in, from a user's file, or from an installed package."""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from llm_ocr.models.datalab_html import CHANDRA_OCR_2, SURYA_OCR_2
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR, DEEPSEEK_OCR_2
from llm_ocr.models.dots_ocr import DOTS_MOCR, DOTS_OCR
from llm_ocr.models.generic import GENERIC
from llm_ocr.models.infinity_parser import INFINITY_PARSER_2_FLASH
from llm_ocr.models.lighton_ocr import LIGHTON_OCR_2, LIGHTON_OCR_2_BBOX
from llm_ocr.models.lighton_ocr_3 import PROFILES as LIGHTON_OCR_3
from llm_ocr.models.nuextract import NUEXTRACT_3
from llm_ocr.models.olmocr import OLMOCR_2
from llm_ocr.models.ovis_ocr import OVIS_OCR_2
from llm_ocr.models.paddleocr_vl import PADDLEOCR_VL, PADDLEOCR_VL_1_6
from llm_ocr.models.profile import ModelProfile
from llm_ocr.models.qwen_vl import PROFILES as QWEN_VL
from llm_ocr.models.two_step import PROFILES as TWO_STEP
from llm_ocr.models.unlimited_ocr import UNLIMITED_OCR

GROUP = "llm_ocr.profiles"
FILE_ENDINGS = frozenset({".toml", ".yaml", ".yml"})

PROFILES: Mapping[str, ModelProfile] = {
    profile.id: profile
    for profile in (
        DEEPSEEK_OCR,
        DEEPSEEK_OCR_2,
        UNLIMITED_OCR,
        OLMOCR_2,
        *LIGHTON_OCR_3,
        LIGHTON_OCR_2,
        LIGHTON_OCR_2_BBOX,
        INFINITY_PARSER_2_FLASH,
        OVIS_OCR_2,
        DOTS_MOCR,
        DOTS_OCR,
        *TWO_STEP,
        PADDLEOCR_VL_1_6,
        PADDLEOCR_VL,
        CHANDRA_OCR_2,
        SURYA_OCR_2,
        NUEXTRACT_3,
        *QWEN_VL,
        GENERIC,
    )
}


def profile_named(name: str) -> ModelProfile:
    """The profile of that name: a built-in id, a file's path or URI, or an entry point's name.

    ValueError lists the known names, or names the problem in the file or the entry point.
    """
    if name in PROFILES:
        return PROFILES[name]
    if Path(name).suffix.lower() in FILE_ENDINGS:
        # Reading files takes pydantic and yaml, which most runs don't need.
        from llm_ocr.models.files import profile_from_file
        from llm_ocr.storage.local_files import local_file

        return profile_from_file(local_file(name), PROFILES)
    for entry in entry_points(group=GROUP, name=name):
        return _load(entry)
    known = [*PROFILES, *sorted(entry.name for entry in entry_points(group=GROUP))]
    raise ValueError(
        f"unknown model profile {name!r}: known are {', '.join(known)}; "
        "or give the path of a profile file (.toml, .yaml, .yml)"
    )


def all_profiles() -> Mapping[str, ModelProfile]:
    """All profiles by name, from installed packages and built in.

    A package can't replace a built-in profile. ValueError names an entry point that fails.
    """
    return {**dict(_installed_profiles()), **PROFILES}


def _installed_profiles() -> Iterator[tuple[str, ModelProfile]]:
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        yield entry.name, _load(entry)


def _load(entry: EntryPoint) -> ModelProfile:
    """The profile that an entry point is, or that it returns when called."""
    where = f"entry point {entry.name!r} of {GROUP} ({entry.value})"
    try:
        found = entry.load()
        profile = found() if callable(found) else found
    except Exception as error:
        raise ValueError(f"{where} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(profile, ModelProfile):
        raise ValueError(f"{where} is a {type(profile).__name__}, not a ModelProfile")
    return profile
