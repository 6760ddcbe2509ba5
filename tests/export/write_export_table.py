"""Writes the table of docs/export.md from what the program export_cases found.

    write_export_table.py CASES_JSON           writes it
    write_export_table.py CASES_JSON --check   exits with 1, and shows how, if the page differs
"""

import difflib
import json
import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/export.md"
BEGIN = "<!-- begin of the table of tests/export/write_export_table.py -->\n"
END = "<!-- end of the table -->\n"
FORMATS = {"torchscript": "TorchScript", "pt2": ".pt2", "onnx": "ONNX"}


def table(cases):
    """A row for each module and all its options that export alike; single operators are left out."""
    cases = [case for case in cases if case["group"] != "Operator"]
    formats = [name for name in FORMATS if name in cases[0]["formats"]]
    options = {}  # by module and by what each format says
    for case in cases:
        row = case["group"], tuple(case["formats"][name] for name in formats)
        options.setdefault(row, []).append(case["option"])
    lines = [["module", "options", *(FORMATS[name] for name in formats)],
             ["---"] * 2 + [":-:"] * len(formats)]
    for (module, found), names in options.items():
        lines.append([f"`{module}`", ", ".join(name.replace("_", " ") for name in names), *found])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main(cases_json, *flags):
    cases = json.loads(pathlib.Path(cases_json).read_text(encoding="utf-8"))["cases"]
    old = PAGE.read_text(encoding="utf-8")
    before, rest = old.split(BEGIN)
    _, after = rest.split(END)
    new = before + BEGIN + "\n" + table(cases) + "\n" + END + after
    if "--check" not in flags:
        PAGE.write_text(new, encoding="utf-8")
        return 0
    difference = difflib.unified_diff(old.splitlines(), new.splitlines(), "docs/export.md",
                                      "what export_cases found", lineterm="")
    lines = list(difference)
    print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
