#include "pt2/output_names.h"

#include "attend/input_error.h"
#include "io/parse_json.h"

#include <fmt/format.h>

namespace attend::pt2 {
namespace {

using Json = nlohmann::json;

/// Returns the names of `count` children: `keys` if it is a list of this length, else indices.
std::vector<std::string> child_names(const Json& keys, std::size_t count) {
  const bool has_names = keys.is_array() && keys.size() == count;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = has_names ? keys[i] : Json(i);
    names.push_back(key.is_string() ? key.get<std::string>() : key.dump());
  }
  return names;
}

/// Parses the names of the leaves of a treespec, as written by `treespec_dumps` of PyTorch's
/// pytree.
class Leaves {
 public:
  explicit Leaves(const JsonValue& module) : module_(module) {}

  void add(const JsonValue& spec, const std::string& path) {
    const auto children = spec.at("children_spec").items();
    if (!spec.has("type")) {
      names.push_back(path.empty() ? "output" : path);
      return;
    }
    const auto keys = child_names(keys_of(spec), children.size());
    for (std::size_t i = 0; i < children.size(); ++i) {
      add(children[i], path.empty() ? keys[i] : fmt::format("{}.{}", path, keys[i]));
    }
  }

  std::vector<std::string> names;

 private:
  /// Returns the names of the children of a node, if they have names. The context of a dictionary
  /// is a list of keys, or contains it in `dict_context`. That of a dataclass is a list of fields
  /// and a list of fields that are None; that of a named tuple is the name of a type.
  Json keys_of(const JsonValue& spec) const {
    if (!spec.has("context")) return nullptr;
    auto context = spec.at("context").json();
    if (context.is_string()) {
      const auto text = context.get<std::string>();
      const auto& fields = module_.at("treespec_namedtuple_fields");
      if (fields.has(text)) return fields.at(text).at("field_names").json();
      try {
        context = parse_json(text);
      } catch (const InputError&) {  // the context of another type may be any text
        return nullptr;
      }
    }
    if (context.is_object() && context.contains("dict_context")) return context["dict_context"];
    if (context.is_array() && context.size() == 2 && context[0].is_array()) return context[0];
    return context;
  }

  const JsonValue& module_;
};

}  // namespace

std::vector<std::string> output_names(const JsonValue& module) {
  const auto calls = module.at("module_call_graph").items();
  if (calls.empty()) module.fail("expected a call of the module in module_call_graph");
  Leaves leaves(module);
  with_source("out_spec", [&] {
    const auto json = parse_json(calls.front().at("signature").at("out_spec").text());
    const auto root = JsonValue(json).items();
    if (root.size() != 2) {
      throw InputError(
          fmt::format("expected a version and a treespec, found {} values", root.size()));
    }
    leaves.add(root[1], "");
  });
  return leaves.names;
}

}  // namespace attend::pt2
