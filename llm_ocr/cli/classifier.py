"""`llm-ocr classifier`: fit classifiers of pages to examples, evaluate, apply and explain them."""

import asyncio
import getpass
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.options import with_options
from llm_ocr.cli.output import handle_errors, warn
from llm_ocr.cli.registry import LOCATION, open_model_registry
from llm_ocr.exit_codes import ExitCode
from llm_ocr.messages import MissingExtraError, how_to_install, pluralize

if TYPE_CHECKING:
    from llm_ocr.classification.classifier import PageClassifier, PageVote
    from llm_ocr.classification.pages import ViewedPage
    from llm_ocr.documents import Document
    from llm_ocr.sources.render_pool import RenderPool

classifier = Commands(
    help="Fit classifiers of pages to examples, and apply them.",
    no_args_is_help=True,
)
Given = dict[str, Any]
Examples = Annotated[
    Path,
    typer.Argument(
        metavar="EXAMPLES",
        help="Folder with a subfolder of files for each class, or CSV file with the columns path "
        "and class.",
    ),
]
Index = Annotated[
    str,
    typer.Argument(
        metavar="CLASSIFIER", help="Folder of a classifier, or NAME@ALIAS of the registry."
    ),
]
EmbedderUrl = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="URL|FOLDER",
        help="Current address of the server or folder of the model, if the classifier has one.",
    ),
]
# Wrong pages to print; the JSON has all.
MAX_MISTAKES = 20


@classifier.command()
@with_options(LOCATION)
def fit(
    examples: Examples,
    given: Given,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to save the classifier to.")
    ] = None,
    register: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Publish it as a version of this model instead."),
    ] = None,
    embedder: Annotated[
        str,
        typer.Option(
            "--embedder",
            metavar="NAME|FOLDER|URL",
            help="What describes a page's picture: backbone (the layout detector, extra cpu), "
            "layout (no model), a folder with an image encoder as ONNX, such as CLIP, or the "
            "address of a server with the OpenAI embeddings API, such as http://host:8000/v1.",
        ),
    ] = "backbone",
    embedder_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model of the server of --embedder.")
    ] = None,
    words: Annotated[
        bool, typer.Option(help="Use the words at the top of the pages, which are read for that.")
    ] = True,
    target_error: Annotated[
        float,
        typer.Option(min=0, max=1, help="Accepted share of wrong classes among accepted pages."),
    ] = 0.01,
    significance: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=0.5,
            help="Share of pages of known classes that may be refused as unlike the examples.",
        ),
    ] = 0.05,
) -> None:
    """Fit a classifier to pages of known classes; print what each threshold is expected to do.

    \b
    Examples:
      llm-ocr classifier fit examples/ --out page-classifier
      llm-ocr classifier fit labels.csv --register pages --target-error 0.005
    """
    if (out is None) == (register is None):
        raise typer.BadParameter("give either --out or --register", param_hint="--out")
    with _expected_errors():
        from llm_ocr.classification.classifier import fit_classifier, save_classifier
        from llm_ocr.classification.embedders import choose_embedder
        from llm_ocr.classification.pages import list_examples, read_examples

        if ("://" in embedder) != (embedder_model is not None):
            raise typer.BadParameter(
                "give --embedder-model with the address of a server, and only then",
                param_hint="--embedder",
            )
        described_by = choose_embedder(embedder, embedder_model, _api_key())
        labeled = list_examples(examples)

        async def read(pool: "RenderPool") -> Any:  # noqa: ANN401
            return await read_examples(labeled, pool, described_by, with_words=words)

        pages = _with_pool(read)
        fitted = fit_classifier(
            pages, described_by, significance=significance, target_error=target_error
        )
        _print_curve(fitted)
        if out is not None:
            save_classifier(fitted, out)
            typer.echo(f"Saved to {out}")
        else:
            _register(fitted, str(register), examples, given)


