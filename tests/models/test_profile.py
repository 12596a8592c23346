"""What holds for every profile, whatever its model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from llm_ocr.models import dots_ocr, lighton_ocr, olmocr, paddleocr_vl, qwen_vl
from llm_ocr.models.catalog import PROFILES
from llm_ocr.models.files import PARSERS
from llm_ocr.models.geometry import Resizing
from llm_ocr.models.profile import FIGURE_TASKS, TASK_PROMPTS, ModelProfile, Prompt, Task
from llm_ocr.sources.raster import fit_size

# Tokens of the largest image that the profile's policy lets through, a square one, by its side: of
# profiles that don't say how images are resized.
IMAGE_TOKENS: Mapping[str, Callable[[int], int]] = {
    # 273 + 10 * h * (10 * w + 1) tokens of w x h tiles, 2 x 3 at most.
    "deepseek-ocr": lambda side: 903,
    "unlimited-ocr": lambda side: 903,
    "deepseek-ocr-2": lambda side: 257 + 6 * 144,
    "olmocr-2": lambda side: olmocr.RESIZING.tokens(side, side),
    "dots-ocr": lambda side: dots_ocr.RESIZING.tokens(side, side),
    "dots-mocr": lambda side: dots_ocr.RESIZING.tokens(side, side),
    "paddleocr-vl": lambda side: paddleocr_vl.RESIZING.tokens(side, side),
    "paddleocr-vl-1.6": lambda side: paddleocr_vl.RESIZING.tokens(side, side),
    "lighton-ocr-2": lambda side: lighton_ocr.RESIZING.tokens(side, side),
    "lighton-ocr-2-bbox": lambda side: lighton_ocr.RESIZING.tokens(side, side),
    # Nothing is known about the model: squares of 28 px, as most have.
    "generic": lambda side: (side // 28) ** 2,
}
CHARACTERS_A_TOKEN = 3

every = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


@every
def test_the_tasks_of_a_run_have_prompts(profile: ModelProfile) -> None:
    assert {Task.DOCUMENT, Task.DESCRIBE} <= set(profile.prompts)
    assert all(rung.task in profile.prompts for rung in profile.ladder)
    assert len({rung.name for rung in profile.ladder}) == len(profile.ladder) >= 2


@every
def test_the_hash_changes_with_prompt_limit_and_sampling(profile: ModelProfile) -> None:
    prompt = profile.prompts[Task.DOCUMENT]
    longer = {**profile.prompts, Task.DOCUMENT: Prompt(f"{prompt.text} please", prompt.max_tokens)}
    shorter = {**profile.prompts, Task.DOCUMENT: Prompt(prompt.text, prompt.max_tokens - 1)}
    others = [
        replace(profile, prompts=longer),
        replace(profile, prompts=shorter),
        replace(profile, sampling={**profile.sampling, "temperature": 0.77}),
    ]
    hashes = [other.prompt_hash(Task.DOCUMENT) for other in (profile, *others)]
    assert len(set(hashes)) == 4


@every
def test_prompts_of_figure_tasks_leave_room_for_the_image(
    profile: ModelProfile,
) -> None:
    for task in FIGURE_TASKS:
        prompt = profile.prompt(task)
        assert prompt.text.startswith(profile.prefix)
        assert prompt.max_tokens <= profile.serving.max_model_len // 2
    usual = profile.prompt(Task.CLASSIFY)
    assert usual.text == profile.prefix + TASK_PROMPTS[Task.CLASSIFY].text
    own = replace(profile, prompts={**profile.prompts, Task.CLASSIFY: Prompt("Which?", 7)})
    assert own.prompt(Task.CLASSIFY) == Prompt("Which?", 7)
    assert own.prompt_hash(Task.CLASSIFY) != profile.prompt_hash(Task.CLASSIFY)


@every
def test_sampling_is_valid_json(profile: ModelProfile) -> None:
    for sampling in (profile.sampling, *(rung.sampling for rung in profile.ladder)):
        assert json.loads(json.dumps(dict(sampling))) == dict(sampling)
        assert "max_tokens" not in sampling


@every
def test_each_rung_samples_differently(profile: ModelProfile) -> None:
    seeds = [rung.sampling["seed"] for rung in profile.ladder]
    assert len(set(seeds)) == len(seeds)
    for rung in profile.ladder:
        temperature = rung.sampling["temperature"]
        assert isinstance(temperature, float)
        assert 0 < temperature <= 1
        assert 0 < rung.scale <= 1
        assert rung.bands >= 1


@every
def test_answer_prompt_and_image_fit_the_context(profile: ModelProfile) -> None:
    side = fit_size(1, 1, profile.image, fills=True)[0]
    if profile.resizing is not None:
        image = profile.resizing.tokens(side, side)
    else:
        image = IMAGE_TOKENS[profile.id](side)
    for prompt in profile.prompts.values():
        text = len(prompt.text) // CHARACTERS_A_TOKEN + 32
        assert image + text + prompt.max_tokens <= profile.serving.max_model_len
    assert image < profile.serving.page_tokens * 2
    assert profile.serving.page_tokens < profile.serving.max_model_len
    assert profile.image.smallest_side <= profile.image.longest_side


@every
def test_serving_and_card_are_complete(profile: ModelProfile) -> None:
    first, last = profile.serving.versions
    assert first <= last == (0, 32)
    assert all(argument.flag.startswith("--") for argument in profile.serving.arguments)
    assert all(argument.why for argument in profile.serving.arguments)
    revision = profile.serving.revision
    assert revision is None or (len(revision) == 40 and int(revision, 16))
    assert profile.card.license
    assert profile.card.parameters
    if profile.id != "generic":
        assert profile.card.sources[0].startswith("https://huggingface.co/")


@pytest.mark.parametrize(
    ("resizing", "size", "shown"),
    [
        (qwen_vl.RESIZING_2_5, (1000, 1400), (1008, 1400)),
        (qwen_vl.RESIZING_2_5, (30, 20), (84, 56)),
        (qwen_vl.RESIZING_2_5, (3726, 3726), (3556, 3556)),
        (qwen_vl.RESIZING_3, (1210, 1590), (1216, 1600)),
        (qwen_vl.RESIZING_3, (200, 100), (384, 192)),
        (dots_ocr.RESIZING, (3538, 3538), (3360, 3360)),
        (dots_ocr.RESIZING, (1654, 2339), (1652, 2352)),
        (paddleocr_vl.RESIZING, (3022, 3022), (1680, 1680)),
    ],
)
def test_images_are_resized_as_the_models_own_processors_do(
    resizing: Resizing, size: tuple[int, int], shown: tuple[int, int]
) -> None:
    """The sizes are what `smart_resize` of transformers' processors gives (vLLM 0.32's)."""
    assert resizing.size(*size) == shown


def test_every_parser_can_be_named_in_a_file() -> None:
    assert {profile.parse for profile in PROFILES.values()} == set(PARSERS.values())


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@pytest.mark.parametrize("answer", ["", " \n", "\x00", "null", "[]", "{}", "---", "<", "`" * 9])
def test_parsers_accept_nearly_empty_answers(
    parser: Callable[[str, int, int], object], answer: str
) -> None:
    assert parser(answer, 1, 1) is not None
