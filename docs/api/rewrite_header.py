"""Rewrites a header for Doxygen, which cannot read the macros of LibTorch and attend.

Line numbers stay the same. These parts of a header are rewritten:

- `ATTEND_ARG(T, name) = value;` becomes the setter, with the default value in its documentation.
- `TORCH_MODULE(Foo);` and `ATTEND_MODULE(Foo, ...);` become the class Foo, with the documentation of FooImpl.
- `reset()` and `pretty_print()`, which every module overrides, are removed.
- The field `options` of a module gets a doc comment, which is the same for all modules.
- A doc comment between `#pragma once` and the includes becomes the documentation of the file.
- An indented example becomes a block of C++ code.
- The contents of each namespace are added to a group of overview.dox, chosen by the header's folder.
"""

import re

# Pairs (pattern, group in overview.dox). The first pattern that matches the path of a header,
# relative to include/attend, determines the group of the header.
GROUPS = [
    (r"ops/", "ops"),
    (r"nn/", "modules"),
    (r"models/", "models"),
    (r"io/", "io"),
    (r"tokenizers/", "tokenizers"),
    (r"pretrained/", "pretrained"),
    (r"pt2/", "pt2"),
    (r"(model_)?export/", "export"),
    (r"train/", "train"),
    (r"distributed/", "distributed"),
    (r"[^/]*$", "nn"),
]

TYPE = re.compile(r"^(?:struct|class) (?:ATTEND_API )?(\w+)", re.MULTILINE)
OPTION = re.compile(r"ATTEND_(?:NESTED_)?ARG\(([^;]*?),\s*(\w+)\)(?:\s*=\s*([^;]*))?;")
MODULE = re.compile(r"^(?:TORCH_MODULE\((\w+)\)|ATTEND_MODULE\((\w+),[^;]*);", re.MULTILINE)
OTHER_MACRO = re.compile(r"^ *(?:TORCH_(?:ARG|MODULE)\w*\(.*|ATTEND_(?:NESTED_)?(?:ARG|MODULE)\(.*;)", re.MULTILINE)
OVERRIDES = re.compile(
    r"^ *void (?:reset\(\)|pretty_print\(std::ostream& \w+\) const) override;$", re.MULTILINE)
OPTIONS_FIELD = re.compile(r"^( *)(\w+Options options;)$", re.MULTILINE)
FILE_COMMENT = re.compile(r"(?<=^#pragma once\n\n)/// (.*)(?=\n\n#include)")
NAMESPACE = re.compile(r"^(namespace attend[\w: ]*\{)$", re.MULTILINE)
END_OF_NAMESPACE = re.compile(r"^\}(?=  // namespace attend)", re.MULTILINE)
# Doxygen would end the brief description after the full stop of these abbreviations.
ABBREVIATION = re.compile(r"(?<=/// )(.*)\b(et al\.|e\.g\.|i\.e\.)(?: |$)", re.MULTILINE)
EMPTY_COMMENT = re.compile(r"( *)///$")
EXAMPLE = re.compile(r" */// {5,}\S")


def group(name):
    for pattern, found in GROUPS:
        if re.match(pattern, name):
            return found
    raise SystemExit(f"include/attend/{name}: GROUPS in docs/api/rewrite_header.py has no group for "
                     "this folder")


def setter(match):
    owner = TYPE.findall(match.string, 0, match.start())[-1]
    kind, name, default = match.groups()
    note = f"/** **Default:** `{' '.join(default.split())}` */ " if default else ""
    return f"{note}{owner}& {name}({kind} value);" + "\n" * match[0].count("\n")


def holder(match):
    name = match[1] or match[2]
    return (f"/** @brief Module holder of {name}Impl, whose members are called with "
            f"<code>-&gt;</code>. @details @copydoc {name}Impl */ "
            f"class {name} : public torch::nn::ModuleHolder<{name}Impl> {{}};")


def with_code_blocks(text):
    lines = text.split("\n")
    for start, line in enumerate(lines[:-1]):
        empty = EMPTY_COMMENT.match(line)
        if not empty or not EXAMPLE.match(lines[start + 1]):
            continue
        for i in range(start + 1, len(lines)):
            if EXAMPLE.match(lines[i]):
                end = i
            elif not EMPTY_COMMENT.match(lines[i]):
                break
        lines[start] = f"{empty[1]}/// @code{{.cpp}}"
        lines[end] += " @endcode"
    return "\n".join(lines)


def rewrite_header(text, name):
    """Returns `text`, the content of the header include/attend/`name`, rewritten."""
    text = OPTION.sub(setter, text)
    text = MODULE.sub(holder, text)
    if left := OTHER_MACRO.search(text):
        raise SystemExit(f"include/attend/{name}: docs/api/rewrite_header.py cannot read: {left[0]}")
    text = OVERRIDES.sub("", text)
    text = OPTIONS_FIELD.sub(r"\1/** The options that the module was constructed with. */ \2", text)
    text = FILE_COMMENT.sub(rf"/** @file attend/{name} @brief \1 */", text)
    text = ABBREVIATION.sub(r"\1\2\\ ", text)
    text = NAMESPACE.sub(rf"\1 /** @addtogroup {group(name)} */ /** @{{ */", text)
    text = END_OF_NAMESPACE.sub("/** @} */ }", text)
    return with_code_blocks(text)
