"""Writes the programs of README.md to a folder.

extract_program.py README.md FOLDER SOURCES

FOLDER/train/train.cpp: the code block marked ```cpp train.cpp.
FOLDER/find_package: the code blocks marked ```cpp main.cpp and ```cmake CMakeLists.txt.
FOLDER/add_subdirectory: the same files, with find_package(attend ...) replaced by add_subdirectory of the
project in SOURCES, as docs/install.md says.
"""

import pathlib
import re
import sys

FIND = re.compile(r"^find_package\(attend .*\)$", re.MULTILINE)


def code_block(text, name):
    blocks = re.findall(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        sys.exit(f"found {len(blocks)} code blocks marked {name}, expected 1")
    return blocks[0]


def write(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:  # otherwise keep the time stamp
            file.write_text(text)


def main(readme, folder, sources):
    text = pathlib.Path(readme).read_text()
    program, cmake = code_block(text, "main.cpp"), code_block(text, "CMakeLists.txt")
    if len(FIND.findall(cmake)) != 1:
        sys.exit("expected one line find_package(attend ...) in CMakeLists.txt")
    write(pathlib.Path(folder, "find_package"), {"main.cpp": program, "CMakeLists.txt": cmake})
    write(pathlib.Path(folder, "add_subdirectory"),
          {"main.cpp": program, "CMakeLists.txt": FIND.sub(f'add_subdirectory("{sources}" attend)', cmake)})
    write(pathlib.Path(folder, "train"), {"train.cpp": code_block(text, "train.cpp")})


if __name__ == "__main__":
    main(*sys.argv[1:])
