"""Starts the command attend with the LibTorch of the Python package torch."""

import importlib.util
import os
import pathlib
import sys


def main():
    torch = importlib.util.find_spec("torch")  # importing torch would take seconds
    if torch is not None and torch.origin:
        os.environ["LIBTORCH"] = str(pathlib.Path(torch.origin).parent)
    launcher = pathlib.Path(__file__).parent / "bin/attend"
    os.execv(launcher, [launcher, *sys.argv[1:]])


if __name__ == "__main__":
    main()
