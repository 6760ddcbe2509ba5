"""Small Hugging Face transformers models with random sizes and weights. From the recipe and the
weights of a `Case`, attend builds the same model.

Each function of `ARCHITECTURES` takes a `random.Random` and returns a `Case`. The weights are drawn with
torch's global generator: seed it before the call.
"""

import dataclasses
import math

import torch
import transformers

MAX_SEQ_LEN = 64


@dataclasses.dataclass
class Case:
    kind: str  # kind of the model, as in a recipe
    recipe: dict  # the table "model" of the recipe
    model: transformers.PreTrainedModel
    weights: dict  # state dict of the model in attend


def randomize(model):
    """Gives every parameter random values: a bias of 0 or a norm weight of 1 would hide errors."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() < 2:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.normal_(0.0, 1.2 / math.sqrt(parameter.size(-1)))
    if model._can_set_experts_implementation():
        # Other implementations of the experts need sizes that are multiples of 16 bytes.
        model.set_experts_implementation("eager")
    model.set_attn_implementation("eager")
    return model.eval()


def sizes(rng):
    """Draws the sizes that all architectures have; embed_dim is num_heads * head_dim."""
    num_heads = rng.choice([2, 4])
    head_dim = 2 * rng.randint(3, 8)
    return {"num_layers": rng.randint(2, 4), "num_heads": num_heads, "embed_dim": num_heads * head_dim,
            "dim_feedforward": rng.randint(10, 60), "norm_eps": rng.choice([1e-6, 1e-5, 1e-3]),
            "max_seq_len": MAX_SEQ_LEN, "initialization": "bloem"}


def grouped_query_sizes(rng):
    """As `sizes`, with num_kv_heads and a head_dim that may differ from embed_dim / num_heads."""
    common = sizes(rng)
    head_dim = rng.choice([common["embed_dim"] // common["num_heads"], 6, 10, 16])
    return common | {"num_kv_heads": rng.choice([1, 2, common["num_heads"]]), "head_dim": head_dim}


def hf_sizes(recipe):
    """Arguments of the Hugging Face configs of Llama and similar models."""
    return {"hidden_size": recipe["embed_dim"], "num_hidden_layers": recipe["num_layers"],
            "num_attention_heads": recipe["num_heads"], "intermediate_size": recipe["dim_feedforward"],
            "max_position_embeddings": MAX_SEQ_LEN, "tie_word_embeddings": recipe["tie_embeddings"],
            "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}


class Weights:
    """Copies the weights of a Hugging Face model (`theirs`) to attend's names (`ours`)."""

    def __init__(self, model):
        self.theirs = model.state_dict()
        self.ours = {}

    def copy(self, ours, theirs):
        """Copies a weight and, if there is one, a bias. `theirs` may be a list: the rows are concatenated."""
        names = [theirs] if isinstance(theirs, str) else theirs
        for part in ("weight", "bias"):
            if f"{names[0]}.{part}" in self.theirs:
                self.ours[f"{ours}.{part}"] = torch.cat([self.theirs[f"{name}.{part}"] for name in names])

    def set(self, ours, tensor):
        self.ours[ours] = tensor.contiguous()


def gpt2_weights(model, num_layers):
    """Returns the weights of a GPT2LMHeadModel with attend's names."""
    weights = Weights(model)
    weights.copy("embedding.token", "transformer.wte")
    weights.copy("embedding.position", "transformer.wpe")
    for i in range(num_layers):
        ours, theirs = f"decoder.blocks.{i}", f"transformer.h.{i}"
        weights.copy(f"{ours}.norm1", f"{theirs}.ln_1")
        weights.copy(f"{ours}.norm2", f"{theirs}.ln_2")
        for name, conv in (("attention.qkv", "attn.c_attn"), ("attention.out", "attn.c_proj"),
                           ("feed_forward.up", "mlp.c_fc"), ("feed_forward.down", "mlp.c_proj")):
            # Conv1D stores (in, out).
            weights.set(f"{ours}.{name}.weight", weights.theirs[f"{theirs}.{conv}.weight"].t())
            weights.set(f"{ours}.{name}.bias", weights.theirs[f"{theirs}.{conv}.bias"])
    weights.copy("decoder.norm", "transformer.ln_f")
    return weights.ours


