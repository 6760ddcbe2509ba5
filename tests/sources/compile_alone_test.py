"""Tests that compile_alone.py finds a missing include that another file hides.

Run by CTest with CXX set to the compiler.
"""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest

import compile_alone


class CompileAlone(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name).resolve()
        self.commands = []
        for folder in ("include/attend", "src", "build/Unity"):
            (self.root / folder).mkdir(parents=True)

    def write(self, name, text):
        (self.root / name).write_text(text)
        return self.root / name

    def compiled(self, file, flags=""):
        self.commands.append({"file": str(file), "directory": str(self.root / "build"),
                              "command": f"{os.environ['CXX']} -I{self.root}/include {flags} -o x.o -c {file}"})

    def run_check(self, kind, folder, changed=None):
        self.write("build/compile_commands.json", json.dumps(self.commands))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = compile_alone.main(self.root / "build", kind, self.root / folder, changed=changed)
        return status, output.getvalue()

    def check_headers(self, **headers):
        for name, text in headers.items():
            self.write(f"include/attend/{name}.h", text)
        self.compiled(self.write("build/headers_alone.cpp", ""))
        return self.run_check("headers", "include")

    def check_unity(self, flags="", **sources):
        files = [self.write(f"src/{name}.cpp", text) for name, text in sources.items()]
        unity = self.write("build/Unity/unity_0_cxx.cxx", "".join(f'#include "{f}"\n' for f in files))
        self.compiled(unity, flags)
        return self.run_check("sources", "src")

    def test_headers_that_include_what_they_use_pass(self):
        status, output = self.check_headers(a="#pragma once\n#include <vector>\nusing V = std::vector<int>;\n",
                                            b='#pragma once\n#include "attend/a.h"\ninline V v;\n')
        summary = "2 of 2 headers compile by themselves"
        self.assertEqual((status, output[:len(summary)]), (0, summary))

    def test_a_header_with_a_missing_include_fails(self):
        status, output = self.check_headers(a="#pragma once\n#include <vector>\n",
                                            b="#pragma once\ninline std::vector<int> v;\n")
        self.assertEqual(status, 1)
        self.assertIn("does not compile by itself: attend/b.h\n", output)
        self.assertIn("b.h:2:13: error: ", output)
        self.assertIn("1 of 2 headers", output)

    def test_only_changed_headers_are_checked(self):
        self.check_headers(a="struct S {};\n", b="#pragma once\n")
        for changed, expected in (("b", 0), ("a", 1)):
            status, _ = self.run_check("headers", "include", {self.root / f"include/attend/{changed}.h"})
            self.assertEqual(status, expected, changed)

    def test_a_header_without_an_include_guard_fails(self):
        self.assertEqual(self.check_headers(a="struct S {};\n")[0], 1)

    def test_an_error_shared_by_many_headers_is_printed_once(self):
        status, output = self.check_headers(a="#pragma once\nUnknown x;\n",
                                            b='#pragma once\n#include "attend/a.h"\n')
        self.assertEqual((status, output.count("error:")), (1, 1), output)
        self.assertIn("attend/a.h, attend/b.h", output)

    def test_a_source_that_needs_another_source_of_its_unity_file_fails(self):
        a, b = "#include <vector>\n", "std::vector<int> v;\n"
        status, output = self.check_unity(a=a, b=b)
        self.assertEqual(status, 1)
        self.assertIn(f"does not compile by itself: {self.root}/src/b.cpp\n", output)
        self.assertEqual(self.check_unity(a=a, b=a + b)[0], 0)

    def test_a_warning_fails_where_warnings_are_errors(self):
        source = "int f(long x) { return x; }\n"
        self.assertEqual(self.check_unity(a=source)[0], 0)
        self.commands.clear()
        self.assertEqual(self.check_unity("-Wconversion -Werror", a=source)[0], 1)

    def test_a_source_that_no_target_compiles_fails(self):
        self.write("src/forgotten.cpp", "")
        status, output = self.check_unity(a="")
        self.assertEqual(status, 1)
        self.assertIn("forgotten.cpp", output)


if __name__ == "__main__":
    unittest.main()
