"""Explain errors of Hugging Face Jobs: what is wrong, and what to do about it."""

import re

from llm_ocr.exit_codes import ExitCode, explain_exit

SIGN_IN = "sign in with `hf auth login`, or set HF_TOKEN (https://huggingface.co/settings/tokens)"
MACHINES = "larger machines, for `instance`, are listed by `hf jobs hardware`"


def explain_response(status: int | None, message: str, namespace: str, flavor: str) -> str:
    """Why the Hub rejected a request or couldn't be reached (status None), with its message."""
    if status is None:
        return (
            f"the Hub can't be reached; check the network, and HF_ENDPOINT if it is set ({message})"
        )
    if status == 401:
        return f"the token is not accepted: it is wrong or expired; {SIGN_IN}"
    if status == 402:
        return (
            f"{namespace} has no credit to pay for it; add some at "
            f"https://huggingface.co/settings/billing, or name another payer with `namespace`. "
            f"The Hub says: {message}"
        )
    if status == 403:
        return (
            f"the token may not run jobs for {namespace}; it needs the permissions to write and to "
            f"start jobs (https://huggingface.co/settings/tokens). The Hub says: {message}"
        )
    if status == 404:
        return f"there is no user or organization {namespace}; check `namespace`"
    if status == 429:
        return f"too many requests; run the same command again later. The Hub says: {message}"
    if status >= 500:
        return f"the Hub answers {status}; run the same command again later"
    if "flavor" in message:
        return (
            f"no machine is called {flavor}; `hf jobs hardware` lists them. The Hub says: {message}"
        )
    return f"the Hub refused the request: {message}"


def explain_end(message: str, image: str) -> str:
    """Why a job ended, from the Hub's message about it."""
    code = re.search(r"exit code:? *(\d+)", message, re.IGNORECASE)
    if code and (explanation := _explain_code(int(code[1]))):
        return f"{message}: {explanation}"
    if re.search(r"OOM|out of memory|memory limit", message, re.IGNORECASE):
        return f"{message}: {_explain_code(ExitCode.KILLED)}"
    if re.search(r"time(d )?.?out", message, re.IGNORECASE):
        return (
            f"{message}: it took longer than `timeout`; finished pages are kept: launch the same "
            "job again to resume, with more `tasks` or a longer `timeout`"
        )
    if re.search(r"image|manifest|pull", message, re.IGNORECASE):
        return f"{message}: the image {image} can't be pulled; check `image`, and that it is public"
    return message


def _explain_code(code: int) -> str | None:
    explanation = explain_exit(code)
    if code == ExitCode.FAILED_PAGES:
        return f"{explanation}. Or llm_ocr could not be installed, see its log"
    if code == ExitCode.KILLED:
        return f"{explanation} ({MACHINES})"
    return explanation