def gpt2(rng):
    recipe = sizes(rng) | {"positions": "learned", "activation": "gelu_tanh", "tie_embeddings": True}
    vocab_size = rng.randint(40, 200)
    model = randomize(transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=vocab_size, n_positions=MAX_SEQ_LEN, n_embd=recipe["embed_dim"], n_layer=recipe["num_layers"],
        n_head=recipe["num_heads"], n_inner=recipe["dim_feedforward"],
        layer_norm_epsilon=recipe["norm_eps"], bos_token_id=None, eos_token_id=None, pad_token_id=0)))
    return Case("language_model", recipe, model, gpt2_weights(model, recipe["num_layers"]))


def llama_weights(model, recipe, norms=("input_layernorm", "post_attention_layernorm"), unit_offset=False):
    """Returns the weights of Llama or a similar model with attend's names. `norms`: Hugging Face's names of
    norm1, norm2 and, with sandwich norms, norm1_out and norm2_out. `unit_offset`: norms multiply by
    1 + weight."""
    weights = Weights(model)
    weights.copy("embedding.token", "model.embed_tokens")
    for i in range(recipe["num_layers"]):
        ours, theirs = f"decoder.blocks.{i}", f"model.layers.{i}"
        for name, norm in zip(("norm1", "norm2", "norm1_out", "norm2_out"), norms):
            weights.copy(f"{ours}.{name}", f"{theirs}.{norm}")
        weights.copy(f"{ours}.attention.qkv", [f"{theirs}.self_attn.{x}_proj" for x in "qkv"])
        weights.copy(f"{ours}.attention.out", f"{theirs}.self_attn.o_proj")
        weights.copy(f"{ours}.attention.qk_norm.query", f"{theirs}.self_attn.q_norm")
        weights.copy(f"{ours}.attention.qk_norm.key", f"{theirs}.self_attn.k_norm")
        weights.copy(f"{ours}.feed_forward.up", [f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj"])
        weights.copy(f"{ours}.feed_forward.down", f"{theirs}.mlp.down_proj")
        if "num_experts" in recipe:
            weights.copy(f"{ours}.feed_forward.router", f"{theirs}.mlp.gate")
            for j in range(recipe["num_experts"]):
                expert = f"{ours}.feed_forward.experts.{j}"
                weights.set(f"{expert}.up.weight", weights.theirs[f"{theirs}.mlp.experts.gate_up_proj"][j])
                weights.set(f"{expert}.down.weight", weights.theirs[f"{theirs}.mlp.experts.down_proj"][j])
    weights.copy("decoder.norm", "model.norm")
    if unit_offset:
        for name in weights.ours:
            if "norm" in name:
                weights.ours[name] = 1.0 + weights.ours[name]
    if not recipe["tie_embeddings"]:
        weights.copy("head", "lm_head")
    return weights.ours


def llama_recipe(rng):
    """Draws the recipe values that Llama and similar models share."""
    return grouped_query_sizes(rng) | {
        "bias": False, "norm": "rms", "activation": "swiglu", "positions": "rotary",
        "rotary_theta": rng.choice([1e4, 5e5]), "tie_embeddings": rng.random() < 0.5}


def rope(recipe):
    return {"rope_type": "default", "rope_theta": recipe["rotary_theta"]}


def llama3(rng):
    recipe = llama_recipe(rng) | {
        "rotary_scaling": "llama3", "rotary_factor": rng.choice([2.0, 8.0]),
        "rotary_original_max_seq_len": rng.choice([32, 128]),
        "rotary_low_freq_factor": rng.choice([0.5, 1.0, 2.0]),
        "rotary_high_freq_factor": rng.choice([3.0, 4.0, 6.0])}
    model = randomize(transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=rng.randint(40, 200), num_key_value_heads=recipe["num_kv_heads"], head_dim=recipe["head_dim"],
        rms_norm_eps=recipe["norm_eps"],
        rope_parameters=rope(recipe) | {
            "rope_type": "llama3", "factor": recipe["rotary_factor"],
            "low_freq_factor": recipe["rotary_low_freq_factor"],
            "high_freq_factor": recipe["rotary_high_freq_factor"],
            "original_max_position_embeddings": recipe["rotary_original_max_seq_len"]},
        **hf_sizes(recipe))))
    return Case("language_model", recipe, model, llama_weights(model, recipe))


