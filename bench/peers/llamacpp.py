"""Generates tokens greedily with llama.cpp: llamacpp.py FOLDER F32|Q8_0|Q4_0. See contender.py.

The argument is the type of the matrices in the GGUF file. The KV cache is float32, as attend's.
"""

import pathlib
import sys

import gguf
import llama_cpp
import numpy

from contender import FOLDER, ROW, serve, tensors

NAMES = {"embedding.token": "token_embd", "embedding.position": "position_embd", "decoder.norm": "output_norm",
         "decoder.blocks": "blk", "norm1": "attn_norm", "norm2": "ffn_norm", "attention.qkv": "attn_qkv",
         "attention.out": "attn_output", "feed_forward.up": "ffn_up", "feed_forward.down": "ffn_down"}
prompts = ROW["prompts"]


def gguf_name(name):
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def write_model(path, kind):
    """Writes attend's weights as a GPT-2 model without a tokenizer. Only matrices have the type `kind`."""
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(ROW["max_seq_len"])
    writer.add_embedding_length(ROW["width"])
    writer.add_block_count(ROW["layers"])
    writer.add_feed_forward_length(4 * ROW["width"])
    writer.add_head_count(ROW["heads"])
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(ROW["vocab"])
    writer.add_tokenizer_model("no_vocab")
    for name, tensor in tensors("model").items():
        is_matrix = tensor.dim() == 2 and name != "embedding.position.weight"
        stored = kind if is_matrix else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quantize(tensor.numpy(), stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_context(path):
    length = len(prompts[0]) + ROW["new_tokens"]
    options = llama_cpp.llama_context_default_params()
    options.n_seq_max = len(prompts)
    options.n_ctx = len(prompts) * length
    options.n_batch = options.n_ubatch = len(prompts) * len(prompts[0])
    options.n_threads = options.n_threads_batch = ROW["threads"]
    options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    model_options = llama_cpp.llama_model_default_params()
    # On a processor with AMX, products with quantized weights in llama.cpp's format for AMX crashed.
    model_options.use_extra_bufts = "amx_int8" not in pathlib.Path("/proc/cpuinfo").read_text()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), model_options)
    return llama_cpp.llama_init_from_model(model, options)


llama_cpp.llama_backend_init()
write_model(FOLDER / "model.gguf", gguf.GGMLQuantizationType[sys.argv[2]])
context = make_context(FOLDER / "model.gguf")
batch = llama_cpp.llama_batch_init(len(prompts) * len(prompts[0]), 0, 1)


def read(parts, position):
    """Reads the next tokens of all sequences. Returns the logits of their last tokens: (B, V)."""
    i = 0
    for sequence, tokens in enumerate(parts):
        for offset, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = position + offset
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = offset == len(tokens) - 1
            i += 1
    batch.n_tokens = i
    status = llama_cpp.llama_decode(context, batch)
    if status != 0:
        raise RuntimeError(f"llama_decode returned {status}, expected 0")
    return numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(parts), ROW["vocab"]))


def read_prompts():
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), False)
    return read(prompts, 0)


def run():
    logits = read_prompts()
    length = len(prompts[0])
    for position in range(length, length + ROW["new_tokens"] - 1):
        logits = read([[token] for token in logits.argmax(1).tolist()], position)
    return logits.argmax(1)


serve({"outputs": read_prompts()[0, :1000].tolist()}, run)
