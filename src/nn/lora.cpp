#include "attend/nn/lora.h"

#include "attend/nn/feed_forward.h"
#include "attend/nn/freezing.h"
#include "attend/nn/linear.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/tied_embeddings.h"
#include "nn/adapters.h"
#include "nn/checks.h"
#include "nn/new_layers.h"
#include "ops/autocast.h"

#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace attend {
namespace {

constexpr const char* kName = "lora";  // of an adapter of all rows, and begin of other names

/// Rows of a linear layer that have a name of their own.
struct NamedRows {
  std::string name;
  int64_t first_row;
  int64_t rows;
};

/// A linear layer, its path and, if it is a joint projection, its parts.
struct LinearLayer {
  std::string path;
  torch::nn::LinearImpl* layer;
  std::vector<NamedRows> parts = {};
};

std::vector<NamedRows> parts_of(const MultiheadAttentionImpl& attention) {
  const auto& dims = attention.dims();
  const auto queries = dims.num_heads * dims.head_dim;
  const auto keys = dims.num_kv_heads * dims.head_dim;
  return {{"query", 0, queries}, {"key", queries, keys}, {"value", queries + keys, keys}};
}

/// Returns all linear layers of `module`, each once.
std::vector<LinearLayer> linear_layers(const torch::nn::Module& module) {
  std::vector<LinearLayer> layers;
  std::map<const torch::nn::Module*, std::vector<NamedRows>> parts;
  module.apply([&](const std::string& path, const torch::nn::Module& each) {
    if (const auto* attention = each.as<MultiheadAttention>()) {
      if (attention->qkv) parts[attention->qkv.ptr().get()] = parts_of(*attention);
    } else if (const auto* feed_forward = each.as<FeedForward>()) {
      const auto* kind = std::get_if<Activation>(&feed_forward->options.activation());
      const auto width = feed_forward->down->options.in_features();
      if (kind != nullptr && is_gated(*kind))
        parts[feed_forward->up.ptr().get()] = {{"gate", 0, width}, {"up", width, width}};
    } else if (const auto* linear = each.as<torch::nn::Linear>()) {
      auto* layer = const_cast<torch::nn::LinearImpl*>(linear);  // as a holder would return it
      const bool is_new = std::ranges::find(layers, layer, &LinearLayer::layer) == layers.end();
      if (is_new) layers.push_back({path, layer});
    }
  });
  for (auto& each : layers) {
    if (const auto found = parts.find(each.layer); found != parts.end()) each.parts = found->second;
  }
  return layers;
}

/// True if `target` is one or more whole components of `path`.
bool contains(const std::string& path, const std::string& target) {
  return !target.empty() && ("." + path + ".").find("." + target + ".") != std::string::npos;
}

std::string last_component(const std::string& path) {
  return path.substr(path.rfind('.') + 1);  // npos + 1 = 0
}

/// True if `target` matches the layer at `path`.
bool matches(const std::string& path, const std::string& target) {
  // Training the router together with its experts would change which expert a token reaches.
  const bool is_router = last_component(path) == "router";
  return contains(path, target) && (!is_router || last_component(target) == "router");
}

/// True if `target` matches the part `name` of the layer at `path`.
bool matches_part(const std::string& path, const std::string& name, const std::string& target) {
  return last_component(target) == name &&
         contains(path.substr(0, path.size() - last_component(path).size()) + name, target);
}

/// A model with tied embeddings, and the path that its head would have.
struct TiedHead {
  std::string path;
  TiedEmbeddings* model;
};

std::vector<TiedHead> tied_heads(const torch::nn::Module& module) {
  std::vector<TiedHead> heads;
  module.apply([&](const std::string& path, const torch::nn::Module& each) {
    const auto* model = dynamic_cast<const TiedEmbeddings*>(&each);
    if (model == nullptr || each.named_children().contains("head")) return;
    heads.push_back({path.empty() ? "head" : path + ".head",
                     const_cast<TiedEmbeddings*>(model)});  // as a holder would return it
  });
  return heads;
}

/// True if `target` matches a tied head. A name of a module that contains it does not: the head is
/// not adapted without being named, as for `all-linear` of PEFT.
bool matches_tied(const std::string& path, const std::string& target) {
  return last_component(target) == "head" && contains(path, target);
}

/// Replaces the indices of blocks and experts in a path by `*`.
std::string without_indices(const std::string& path) {
  std::string result;
  std::istringstream components(path);
  for (std::string each; std::getline(components, each, '.');) {
    const bool is_index = each.find_first_not_of("0123456789") == std::string::npos;
    result += (result.empty() ? "" : ".") + (is_index ? "*" : each);
  }
  return result;
}

/// Returns the names of all linear layers and their parts, and of tied heads, for messages.
std::string names_of(const std::vector<LinearLayer>& layers, const std::vector<TiedHead>& heads) {
  std::set<std::string> seen;
  std::string names;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) names += (names.empty() ? "" : ", ") + name;
  };
  for (const auto& each : layers) {
    add(without_indices(each.path));
    for (const auto& part : each.parts) {
      if (part.name != last_component(each.path)) add(part.name);
    }
  }
  for (const auto& head : heads) add(without_indices(head.path));
  return names.empty() ? "none" : names;
}

