"""The number of files that a process may have open, of which each request in flight takes one."""

import logging
import sys

log = logging.getLogger(__name__)

# More than enough for the widest window, on both sides of a proxy; some systems have no maximum.
WANTED = 65_536


def raise_open_files_limit() -> None:
    """Let this process, and those that it starts from now on, open as many files as the system
    allows, up to `WANTED`: shells and containers often start them with 1,024."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= highest:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    except (OSError, ValueError) as error:
        log.debug("the limit of open files stays %d: %s", soft, error)
