"""Writes the program of README.md to a folder, once for each way of getting attend.

extract_program.py README.md FOLDER SOURCES

FOLDER/find_package gets the code blocks that README.md marks ```cpp main.cpp and
```cmake CMakeLists.txt as they stand; FOLDER/add_subdirectory has find_package(attend) replaced by
add_subdirectory, as README.md says, of the project in SOURCES.
"""

import pathlib
import re
import sys

FIND = "find_package(attend REQUIRED)"


def code_block(text, name):
    blocks = re.findall(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        sys.exit(f"expected one code block marked {name}, found {len(blocks)}")
    return blocks[0]


def write(folder, program, cmake):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("main.cpp", program), ("CMakeLists.txt", cmake)):
        file = folder / name
        if not file.exists() or file.read_text() != text:  # so that nothing is compiled again
            file.write_text(text)


def main(readme, folder, sources):
    text = pathlib.Path(readme).read_text()
    program, cmake = code_block(text, "main.cpp"), code_block(text, "CMakeLists.txt")
    if cmake.count(FIND) != 1:
        sys.exit(f"expected one line {FIND} in CMakeLists.txt")
    write(pathlib.Path(folder, "find_package"), program, cmake)
    write(pathlib.Path(folder, "add_subdirectory"), program,
          cmake.replace(FIND, f'add_subdirectory("{sources}" attend)'))


if __name__ == "__main__":
    main(*sys.argv[1:])
