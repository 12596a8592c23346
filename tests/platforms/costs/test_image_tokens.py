"""Tokens of images, against the examples that the providers publish."""

import pytest

from llm_ocr.platforms.costs.price_files import load_prices
from llm_ocr.platforms.costs.prices import (
    FittedPatches,
    FixedTokens,
    ImageTokenRule,
    TokenPrice,
    TokensPerTile,
    WholePatches,
)

CLAUDE = FittedPatches(side=28, budget=4784, longest=2576)
CLAUDE_SMALL = FittedPatches(side=28, budget=1568, longest=1568)
OPENAI_MINI = WholePatches(side=32, budget=1536)
GPT_6 = WholePatches(side=32, budget=2500, weight=1.2)


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        # platform.claude.com, "Images and vision", table of examples (September 2026).
        (CLAUDE, (200, 200), 64),
        (CLAUDE, (1000, 1000), 1296),
        (CLAUDE, (1920, 1080), 2691),
        (CLAUDE, (3840, 2160), 4784),
        (CLAUDE_SMALL, (1000, 1000), 1296),
        (CLAUDE_SMALL, (1920, 1080), 1560),
        (CLAUDE_SMALL, (3840, 2160), 1560),
        # OpenAI, "Images and vision", worked examples of the patch rule (GPT-4.1-mini).
        (OPENAI_MINI, (1024, 1024), 1024),
        (OPENAI_MINI, (1800, 2400), 1452),
        # huggingface.co/datasets/JOHNISKING/image-token-cost, measured: GPT-6 Astra, detail high.
        (GPT_6, (256, 256), 77),
        (GPT_6, (512, 512), 308),
        (GPT_6, (1024, 1024), 1229),
        (GPT_6, (1920, 1080), 2448),
        (GPT_6, (2560, 1440), 2931),
        (GPT_6, (4032, 3024), 2942),
        # ai.google.dev, "Understand and count tokens": 258 for each tile of 768 pixels.
        (TokensPerTile(side=768, each=258), (768, 768), 258),
        (TokensPerTile(side=768, each=258), (1536, 769), 4 * 258),
        (FixedTokens(1101), (5000, 10), 1101),
    ],
)
def test_images_have_the_tokens_that_their_provider_publishes(
    rule: ImageTokenRule, size: tuple[int, int], tokens: int
) -> None:
    assert rule.tokens(*size) == tokens
    assert rule.tokens(*reversed(size)) == tokens


def test_the_price_file_uses_these_rules() -> None:
    rules = {
        name: api.price.image
        for name, api in load_prices().apis.items()
        if isinstance(api.price, TokenPrice)
    }
    assert rules["claude-sonnet"] == CLAUDE
    assert rules["gpt-6-sol"] == rules["gpt-6-luna"] == GPT_6
