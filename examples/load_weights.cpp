// Loads weights whose names differ from those of the module: of PyTorch's nn.TransformerEncoder in
// a module of one's own.
#include <attend/attend.h>

#include <torch/torch.h>

#include <filesystem>
#include <iostream>

/// A module with an encoder and a head.
struct Tagger : torch::nn::Module {
  Tagger() {
    register_module("encoder", encoder);
    register_module("head", head);
  }
  attend::TransformerEncoder encoder{
      attend::TransformerEncoderOptions(block(), 2).final_norm(false)};
  torch::nn::Linear head{8, 3};

  /// The defaults of nn.TransformerEncoderLayer(8, 2, dim_feedforward=16).
  static attend::TransformerBlockOptions block() {
    attend::TransformerBlockOptions options(8, 2);
    options.feed_forward().dim_feedforward(16).activation(attend::Activation::relu);
    options.residual().norm_order(attend::NormOrder::post);
    return options;
  }
};

/// Returns weights with the names of a compiled nn.TransformerEncoder.
std::map<std::string, torch::Tensor> weights_of_pytorch() {
  std::map<std::string, torch::Tensor> weights;
  for (const std::string layer : {"_orig_mod.layers.0.", "_orig_mod.layers.1."}) {
    weights[layer + "self_attn.in_proj_weight"] = torch::randn({24, 8});
    weights[layer + "self_attn.in_proj_bias"] = torch::randn({24});
    weights[layer + "self_attn.out_proj.weight"] = torch::randn({8, 8});
    weights[layer + "self_attn.out_proj.bias"] = torch::randn({8});
    weights[layer + "linear1.weight"] = torch::randn({16, 8});
    weights[layer + "linear1.bias"] = torch::randn({16});
    weights[layer + "linear2.weight"] = torch::randn({8, 16});
    weights[layer + "linear2.bias"] = torch::randn({8});
    for (const char* name : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"})
      weights[layer + name] = torch::randn({8});
  }
  return weights;
}

int main() {
  const auto path = std::filesystem::temp_directory_path() / "attend_encoder.safetensors";
  attend::save_safetensors(path, {.tensors = weights_of_pytorch()});
  const auto tagger = std::make_shared<Tagger>();
  try {
    attend::load_weights(tagger->encoder, path, {.rename = attend::rename_pytorch_encoder});
  } catch (const attend::InputError& error) {
    std::cout << error.what() << "\n\n";  // proposes to remove the prefix '_orig_mod.'
  }

  const auto keys = attend::load_weights(
      tagger, path, {.strict = false, .rename = [](const std::string& name) {
                       const std::string prefix = "_orig_mod.";
                       return "encoder." +
                              attend::rename_pytorch_encoder(name.substr(prefix.size()));
                     }});
  std::cout << "not in the file:";
  for (const auto& name : keys.missing_keys) std::cout << " " << name;  // head.bias head.weight
  std::cout << "\n";
  std::filesystem::remove(path);
}