void check_options(int64_t rank, double alpha, double dropout) {
  check_positive("rank", rank);
  check_finite("alpha", alpha);
  TORCH_CHECK_VALUE(alpha > 0.0, "alpha (", alpha, ") must be positive");
  check_probability("dropout", dropout);
}

std::vector<std::shared_ptr<LoraAdapterImpl>> adapters_of(const torch::nn::LinearImpl& layer) {
  std::vector<std::shared_ptr<LoraAdapterImpl>> adapters;
  for (const auto& child : layer.children()) {
    if (auto adapter = std::dynamic_pointer_cast<LoraAdapterImpl>(child))
      adapters.push_back(std::move(adapter));
  }
  return adapters;
}

/// Returns `weight` plus the products of the adapters, with the dtype of `weight`.
torch::Tensor effective_weight(const torch::Tensor& weight,
                               const std::vector<std::shared_ptr<LoraAdapterImpl>>& adapters) {
  std::optional<AutocastGuard> float32;  // whether autocast begins before this call or after it
  const auto device = weight.device().type();
  if (const auto dtype = autocast_dtype(device))
    float32.emplace(device, AutocastState{.enabled = false, .dtype = *dtype});
  auto sum = weight.to(adapters.front()->A.scalar_type());
  for (const auto& adapter : adapters) {
    const auto& options = adapter->options;
    const auto after = sum.size(0) - options.first_row - options.rows;
    sum = sum + torch::constant_pad_nd(adapter->delta(), {0, 0, options.first_row, after});
  }
  return sum.to(weight.scalar_type());
}

/// Calls `visit(layer, adapters)` for the linear layers that have adapters.
template <typename Visit>
void for_each_adapted(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& each : linear_layers(module)) {
    const auto adapters = adapters_of(*each.layer);
    if (!adapters.empty()) visit(each, adapters);
  }
}

/// Throws c10::ValueError if another module has the same weight, which a merge would change, too.
void check_not_shared(const torch::nn::Module& module, const LinearLayer& linear) {
  module.apply([&](const std::string& path, const torch::nn::Module& each) {
    if (&each == linear.layer) return;
    for (const auto& item : each.named_parameters(/*recurse=*/false)) {
      TORCH_CHECK_VALUE(!item.value().is_same(linear.layer->weight), "merge_lora: ", linear.path,
                        ".weight is also ", path, ".", item.key(),
                        ", which has no such adapter: use the adapter without merging it");
    }
  });
}

}  // namespace

double LoraAdapterOptions::scale() const {
  const auto divisor = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(divisor) : divisor);
}

LoraAdapterImpl::LoraAdapterImpl(const LoraAdapterOptions& options) : options(options) {
  check_options(options.rank, options.alpha, options.dropout);
  check_positive("in_features", options.in_features);
  check_positive("rows", options.rows);
  check_not_negative("first_row", options.first_row);
  LoraAdapterImpl::reset();
}

void LoraAdapterImpl::reset() {
  A = register_parameter("A", torch::empty({options.rank, options.in_features}));
  B = register_parameter("B", torch::zeros({options.rows, options.rank}));
  torch::nn::init::kaiming_uniform_(A, std::sqrt(5.0));
}

torch::Tensor LoraAdapterImpl::forward(const torch::Tensor& x) {
  const bool converts = x.scalar_type() != A.scalar_type() && !autocast_dtype(x.device().type());
  return product(converts ? x.to(A.scalar_type()) : x, 0, options.rows);
}

