#include "export/onnx/translate.h"

#include "export/onnx/memory.h"
#include "export/onnx/node_types.h"
#include "export/onnx/rules.h"

#include <fmt/format.h>

#include <set>

namespace attend::onnx {
namespace {

/// Throws for all operators without a rule, each once.
void check_rules(const pt2::Program& program) {
  std::vector<Untranslatable::Reason> reasons;
  std::set<std::string> met;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const auto& target = program.nodes[i].target;
    if (find_rule(target) != nullptr || !met.insert(target).second) continue;
    reasons.push_back({i, fmt::format("{} has no rule for ONNX", operator_name(target))});
  }
  if (!reasons.empty()) throw Untranslatable(std::move(reasons));
}

class Translator {
 public:
  Translator(const pt2::Program& program, const std::map<std::string, std::string>& same_weights)
      : program_(program), translation_{program, {}}, memory_(translation_) {
    std::map<std::string, Value> weights;
    for (const auto& input : program.inputs) {
      const auto& meta = program.tensors.at(input.name);
      if (input.kind == pt2::InputKind::user) {
        add_input(model_.inputs, input.name, input.name, meta);
        continue;
      }
      const auto same = same_weights.find(input.target);
      if (same != same_weights.end()) {
        translation_.values[input.name] = weights.at(same->second);
        continue;
      }
      weights[input.target] = add_input(model_.weights, input.target, input.name, meta);
    }
  }

  Model translate(const std::vector<std::string>& output_names) && {
    check_rules(program_);
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      const auto& node = program_.nodes[i];
      try {
        memory_.check_reads(node);
        check_given(node);
        Call call(node, translation_);
        (*find_rule(node.target))(call);
        memory_.note(node);
      } catch (const UnfitType& error) {
        throw Untranslatable({{i, fmt::format("{} cannot be exported to ONNX: {}",
                                              operator_name(node.target), error.what())}});
      } catch (const std::exception& error) {
        throw Untranslatable({{i, error.what()}});
      }
    }
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      add_output(program_.outputs[i], output_names.at(i));
    }
    std::vector<Value> outputs;
    for (const auto& output : model_.outputs) outputs.push_back(output.value);
    translation_.graph.drop_unused(outputs);
    model_.graph = std::move(translation_.graph);
    drop_unused_weights();
    return std::move(model_);
  }

 private:
  Value add_input(std::vector<ValueInfo>& infos, const std::string& name_in_file,
                  const std::string& name, const pt2::TensorMeta& meta) {
    const auto value = translation_.graph.add_input(type_of(meta));
    infos.push_back({name_in_file, value, meta});
    translation_.values[name] = value;
    translation_.note_sizes(value, meta.sizes);
    return value;
  }

  /// A rule may leave out results that hardly anybody uses.
  void check_given(const pt2::Node& node) const {
    for (const auto& input : node.inputs) {
      for (const auto& name : names_in(input.value)) {
        if (translation_.values.count(name) > 0) continue;
        throw std::runtime_error(
            fmt::format("{} cannot be exported to ONNX: it uses '{}', a second result that the "
                        "rules do not give",
                        operator_name(node.target), name));
      }
    }
  }

  void add_output(const pt2::Output& output, const std::string& name) {
    const auto& tensor = std::get<pt2::TensorName>(output.value).name;
    memory_.check_read(tensor, "the output " + name);
    const auto found = translation_.values.find(tensor);
    if (found == translation_.values.end()) {
      throw std::runtime_error(fmt::format("the output {} is a result that no rule gives", name));
    }
    // A node of its own, so that inputs and values that are given twice have a name of their own.
    const auto value = translation_.graph.add("Identity", {found->second});
    model_.outputs.push_back({name, value, program_.tensors.at(tensor)});
  }

  /// Weights that nothing depends on, such as tables that eval mode does not read.
  void drop_unused_weights() {
    std::set<std::size_t> used;
    for (const auto& node : model_.graph.nodes()) {
      for (const auto& input : node.inputs) used.insert(input.id);
    }
    std::erase_if(model_.weights,
                  [&](const ValueInfo& weight) { return used.count(weight.value.id) == 0; });
  }

  const pt2::Program& program_;
  Translation translation_;
  Memory memory_;
  Model model_;
};

}  // namespace

Model translate(const pt2::Program& program, const std::map<std::string, std::string>& same_weights,
                const std::vector<std::string>& output_names) {
  return Translator(program, same_weights).translate(output_names);
}

}  // namespace attend::onnx
