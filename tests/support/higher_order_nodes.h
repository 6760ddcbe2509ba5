#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace attend {

/// Nodes of a .pt2 archive in JSON, for tests. Graphs have one input and one output, both tensors.
namespace pt2_json {

using nlohmann::json;

inline json tensor(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}
inline json tensors(const std::vector<std::string>& names) {
  json list = json::array();
  for (const auto& name : names) list.push_back({{"name", name}});
  return {{"as_tensors", list}};
}
inline json input(const std::string& name, const json& argument) {
  return {{"name", name}, {"arg", argument}};
}

/// Returns the call `output` = `target`(`inputs`).
inline json node(const std::string& target, const json& inputs, const std::string& output) {
  return {{"target", "torch.ops." + target},
          {"inputs", inputs},
          {"outputs", json::array({tensor(output)})},
          {"metadata", json::object()}};
}

/// Returns a graph with the input `y` and the output `z` that calls `target` and has a second
/// argument if `other` is not null.
inline json graph(const std::string& target, const json& other = nullptr) {
  json inputs = json::array({input("self", tensor("y"))});
  if (!other.is_null()) inputs.push_back(input("other", other));
  return {{"as_graph",
           {{"name", "graph"},
            {"graph",
             {{"inputs", json::array({tensor("y")})},
              {"outputs", json::array({tensor("z")})},
              {"nodes", json::array({node(target, inputs, "z")})},
              {"tensor_values", json::object()},
              {"sym_int_values", json::object()}}}}}};
}

/// Returns the call of a higher-order operator.
inline json higher_order(const std::string& name, const std::vector<json>& arguments,
                         const std::string& output) {
  json inputs = json::array();
  for (const auto& argument : arguments) inputs.push_back(input("", argument));
  return node("higher_order." + name, inputs, output);
}

/// Returns nodes that call each higher-order operator with the tensor `x`.
inline json higher_order_nodes(const std::string& x) {
  const auto twice = graph("aten.mul.Scalar", {{"as_int", 2}});
  const auto any = graph("aten.any.default");
  auto with_effects = higher_order(
      "with_effects", {tensor("token"), {{"as_operator", "torch.ops.aten.neg.default"}}, tensor(x)},
      "next_token");
  with_effects["outputs"].push_back(tensor("with_effects"));
  return json::array(
      {node("aten.any.default", json::array({input("self", tensor(x))}), "any"),
       higher_order("cond", {tensor("any"), twice, graph("aten.neg.default"), tensors({x})},
                    "cond"),
       higher_order("while_loop",
                    {any, graph("aten.floor_divide.Scalar", {{"as_int", 2}}), tensors({"cond"}),
                     tensors({})},
                    "while_loop"),
       higher_order("map_impl", {twice, tensors({x}), tensors({})}, "map"),
       higher_order("scan", {graph("aten.neg.default"), tensors({}), tensors({x}), tensors({})},
                    "scan"),
       higher_order("wrap_with_set_grad_enabled", {{{"as_bool", false}}, twice, tensor(x)},
                    "no_grad"),
       higher_order("wrap_with_autocast",
                    {{{"as_string", "cpu"}},
                     {{"as_scalar_type", 13}},
                     {{"as_bool", true}},
                     {{"as_bool", false}},
                     twice,
                     tensor(x)},
                    "autocast"),
       with_effects});
}

}  // namespace pt2_json
}  // namespace attend
