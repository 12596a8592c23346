"""The model profiles in print."""

from collections.abc import Mapping

from rich.table import Table

from llm_ocr.models.profile import ModelProfile


def profile_facts(profile: ModelProfile) -> dict[str, object]:
    """What `llm-ocr models --json` says of one."""
    serving, card = profile.serving, profile.card
    return {
        "id": profile.id,
        "model": profile.model,
        "revision": serving.revision,
        "parameters": card.parameters,
        "license": card.license,
        "weights_gib": serving.weights_gib,
        "vllm": [".".join(str(part) for part in version) for version in serving.versions],
        "gives": sorted(card.gives),
        "verified": card.verified,
        "sources": list(card.sources),
    }


def render_profiles(profiles: Mapping[str, ModelProfile]) -> Table:
    """One line a profile."""
    told = "Names on the Hub, revisions, vLLM versions and sources: llm-ocr models --json"
    table = Table(box=None, pad_edge=False, caption=told, caption_justify="left")
    table.add_column("profile", no_wrap=True)
    table.add_column("weights", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in ("gives", "parameters", "license"):
        table.add_column(column, overflow="fold")
    for name, profile in profiles.items():
        table.add_row(
            name,
            f"{profile.serving.weights_gib:g} GiB",
            "verified" if profile.card.verified else "experimental",
            ", ".join(sorted(profile.card.gives)) or "text",
            profile.card.parameters,
            profile.card.license,
        )
    return table
