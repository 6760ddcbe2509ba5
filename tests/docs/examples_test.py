"""Compiles the C++ examples in doc comments, in Markdown pages, in docs/api/overview.dox and in the column
"in attend" of docs/features.md.

CTest sets ATTEND_BUILD to the build tree. By hand: ATTEND_BUILD=build/release python3 tests/docs/examples_test.py
The compiler checks the code, including template instantiations, and generates no machine code. Each example is
the body of a function whose parameters are the names in NAMES that it uses.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDES = ("attend/attend.h", "attend/distributed.h", "attend/pretrained.h", "attend/tokenizers.h", "attend/train.h", "torch/torch.h", "torch/script.h",
            "torch/csrc/inductor/aoti_package/model_package_loader.h", "fstream", "iostream")
FOLDERS = ("docs", "examples", "models", "src")  # folders with Markdown pages, besides the root

TENSORS = """x y q k v tokens target source prompt next_token bos memory memory_key_mask key_mask segments mask bias allowed
    documents positions p query branch logits output loss cross_entropy tensor""".split()
# Type of each name that examples use without declaring it.
NAMES = {
    **dict.fromkeys(TENSORS, "torch::Tensor"),
    "a": "torch::Tensor",
    "b": "torch::Tensor",
    "model": "LanguageModel",
    "seq2seq": "Seq2Seq",
    "classifier": "SequenceClassifier",
    "block": "TransformerBlock",
    "encoder": "TransformerEncoder",
    "decoder": "TransformerDecoder",
    "attention": "MultiheadAttention",
    "feed_forward": "FeedForward",
    "options": "TransformerBlockOptions",
    "cache": "KvCache&",
    "context": "AttentionContext&",
    "tokenizer": "Tokenizer&",
    "text": "std::string",
    "bytes": "std::string",
    "lengths": "std::vector<int64_t>",
    "previous": "std::vector<int64_t>",
    "parameters": "std::vector<torch::Tensor>",
    "rate": "double",
    "shared": "SharedTensors&",
    "tables": "RotaryTables",
    "kPad": "int64_t",
    "tensors": "std::map<std::string, torch::Tensor>",
    "forward": "std::function<torch::Tensor(const std::vector<torch::Tensor>&)>",
    "function": "std::function<torch::Tensor(const torch::Tensor&)>",
    "decay_at": "std::function<torch::Tensor(const torch::Tensor&, double)>",
    # Names in the examples of the trainer.
    "task": "std::shared_ptr<train::Task>",
    "recipe": "train::Recipe",
    "processes": "std::shared_ptr<train::Processes>",
    "config": "train::TrainingConfig",
    "objective": "std::shared_ptr<train::Objective>",
    "gradients": "std::vector<torch::Tensor>",
    "validation": "std::vector<torch::data::Example<>>",
    "run": "train::Run",
    "trainer": "train::Trainer&",
    "progress_line": "train::Observer&",
    "optimizer": "std::unique_ptr<train::Optimizer>&",
    "batch": "train::Batch",
    "examples": "train::Batch",
    "dataset": "Images",
    "matrices": "std::vector<TrainableParameter>",
    "device": "torch::Device",
    "path": "std::filesystem::path",
    "lr": "double",
    "step": "int64_t",
    "seed": "uint64_t",
}
# Names whose type differs in one file.
NAMES_IN = {
    "attend/tokenizers/text_tokenizer.h": {"tokenizer": "TextTokenizer&", "ids": "std::vector<int64_t>"},
    "docs/tokenizers.md": {"tokenizer": "TextTokenizer&", "ids": "std::vector<int64_t>"},
    "attend/arg.h": {"options": "FeedForwardOptions"},
    "attend/export/onnx_translation.h": {"call": "OnnxCall&"},
    "attend/models/seq2seq.h": {"model": "Seq2Seq"},
    "attend/nn/encoder_decoder.h": {"options": "EncoderDecoderOptions"},
    "attend/nn/residual.h": {"options": "ResidualOptions"},
    "attend/train/dataset_objective.h": {"net": "torch::nn::Linear"},
    "attend/train/embedding_files.h": {"tokens": "std::vector<std::string>"},
    "attend/train/stream_objective.h": {"loss": "train::StreamObjective::LossFunction"},
    "docs/training.md": {"loss": "train::StreamObjective::LossFunction"},
    "attend/train/task_objective.h": {"model": "Model"},
}
DECLARATIONS = """
struct MyNormImpl : torch::nn::Cloneable<MyNormImpl> {
  explicit MyNormImpl(int64_t) {}
  void reset() override {}
  torch::Tensor forward(torch::Tensor x) { return x; }
};
TORCH_MODULE(MyNorm);
using MyFeedForward = MyNorm;
struct MySink : train::CheckpointSink {
  void save_best(const std::map<std::string, torch::Tensor>&) override {}
  void save(const train::Checkpoint&) override {}
  std::string latest_path() const override { return ""; }
};
struct Images : torch::data::datasets::Dataset<Images> {
  explicit Images(int64_t) {}
  torch::data::Example<> get(size_t) override { return {}; }
  std::optional<size_t> size() const override { return 0; }
};
// These names are not parameters of a function, because a class in an example uses them.
extern torch::Tensor images;
extern torch::nn::Linear net;
double validation_loss();
torch::data::Example<> example_of(const std::string& line);
"""

EMPTY_COMMENT = re.compile(r" *///$")
EXAMPLE_LINE = re.compile(r" */// {5}( *\S.*)")
FENCE = re.compile(r"^```cpp[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_BLOCK = re.compile(r"^@code\{\.cpp\}\n(.*?)^@endcode$", re.MULTILINE | re.DOTALL)


class Example:
    def __init__(self, file, line, code):
        self.file, self.line, self.code = file, line, code  # the path relative to the root


def examples_of_header(text, file):
    """Returns the indented examples in doc comments, as docs/api/rewrite_header.py finds them."""
    lines = text.splitlines()
    found = []
    number = 0
    while number < len(lines):
        number += 1
        if not EMPTY_COMMENT.match(lines[number - 1]):
            continue
        first, code = number + 1, []
        while number < len(lines) and (match := EXAMPLE_LINE.match(lines[number]) or EMPTY_COMMENT.match(lines[number])):
            code.append(match[1] if match.re is EXAMPLE_LINE else "")
            number += 1
        if any(code):
            found.append(Example(file, first, "\n".join(code)))
        elif code:
            number -= len(code)
            number += 1
    return found


def examples_of_page(text, file, pattern=FENCE):
    return [Example(file, text.count("\n", 0, match.start(1)) + 1, match[1]) for match in pattern.finditer(text)]


def examples_of_features(text, file):
    """Returns the code in the column "in attend" of each table, except code that is only a name."""
    found, has_column = [], False
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if not line.startswith("|"):
            has_column = False
        elif len(cells) > 1 and cells[1] == "in attend":
            has_column = True
        elif has_column:
            found += [Example(file, number, code) for code in re.findall(r"`([^`]+)`", cells[1])
                      if not re.fullmatch(r"\w+", code)]
    return found


def wrapped(example, number):
    """Returns C++ code that contains the example. #line sets the example's file name and line numbers."""
    place = f'#line {example.line} "{example.file}"\n'
    code = re.sub(r"^#include .*", "", example.code, flags=re.MULTILINE)  # INCLUDES contains them
    is_header = example.file.startswith("include/")
    if not is_header and re.search(r"^int main\(", code, re.MULTILINE):
        return f"namespace example_{number} {{\n{place}{code}\n}}\n"
    names = {**NAMES, **NAMES_IN.get(example.file.removeprefix("include/"), {})}
    parameters = ", ".join(f"{kind} {name}" for name, kind in names.items() if re.search(rf"(?<![\w.>:]){name}\b", code))
    # The function is a member of a module, because some examples use *this. The inner braces allow
    # an example to declare a variable that has the name of a parameter.
    function = (f"struct Example{number} : torch::nn::Module {{\nvoid example({parameters}) {{ {{\n{place}{code}\n"
                f";}} }}\n}};\n")
    if not is_header:
        return f"namespace outside {{\nusing namespace attend;\n{function}}}\n"
    namespace = "attend::train" if "include/attend/train/" in example.file else "attend"
    return f"namespace {namespace} {{\n{function}}}\n"


