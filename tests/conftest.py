"""Settings of all tests."""

import os
import signal

from hypothesis import settings

# Examples may take as long as they like: how fast the machine is decides nothing here.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# A shell that runs this in the background has Ctrl-C ignored, and all that is started here would
# ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The chat server of the tests reads no page: it would fail the check, and its words are not those
# of the PDFs. Tests of either set these anew.
os.environ["LLM_OCR_SKIP_CHECK"] = "true"
os.environ["LLM_OCR_MIN_AGREEMENT"] = "0"