def qwen2(rng):
    recipe = llama_recipe(rng) | {"qkv_bias": True}
    del recipe["head_dim"]  # Qwen2's config has no head_dim
    model = randomize(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        vocab_size=rng.randint(40, 200), num_key_value_heads=recipe["num_kv_heads"],
        rms_norm_eps=recipe["norm_eps"], rope_parameters=rope(recipe), **hf_sizes(recipe))))
    return Case("language_model", recipe, model, llama_weights(model, recipe))


def qwen3(rng):
    recipe = llama_recipe(rng) | {"qk_norm": "rms"}
    model = randomize(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=rng.randint(40, 200), num_key_value_heads=recipe["num_kv_heads"], head_dim=recipe["head_dim"],
        rms_norm_eps=recipe["norm_eps"], rope_parameters=rope(recipe), **hf_sizes(recipe))))
    return Case("language_model", recipe, model, llama_weights(model, recipe))


def mistral(rng):
    recipe = llama_recipe(rng) | {"sliding_window": rng.randint(3, 12)}
    model = randomize(transformers.MistralForCausalLM(transformers.MistralConfig(
        vocab_size=rng.randint(40, 200), num_key_value_heads=recipe["num_kv_heads"], head_dim=recipe["head_dim"],
        rms_norm_eps=recipe["norm_eps"], rope_parameters=rope(recipe),
        sliding_window=recipe["sliding_window"], **hf_sizes(recipe))))
    return Case("language_model", recipe, model, llama_weights(model, recipe))


def mixtral(rng):
    recipe = llama_recipe(rng) | {"num_experts": rng.randint(3, 6), "num_experts_per_tok": rng.randint(1, 3)}
    model = randomize(transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=rng.randint(40, 200), num_key_value_heads=recipe["num_kv_heads"], head_dim=recipe["head_dim"],
        rms_norm_eps=recipe["norm_eps"], rope_parameters=rope(recipe), sliding_window=None,
        num_local_experts=recipe["num_experts"], num_experts_per_tok=recipe["num_experts_per_tok"],
        **hf_sizes(recipe))))
    return Case("language_model", recipe, model, llama_weights(model, recipe))


def gpt_neox(rng):
    recipe = sizes(rng) | {"positions": "rotary", "rotary_theta": rng.choice([1e4, 5e5]), "activation": "gelu",
                           "norm_order": "parallel_separate_norms", "tie_embeddings": False}
    num_heads = recipe["num_heads"]
    head_dim = recipe["embed_dim"] // num_heads
    recipe["rotary_dim"] = 2 * rng.randint(1, head_dim // 2)
    model = randomize(transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=rng.randint(40, 200), layer_norm_eps=recipe["norm_eps"],
        rope_parameters=rope(recipe) | {"partial_rotary_factor": recipe["rotary_dim"] / head_dim},
        use_parallel_residual=True, hidden_act="gelu", **hf_sizes(recipe))))
    weights = Weights(model)
    weights.copy("embedding.token", "gpt_neox.embed_in")
    for i in range(recipe["num_layers"]):
        ours, theirs = f"decoder.blocks.{i}", f"gpt_neox.layers.{i}"
        weights.copy(f"{ours}.norm1", f"{theirs}.input_layernorm")
        weights.copy(f"{ours}.norm2", f"{theirs}.post_attention_layernorm")
        for part in ("weight", "bias"):  # rows (H, 3, D), in attend (3, H, D)
            rows = weights.theirs[f"{theirs}.attention.query_key_value.{part}"].unflatten(0, (num_heads, 3, -1))
            weights.set(f"{ours}.attention.qkv.{part}", rows.transpose(0, 1).flatten(0, 2))
        weights.copy(f"{ours}.attention.out", f"{theirs}.attention.dense")
        weights.copy(f"{ours}.feed_forward.up", f"{theirs}.mlp.dense_h_to_4h")
        weights.copy(f"{ours}.feed_forward.down", f"{theirs}.mlp.dense_4h_to_h")
    weights.copy("decoder.norm", "gpt_neox.final_layer_norm")
    weights.copy("head", "embed_out" if "embed_out.weight" in weights.theirs else "lm_head")
    return Case("language_model", recipe, model, weights.ours)


