"""Archives the working tree with scripts/archive-sources, as if it were committed, and writes its URL and hash.

archive_working_tree.py FILE OPTIONS

FILE: path of the archive, attend-VERSION.tar.gz. Written only if it changes.
OPTIONS: a CMake script that sets ATTEND_URL and ATTEND_SHA256.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def git(*arguments, **environment):
    return subprocess.run(["git", *arguments], cwd=ROOT, env={**os.environ, **environment}, check=True,
                          capture_output=True, text=True).stdout.strip()


def archive(folder, name):
    """Returns the bytes of the archive. The repository does not change: an index and objects are in `folder`."""
    person = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
              for key, value in (("NAME", "test"), ("EMAIL", "test"), ("DATE", "2026-01-01T00:00:00Z"))}
    (folder / "objects").mkdir()
    environment = {**person, "GIT_INDEX_FILE": str(folder / "index"), "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
                   "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(ROOT / git("rev-parse", "--git-path", "objects"))}
    git("add", "--all", **environment)
    commit = git("commit-tree", git("write-tree", **environment), "-m", "working tree", **environment)
    subprocess.run([ROOT / "scripts/archive-sources", commit, folder / name], check=True,
                   env={**os.environ, **environment})
    return (folder / name).read_bytes()


def main(file, options):
    file = pathlib.Path(file).absolute()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        content = archive(pathlib.Path(first), file.name)
        if archive(pathlib.Path(second), file.name) != content:
            sys.exit(f"two archives of the same sources differ: {file.name}")
    if not file.exists() or file.read_bytes() != content:  # otherwise keep the time stamp
        file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    pathlib.Path(options).write_text(f'set(ATTEND_URL "file://{file}" CACHE STRING "")\n'
                                     f'set(ATTEND_SHA256 {digest} CACHE STRING "" FORCE)\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