torch::Tensor LoraAdapterImpl::product(const torch::Tensor& x, int64_t begin, int64_t end) const {
  const bool drops = is_training() && options.dropout > 0.0;
  const auto input = drops ? torch::dropout(x, options.dropout, /*train=*/true) : x;
  const auto low_rank = apply_linear(input, A) * options.scale();  // (..., r)
  const bool is_all = begin == 0 && end == options.rows;
  return apply_linear(low_rank, is_all ? B : B.slice(0, begin, end));  // (..., end - begin)
}

torch::Tensor LoraAdapterImpl::delta() const {
  return B.matmul(A) * options.scale();  // (N, K)
}

void LoraAdapterImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LoraAdapter(rank=" << options.rank << ", alpha=" << options.alpha
         << ", dropout=" << options.dropout << std::boolalpha << ", rslora=" << options.rslora
         << ", first_row=" << options.first_row << ", rows=" << options.rows << ")";
}

std::vector<std::string> add_lora(ModuleRef module, const LoraOptions& options) {
  check_options(options.rank, options.alpha, options.dropout);
  auto layers = linear_layers(*module);
  const auto heads = tied_heads(*module);
  for (const auto& target : options.targets) {
    const bool found =
        std::ranges::any_of(layers,
                            [&](const auto& each) {
                              return matches(each.path, target) ||
                                     std::ranges::any_of(each.parts, [&](const auto& part) {
                                       return matches_part(each.path, part.name, target);
                                     });
                            }) ||
        std::ranges::any_of(heads,
                            [&](const auto& head) { return matches_tied(head.path, target); });
    TORCH_CHECK_VALUE(found, "targets: '", target, "' matches no linear layer of ", module->name(),
                      "; its linear layers are ", names_of(layers, heads));
  }
  const auto is_target = [&](const auto& predicate) {
    return std::ranges::any_of(options.targets, predicate);
  };
  for (const auto& each : layers) {
    TORCH_CHECK_VALUE(adapters_of(*each.layer).empty(), "add_lora: ", each.path,
                      " already has adapters: call remove_lora first");
  }
  for (const auto& head : heads) {
    const auto& path = head.path;
    if (is_target([&](const auto& target) { return matches_tied(path, target); }))
      head.model->untie_embeddings();
  }
  layers = linear_layers(*module);
  freeze(module);
  std::vector<std::string> adapted;
  for (const auto& [path, layer, parts] : layers) {
    const auto add = [&, layer = layer](const std::string& name, int64_t first_row, int64_t rows) {
      add_lora_adapter(*layer, name,
                       {.first_row = first_row,
                        .rows = rows,
                        .rank = options.rank,
                        .alpha = options.alpha,
                        .dropout = options.dropout,
                        .rslora = options.rslora});
    };
    const auto& own_path = path;
    const bool is_whole = is_target([&](const auto& target) { return matches(own_path, target); });
    if (is_whole && parts.empty()) add(kName, 0, layer->weight.size(0));
    for (const auto& part : parts) {
      if (is_whole ||
          is_target([&](const auto& target) { return matches_part(own_path, part.name, target); }))
        add(std::string(kName) + "_" + part.name, part.first_row, part.rows);
    }
    if (!adapters_of(*layer).empty()) adapted.push_back(path);
  }
  return adapted;
}

LoraAdapter add_lora_adapter(torch::nn::LinearImpl& layer, const std::string& name,
                             LoraAdapterOptions options) {
  const auto rows = layer.weight.size(0);
  if (options.in_features == 0) options.in_features = layer.weight.size(1);
  if (options.rows == 0) options.rows = rows - options.first_row;
  TORCH_CHECK_VALUE(options.in_features == layer.weight.size(1), "in_features (",
                    options.in_features, ") must be that of the layer (", layer.weight.size(1),
                    ")");
  TORCH_CHECK_VALUE(name.starts_with(kName), "the name of an adapter must begin with '", kName,
                    "', found '", name, "'");
  TORCH_CHECK_VALUE(!layer.named_children().contains(name), "the layer already has an adapter '",
                    name, "'");
  const auto end = options.first_row + options.rows;
  TORCH_CHECK_VALUE(end <= rows, "an adapter of the rows ", options.first_row, " to ", end - 1,
                    " requires a layer with as many rows, found ", rows);
  for (const auto& other : adapters_of(layer)) {
    const auto& taken = other->options;
    TORCH_CHECK_VALUE(!other->in_weight, "the adapters of the layer are merged: call unmerge_lora");
    TORCH_CHECK_VALUE(end <= taken.first_row || options.first_row >= taken.first_row + taken.rows,
                      "the rows ", options.first_row, " to ", end - 1,
                      " overlap with those of another adapter, ", taken.first_row, " to ",
                      taken.first_row + taken.rows - 1);
  }
  LoraAdapter adapter(options);
  const auto type = layer.weight.scalar_type();
  const bool is_reduced = type == torch::kBFloat16 || type == torch::kHalf;
  adapter->to(layer.weight.device(), is_reduced ? torch::kFloat : type);
  adapter->train(layer.is_training());
  layer.register_module(name, adapter);
  return adapter;
}

