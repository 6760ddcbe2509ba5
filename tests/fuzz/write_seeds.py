"""Writes the seeds and the dictionary of each fuzz target, from files of the tests and of the project.

  write_seeds.py BUILD_DIR   writes BUILD_DIR/fuzz/NAME/seeds/ and, for a format with words,
                             BUILD_DIR/fuzz/NAME/dictionary

Run by scripts/fuzz with a Python that has torch, which writes the archives.
"""

import io
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zipfile

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The sources whose string literals are the dictionary of a target: most of them are words of the format.
WORDS = {
    "adapter_config": ["src/pretrained/adapter_config.cpp"],
    "chat_template": ["src/tokenizers/jinja/*.cpp", "src/tokenizers/jinja/*.h"],
    "config_json": [f"src/pretrained/{name}.cpp" for name in ("architecture", "bert", "gpt2", "gpt_neox", "llama",
                                                              "published_config", "t5")],
    "pickle": ["src/export/torchscript_contents.cpp"],
    "pt2_program": ["src/pt2/*.cpp"],
    "recipe": ["src/train/recipe*.cpp"],
    "safetensors": ["src/io/safetensors_header.cpp", "src/io/dtypes.h"],
    "table": [],
    "tokenizer_json": ["src/tokenizers/*.cpp"],
    "zip_archive": [],
}
LITERAL = re.compile(r'(?<!#include )"([A-Za-z0-9_.#<>%{}|() -]{2,40})"')
ALL_LLAMAS = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma2", "phi3")


class Model(torch.nn.Module):
    """A model with parameters, buffers and operators of several kinds of arguments."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor([0.5]), persistent=False)

    def forward(self, x):
        y = self.layer(x) * self.scale
        y = torch.cond(y.sum() > 0, lambda t: t + 1, lambda t: t - 1, (y,))
        halves = torch.cat([y, y.to(torch.float64).to(x.dtype)], dim=1)
        return {"y": torch.nn.functional.pad(halves, (0, 1), value=-1.0), "last": [halves[:, -1]]}


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)])
        self.sizes = [1, 300, 70000, 2**40]
        self.name = "a name"
        self.eps = 1e-5
        self.register_buffer("steps", torch.zeros(2, dtype=torch.long))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * self.eps + self.steps + len(self.name) + self.sizes[0]


def exported():
    """Returns a .pt2 archive."""
    model = Model().eval()
    batch = torch.export.Dim("batch", min=1, max=9)
    program = torch.export.export(model, (torch.ones(2, 3, 4),), dynamic_shapes=({0: batch},))
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def scripted():
    """Returns a TorchScript archive."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Scripted()), file)
    return file.getvalue()


def zipped(contents, compression):
    """Returns an archive with the layout of PyTorch: all entries are in one folder."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr("model/" + name, content)
    return file.getvalue()


def entries(archive, pattern):
    """Returns the contents of the entries of an archive whose names match."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return [file.read(name) for name in file.namelist() if re.search(pattern, name)]


def without_metadata(program):
    """Returns the JSON of a program without stack traces, which are most of its bytes and which no reader reads."""
    program = json.loads(program)
    for node in program.get("graph_module", {"graph": {"nodes": []}})["graph"]["nodes"]:
        node["metadata"] = {}
    return json.dumps(program).encode()


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def configs(words):
    """Returns small configs. Null counts as a missing key, so that a mutation may give each key another value."""
    sizes = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
             "num_attention_heads": 2, "max_position_embeddings": 16}
    nulls = {word: None for word in words if re.fullmatch("[a-z_0-9]+", word)}
    for name in (*ALL_LLAMAS, "bert", "roberta", "distilbert", "gpt_neox"):
        yield {"model_type": name, **sizes}
        yield {**nulls, "model_type": name, **sizes}
    yield {**nulls, "model_type": "bert", "architectures": ["BertForSequenceClassification"],
           "id2label": {"0": "a", "1": "b"}, **sizes}
    yield {**nulls, "model_type": "gpt2", "vocab_size": 20, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}
    yield {**nulls, "model_type": "t5", "vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2,
           "num_heads": 2}


ADAPTERS = [
    {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "down_proj"], "bias": "none",
     "modules_to_save": ["score"], "use_rslora": True, "task_type": "SEQ_CLS", "base_model_name_or_path": "base"},
    {"peft_type": "LORA", "r": 8, "lora_dropout": 0.1, "target_modules": ".*(q_proj|down_proj)|lm_head",
     "rank_pattern": {r"layers\.0\..*": 2}, "alpha_pattern": {"(lm_)?head": 5.0}, "init_lora_weights": "gaussian"},
    {"peft_type": "LORA", "r": 8, "target_modules": "all-linear", "fan_in_fan_out": True},
]
TABLES = ["text,label\ngood one,pos\n\"so \"\"bad\"\"\nlines\",neg\n", "label;text\r\npos;a\r\n;b\r\n",
          "text\tlabel\na\tb\n", '{"text": "a", "label": ["x", "y"]}\n{"label": 1.5, "text": "b"}\n',
          "\ufefftext,label\na,b\n"]
HEADERS = [
    ({"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
      "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]}}, 10),
    ({"__metadata__": {"format": "pt"}, "a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]},
      "e": {"dtype": "I64", "shape": [0, 3], "data_offsets": [2, 2]}}, 2),
]


def seeds(words):
    """Returns {target: contents of its seeds}."""
    return {
        "adapter_config": [json.dumps(config).encode() for config in ADAPTERS],
        "chat_template": [path.read_bytes() for path in ROOT.glob("tests/tokenizers/chat_templates/*.jinja")],
        "config_json": [json.dumps(config).encode() for config in configs(words["config_json"])],
        "pickle": entries(scripted(), r"\.pkl$"),
        "pt2_program": [without_metadata(text) for text in entries(exported(), r"\.json$")],
        "recipe": [path.read_bytes() for path in ROOT.glob("models/*.toml")],
        "safetensors": [safetensors(header, size) for header, size in HEADERS],
        "table": [table.encode() for table in TABLES],
        "tokenizer_json": [],  # write_tokenizers
        "zip_archive": [zipped({"data.pkl": "abc", "code/a.py": "pass\n" * 20, "version": ""}, compression)
                        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)],
    }


def main(build):
    words = {name: sorted({word for pattern in patterns for path in ROOT.glob(pattern)
                           for word in LITERAL.findall(path.read_text(encoding="utf-8"))})
             for name, patterns in WORDS.items()}
    for name, contents in seeds(words).items():
        folder = build / "fuzz" / name
        shutil.rmtree(folder / "seeds", ignore_errors=True)
        (folder / "seeds").mkdir(parents=True)
        for number, content in enumerate(contents):
            (folder / "seeds" / str(number)).write_bytes(content)
        if words[name]:  # libFuzzer refuses an empty file
            (folder / "dictionary").write_text("".join(f'"{word}"\n' for word in words[name]), encoding="utf-8")
    subprocess.run([build / "bin/write_tokenizers", build / "fuzz/tokenizer_json/seeds"], check=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