def gemma2(rng):
    window = rng.randint(3, 12)
    query_pre_attn_scalar = rng.randint(4, 40)
    recipe = llama_recipe(rng) | {
        "activation": "geglu_tanh", "norm_order": "sandwich", "tie_embeddings": True,
        "sliding_window_pattern": [window, 0], "soft_cap": rng.choice([2.0, 50.0]),
        "final_logit_soft_cap": rng.choice([3.0, 30.0]), "attention_scale": query_pre_attn_scalar**-0.5}
    recipe["embedding_scale"] = math.sqrt(recipe["embed_dim"])
    model = randomize(transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        vocab_size=rng.randint(40, 200), num_key_value_heads=recipe["num_kv_heads"], head_dim=recipe["head_dim"],
        rms_norm_eps=recipe["norm_eps"], rope_parameters=rope(recipe), sliding_window=window,
        query_pre_attn_scalar=query_pre_attn_scalar, attn_logit_softcapping=recipe["soft_cap"],
        final_logit_softcapping=recipe["final_logit_soft_cap"], **hf_sizes(recipe))))
    norms = ("input_layernorm", "pre_feedforward_layernorm", "post_attention_layernorm",
             "post_feedforward_layernorm")
    return Case("language_model", recipe, model, llama_weights(model, recipe, norms, unit_offset=True))


