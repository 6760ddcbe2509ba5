"""Checks that each header or source compiles by itself, without the includes of other files.

compile_alone.py BUILD_DIR headers INCLUDE_DIR   every header below INCLUDE_DIR, in a separate file
compile_alone.py BUILD_DIR sources FOLDER...     every source below the FOLDERs, as BUILD_DIR compiles it,
                                                 but without the other sources of its unity file

The flags are read from BUILD_DIR/compile_commands.json. Headers are compiled with the flags of
headers_alone.cpp. Set JOBS to the number of compilers to run at a time (default: one per core).

A static_assert that fails stops the compiler at the end of the file. By then it has parsed every line and
reported each missing include or declaration. It has not instantiated the function templates of LibTorch's
headers, which would take 95 % of the time; the build does this.
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
# A precompiled header is created only if at least this many headers use it. Its creation takes as long as
# the compilation of five headers.
MIN_HEADERS = 12


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


class Includes:
    """Headers of LibTorch and attend that a header includes, directly or through others."""

    def __init__(self, include_dirs):
        self.include_dirs = include_dirs
        self.cache = {}

    def of(self, name):
        if name not in self.cache:
            self.cache[name] = set()  # ends the recursion if headers include each other
            file = next((f for f in (d / name for d in self.include_dirs) if f.is_file()), None)
            for included in INCLUDE.findall(file.read_text(errors="replace")) if file else []:
                if included.split("/")[0] in ("torch", "ATen", "c10", "attend"):
                    self.cache[name] |= {included} | self.of(included)
        return self.cache[name]


def include_dirs(flags):
    for at, flag in enumerate(flags):
        if flag == "-isystem":
            yield pathlib.Path(flags[at + 1])
        elif flag.startswith("-I"):
            yield pathlib.Path(flag[2:])


def check_headers(build, include_dir):
    """Checks each header. Several headers share a precompiled header, which contains only LibTorch
    headers that all of them include, so it does not hide a missing include."""
    flags = next(flags for file, flags in compile_commands(build) if file.name == "headers_alone.cpp")
    names = sorted(str(f.relative_to(include_dir)) for f in include_dir.rglob("*.h"))
    includes = Includes(list(include_dirs(flags)))
    torch = {name: frozenset(i for i in includes.of(name) if not i.startswith("attend/")) for name in names}
    sizes = collections.Counter(torch.values())
    shared = sorted((s for s, n in sizes.items() if s and n >= MIN_HEADERS), key=len)

    with tempfile.TemporaryDirectory(dir=build) as folder:
        def precompile(number, headers):
            file = pathlib.Path(folder, f"{number}.h")
            direct = sorted(h for h in headers if h in direct_includes)
            file.write_text("".join(f"#include <{h}>\n" for h in direct))
            subprocess.run([*flags, "-x", "c++-header", file, "-o", f"{file}.gch"], cwd=build, check=True)
            return file

        direct_includes = {i for name in names for i in INCLUDE.findall((include_dir / name).read_text())}
        precompiled = run({headers: lambda n=n, h=headers: precompile(n, h) for n, headers in enumerate(shared)})

        def check_header(name):
            fitting = [h for h in shared if h <= torch[name]]
            option = ["-Winvalid-pch", "-include", precompiled[fitting[-1]]] if fitting else []
            return check(build, [*flags, *option], [name, name])  # twice: fails without an include guard

        return run({name: lambda name=name: check_header(name) for name in names})


def check_sources(build, folders):
    commands = {file: flags for file, flags in compile_commands(build)
                if any(file.is_relative_to(folder) for folder in folders)}
    expected = {file for folder in folders for file in folder.rglob("*.cpp")}
    missing = sorted(map(str, expected - set(commands)))
    results = run({str(file): lambda file=file, flags=flags: check(build, flags, [file])
                   for file, flags in commands.items()})
    return results | {file: "is not compiled by any target\n" for file in missing}


def main(build, kind, *folders):
    start = time.monotonic()
    build, folders = pathlib.Path(build).resolve(), [pathlib.Path(f).resolve() for f in folders]
    results = check_headers(build, folders[0]) if kind == "headers" else check_sources(build, folders)
    failed = collections.defaultdict(list)  # one error may come from a header that many files include
    for name, messages in results.items():
        if messages:
            failed[messages[ERROR.search(messages).start():] if ERROR.search(messages) else messages].append(name)
    for messages, names in failed.items():
        print(f"does not compile by itself: {', '.join(names)}\n{messages}")
    passed = len(results) - sum(map(len, failed.values()))
    print(f"{passed} of {len(results)} {kind} compile by themselves ({time.monotonic() - start:.0f} s)")
    return 0 if results and not failed else 1


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("headers", "sources"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
