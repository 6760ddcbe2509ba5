"""Compares adapters with the Python package PEFT: outputs of adapters that PEFT has written and this library reads, and
the reverse; merged folders; and the losses of 20 training steps.

Run by CTest with ATTEND_TESTS set to the path of attend_tests. If Python has no PEFT, it exits with status 77, which
CTest reports as skipped. ATTEND_TEST_SEED repeats a run, and `peft_test.py Peft.test_gpt2` runs one architecture.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import peft
    import tokenizers
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}; scripts/test installs peft into .venv")
    sys.exit(77)

from architectures import MAX_SEQ_LEN, as_formula, encoder_sizes, gemma2, gpt2, gpt_neox, llama3, phi3, qwen2, randomize
from architectures import t5, t5_v1_1
from transformers_test import SEED, inputs_of, outputs_of

CASES = int(os.environ.get("ATTEND_PEFT_MODELS", "3"))  # per architecture
STEPS = 20


def bert_classifier(rng):
    return transformers.BertForSequenceClassification(transformers.BertConfig(**encoder_sizes(rng)))


def roberta_classifier(rng):
    common = encoder_sizes(rng) | {"pad_token_id": 1, "max_position_embeddings": MAX_SEQ_LEN + 2}
    return transformers.RobertaForSequenceClassification(transformers.RobertaConfig(**common))


def tied_llama(rng):
    config = llama3(rng).config
    config.tie_word_embeddings = True
    return transformers.LlamaForCausalLM(config)


def tied_gpt2(rng):
    return gpt2(rng)


# The linear layers that adapters may have, as names in `target_modules`.
TARGETS = {
    tied_llama: ["lm_head", "q_proj", "down_proj"],
    tied_gpt2: ["lm_head", "c_attn"],
    gpt2: ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"],
    gpt_neox: ["query_key_value", "attention.dense", "dense_h_to_4h", "dense_4h_to_h"],
    phi3: ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
    bert_classifier: ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"],
    roberta_classifier: ["query", "key", "value", "attention.output.dense", "intermediate.dense"],
    t5: ["q", "k", "v", "o", "wi", "wo"],
    t5_v1_1: ["q", "k", "v", "o", "wi_0", "wi_1", "wo"],
}
for _llama in (llama3, qwen2, gemma2):
    TARGETS[_llama] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


TIED = (tied_llama, tied_gpt2)  # models whose head is the embedding, and is adapted


def draw_targets(rng, architecture, least=1):
    names = TARGETS[architecture]
    chosen = rng.sample(names, rng.randint(least, len(names)))
    return chosen if architecture not in TIED or "lm_head" in chosen else [*chosen, "lm_head"]


def linear_names(model):
    return [name for name, module in model.named_modules()
            if isinstance(module, (torch.nn.Linear, transformers.pytorch_utils.Conv1D)) and ".relative" not in name]


def draw_config(rng, architecture, model):
    """A random LoraConfig: targets as a list, a regular expression, whole names or all-linear; patterns of ranks."""
    names = TARGETS[architecture]
    chosen = draw_targets(rng, architecture)
    escaped = "|".join(re.escape(name) for name in chosen)
    whole = [name for name in linear_names(model) if any(("." + name).endswith("." + each) for each in chosen)]
    targets = rng.choice([chosen, rf"(.*\.)?({escaped})", rng.sample(whole, rng.randint(1, len(whole))), "all-linear"])
    patterns = [rng.choice(names), rf".*\.1\..*\.({re.escape(rng.choice(names))})", "^" + rng.choice(whole)]
    is_classifier = architecture in (bert_classifier, roberta_classifier)
    return peft.LoraConfig(
        r=rng.randint(1, 8), lora_alpha=rng.choice([1, 4, 16, 2.5]), lora_dropout=rng.choice([0.0, 0.1]),
        use_rslora=rng.random() < 0.5, target_modules=targets,
        rank_pattern={rng.choice(patterns): rng.randint(1, 6)} if rng.random() < 0.5 else {},
        alpha_pattern={rng.choice(patterns): rng.choice([3, 5])} if rng.random() < 0.5 else {},
        task_type="SEQ_CLS" if is_classifier else rng.choice([None, "CAUSAL_LM"]) if model.can_generate() else None)


def randomize_adapter(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                parameter.normal_(0.0, 0.3)


def write_base(folder, model):
    model.save_pretrained(folder)
    vocabulary = {f"w{i}": i for i in range(model.config.vocab_size)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.save(str(folder / "tokenizer.json"))


def write_case(folder, architecture, rng):
    model = randomize(architecture(rng))
    write_base(folder / "base", model)
    model.name_or_path = str(folder / "base")
    if architecture in (bert_classifier, roberta_classifier) and rng.random() < 0.5:
        write_base(folder / "encoder", model.base_model)  # a base without the head
        model.name_or_path = str(folder / "encoder")
    adapted = peft.get_peft_model(model, draw_config(rng, architecture, model))
    randomize_adapter(adapted)
    adapted.eval()
    tokens = torch.randint(2, model.config.vocab_size, (rng.randint(2, 3), rng.randint(5, MAX_SEQ_LEN)))
    tensors = inputs_of(model, rng, tokens)
    with torch.no_grad():
        tensors |= outputs_of(model, tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "expected.safetensors")
    adapted.save_pretrained(folder / "adapter")
    own = {"rank": rng.randint(1, 5), "alpha": rng.choice([1.0, 6.0]), "rslora": rng.random() < 0.5,
           "targets": rng.choice([["qkv"], ["qkv", "out", "feed_forward"], ["query", "value", "down"], ["blocks.1"]])}
    if architecture in (gpt2, gpt_neox, t5, t5_v1_1) and "blocks.1" in own["targets"]:
        own["targets"] = ["key", "up"]
    if architecture in TIED:
        own["targets"] = rng.choice([["head"], ["out", "head"]])
    (folder / "own.json").write_text(json.dumps(own))


def load(folder):
    """The model of a folder, with the class of its config.json."""
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    return as_formula(getattr(transformers, name).from_pretrained(folder))


def write_training(folder, architecture, rng):
    """Trains STEPS steps with PEFT and writes their losses."""
    model = randomize(architecture(rng))
    write_base(folder / "base", model)
    model.name_or_path = str(folder / "base")
    is_classifier = architecture is bert_classifier
    adapted = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=draw_targets(rng, architecture, least=2), use_rslora=rng.random() < 0.5,
        task_type="SEQ_CLS" if is_classifier else "CAUSAL_LM"))
    adapted.save_pretrained(folder / "adapter")  # B is 0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    adapted.train()
    tokens = torch.randint(2, model.config.vocab_size, (STEPS, 4, 12))
    tokens[:] = tokens[0]  # the same batch, so that the loss falls
    labels = torch.randint(model.config.num_labels, (4,)).expand(STEPS, 4).contiguous()
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        loss = model(tokens[step], labels=labels[step] if is_classifier else tokens[step]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    save_file({"tokens": tokens, "labels": labels, "losses": torch.tensor(losses, dtype=torch.float64),
               "trained": torch.tensor(len(trained))}, folder / "batches.safetensors")


class Peft(unittest.TestCase):
    def run_tests(self, name, variable, folder, count):
        result = subprocess.run([os.environ["ATTEND_TESTS"], f"--gtest_filter=Peft.{name}"],
                                env=os.environ | {variable: str(folder)}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout)
        # Fails if a case was silently skipped.
        self.assertEqual(re.findall(r"peft: compared (\d+) models", result.stdout), [str(count)])

    def expect_adapter(self, folder, adapter, expected):
        """Compares PEFT's outputs of an adapter that C++ has written."""
        model = load(folder / "base")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as missing keys
            warnings.simplefilter("ignore", FutureWarning)  # of transformers, about PEFT itself
            warnings.filterwarnings("ignore", ".*tie_word_embeddings.*")
            if any(isinstance(module, transformers.pytorch_utils.Conv1D) for module in model.modules()):
                # The head is a Linear, so PEFT corrects the value for one of both.
                warnings.filterwarnings("ignore", "fan_in_fan_out is set to True")
            peft.PeftModel.from_pretrained(model, folder / adapter)
        tensors = load_file(folder / "expected.safetensors")
        with torch.no_grad():
            for name, output in outputs_of(as_formula(model), tensors).items():
                torch.testing.assert_close(output, expected[name], rtol=1e-4, atol=1e-4)

    def expect_merged(self, folder):
        """Compares the weights with those that PEFT merges."""
        model = load(folder / "base")
        adapts_tied_head = (any("lm_head.lora_A" in name for name in load_file(folder / "adapter/adapter_model.safetensors"))
                            and model.config.tie_word_embeddings)
        if adapts_tied_head:  # PEFT would change the embedding, too
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
            model.config.tie_word_embeddings = False
            self.assertIs(json.loads((folder / "merged/config.json").read_text())["tie_word_embeddings"], False)
            self.assertIn("lm_head.weight", load_file(folder / "merged/model.safetensors"))
        merged = peft.PeftModel.from_pretrained(model, folder / "adapter").merge_and_unload()
        found = load(folder / "merged").state_dict()
        for name, expected in merged.state_dict().items():
            # The first two positions of a RoBERTa belong to no token, and are not written.
            unused = 2 if name == "roberta.embeddings.position_embeddings.weight" else 0
            found[name], expected = found[name][unused:], expected[unused:]
            torch.testing.assert_close(found[name], expected, rtol=1e-5, atol=1e-5, msg=lambda text, at=name: f"{at}: {text}")

    def expect_equal(self, architecture):
        with tempfile.TemporaryDirectory() as directory:
            for i in range(CASES):
                rng = random.Random(f"{SEED} {architecture.__name__} {i}")
                torch.manual_seed(rng.randrange(2**32))
                folder = pathlib.Path(directory, f"{architecture.__name__}_{i}")
                write_case(folder, architecture, rng)
            self.run_tests("AdaptersHaveTheSameOutputs", "ATTEND_PEFT_CASES", directory, CASES)
            for folder in pathlib.Path(directory).iterdir():
                with self.subTest((folder / "adapter/adapter_config.json").read_text() + (folder / "own.json").read_text()):
                    self.expect_adapter(folder, "saved", load_file(folder / "expected.safetensors"))
                    self.expect_adapter(folder, "own", load_file(folder / "own.safetensors"))
                    self.expect_merged(folder)

    def test_losses(self):
        with tempfile.TemporaryDirectory() as directory:
            for architecture in (llama3, bert_classifier, tied_llama):
                rng = random.Random(f"{SEED} losses {architecture.__name__}")
                torch.manual_seed(rng.randrange(2**32))
                write_training(pathlib.Path(directory, architecture.__name__), architecture, rng)
            self.run_tests("TrainingHasTheSameLosses", "ATTEND_PEFT_TRAININGS", directory, 3)


for _architecture in TARGETS:
    setattr(Peft, f"test_{_architecture.__name__}",
            lambda self, architecture=_architecture: self.expect_equal(architecture))

if __name__ == "__main__":
    print(f"peft {peft.__version__}, repeat with ATTEND_TEST_SEED={SEED}", flush=True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
