"""Settings of all tests."""

import signal

from hypothesis import settings

# Examples may take as long as they like: how fast the machine is decides nothing here.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# A shell that runs this in the background has Ctrl-C ignored, and all that is started here would
# ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)
