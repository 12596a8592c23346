"""The parser of the AWS CLI, in a process of its own.

To import awscli sets AWS_DATA_PATH, and botocore then reads the models that awscli comes with.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

ANYWHERE = ("--region", "us-east-1", "--no-sign-request")


def exit_status(words: Sequence[str]) -> object:
    """What `aws WORDS` exits with if it sends no request."""
    return _process().submit(_parse, list(words)).result()


@cache
def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _parse(words: Sequence[str]) -> object:
    from awscli.clidriver import CLIOperationCaller, create_clidriver
    from awscli.customizations.s3.subcommands import MbCommand, S3TransferCommand

    CLIOperationCaller.invoke = lambda *_: 0
    for command in (S3TransferCommand, MbCommand):
        command._run_main = lambda *_: 0
    try:
        return create_clidriver().main([*words, *ANYWHERE])
    except SystemExit as error:
        return error.code
