"""Run a task in a SageMaker container, with secrets and retries, which SageMaker lacks.

    python -m llm_ocr.platforms.sagemaker_task --attempts 3 --secrets HF_TOKEN -- run s3://…

This is the container's first process. It reads the secrets from AWS Secrets Manager, restarts a
worker that died, and writes why it failed to output/message, which DescribeProcessingJob shows. It
runs as root, to whom that folder belongs; the worker, which opens untrusted documents, runs as the
image's user.
"""

import argparse
import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from llm_ocr.batch.partition import WorkerPartition, worker_partition
from llm_ocr.exit_codes import PERMANENT, ExitCode
from llm_ocr.platforms.entrypoint import (
    MESSAGE_BYTES,
    ML,
    CommandResult,
    failure_message,
    supervise,
    write_message,
)
from llm_ocr.settings import Settings

# The prefix of a secret's name in Secrets Manager, before the variable's name.
SECRETS = "llm-ocr/"
# Exit codes after which no retry helps (too many failed pages, wrong usage, budget exhausted), and
# those of a worker that was stopped on purpose.
FINAL = (ExitCode.OK, *PERMANENT, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
# The user of both images, unless RUN_AS names another.
USER = "llm-ocr"
# The least length of a task's message, however many tasks share the limit.
MIN_MESSAGE_BYTES = 100


def ml_folder() -> Path:
    """/opt/ml, or the folder that SageMaker's own toolkits use instead."""
    return Path(os.environ.get("SAGEMAKER_BASE_DIR", ML))


def read_secrets(names: Sequence[str]) -> dict[str, str]:
    """The secrets `llm-ocr/NAME` of this account and region."""
    if not names:
        return {}
    import boto3

    client = boto3.Session(region_name=os.environ.get("AWS_REGION")).client("secretsmanager")
    return {
        name: str(client.get_secret_value(SecretId=f"{SECRETS}{name}")["SecretString"])
        for name in names
    }


def drop_privileges(command: Sequence[str]) -> list[str]:
    """The command run as `USER`, if this process is root and the image has that user. Sets the
    variables with the user's name and home."""
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        return list(command)
    if os.geteuid() != 0:
        return list(command)
    os.environ.update(HOME=user.pw_dir, USER=USER, LOGNAME=USER)
    # A change of user clears PR_SET_PDEATHSIG, which ends the worker with this process.
    drop = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
    return [*drop, "--no-new-privs", "--pdeathsig=KILL", "--", *command]


def run_with_retries(attempts: int, command: Sequence[str]) -> CommandResult:
    """The result of the last attempt."""
    for attempt in range(1, attempts + 1):
        result = supervise(command)
        if result.code in FINAL or attempt == attempts:
            break
        sys.stderr.write(
            f"the worker exited with code {result.code}; restarting it (attempt {attempt + 1} of "
            f"{attempts})\n"
        )
    return result


def task_message(share: WorkerPartition, result: CommandResult) -> str:
    """This task's line of the message; DescribeProcessingJob joins and truncates those of all."""
    head = f"task {share.index}: "
    limit = max(MIN_MESSAGE_BYTES, MESSAGE_BYTES // share.count) - len(head) - 1
    # The reason is at the end of the output.
    reason = " ".join(failure_message(result).split()).encode()[-limit:]
    return f"{head}{reason.decode(errors='ignore')}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--secrets", default="", help="names, separated by commas")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    share = worker_partition(Settings(), {}, ml_folder() / "config" / "resourceconfig.json")
    os.environ.update(read_secrets([name for name in options.secrets.split(",") if name]))
    os.environ.update(RANK=str(share.index), WORLD_SIZE=str(share.count))
    command = drop_privileges([sys.executable, "-P", "-m", "llm_ocr", *options.command])
    result = run_with_retries(options.attempts, command)
    if result.code:
        write_message(ml_folder() / "output" / "message", task_message(share, result))
    return result.code


if __name__ == "__main__":
    sys.exit(main())
