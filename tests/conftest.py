"""Tests that press Ctrl-C need children that hear it."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A session in the background of a shell ignores SIGINT, and every process that it starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