@classifier.command()
@with_options(LOCATION)
def evaluate(
    index: Index,
    examples: Examples,
    given: Given,
    embedder: EmbedderUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a classifier on other pages. Classes that it doesn't have count as unknown kinds.

    \b
    Example:
      llm-ocr classifier evaluate page-classifier@staging pages-of-may/
    """
    with _expected_errors(), _open_classifier(index, given, embedder) as found:
        from llm_ocr.classification.evaluation import evaluate_votes, render_evaluation
        from llm_ocr.classification.pages import list_examples

        labeled = {one.document: one.class_name for one in list_examples(examples)}
        rows = []

        async def classify(pool: "RenderPool") -> None:
            async for page, vote, _ in _classify(found, list(labeled), pool):
                rows.append((_page_name(page), labeled[page.document], vote))

        _with_pool(classify)
        evaluation = evaluate_votes(found.classes, rows)
        if as_json:
            typer.echo(json.dumps(asdict(evaluation), ensure_ascii=False, indent=2))
        else:
            typer.echo(render_evaluation(evaluation, MAX_MISTAKES))


@classifier.command()
@with_options(LOCATION)
def predict(
    index: Index,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files or folders.")],
    given: Given,
    embedder: EmbedderUrl = None,
) -> None:
    """Print a line of JSON for each page: class, probability, p-value, and whether it is accepted.

    \b
    Example:
      llm-ocr classifier predict page-classifier scans/
    """
    with _expected_errors(), _open_classifier(index, given, embedder) as found:
        from llm_ocr.sources.inputs import list_documents

        documents = list_documents(inputs)

        async def classify(pool: "RenderPool") -> None:
            async for page, vote, milliseconds in _classify(found, documents, pool):
                row = {
                    "file": page.document.source_uri,
                    "page": page.number,
                    "class": vote.class_name,
                    "accepted": vote.is_accepted,
                    "probability": round(vote.probability, 4),
                    "p_value": round(vote.p_value, 4),
                    "plausible": vote.plausible,
                    "milliseconds": round(milliseconds, 1),
                }
                typer.echo(json.dumps(row, ensure_ascii=False))

        _with_pool(classify)


@classifier.command()
@with_options(LOCATION)
def explain(
    index: Index,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A PDF or an image.")],
    given: Given,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "explanation.html"
    ),
    page: Annotated[int, typer.Option(min=1, help="Number of the page.")] = 1,
    embedder: EmbedderUrl = None,
) -> None:
    """Write an HTML page that shows a page beside the nearest examples.

    \b
    Example:
      llm-ocr classifier explain page-classifier scan.pdf --page 2 --out why.html
    """
    with _expected_errors(), _open_classifier(index, given, embedder) as found:
        from llm_ocr.classification.explanation import describe_decision, explain_vote
        from llm_ocr.classification.options import ClassifierError
        from llm_ocr.sources.inputs import list_documents

        documents = list_documents([file])

        async def classify(pool: "RenderPool") -> bool:
            async for viewed, vote, _ in _classify(found, documents, pool):
                if viewed.number == page:
                    html = explain_vote(found, vote, viewed.view.image, _page_name(viewed))
                    out.write_text(html, "utf-8")
                    typer.echo(describe_decision(found, vote))
                    return True
            return False

        if not _with_pool(classify):
            raise ClassifierError(f"{file} has no page {page}")
        typer.echo(f"Written to {out}")


def _register(fitted: "PageClassifier", name: str, examples: Path, given: Given) -> None:
    from llm_ocr.classification.classifier import save_classifier

    tags = {
        "data": str(examples.resolve()),
        "examples": str(len(fitted.labels)),
        "embedder": fitted.embedder.id,
        "expected_error": f"{fitted.operating_point.error:.4f}",
        "expected_fallback": f"{fitted.operating_point.fallback:.4f}",
    }
    with tempfile.TemporaryDirectory(prefix="llm-ocr-classifier-") as folder:
        save_classifier(fitted, Path(folder))
        with open_model_registry(given) as models:
            version = models.publish(name, Path(folder), by=getpass.getuser(), tags=tags)
            typer.echo(version.reference)


def _print_curve(fitted: "PageClassifier") -> None:
    """The classes, and what each share of the votes is expected to do."""
    counts = ", ".join(f"{name} {count}" for name, count in fitted.counts().items())
    typer.echo(f"{pluralize(len(fitted.labels), 'example')}: {counts}")
    loose, is_pooled = fitted.loose_classes(), fitted.calibration.is_pooled
    pooled = [name for k, name in enumerate(fitted.classes) if is_pooled(k) and name not in loose]
    if pooled:
        typer.echo(f"Calibrated with all classes, for lack of examples: {', '.join(pooled)}")
    typer.echo("  vote  error  fallback  unknown accepted")
    for point in fitted.curve:
        mark = ">" if point is fitted.operating_point else " "
        strangers = "-" if point.unknown_accepted is None else f"{point.unknown_accepted:.1%}"
        columns = f"{point.vote:.2f}  {point.error:5.1%}  {point.fallback:8.1%}  {strangers:>16}"
        typer.echo(f"{mark} {columns}")
    if fitted.operating_point.error > fitted.target_error:
        warn(
            f"No threshold is expected to have at most {fitted.target_error:.1%} errors; the best "
            "one was chosen. More examples help, and so does splitting classes that look different"
        )

    for name, ratio in loose.items():
        warn(
            f"The class {name} may hold several kinds of pages: its examples lie {ratio:.1f} times "
            "as far from each other as those of other classes. Make each kind a class of its own, "
            "or leave the class out: as it is, fewer of its pages are accepted"
        )


@contextmanager
def _open_classifier(index: str, given: Given, base_url: str | None) -> "Iterator[PageClassifier]":
    """A classifier in a folder or, if there is no such folder, in the registry."""
    from llm_ocr.classification.classifier import load_classifier

    if Path(index).is_dir() or not {"@", "/"} & set(index):
        yield load_classifier(Path(index), base_url, _api_key())
        return
    with tempfile.TemporaryDirectory(prefix="llm-ocr-classifier-") as folder:
        with open_model_registry(given) as models:
            path = models.download(models.resolve(index), Path(folder))
            found = load_classifier(path, base_url, _api_key())
        yield found


async def _classify(
    found: "PageClassifier",
    documents: "Sequence[Document]",
    pool: "RenderPool",
) -> "AsyncIterator[tuple[ViewedPage, PageVote, float]]":
    """Each page with its vote and the milliseconds that it took, without rendering and reading."""
    from llm_ocr.classification.pages import view_pages

    for document in documents:
        async for page in view_pages(document, pool, with_words=found.has_words):
            started = time.perf_counter()
            vote = (await asyncio.to_thread(found.classify, [page.view]))[0]
            yield page, vote, 1000 * (time.perf_counter() - started)


def _with_pool(work: "Callable[[RenderPool], Awaitable[Any]]") -> Any:  # noqa: ANN401
    """Run `work` with the processes that render pages."""
    from llm_ocr.document.configure import render_pool
    from llm_ocr.settings import Settings

    async def run() -> Any:  # noqa: ANN401
        async with render_pool(Settings()) as pool:
            return await work(pool)

    return asyncio.run(run())


def _api_key() -> str | None:
    from llm_ocr.settings import Settings

    key = Settings().api_key
    return None if key is None else key.get_secret_value()


def _page_name(page: "ViewedPage") -> str:
    return f"{page.document.source_uri} page {page.number}"


@contextmanager
def _expected_errors() -> Iterator[None]:
    """Report errors of classifiers and their examples as usage errors."""
    with handle_errors():
        try:
            import llm_ocr.classification.embedders  # noqa: F401
            from llm_ocr.classification.options import ClassifierError
        except ModuleNotFoundError as error:
            problem = f"classifiers need the package {error.name}, which is not installed"
            raise MissingExtraError(f"{problem}: {how_to_install('cpu')}") from error
        try:
            yield
        except ClassifierError as error:
            warn(str(error))
            raise typer.Exit(ExitCode.USAGE) from error
