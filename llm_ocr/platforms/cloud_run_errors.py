"""Explain errors of Google Cloud and failures of tasks: what is wrong, and what to do about it."""

import re
from collections.abc import Mapping

from llm_ocr.exit_codes import ExitCode, describe_exit

SIGN_IN = (
    "sign in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS "
    "to an account's key"
)
# A pattern of the error's text, and what to do about it; the first match counts.
_ERRORS: Mapping[str, str] = {
    r"has not been used in project|SERVICE_DISABLED|API .*is disabled": (
        "enable the services: `gcloud services enable run.googleapis.com logging.googleapis.com "
        "secretmanager.googleapis.com artifactregistry.googleapis.com --project {project}`"
    ),
    r"secrets?/[\w-]+/versions|secret_key_ref|Secret \S+ was not found": (
        'the tasks get secrets from Secret Manager: create it with `printf %s "$VALUE" | gcloud '
        "secrets create NAME --data-file=-`, and let the tasks' account read it with `gcloud "
        "secrets add-iam-policy-binding NAME --member serviceAccount:ACCOUNT --role "
        "roles/secretmanager.secretAccessor`"
    ),
    r"actAs|iam\.serviceAccounts": (
        "you may not run tasks as that account: give yourself roles/iam.serviceAccountUser on it"
    ),
    r"service account .*(not exist|not found)": (
        "create the account (`gcloud iam service-accounts create`), or correct `service_account`"
    ),
    r"image .*not found|container image|Expected an image path": (
        "build and push the image (see google-cloud-run/README.md), or correct `image`; from "
        "another project's registry, Cloud Run's service agent needs roles/artifactregistry.reader"
    ),
    r"quota|without zonal redundancy|RESOURCE_EXHAUSTED|Too Many Requests": (
        "give fewer `tasks`, or another `region`, or ask for more under IAM & Admin > Quotas "
        "(Cloud Run Admin API, Total Nvidia L4 GPU allocation without zonal redundancy, "
        "per project per region)"
    ),
    r"accelerator|node_?selector|gpu": (
        "not every region has this GPU, and an L4 needs 4 CPUs and 16Gi at least: choose another "
        "`region` (us-central1 and europe-west4 have the L4), or another `instance`"
    ),
    r"invalid_grant|Reauthentication|invalid authentication|\b401\b|expired|revoked": (
        f"the credentials are not accepted, or expired: {SIGN_IN}"
    ),
    r"already exists": "launch again: each job gets a new name",
    r"denied|\b403\b": (
        "you need roles/run.developer on the project (roles/logging.viewer for logs), and "
        "`project` must be the right one"
    ),
    r"Max retries|refused|timed out|resolve|\b503\b|unavailable": (
        "Google Cloud can't be reached: check the network, and try again"
    ),
}


def explain_error(error: Exception, project: str) -> str:
    """The platform's message, and what to do about it."""
    text = re.sub(r"https?://\S+", "", str(error))
    first = str(error.args[0] if error.args else "")
    message = re.sub(r"^(\d+ )?[A-Z]+ https?://\S+?: ", "", first)
    message = message.strip().partition("\n")[0].rstrip(".") or type(error).__name__
    for pattern, advice in _ERRORS.items():
        if re.search(pattern, text, re.IGNORECASE):
            return f"{message}: {advice.format(project=project)}"
    return message


def explain_failure(exit_code: int, signal: int, message: str) -> str:
    """Why a task failed, from the end of its last attempt and the platform's message."""
    if re.search(r"memory", message, re.IGNORECASE):
        return f"out of memory ({message}): give it more with `instance`, such as 8x32Gi"
    if re.search(r"time ?out", message, re.IGNORECASE):
        return (
            f"it took longer than `timeout` ({message}): launch the same job again to resume, with "
            "more `tasks` or a longer `timeout`"
        )
    if signal == ExitCode.KILLED - 128 or exit_code == ExitCode.KILLED:
        return (
            "it was killed, usually because it ran out of memory: give it more with `instance`, "
            "such as 8x32Gi"
        )
    if signal:
        return f"it was ended by signal {signal} ({message})"
    return describe_exit(exit_code, message)
