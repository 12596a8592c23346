"""`run-batch-job`: the command of a job on AWS Batch, configured by environment variables."""

from typing import TYPE_CHECKING, Any

import typer

from llm_ocr.cli.options import ENV_FILE, JsonLogs, Version, with_options
from llm_ocr.cli.output import handle_errors, run_command

if TYPE_CHECKING:
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@with_options(ENV_FILE)
def run_batch_job(
    given: dict[str, Any], json_logs: JsonLogs = False, version: Version = False
) -> None:
    """Make records of images in S3, as a job configured by environment variables.

    Required variables: S3_BUCKET, S3_PREPROCESSED_IMAGES_DIR_PREFIX and
    S3_PROCESSED_DATASET_PREFIX. Optional: MODEL_NAME, SCHEMA, RECORD_PER, DROP_UNVERIFIED,
    BATCH_SIZE, GPU_MEMORY_UTILIZATION, MAX_NUM_SEQS, MAX_MODEL_LEN, MAX_TOKENS, TEMPERATURE and
    LLM_OCR_…. The records are written to S3 as JSON lines. Exit codes are those of llm-ocr.
    """
    from llm_ocr.platforms.batch_job import read_job

    with handle_errors():
        job = read_job()

    def work(settings: "Settings", **how: Any) -> "Summary":  # noqa: ANN401
        from llm_ocr.batch.parse_run import parse

        return parse(
            *(job.inputs, job.out, job.schema, settings),
            record_per=job.record_per,
            drop_unverified=job.drop_unverified,
            **how,
        )

    run_command(job.settings, json_logs, job.out, work)


def main() -> None:
    """The `run-batch-job` command."""
    app(prog_name="run-batch-job")


if __name__ == "__main__":
    main()
