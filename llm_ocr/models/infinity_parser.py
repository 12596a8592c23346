"""Infinity-Parser2: a JSON list of cells, each with its box, category and text.

    [{"bbox": [82, 60, 540, 97], "category": "title", "text": "# A heading"}, ...]

Boxes are on a grid of 0..1000 over the image. The prompts are word for word those of
https://github.com/infly-ai/INF-MLLM (Infinity-Parser2/infinity_parser2/prompts.py); sampling and
the sizes of images are those of its backends/vllm_server.py. The number of visual tokens is that of
the largest published run (https://github.com/marin-community/marin,
experiments/datakit/build_pdf_source/ocr-budget-sweep.md).
"""

from collections.abc import Mapping

from llm_ocr.models.dots_ocr import parse_cells
from llm_ocr.models.geometry import THOUSAND, Resizing
from llm_ocr.models.profile import (
    NO_CACHES,
    Argument,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import ImagePolicy, ParsedAnswer

# The categories header, title, text, table, table_caption, footer and others are called so here.
LABELS: Mapping[str, str] = {
    "figure": "image",
    "formula": "equation",
    "figure_caption": "image_caption",
    "page_footnote": "footnote",
}
RESIZING = Resizing(unit=32, min_pixels=2048, max_pixels=16_777_216)
# One token is a square of 32 px. Of 2,048 of them, an A4 page has about 146 dpi.
VISUAL_TOKENS = 2048


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a JSON answer, with boxes in pixels of an image of `width` x `height`.

    Takes any text; of an answer that was cut, whole cells and the text of the last one are kept.
    """
    return parse_cells(answer, (THOUSAND, THOUSAND), (width, height), LABELS)


JSON_PROMPT = """
- Extract layout information from the provided PDF image.
- For each layout element, output its bbox, category, and the text content within the bbox.
- Bbox format: [x1, y1, x2, y2].
- Allowed layout categories: ['header', 'title', 'text', 'figure', 'table', 'formula', \
'figure_caption', 'table_caption', 'formula_caption', 'figure_footnote', 'table_footnote', \
'page_footnote', 'footer'].
- Text extraction and formatting:
  1) For 'figure', the text field must be an empty string.
  2) For 'formula', format text as LaTeX.
  3) For 'table', format text as HTML.
  4) For all other categories (e.g., text, title), format text as Markdown.
- The output text must be exactly the original text from the image, with no translation or \
rewriting.
- Sort all layout elements in human reading order.
- Final output must be a single JSON object.
"""

MARKDOWN_PROMPT = """
You are an AI assistant specialized in converting PDF images to Markdown format. Please follow \
these instructions for the conversion:

1. Text Processing:
- Accurately recognize all text content in the PDF image without guessing or inferring.
- Convert the recognized text into Markdown format.
- Maintain the original document structure, including headings, paragraphs, lists, etc.

2. Mathematical Formula Processing:
- Convert all mathematical formulas to LaTeX format.
- Enclose inline formulas with $ $. For example: This is an inline formula $E = mc^2$
- Enclose block formulas with $$ $$. For example: $$\\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$$

3. Table Processing:
- Convert tables to HTML format.

4. Figure Handling:
- Ignore figures content in the PDF image. Do not attempt to describe or convert images.

5. Output Format:
- Ensure the output Markdown document has a clear structure with appropriate line breaks between \
elements.
- For complex layouts, try to maintain the original document's structure and format as closely as \
possible.

Please strictly follow these guidelines to ensure accuracy and consistency in the conversion. Your \
task is to accurately convert the content of the PDF image into Markdown format without adding any \
extra explanations or comments.
"""

INFINITY_PARSER_2_FLASH = ModelProfile(
    id="infinity-parser2-flash",
    model="infly/Infinity-Parser2-Flash",
    prompts={
        Task.DOCUMENT: Prompt(JSON_PROMPT, 12288),
        Task.FREE_OCR: Prompt(MARKDOWN_PROMPT, 12288),
        # It was made to read; take another model for descriptions.
        Task.DESCRIBE: Prompt("Describe this image in detail.", 1024),
    },
    sampling={
        "temperature": 0.0,
        "top_p": 1.0,
        "chat_template_kwargs": {"enable_thinking": False},
    },
    image=ImagePolicy(
        longest_side=4096,
        jpeg_quality=95,
        max_pixels=VISUAL_TOKENS * 32 * 32,
        min_pixels=2048,
        multiple_of=32,
    ),
    parse=parse,
    parser_version=1,
    # Loops that run to the token limit are its best known fault.
    ladder=(
        Rung("warmer", sampling={"temperature": 0.3, "seed": 1}),
        Rung("as Markdown", Task.FREE_OCR, sampling={"temperature": 0.2, "seed": 2}),
        Rung("in two strips", sampling={"temperature": 0.2, "seed": 3}, bands=2),
        Rung("smaller", Task.FREE_OCR, sampling={"temperature": 0.4, "seed": 4}, scale=0.75),
    ),
    serving=Serving(
        weights_gib=4.4,
        max_model_len=24576,
        page_tokens=3500,
        # Qwen3.5-2B: 6 of 24 layers have attention, with 2 KV heads of 256.
        kv_kib=12,
        state_mib=19,
        # 2,048 were slower on a GB200, says ocr-budget-sweep.md of
        # https://github.com/marin-community/marin.
        max_sequences=1024,
        versions=((0, 18), (0, 32)),
        # No `--trust-remote-code`, which the README has: code is trusted only at a commit that was
        # read, and the architecture (Qwen3.5) is vLLM's own.
        arguments=(
            Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
            Argument("--reasoning-parser", "qwen3", "as the model's README wants it"),
            *NO_CACHES,
        ),
    ),
    card=Card(
        parameters="2.2B",
        license="Apache-2.0",
        gives=frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES}),
        sources=(
            "https://huggingface.co/infly/Infinity-Parser2-Flash",
            "https://github.com/infly-ai/INF-MLLM",
        ),
    ),
    resizing=RESIZING,
)
