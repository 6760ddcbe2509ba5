"""The two ends of a terminal, for tests of what people see."""

import pty
import unittest


def open_pseudo_terminal():
    """(our end, the command's end); skips the test where the machine has none, as in a chroot."""
    try:
        return pty.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"no pseudo-terminal: {error}") from error
