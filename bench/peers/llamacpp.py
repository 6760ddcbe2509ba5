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
ARCHITECTURE = ROW.get("architecture", "gpt2")
prompts = ROW["prompts"]


def gguf_name(name):
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def interleaved(weight, heads):
    """Puts the rows of each rotary pair, i and i + D/2 of a head, side by side, as llama.cpp expects them."""
    return weight.view(heads, 2, -1, weight.size(1)).transpose(1, 2).reshape(weight.shape)


def gguf_tensors():
    """Returns attend's weights with the names of llama.cpp. For Llama, joint matrices are split."""
    heads, kv_heads = ROW["heads"], ROW.get("kv_heads", ROW["heads"])
    kv_width = kv_heads * ROW["width"] // heads
    found = {}
    for name, tensor in tensors("model").items():
        name = gguf_name(name)
        if ARCHITECTURE == "llama" and "attn_qkv" in name:
            query, key, value = tensor.split([ROW["width"], kv_width, kv_width])
            found[name.replace("qkv", "q")] = interleaved(query, heads)
            found[name.replace("qkv", "k")] = interleaved(key, kv_heads)
            found[name.replace("qkv", "v")] = value
        elif ARCHITECTURE == "llama" and "ffn_up" in name:
            found[name.replace("up", "gate")], found[name] = tensor.chunk(2)
        else:
            found[name] = tensor
    return found


def write_model(path, kind):
    """Writes attend's weights as a model without a tokenizer. Only matrices have the type `kind`."""
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    writer.add_context_length(ROW["max_seq_len"])
    writer.add_embedding_length(ROW["width"])
    writer.add_block_count(ROW["layers"])
    writer.add_feed_forward_length(ROW.get("feed_forward", 4 * ROW["width"]))
    writer.add_head_count(ROW["heads"])
    if ARCHITECTURE == "llama":
        writer.add_head_count_kv(ROW["kv_heads"])
        writer.add_rope_dimension_count(ROW["width"] // ROW["heads"])
        writer.add_rope_freq_base(10000.0)
        writer.add_layer_norm_rms_eps(1e-5)
    else:
        writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(ROW["vocab"])
    writer.add_tokenizer_model("no_vocab")
    for name, tensor in gguf_tensors().items():
        is_matrix = tensor.dim() == 2 and not name.startswith("position_embd")
        stored = kind if is_matrix else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(tensor.contiguous().numpy(), stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load_model(path):
    options = llama_cpp.llama_model_default_params()
    # On a processor with AMX, products with quantized weights in llama.cpp's format for AMX crashed.
    options.use_extra_bufts = "amx_int8" not in pathlib.Path("/proc/cpuinfo").read_text()
    return llama_cpp.llama_model_load_from_file(str(path).encode(), options)


def make_context(model, flash_attention):
    length = len(prompts[0]) + ROW["new_tokens"]
    options = llama_cpp.llama_context_default_params()
    options.n_seq_max = len(prompts)
    options.n_ctx = len(prompts) * length
    options.n_batch = options.n_ubatch = len(prompts) * len(prompts[0])
    options.n_threads = options.n_threads_batch = ROW["threads"]
    options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
    options.flash_attn_type = flash_attention
    return llama_cpp.llama_init_from_model(model, options)


llama_cpp.llama_backend_init()
write_model(FOLDER / "model.gguf", gguf.GGMLQuantizationType[sys.argv[2]])
model = load_model(FOLDER / "model.gguf")
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


# Flash attention, which llama.cpp chooses by default, rounds to float16. The logits are compared without it.
context = make_context(model, llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED)
outputs = read_prompts()[0, :1000].tolist()
llama_cpp.llama_free(context)
context = make_context(model, llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO)
serve({"outputs": outputs}, run)
