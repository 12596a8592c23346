"""The profiles by name."""

from collections.abc import Mapping

from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.profile import ModelProfile

PROFILES: Mapping[str, ModelProfile] = {profile.id: profile for profile in (DEEPSEEK_OCR,)}


def profile_named(name: str) -> ModelProfile:
    """The profile of that name; ValueError lists the ones that exist."""
    if name not in PROFILES:
        raise ValueError(f"unknown model profile {name!r}: known are {', '.join(PROFILES)}")
    return PROFILES[name]
