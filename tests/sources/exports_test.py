"""Checks that ATTEND_API marks every name that a header declares and a source defines. Checks only
public headers and headers that another library, a program or a test includes. Shared libraries export
only marked names.

Needs no build: python3 tests/sources/exports_test.py
python3 tests/sources/exports_test.py --fix adds ATTEND_API where it is missing.
"""

import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#[^\n]*', re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"(?:class|struct)\s+(?P<name>\w+)\s*(?:final\s*)?(?::|$)")
FUNCTION = re.compile(r"\)\s*(?:const\s*|noexcept\s*|override\s*|final\s*)*$")
NO_FUNCTION = re.compile(r"using\b|typedef\b|static_assert\b|friend\b|inline\b|constexpr\b|(?:TORCH|ATTEND)_\w+\s*\(")
# Tokens that are allowed before ATTEND_API.
PREFIX = re.compile(r"(?:template\s*<[^()]*?>\s*(?=\S)|\[\[\w+\]\]\s*)*")


def blanked(text):
    """Returns the text with comments, strings and preprocessor lines replaced by blanks."""
    return COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def statements(code, begin):
    """Yields (begin, end, body) for each statement from `begin` to the end of the scope. code[begin:end]
    is the text before the `;` or `{`. `body` is the place after the `{`, or None after a `;`."""
    start, depth = begin, 0
    place = begin
    while place < len(code):
        character = code[place]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif depth == 0 and character == "}":
            return
        elif depth == 0 and character == ";":
            yield start, place, None
            start = place + 1
        elif character == "{":
            end = matching_brace(code, place)
            if depth == 0 and not re.search(r"=\s*$", code[start:place]):
                yield start, place, place + 1
                start = end + 1
            place = end
        place += 1


def matching_brace(code, place):
    depth = 0
    for end in range(place, len(code)):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        if depth == 0:
            return end
    raise ValueError("unbalanced braces")


def is_function(declaration):
    without_defaults = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "()", declaration)
    return (
        FUNCTION.search(declaration)
        and not NO_FUNCTION.match(declaration)
        and ("=" not in without_defaults or "operator" in without_defaults)
    )


def has_definitions_elsewhere(code, body):
    """Returns True if a class has a virtual function, or declares a function without defining it."""
    for begin, end, _ in statements(code, body):
        text = re.sub(r"^(?:\s*(?:public|private|protected)\s*:)*", "", code[begin:end]).strip()
        if re.match(r"virtual\b", text):
            return True
        if code[end] == ";" and is_function(text):
            return True
    return False


def unmarked(text):
    """Returns (place, name) for each declaration in a header that needs ATTEND_API at `place` and lacks it."""
    code = blanked(text)
    found = []

    def visit(scope):
        for begin, end, body in statements(code, scope):
            begin += len(code[begin:end]) - len(code[begin:end].lstrip())
            statement = code[begin:end].rstrip()
            if body is not None and statement.startswith("namespace"):
                visit(body)
                continue
            if "ATTEND_API" in statement:
                continue
            prefix = PREFIX.match(statement).end()
            declared = statement[prefix:]
            type_match = TYPE.match(declared)
            if body is not None and type_match:
                is_template = "template" in statement[:prefix]
                is_exception = re.search(r":\s*public\s+[\w:]*(?:[eE]rror|exception)\b", declared)
                if not is_template and (is_exception or has_definitions_elsewhere(code, body)):
                    place = begin + prefix + re.match(r"(?:class|struct)\s+", declared).end()
                    found.append((place, type_match["name"]))
            elif body is None and is_function(declared):
                found.append((begin + prefix, re.search(r"([\w~]+|operator\S+)\s*\(", declared).group(1)))

    visit(0)
    return found


def fix(header):
    text = header.read_text()
    places = [place for place, _ in unmarked(text)]
    for place in reversed(places):
        text = f"{text[:place]}ATTEND_API {text[place:]}"
    if places and '#include "attend/api.h"' not in text:
        text = text.replace("#pragma once\n", '#pragma once\n\n#include "attend/api.h"\n', 1)
        text = re.sub(r'(#include "attend/api.h"\n)\n(?=#include ")', r"\1", text)
    if places:
        header.write_text(text)


def library_of(path):
    """Returns the library that a file of src/ belongs to; for other files, their first folder."""
    if path.parts[0] != "src":
        return path.parts[0]
    return {"ops": "nn", "models": "nn", "model_export": "export"}.get(path.parts[1], path.parts[1])


def exported_headers():
    """Returns all public headers, and the private headers that several libraries, programs or tests include."""
    users = collections.defaultdict(set)
    for file in (f for top in ("src", "apps", "tests") for f in (ROOT / top).rglob("*")):
        if file.suffix in {".h", ".cpp"}:
            library = library_of(file.relative_to(ROOT))
            for name in re.findall(r'#include "(.+)"', file.read_text()):
                users[ROOT / "src" / name].add(library)
    private = [h for h in (ROOT / "src").rglob("*.h") if len(users[h]) > 1]
    return sorted((ROOT / "include").rglob("*.h")) + sorted(private)


class ThisProject(unittest.TestCase):
    def test_exports_what_others_use(self):
        missing = [
            f"{header.relative_to(ROOT)}: {name}"
            for header in exported_headers()
            for _, name in unmarked(header.read_text())
        ]
        self.assertEqual(missing, [], "these names lack ATTEND_API; exports_test.py --fix adds it")


class TheCheckItself(unittest.TestCase):
    def names(self, text):
        return [name for _, name in unmarked(f"#pragma once\nnamespace attend {{\n{text}\n}}\n")]

    def test_finds_functions_and_classes_defined_elsewhere(self):
        self.assertEqual(self.names("int f(int x = {});"), ["f"])
        self.assertEqual(self.names("/// Returns (1).\n[[noreturn]] void f();"), ["f"])
        self.assertEqual(self.names("class A {\n public:\n  A();\n};"), ["A"])
        self.assertEqual(self.names("class A { virtual void f() = 0; };"), ["A"])
        self.assertEqual(self.names("class E : public std::runtime_error {};"), ["E"])
        self.assertEqual(self.names("template <typename T>\nT& f(int x);"), ["f"])

    def test_ignores_names_that_are_marked_or_defined_in_the_header(self):
        for text in ("ATTEND_API int f();", "class ATTEND_API A { A(); };", "inline int f() { return 1; }",
                     "struct A { int x = f(); int g() { return x; } };", "using F = int (int);",
                     "class A;", "template <typename T> struct A { A(); };", "constexpr int x = f();",
                     "TORCH_MODULE(A);", "ATTEND_MODULE(A, (int x), (x));",
                     "struct A { TORCH_ARG(int64_t, x) = 0; };"):
            self.assertEqual(self.names(text), [], text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fix"]:
        for exported in exported_headers():
            fix(exported)
    else:
        unittest.main()
