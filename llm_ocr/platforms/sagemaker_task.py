"""The first process of a SageMaker container: it gives the worker what SageMaker doesn't.

    python -m llm_ocr.platforms.sagemaker_task --attempts 3 --secrets HF_TOKEN -- run s3://…

A processing job has no secrets and no second try. This reads the secrets from AWS Secrets Manager,
starts a worker that died again, and leaves in output/message, for DescribeProcessingJob, why it
failed. The folder of that message is root's, and so is this process; the worker, which opens
documents of whatever origin, is the image's own user.
"""

import argparse
import os
import pwd
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from llm_ocr.pipeline.partition import WorkerPartition, worker_partition
from llm_ocr.platforms.entry import MESSAGE_BYTES, ML, Ending, leave_message, message_of, watch
from llm_ocr.settings import Settings

# Of what a secret is called in Secrets Manager, before the variable's name.
SECRETS = "llm-ocr/"
# What another try can't mend: too many failed pages, wrong usage, money that is spent; and what
# somebody wanted.
FINAL = (0, 1, 2, 5, 128 + signal.SIGINT, 128 + signal.SIGTERM)
# Who runs in both images, where RUN_AS doesn't say otherwise.
USER = "llm-ocr"
# Of a message, however many tasks share the room.
LEAST_BYTES = 100


def folder() -> Path:
    """/opt/ml, or where SageMaker's own toolkits are told that it is."""
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


def without_privileges(command: Sequence[str]) -> list[str]:
    """The command as `USER` does it, where this process is root's and the image has that user; sets
    the variables that name a user's home."""
    try:
        user = pwd.getpwnam(USER)
    except KeyError:
        return list(command)
    if os.geteuid() != 0:
        return list(command)
    os.environ.update(HOME=user.pw_dir, USER=USER, LOGNAME=USER)
    # A change of user takes back what `watch` asks for, to die with this process.
    drop = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
    return [*drop, "--no-new-privs", "--pdeathsig=KILL", "--", *command]


def try_up_to(attempts: int, command: Sequence[str]) -> Ending:
    """The last try's ending."""
    for attempt in range(1, attempts + 1):
        ending = watch(command)
        if ending.code in FINAL or attempt == attempts:
            break
        sys.stderr.write(
            f"the worker ended with {ending.code}; it goes on (try {attempt + 1} of {attempts})\n"
        )
    return ending


def message(share: WorkerPartition, ending: Ending) -> str:
    """This task's line among those of all, which DescribeProcessingJob joins and cuts."""
    before = f"task {share.index}: "
    room = max(LEAST_BYTES, MESSAGE_BYTES // share.count) - len(before) - 1
    # The end of what a worker said is its reason.
    said = " ".join(message_of(ending).split()).encode()[-room:]
    return f"{before}{said.decode(errors='ignore')}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--secrets", default="", help="names, with commas between them")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    share = worker_partition(Settings(), {}, folder() / "config" / "resourceconfig.json")
    os.environ.update(read_secrets([one for one in given.secrets.split(",") if one]))
    os.environ.update(RANK=str(share.index), WORLD_SIZE=str(share.count))
    command = without_privileges([sys.executable, "-P", "-m", "llm_ocr", *given.command])
    ending = try_up_to(given.attempts, command)
    if ending.code:
        leave_message(folder() / "output" / "message", message(share, ending))
    return ending.code


if __name__ == "__main__":
    sys.exit(main())
