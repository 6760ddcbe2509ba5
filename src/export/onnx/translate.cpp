#include "export/onnx/translate.h"

#include "export/onnx/memory.h"
#include "export/onnx/refusal.h"
#include "export/onnx/rules.h"

#include <fmt/format.h>

#include <set>

namespace attend::onnx {
namespace {

/// Throws for all operators without a rule, each once.
void check_rules(const program::Program& program) {
  std::vector<Untranslatable::Reason> reasons;
  std::set<std::string> met;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const auto& target = program.nodes[i].target;
    if (find_rule(target) != nullptr || !met.insert(target).second) continue;
    reasons.push_back({i, fmt::format("{} has no rule for ONNX", operator_name(target))});
  }
  if (!reasons.empty()) throw Untranslatable(std::move(reasons));
}

std::string text_of(const std::string& what, const Refusal& why) {
  return fmt::format("{} cannot be exported to ONNX: {}", what, why.what());
}

class Translator {
 public:
  explicit Translator(const program::Program& program)
      : program_(program), translation_{program, {}}, memory_(translation_) {}

  Model translate(const std::map<std::string, std::string>& same_weights,
                  const std::vector<std::string>& output_names) && {
    check_rules(program_);
    add_inputs(same_weights);
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) add_node(i);
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
  void add_inputs(const std::map<std::string, std::string>& same_weights) {
    std::map<std::string, Value> weights;
    for (const auto& input : program_.inputs) {
      const auto same = same_weights.find(input.target);
      if (same != same_weights.end()) {
        translation_.values[input.name] = weights.at(same->second);
      } else if (input.kind == program::InputKind::user) {
        add_input(model_.inputs, "the input " + input.name, input.name, input.name);
      } else {
        weights[input.target] =
            add_input(model_.weights, "the weight " + input.target, input.target, input.name);
      }
    }
  }

  Value add_input(std::vector<ValueInfo>& infos, const std::string& what,
                  const std::string& name_in_file, const std::string& name) {
    const auto& meta = program_.tensors.at(name);
    try {
      const auto value = translation_.graph.add_input(type_of(meta));
      infos.push_back({name_in_file, value, meta});
      translation_.values[name] = value;
      translation_.note_sizes(value, meta.sizes);
      return value;
    } catch (const Refusal& why) {
      throw std::runtime_error(text_of(what, why));
    }
  }

  void add_node(std::size_t place) {
    const auto& node = program_.nodes[place];
    try {
      memory_.check_reads(node);
      check_given(node);
      Call call(node, translation_);
      (*find_rule(node.target))(call);
      memory_.note(node);
    } catch (const Refusal& why) {
      throw Untranslatable({{place, text_of(operator_name(node.target), why)}});
    } catch (const std::exception& error) {
      throw Untranslatable({{place, error.what()}});
    }
  }

  /// A rule may leave out results that hardly anybody uses.
  void check_given(const program::Node& node) const {
    for (const auto& input : node.inputs) {
      for (const auto& name : names_in(input.value)) {
        if (translation_.values.count(name) > 0) continue;
        throw Refusal(
            fmt::format("it uses '{}', a second result that the rules do not give", name));
      }
    }
  }

  void add_output(const program::Output& output, const std::string& name) {
    const auto& tensor = std::get<program::TensorName>(output.value).name;
    const auto found = translation_.values.find(tensor);
    try {
      memory_.check_read(tensor);
      if (found == translation_.values.end()) throw Refusal("it is a result that no rule gives");
    } catch (const Refusal& why) {
      throw std::runtime_error(text_of("the output " + name, why));
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

  const program::Program& program_;
  Translation translation_;
  Memory memory_;
  Model model_;
};

}  // namespace

Model translate(const program::Program& program,
                const std::map<std::string, std::string>& same_weights,
                const std::vector<std::string>& output_names) {
  return Translator(program).translate(same_weights, output_names);
}

}  // namespace attend::onnx
