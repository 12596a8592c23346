"""Any vision model that follows instructions: a prompt for Markdown, and a reader of Markdown."""

from llm_ocr.models import markdown_blocks
from llm_ocr.models.profile import (
    SAME_IMAGES,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import ImagePolicy

MARKDOWN_PROMPT = """\
Transcribe this page as Markdown, in reading order.
- Write every word as it is printed. Don't translate, summarize, correct or add anything.
- Mark headings with #, ## and so on.
- Write tables as HTML with <table>, <tr>, <th> and <td>, with rowspan and colspan where cells span.
- Write equations in LaTeX: $...$ within a line, $$...$$ on lines of their own.
- Leave out pictures, but keep their captions.
Answer with the Markdown alone."""

DESCRIBE_PROMPT = (
    "Describe this figure from a document in detail: what kind of figure it is, what it shows, "
    "and, for a chart or diagram, its axes, labels, values and what can be read from it."
)

GENERIC = ModelProfile(
    id="generic",
    # There is no such model: the name is that of a server's, given with --served-model, or a
    # profile file's.
    model="generic",
    prompts={
        Task.DOCUMENT: Prompt(MARKDOWN_PROMPT, 6144),
        Task.DESCRIBE: Prompt(DESCRIBE_PROMPT, 1024),
    },
    sampling={"temperature": 0.0},
    image=ImagePolicy(longest_side=1568, jpeg_quality=92, smallest_side=0),
    parse=markdown_blocks.parse,
    parser_version=2,
    ladder=(
        Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
        Rung("in two strips", sampling={"temperature": 0.2, "seed": 2}, bands=2),
        Rung("smaller", sampling={"temperature": 0.5, "seed": 3}, scale=0.75),
    ),
    serving=Serving(
        weights_gib=16.0,
        max_model_len=16384,
        page_tokens=4500,
        # Those of Qwen3-VL-8B: more than most models of this size take.
        kv_kib=144,
        versions=((0, 11), (0, 32)),
        arguments=SAME_IMAGES,
    ),
    card=Card(
        parameters="the model's own",
        license="the model's own",
        gives=frozenset({Gives.TABLES}),
        sources=(),
    ),
)