def translation_unit(examples):
    includes = "".join(f"#include <{name}>\n" for name in INCLUDES)
    return (f"{includes}namespace attend {{{DECLARATIONS}}}\n"
            + "".join(wrapped(example, number) for number, example in enumerate(examples)))


def compiler_errors(examples):
    """Compiles the examples as attend_tests is compiled; returns the compiler's messages."""
    build = pathlib.Path(os.environ["ATTEND_BUILD"]).resolve()
    commands = json.loads((build / "compile_commands.json").read_text())
    flags = next(shlex.split(entry["command"]) for entry in commands
                 if "/tests/CMakeFiles/attend_tests.dir/" in entry["file"]
                 and "cmake_pch" in entry["command"])
    for option in ("-o", "-c"):
        at = flags.index(option)
        del flags[at:at + 2]
    result = subprocess.run([*flags, "-w", "-fsyntax-only", "-fmax-errors=50", "-x", "c++", "-"], cwd=build,
                            input=translation_unit(examples), capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def all_examples():
    found = []
    for header in sorted((ROOT / "include").rglob("*.h")):
        found += examples_of_header(header.read_text(encoding="utf-8"), header.relative_to(ROOT).as_posix())
    for page in [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]:
        found += examples_of_page(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())
    overview, features = "docs/api/overview.dox", "docs/features.md"
    found += examples_of_page((ROOT / overview).read_text(encoding="utf-8"), overview, CODE_BLOCK)
    return found + examples_of_features((ROOT / features).read_text(encoding="utf-8"), features)


class ThisProject(unittest.TestCase):
    def test_examples_compile(self):
        examples = all_examples()
        self.assertGreater(len(examples), 250)
        if errors := compiler_errors(examples):
            self.fail(f"examples do not compile; NAMES lists the names that they may use without a declaration:\n{errors}")


class SelfTest(unittest.TestCase):
    """Shows that the check can fail."""

    def test_reports_file_and_line_of_errors(self):
        header = "/// A.\n///\n///     auto y = block(x);\n///     y.no_such_function();\nvoid f();\n"
        page = "Text.\n\n```cpp\n#include <x.h>\nint main() {\n  undeclared();\n}\n```\n"
        features = "| feature | in attend |\n|---|---|\n| a | `ResidualOptions().no_such_option(1)`, `Name` |\n"
        examples = (examples_of_header(header, "include/attend/a.h") + examples_of_page(page, "a.md")
                    + examples_of_features(features, "features.md"))
        self.assertEqual([example.line for example in examples], [3, 4, 3])
        errors = compiler_errors(examples)
        self.assertRegex(errors, r"include/attend/a\.h:4:\d+: error: .*no_such_function")
        self.assertRegex(errors, r"a\.md:6:\d+: error: .*undeclared")
        self.assertRegex(errors, r"features\.md:3:\d+: error: .*no_such_option")

    def test_finds_all_examples_of_a_header(self):
        text = "///\n///     f(1);\n///\n///     f(2);\n/// Text.\n///\n/// Text.\n  ///\n  ///     {\n  ///       g();\n  ///     }\n"
        found = [(example.line, example.code) for example in examples_of_header(text, "a.h")]
        self.assertEqual(found, [(2, "f(1);\n\nf(2);"), (9, "{\n  g();\n}")])


if __name__ == "__main__":
    unittest.main()
