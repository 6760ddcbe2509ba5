"""Small Hugging Face transformers models with random sizes and weights.

Each function of `ARCHITECTURES` takes a `random.Random` and returns a model. The weights are drawn with torch's
global generator: seed it before the call.
"""

import math

import torch
import transformers

MAX_SEQ_LEN = 64


def as_formula(model):
    """Selects the plain implementations of a model, in eval mode."""
    if model._can_set_experts_implementation():
        # Other implementations of the experts need sizes that are multiples of 16 bytes.
        model.set_experts_implementation("eager")
    model.set_attn_implementation("eager")
    return model.eval()


def randomize(model):
    """Gives every parameter random values: a bias of 0 or a norm weight of 1 would hide errors."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() < 2:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.normal_(0.0, 1.2 / math.sqrt(parameter.size(-1)))
    if isinstance(model, transformers.T5ForConditionalGeneration):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith(".q.weight"):  # T5 does not scale the scores: keeps them small
                    parameter.mul_(model.config.d_kv**-0.5)
    return as_formula(model)


def sizes(rng):
    """Draws the sizes of Llama and similar models."""
    num_heads = rng.choice([2, 4])
    return {"vocab_size": rng.randint(40, 200), "num_hidden_layers": rng.randint(2, 4),
            "num_attention_heads": num_heads, "hidden_size": num_heads * 2 * rng.randint(3, 8),
            "intermediate_size": rng.randint(10, 60), "max_position_embeddings": MAX_SEQ_LEN,
            "pad_token_id": 0}


def llama_sizes(rng):
    """As `sizes`, with num_key_value_heads and a head_dim that may differ from hidden_size / num_heads."""
    common = sizes(rng)
    head_dim = rng.choice([common["hidden_size"] // common["num_attention_heads"], 6, 10, 16])
    return common | {"num_key_value_heads": rng.choice([1, 2, common["num_attention_heads"]]),
                     "head_dim": head_dim, "rms_norm_eps": rng.choice([1e-6, 1e-5, 1e-3]),
                     "rope_parameters": {"rope_type": "default", "rope_theta": rng.choice([1e4, 5e5])},
                     "tie_word_embeddings": rng.random() < 0.5, "bos_token_id": None, "eos_token_id": None}


def gpt2(rng):
    common = sizes(rng)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=common["vocab_size"], n_positions=MAX_SEQ_LEN, n_embd=common["hidden_size"],
        n_layer=common["num_hidden_layers"], n_head=common["num_attention_heads"],
        n_inner=rng.choice([None, common["intermediate_size"]]),
        layer_norm_epsilon=rng.choice([1e-6, 1e-5, 1e-3]), activation_function=rng.choice(["gelu_new", "relu"]),
        bos_token_id=None, eos_token_id=None, pad_token_id=0))


def llama3(rng):
    common = llama_sizes(rng)
    common["rope_parameters"] |= rng.choice([
        {"rope_type": "llama3", "factor": rng.choice([2.0, 8.0]),
         "low_freq_factor": rng.choice([0.5, 1.0, 2.0]), "high_freq_factor": rng.choice([3.0, 4.0, 6.0]),
         "original_max_position_embeddings": rng.choice([32, 128])},
        {"rope_type": "yarn", "factor": rng.choice([2.0, 4.0]), "original_max_position_embeddings": 32},
        {"rope_type": "linear", "factor": rng.choice([2.0, 8.0])}])
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**common))


def qwen2(rng):
    common = llama_sizes(rng)
    del common["head_dim"]  # Qwen2's config has no head_dim
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        **common, use_sliding_window=rng.random() < 0.5, sliding_window=rng.randint(3, 12),
        max_window_layers=rng.randint(0, common["num_hidden_layers"])))


def qwen3(rng):
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**llama_sizes(rng)))


def mistral(rng):
    return transformers.MistralForCausalLM(transformers.MistralConfig(
        **llama_sizes(rng), sliding_window=rng.choice([None, rng.randint(3, 12)])))


def mixtral(rng):
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        **llama_sizes(rng), sliding_window=None, num_local_experts=rng.randint(3, 6),
        num_experts_per_tok=rng.randint(1, 3)))


def phi3(rng):
    common = llama_sizes(rng)
    del common["head_dim"]  # Phi-3's config has no head_dim
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(
        **common, sliding_window=rng.choice([None, rng.randint(3, 12)])))


def gpt_neox(rng):
    common = sizes(rng)
    head_dim = common["hidden_size"] // common["num_attention_heads"]
    rotary_dim = 2 * rng.randint(1, head_dim // 2)
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        **common, layer_norm_eps=rng.choice([1e-6, 1e-5, 1e-3]), use_parallel_residual=rng.random() < 0.5,
        rope_parameters={"rope_type": "default", "rope_theta": rng.choice([1e4, 5e5]),
                         "partial_rotary_factor": rotary_dim / head_dim},
        tie_word_embeddings=rng.random() < 0.5, bos_token_id=None, eos_token_id=None))


def gemma2(rng):
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **llama_sizes(rng), sliding_window=rng.randint(3, 12), query_pre_attn_scalar=rng.randint(4, 40),
        attn_logit_softcapping=rng.choice([None, 2.0, 50.0]), final_logit_softcapping=rng.choice([None, 3.0, 30.0])))


def encoder_sizes(rng):
    return sizes(rng) | {"type_vocab_size": rng.randint(1, 3), "num_labels": rng.randint(2, 5),
                         "layer_norm_eps": rng.choice([1e-12, 1e-5, 1e-3])}


def bert(rng):
    model = rng.choice([transformers.BertForSequenceClassification, transformers.BertModel,
                        transformers.BertForMaskedLM, transformers.BertForTokenClassification])
    return model(transformers.BertConfig(**encoder_sizes(rng)))


def roberta(rng):
    model = rng.choice([transformers.RobertaForSequenceClassification, transformers.RobertaModel,
                        transformers.RobertaForTokenClassification])
    common = encoder_sizes(rng) | {"pad_token_id": 1, "max_position_embeddings": MAX_SEQ_LEN + 2}
    return model(transformers.RobertaConfig(**common))


def distilbert(rng):
    common = sizes(rng)
    model = rng.choice([transformers.DistilBertModel, transformers.DistilBertForTokenClassification])
    return model(transformers.DistilBertConfig(
        vocab_size=common["vocab_size"], max_position_embeddings=MAX_SEQ_LEN, dim=common["hidden_size"],
        n_layers=common["num_hidden_layers"], n_heads=common["num_attention_heads"],
        hidden_dim=common["intermediate_size"], activation=rng.choice(["gelu", "relu"])))


def t5_like(rng, feed_forward_proj, tie_word_embeddings):
    common = sizes(rng)
    head_dim = rng.choice([4, 7, 12])
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=common["vocab_size"], d_model=common["hidden_size"], d_kv=head_dim,
        d_ff=common["intermediate_size"], num_layers=common["num_hidden_layers"],
        num_decoder_layers=rng.randint(1, 3), num_heads=common["num_attention_heads"],
        relative_attention_num_buckets=2 * rng.randint(3, 16),
        relative_attention_max_distance=rng.randint(17, 60), layer_norm_epsilon=rng.choice([1e-6, 1e-5, 1e-3]),
        feed_forward_proj=feed_forward_proj, tie_word_embeddings=tie_word_embeddings, pad_token_id=0,
        eos_token_id=None, decoder_start_token_id=0))
    return model


def t5(rng):
    return t5_like(rng, "relu", tie_word_embeddings=True)


def t5_v1_1(rng):
    return t5_like(rng, "gated-gelu", tie_word_embeddings=False)


ARCHITECTURES = [gpt2, llama3, qwen2, qwen3, mistral, mixtral, gpt_neox, gemma2, phi3, bert, roberta, distilbert, t5, t5_v1_1]
