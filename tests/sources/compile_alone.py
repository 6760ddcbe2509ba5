"""Checks that each header or source compiles by itself, without the includes of other files.

compile_alone.py BUILD_DIR headers INCLUDE_DIR   every header below INCLUDE_DIR, in a separate file
compile_alone.py BUILD_DIR sources FOLDER...     every source below the FOLDERs, as BUILD_DIR compiles it,
                                                 but without the other sources of its unity file

Checks only the files that scripts/changed-files prints, so all files if ATTEND_BASE is "all". The flags are read
from BUILD_DIR/compile_commands.json. Headers are compiled with the flags of headers_alone.cpp. Set JOBS to the
number of compilers to run at a time (default: one per core).

Two things save more than 90 % of the time. A static_assert that fails stops the compiler at the end of the file. By
then it has parsed every line and reported each missing include or declaration, but has not instantiated the function
templates of LibTorch's headers; the build does this. And files that include torch/types.h, directly or through other
files, get it precompiled.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

END = "attend: end of file"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
ERROR = re.compile(r"^.*\berror:", re.MULTILINE)
UNITY_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
LIBTORCH = "torch/types.h"


def compile_commands(build):
    """Yields (file, flags) of each source; sources of a unity file have the flags of the unity file."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        flags = shlex.split(entry["command"])
        for option in ("-o", "-c"):
            at = flags.index(option)
            del flags[at:at + 2]
        if file.parent.name == "Unity":
            for source in UNITY_INCLUDE.findall(file.read_text()):
                yield pathlib.Path(source), flags
        elif not file.name.startswith("cmake_pch"):
            yield file, flags


def check(build, flags, includes):
    """Compiles a file that has only these includes; returns the compiler's messages, "" if it passes."""
    text = "".join(f'#include "{name}"\n' for name in includes) + f'static_assert(false, "{END}");\n'
    result = subprocess.run([*flags, "-Wfatal-errors", "-fsyntax-only", "-x", "c++", "-"], cwd=build,
                            input=text, capture_output=True, text=True)
    return "" if END in result.stderr else result.stderr or f"status {result.returncode}\n"


def run(tasks):
    """Runs the functions in `tasks`, a dict by name, in parallel; returns {name: result}."""
    jobs = int(os.environ.get("JOBS") or os.cpu_count())
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {name: pool.submit(task) for name, task in tasks.items()}
        return {name: future.result() for name, future in futures.items()}


def include_dirs(flags):
    for at, flag in enumerate(flags):
        if flag == "-isystem":
            yield pathlib.Path(flags[at + 1])
        elif flag.startswith("-I"):
            yield pathlib.Path(flag[2:])


def reaches(target, file, folders, seen):
    """True if the file includes the header `target`, directly or through other headers in the folders."""
    for name in INCLUDE.findall(file.read_text(errors="replace")):
        if name == target:
            return True
        if name not in seen:
            seen.add(name)
            found = next((f for f in (folder / name for folder in folders) if f.is_file()), None)
            if found and reaches(target, found, folders, seen):
                return True
    return False


def check_files(build, files):
    """files: {name: (path, flags, includes)}. Returns {name: messages}."""
    with tempfile.TemporaryDirectory(dir=build) as folder:
        header = pathlib.Path(folder, "libtorch.h")
        header.write_text(f"#include <{LIBTORCH}>\n")
        # Optimization does not matter for parsing, but must be that of the precompiled header.
        flags = {name: [*flags, "-O0"] for name, (_, flags, _) in files.items()}
        using = {name for name, (path, its_flags, _) in files.items()
                 if reaches(LIBTORCH, path, list(include_dirs(its_flags)), set())}
        if using:
            subprocess.run([*flags[min(using)], "-w", "-x", "c++-header", header, "-o", f"{header}.gch"], cwd=build,
                           check=True)

        def check_file(name):
            precompiled = ["-include", header] if name in using else []
            return check(build, [*flags[name], *precompiled], files[name][2])

        return run({name: lambda name=name: check_file(name) for name in files})


def headers_below(build, include_dir):
    flags = next(flags for file, flags in compile_commands(build) if file.name == "headers_alone.cpp")
    for file in sorted(include_dir.rglob("*.h")):
        name = str(file.relative_to(include_dir))
        yield name, (file, flags, [name, name])  # twice: fails without an include guard


def sources_below(build, folders):
    for file, flags in compile_commands(build):
        if any(file.is_relative_to(folder) for folder in folders):
            yield str(file), (file, flags, [file])


def not_compiled(folders, files):
    expected = {str(file) for folder in folders for file in folder.rglob("*.cpp")}
    return {file: "is not compiled by any target\n" for file in sorted(expected - set(files))}


def main(build, kind, *folders, changed=None):
    """changed: paths of the files to check (default: all)"""
    start = time.monotonic()
    build, folders = pathlib.Path(build).resolve(), [pathlib.Path(f).resolve() for f in folders]
    files = dict(headers_below(build, folders[0]) if kind == "headers" else sources_below(build, folders))
    missing = not_compiled(folders, files) if kind == "sources" else {}
    total = len(files)
    if changed is not None:
        files = {name: file for name, file in files.items() if file[0] in changed}
    results = check_files(build, files) | missing
    failed = collections.defaultdict(list)  # one error may come from a header that many files include
    for name, messages in results.items():
        if messages:
            failed[messages[ERROR.search(messages).start():] if ERROR.search(messages) else messages].append(name)
    for messages, names in failed.items():
        print(f"does not compile by itself: {', '.join(names)}\n{messages}")
    passed = len(results) - sum(map(len, failed.values()))
    print(f"{passed} of {len(results)} {kind} compile by themselves ({time.monotonic() - start:.0f} s); "
          f"{total - len(files)} not changed and not checked")
    return 0 if total and not failed else 1


def changed_files():
    root = pathlib.Path(__file__).resolve().parents[2]
    result = subprocess.run([root / "scripts/changed-files"], stdout=subprocess.PIPE, text=True)
    return {root / name for name in result.stdout.splitlines()} if result.returncode == 0 else None


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("headers", "sources"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:], changed=changed_files()))