def bert(rng):
    recipe = sizes(rng) | {
        "positions": "learned", "activation": "gelu", "norm_order": "post", "final_norm": False,
        "embedding_norm": True, "type_vocab_size": rng.randint(1, 3), "pooling": "first", "pooler": True}
    model = randomize(transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=rng.randint(40, 200), hidden_size=recipe["embed_dim"], num_hidden_layers=recipe["num_layers"],
        num_attention_heads=recipe["num_heads"], intermediate_size=recipe["dim_feedforward"],
        max_position_embeddings=MAX_SEQ_LEN, type_vocab_size=recipe["type_vocab_size"],
        layer_norm_eps=recipe["norm_eps"], num_labels=rng.randint(2, 5))))
    weights = Weights(model)
    weights.copy("embedding.token", "bert.embeddings.word_embeddings")
    weights.copy("embedding.position", "bert.embeddings.position_embeddings")
    weights.copy("embedding.token_type", "bert.embeddings.token_type_embeddings")
    weights.copy("embedding.norm", "bert.embeddings.LayerNorm")
    for i in range(recipe["num_layers"]):
        ours, theirs = f"encoder.blocks.{i}", f"bert.encoder.layer.{i}"
        weights.copy(f"{ours}.attention.qkv",
                     [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")])
        weights.copy(f"{ours}.attention.out", f"{theirs}.attention.output.dense")
        weights.copy(f"{ours}.norm1", f"{theirs}.attention.output.LayerNorm")
        weights.copy(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense")
        weights.copy(f"{ours}.feed_forward.down", f"{theirs}.output.dense")
        weights.copy(f"{ours}.norm2", f"{theirs}.output.LayerNorm")
    weights.copy("pooler", "bert.pooler.dense")
    weights.copy("head", "classifier")
    return Case("sequence_classifier", recipe, model, weights.ours)


def t5_like(rng, activation, theirs_activation, tie_embeddings):
    common = sizes(rng)
    recipe = common | {
        "num_decoder_layers": rng.randint(1, 3), "head_dim": rng.choice([4, 7, 12]), "positions": "relative",
        "relative_attention_num_buckets": 2 * rng.randint(3, 16),
        "relative_attention_max_distance": rng.randint(17, 60), "relative_attention_shared": True,
        "attention_scale": 1.0, "bias": False, "norm": "rms", "activation": activation,
        "tie_embeddings": tie_embeddings}
    if tie_embeddings:
        recipe["logit_scale"] = recipe["embed_dim"]**-0.5
    model = randomize(transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=rng.randint(40, 200), d_model=recipe["embed_dim"], d_kv=recipe["head_dim"],
        d_ff=recipe["dim_feedforward"], num_layers=recipe["num_layers"],
        num_decoder_layers=recipe["num_decoder_layers"], num_heads=recipe["num_heads"],
        relative_attention_num_buckets=recipe["relative_attention_num_buckets"],
        relative_attention_max_distance=recipe["relative_attention_max_distance"],
        layer_norm_epsilon=recipe["norm_eps"], feed_forward_proj=theirs_activation,
        tie_word_embeddings=tie_embeddings, pad_token_id=0, eos_token_id=None, decoder_start_token_id=0)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".q.weight"):  # T5 does not scale the scores: keeps them small
                parameter.mul_(recipe["head_dim"]**-0.5)
    weights = Weights(model)
    weights.copy("source_embedding.token", "shared")
    weights.copy("target_embedding.token", "shared")
    for stack, layers in (("encoder", recipe["num_layers"]), ("decoder", recipe["num_decoder_layers"])):
        for i in range(layers):
            ours, theirs = f"transformer.{stack}.blocks.{i}", f"{stack}.block.{i}.layer"
            last = 2 if stack == "decoder" else 1

            def attention(name, module, norm, layer):
                weights.copy(f"{ours}.{name}.qkv", [f"{theirs}.{layer}.{module}.{x}" for x in "qkv"])
                weights.copy(f"{ours}.{name}.out", f"{theirs}.{layer}.{module}.o")
                weights.copy(f"{ours}.{norm}", f"{theirs}.{layer}.layer_norm")

            attention("attention", "SelfAttention", "norm1", 0)
            weights.copy(f"{ours}.attention.relative_bias.bias",
                         f"{theirs}.0.SelfAttention.relative_attention_bias")
            if stack == "decoder":
                attention("cross_attention", "EncDecAttention", "norm_cross", 1)
            dense = f"{theirs}.{last}.DenseReluDense"
            gated = f"{dense}.wi_0.weight" in weights.theirs
            weights.copy(f"{ours}.feed_forward.up", [f"{dense}.wi_0", f"{dense}.wi_1"] if gated else f"{dense}.wi")
            weights.copy(f"{ours}.feed_forward.down", f"{dense}.wo")
            weights.copy(f"{ours}.norm2", f"{theirs}.{last}.layer_norm")
        weights.copy(f"transformer.{stack}.norm", f"{stack}.final_layer_norm")
    if not tie_embeddings:
        weights.copy("head", "lm_head")
    return Case("seq2seq", recipe, model, weights.ours)


def t5(rng):
    return t5_like(rng, "relu", "relu", tie_embeddings=True)


def t5_v1_1(rng):
    return t5_like(rng, "geglu_tanh", "gated-gelu", tie_embeddings=False)


ARCHITECTURES = [gpt2, llama3, qwen2, qwen3, mistral, mixtral, gpt_neox, gemma2, bert, t5, t5_v1_1]