std::vector<NamedLoraAdapter> lora_adapters(ConstModuleRef module) {
  std::vector<NamedLoraAdapter> adapters;
  for (const auto& [path, layer, parts] : linear_layers(*module)) {
    for (const auto& child : layer->named_children()) {
      if (auto adapter = std::dynamic_pointer_cast<LoraAdapterImpl>(child.value()))
        adapters.push_back({path, child.key(), layer, std::move(adapter)});
    }
  }
  return adapters;
}

void merge_lora(ModuleRef module) {
  const torch::NoGradGuard no_grad;
  for_each_adapted(*module, [&](const LinearLayer& linear, const auto& adapters) {
    if (adapters.front()->in_weight) return;
    check_not_shared(*module, linear);
    auto& weight = linear.layer->weight;
    const auto merged = effective_weight(weight, adapters);
    adapters.front()->unmerged_weight = weight.detach();  // has its own storage from now on
    weight.set_data(merged);
    for (const auto& adapter : adapters) adapter->in_weight = true;
  });
}

void unmerge_lora(ModuleRef module) {
  const torch::NoGradGuard no_grad;
  for_each_adapted(*module, [&](const LinearLayer& linear, const auto& adapters) {
    auto& original = adapters.front()->unmerged_weight;
    if (!original.defined()) return;
    // A copy, since a clone of the adapter may have the same tensor.
    linear.layer->weight.set_data(
        original.to(linear.layer->weight.options(), /*non_blocking=*/false, /*copy=*/true));
    original.reset();
    for (const auto& adapter : adapters) adapter->in_weight = false;
  });
}

void check_adapters_are_used(const torch::nn::Module& module) {
  for_each_adapted(module, [](const LinearLayer& linear, const auto& adapters) {
    const bool is_own = dynamic_cast<AdaptableLinear*>(linear.layer) != nullptr;
    TORCH_CHECK_VALUE(is_own || adapters.front()->in_weight, linear.path,
                      ": a torch::nn::Linear does not use its adapters: call merge_lora first");
  });
}

void remove_lora(ModuleRef module) {
  std::set<const torch::nn::Module*> merged;  // layers that differ from those without adapters
  for (const auto& each : lora_adapters(module)) {
    if (each.adapter->in_weight) merged.insert(each.layer);
    each.layer->unregister_module(each.name);
  }
  module->apply([&](torch::nn::Module& each) {
    auto* model = dynamic_cast<TiedEmbeddings*>(&each);
    if (model == nullptr) return;
    const auto children = each.named_children();
    const auto* head = children.find("head");
    if (head != nullptr && !merged.contains(head->get())) model->retie_embeddings();
  });
}

void merge_and_remove_lora(ModuleRef module) {
  if (lora_adapters(module).empty()) return;
  merge_lora(module);
  remove_lora(module);
  unfreeze(module);
}

LoraWeightsGuard::LoraWeightsGuard(ModuleRef module) {
  for_each_adapted(*module, [&](const LinearLayer& linear, const auto& adapters) {
    auto* layer = linear.layer;
    if (dynamic_cast<AdaptableLinear*>(layer) != nullptr || adapters.front()->in_weight) return;
    for (const auto& adapter : adapters) {
      TORCH_CHECK_VALUE(!adapter->is_training() || adapter->options.dropout == 0.0, linear.path,
                        ": dropout (", adapter->options.dropout,
                        ") of an adapter must be 0 in a layer that is not called through "
                        "apply_linear(x, layer)");
    }
    replaced_.push_back({layer, effective_weight(layer->weight, adapters), adapters});
  });
  // After all layers have been checked: there is no destructor call if this constructor throws.
  for (auto& [layer, weight, adapters] : replaced_) {
    std::swap(layer->weight, weight);
    for (const auto& adapter : adapters) adapter->in_weight = true;
  }
}

LoraWeightsGuard::~LoraWeightsGuard() {
  for (auto& [layer, weight, adapters] : replaced_) {
    layer->weight = weight;
    for (const auto& adapter : adapters) adapter->in_weight = false;
  }
}

}  // namespace attend
