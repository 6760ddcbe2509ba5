// Names in the state dicts of other libraries. The functions use no regular expressions, because
// std::regex can overflow the stack on a long name of an untrusted file.
#include "attend/io/load_weights.h"

#include <initializer_list>
#include <string_view>
#include <utility>

namespace attend {
namespace {

/// Names of modules or tensors: theirs and ours.
using Renames = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Replaces the beginning of `name` that a row of `table` contains. Returns false if there is none.
bool replace_start(std::string& name, const Renames& table) {
  for (const auto& [theirs, ours] : table) {
    if (!name.starts_with(theirs)) continue;
    name.replace(0, theirs.size(), ours);
    return true;
  }
  return false;
}

/// Splits `name` after the last "layers.N." of a stack into the name of the stack, "N." and the
/// rest. Without a stack, the rest is all.
struct LayerName {
  std::string stack;
  std::string number;
  std::string rest;

  LayerName(const std::string& name, std::string_view layers) : rest(name) {
    const auto at = name.rfind(layers);
    if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) return;
    const auto begin = at + layers.size();
    const auto end = name.find_first_not_of("0123456789", begin);
    if (end == std::string::npos || end == begin || name[end] != '.') return;
    stack = name.substr(0, at);
    number = name.substr(begin, end + 1 - begin);
    rest = name.substr(end + 1);
  }
};

/// Renames the tensors of nn.MultiheadAttention.
std::string rename_attention(const std::string& name) {
  static const Renames kTensors{
      {"in_proj_weight", "qkv.weight"},  {"in_proj_bias", "qkv.bias"},
      {"q_proj_weight", "query.weight"}, {"k_proj_weight", "key.weight"},
      {"v_proj_weight", "value.weight"}, {"out_proj.weight", "out.weight"},
      {"out_proj.bias", "out.bias"}};
  for (const auto& [theirs, ours] : kTensors) {
    if (!name.ends_with(theirs)) continue;
    const auto at = name.size() - theirs.size();
    if (at == 0 || name[at - 1] == '.') return name.substr(0, at).append(ours);
  }
  return name;
}

/// Renames a tensor of a layer, whose modules `table` contains.
std::string rename_layer(const std::string& name, const Renames& table) {
  LayerName layer(name, "layers.");
  if (!replace_start(layer.rest, table)) return rename_attention(name);
  const auto rest = rename_attention(layer.rest);
  return layer.number.empty() ? rest : layer.stack + "blocks." + layer.number + rest;
}

}  // namespace

std::string rename_pytorch_encoder(const std::string& name) {
  return rename_layer(name, {{"self_attn.", "attention."},
                             {"linear1.", "feed_forward.up."},
                             {"linear2.", "feed_forward.down."},
                             {"norm1.", "norm1."},
                             {"norm2.", "norm2."}});
}

std::string rename_pytorch_decoder(const std::string& name) {
  return rename_layer(name, {{"self_attn.", "attention."},
                             {"multihead_attn.", "cross_attention."},
                             {"linear1.", "feed_forward.up."},
                             {"linear2.", "feed_forward.down."},
                             {"norm1.", "norm1."},
                             {"norm2.", "norm_cross."},
                             {"norm3.", "norm2."}});
}

std::string rename_nanogpt(const std::string& name) {
  auto plain = name;
  replace_start(plain, {{"_orig_mod.", ""}});
  LayerName layer(plain, "transformer.h.");
  if (layer.number.empty()) {
    replace_start(plain, {{"transformer.wte.", "embedding.token."},
                          {"lm_head.", "embedding.token."},  // tied
                          {"transformer.wpe.", "embedding.position."},
                          {"transformer.ln_f.", "decoder.norm."}});
    return plain;
  }
  if (layer.rest == "attn.bias") return "";
  replace_start(layer.rest, {{"ln_1.", "norm1."},
                             {"attn.c_attn.", "attention.qkv."},
                             {"attn.c_proj.", "attention.out."},
                             {"ln_2.", "norm2."},
                             {"mlp.c_fc.", "feed_forward.up."},
                             {"mlp.c_proj.", "feed_forward.down."}});
  return layer.stack + "decoder.blocks." + layer.number + layer.rest;
}

}  // namespace attend
