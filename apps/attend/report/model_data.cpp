#include "report/model_data.h"

#include "attend/nn/parameter_count.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <vector>

namespace attend::app {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the name of a module's class without namespaces, as in PyTorch: "Linear".
std::string class_name(const torch::nn::Module& module) {
  auto name = module.name();
  name = name.substr(name.rfind(':') + 1);
  constexpr std::string_view kSuffix = "Impl";
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

bool equal_except_name(Json one, Json other) {
  for (auto* tree : {&one, &other}) {
    tree->erase("name");
    tree->erase("repeats");
  }
  return one == other;
}

std::size_t count_modules(const Json& tree) {
  std::size_t count = 1;
  for (const auto& child : tree.at("children")) count += count_modules(child);
  return count;
}

}  // namespace

std::size_t limit_modules(Json& tree, std::size_t max) {
  const auto count = count_modules(tree);
  std::vector<Json*> kept{&tree};
  for (std::size_t i = 0; i < kept.size(); ++i) {
    auto& children = kept[i]->at("children").get_ref<Json::array_t&>();
    children.resize(std::min(children.size(), max - kept.size()));
    for (auto& child : children) kept.push_back(&child);
  }
  return count;
}

nlohmann::ordered_json model_tree(const std::string& name, const torch::nn::Module& module) {
  auto tensors = Json::array();
  for (const auto& parameter : module.named_parameters(/*recurse=*/false))
    tensors.push_back({{"name", parameter.key()}, {"shape", parameter.value().sizes().vec()}});
  auto children = Json::array();
  const bool is_list = module.as<torch::nn::ModuleListImpl>() != nullptr;
  std::string first;  // name of the first child of an entry
  for (const auto& child : module.named_children()) {
    auto tree = model_tree(child.key(), *child.value());
    if (is_list && !children.empty() && equal_except_name(children.back(), tree)) {
      auto& entry = children.back();
      entry["repeats"] = entry.at("repeats").get<int64_t>() + 1;
      entry["name"] = fmt::format("{} to {}", first, child.key());
    } else {
      first = child.key();
      children.push_back(std::move(tree));
    }
  }
  Json tree{{"name", name},
            {"type", class_name(module)},
            {"parameters", parameter_count(module)},
            {"shape", ""},
            {"repeats", 1},
            {"children", std::move(children)}};
  if (!tensors.empty()) {
    tree["shape"] = fmt::format(
        "{}", fmt::join(tensors.front().at("shape").get<std::vector<int64_t>>(), " × "));
    tree["tensors"] = std::move(tensors);
  }
  return tree;
}

}  // namespace attend::app
