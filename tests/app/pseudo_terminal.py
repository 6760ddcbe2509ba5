"""Pseudo-terminals for tests of terminal output."""

import pty
import unittest


def open_pseudo_terminal():
    """Returns (controller, terminal); skips the test if the machine has no pseudo-terminals."""
    try:
        return pty.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"no pseudo-terminal: {error}") from error
