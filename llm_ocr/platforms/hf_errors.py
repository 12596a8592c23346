"""What is wrong with a job on Hugging Face, and what to do about it."""

import re
from collections.abc import Mapping

from llm_ocr.platforms.exit_codes import EXITS, KILLED

SIGN_IN = "sign in with `hf auth login`, or set HF_TOKEN (https://huggingface.co/settings/tokens)"

_EXITS: Mapping[int, str] = {
    **EXITS,
    1: f"{EXITS[1]}, or llm_ocr could not be installed, which its log says",
    KILLED: (
        f"{EXITS[KILLED]} (larger machines, for --instance, are listed by `hf jobs hardware`)"
    ),
}


def explain_response(status: int | None, said: str, namespace: str, flavor: str) -> str:
    """Why the Hub refused, or wasn't reached, by its HTTP status and its own words."""
    if status is None:
        return f"the Hub can't be reached; check the network, and HF_ENDPOINT if it is set ({said})"
    if status == 401:
        return f"the token is not accepted: it is wrong or expired; {SIGN_IN}"
    if status == 402:
        return (
            f"{namespace} has no credit to pay for it; add some at "
            f"https://huggingface.co/settings/billing, or name another payer with --namespace. "
            f"The Hub says: {said}"
        )
    if status == 403:
        return (
            f"the token may not run jobs for {namespace}; it needs the permissions to write and to "
            f"start jobs (https://huggingface.co/settings/tokens). The Hub says: {said}"
        )
    if status == 404:
        return f"there is no user or organization {namespace}; check --namespace"
    if status == 429:
        return f"the Hub takes no more for now; the same command later. The Hub says: {said}"
    if status >= 500:
        return f"the Hub answers {status}; run the same command again later"
    if "flavor" in said:
        return f"no machine is called {flavor}; `hf jobs hardware` lists them. The Hub says: {said}"
    return f"the Hub refuses it: {said}"


def explain_end(said: str, image: str) -> str:
    """Why a job ended, by the message that the Hub has for it."""
    code = re.search(r"exit code:? *(\d+)", said, re.IGNORECASE)
    if code and int(code[1]) in _EXITS:
        return f"{said}: {_EXITS[int(code[1])]}"
    if re.search(r"OOM|out of memory|memory limit", said, re.IGNORECASE):
        return f"{said}: {_EXITS[KILLED]}"
    if re.search(r"time(d )?.?out", said, re.IGNORECASE):
        return (
            f"{said}: it took longer than it may; what it did stays: launch the same again, with "
            "more --tasks or a longer --timeout"
        )
    if re.search(r"image|manifest|pull", said, re.IGNORECASE):
        return f"{said}: the image {image} can't be had; check --image, and that it is public"
    return said
