#include "export/pt2/run.h"

#include "attend/input_error.h"
#include "export/pt2/codes.h"
#include "export/pt2/number_operators.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <optional>
#include <unordered_map>

namespace attend::pt2 {

using c10::IValue;
using Values = std::vector<IValue>;  // by their places

/// Where an argument comes from when a step runs.
using Source = std::function<IValue(const Values&)>;

struct Step {
  std::string target;
  std::optional<c10::OperatorHandle> handle;  // none: an operator on numbers
  NumberOperator numbers = nullptr;
  std::vector<Source> arguments;
  std::vector<std::vector<std::size_t>> results;  // the places of each, several for a list
  std::vector<bool> lists;                        // which of them are lists
  std::vector<std::size_t> last_used;             // what no later step needs
};

namespace {

constexpr const char* kOperators = "torch.ops.";

/// The places of names; each is given once, before it is used.
class Places {
 public:
  std::size_t give(const std::string& name) {
    if (!places_.emplace(name, places_.size()).second) {
      throw InputError(fmt::format("'{}' is given twice", name));
    }
    return places_.size() - 1;
  }
  std::size_t find(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) throw InputError(fmt::format("'{}' is not given before", name));
    return found->second;
  }
  std::size_t size() const { return places_.size(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names(places_.size());
    for (const auto& [name, place] : places_) names[place] = name;
    return names;
  }

 private:
  std::unordered_map<std::string, std::size_t> places_;
};

/// How an argument of each form becomes a value of the type that the operator's schema asks for.
struct MakeSource {
  const Places& places;
  const c10::TypePtr& type;
  torch::Device device;
  std::vector<std::size_t>& used;

  std::size_t place(const std::string& name) const {
    used.push_back(places.find(name));
    return used.back();
  }
  Source constant(IValue value) const {
    return [value = std::move(value)](const Values&) { return value; };
  }
  Source value_at(const std::string& name) const {
    return [at = place(name)](const Values& values) { return values[at]; };
  }
  /// Python's operators take a number where the schema asks for a tensor, as in mul.Tensor(x, 2).
  static IValue as_tensor(const IValue& number) {
    return at::native::wrapped_scalar_tensor(number.toScalar());
  }
  Source number(const IValue& value) const {
    return constant(wants(c10::TypeKind::TensorType) ? as_tensor(value) : value);
  }
  /// The type behind Optional.
  c10::TypePtr plain() const {
    const auto optional = type->cast<c10::OptionalType>();
    return optional ? optional->getElementType() : type;
  }
  bool wants(c10::TypeKind kind) const { return plain()->kind() == kind; }
  bool wants_list_of(c10::TypeKind kind) const {
    const auto list = plain()->cast<c10::ListType>();
    return list && list->getElementType()->kind() == kind;
  }

  Source operator()(Nothing) const { return constant(IValue()); }
  Source operator()(const TensorName& tensor) const { return value_at(tensor.name); }
  Source operator()(const SymbolName& symbol) const {
    if (!wants(c10::TypeKind::TensorType)) return value_at(symbol.name);
    return [at = place(symbol.name)](const Values& values) { return as_tensor(values[at]); };
  }
  Source operator()(int64_t number) const {
    if (wants(c10::TypeKind::FloatType)) return constant(static_cast<double>(number));
    return this->number(number);
  }
  Source operator()(double number) const { return this->number(number); }
  Source operator()(bool value) const { return number(value); }
  Source operator()(const std::string& text) const { return constant(text); }
  Source operator()(const std::vector<std::string>& texts) const {
    return constant(c10::List<std::string>(texts));
  }
  Source operator()(DtypeNumber dtype) const {
    return constant(static_cast<int64_t>(dtype_of(dtype.number)));
  }
  Source operator()(LayoutNumber layout) const {
    return constant(static_cast<int64_t>(layout_of(layout.number)));
  }
  Source operator()(MemoryFormatNumber format) const {
    return constant(static_cast<int64_t>(memory_format_of(format.number)));
  }
  /// Where the program was loaded to, wherever it was exported.
  Source operator()(const Device&) const { return constant(device); }

  Source operator()(const std::vector<TensorName>& tensors) const {
    std::vector<OptionalTensor> all(tensors.begin(), tensors.end());
    return (*this)(all);
  }
  Source operator()(const std::vector<OptionalTensor>& tensors) const {
    std::vector<std::optional<std::size_t>> from;
    for (const auto& tensor : tensors) {
      const auto* name = std::get_if<TensorName>(&tensor);
      from.push_back(name == nullptr ? std::nullopt : std::optional(place(name->name)));
    }
    if (wants_list_of(c10::TypeKind::OptionalType)) {
      return [from](const Values& values) {
        c10::List<std::optional<torch::Tensor>> list;
        for (const auto& at : from) {
          list.push_back(at ? std::optional(values[*at].toTensor()) : std::nullopt);
        }
        return IValue(list);
      };
    }
    for (const auto& at : from) {
      if (!at) throw InputError("a list of tensors lacks one");
    }
    return [from](const Values& values) {
      c10::List<torch::Tensor> list;
      for (const auto& at : from) list.push_back(values[*at].toTensor());
      return IValue(list);
    };
  }

  template <typename T>
  Source operator()(const std::vector<Known<T>>& numbers) const {
    std::vector<Source> sources;
    for (const auto& number : numbers) {
      sources.push_back(std::visit([&](const auto& known) { return (*this)(known); }, number));
    }
    if (std::is_same_v<T, double> || wants_list_of(c10::TypeKind::FloatType)) {
      return list_of<double>(sources, [](const IValue& v) { return v.toScalar().toDouble(); });
    }
    if (std::is_same_v<T, bool>) {
      return list_of<bool>(sources, [](const IValue& v) { return v.toBool(); });
    }
    return list_of<int64_t>(sources, [](const IValue& v) { return v.toInt(); });
  }
  template <typename T, typename Read>
  static Source list_of(const std::vector<Source>& sources, const Read& read) {
    return [sources, read](const Values& values) {
      c10::List<T> list;
      for (const auto& source : sources) list.push_back(read(source(values)));
      return IValue(list);
    };
  }
};

c10::OperatorHandle find_operator(const std::string& target,
                                  const std::set<std::string>& namespaces) {
  const auto rest = target.substr(std::string_view(kOperators).size());
  const auto first = rest.find('.');
  const auto last = rest.rfind('.');
  if (first == std::string::npos || first == last)
    throw InputError("expected NAMESPACE.NAME.OVERLOAD");
  const auto space = rest.substr(0, first);
  if (namespaces.count(space) == 0) {
    throw InputError(fmt::format("operators of '{}' are not allowed", space));
  }
  const auto name = space + "::" + rest.substr(first + 1, last - first - 1);
  const auto overload = rest.substr(last + 1);
  if (name == "aten::from_file") throw InputError("operators that touch files are not allowed");
  const auto found =
      c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload});
  if (!found) throw InputError("there is no such operator");
  return *found;
}

/// Compiles one node after the other.
class Compiler {
 public:
  Compiler(torch::Device device, const std::set<std::string>& namespaces)
      : device_(device), namespaces_(namespaces) {}

  Step compile(const Node& node) {
    Step step;
    step.target = node.target;
    naming(node.target, [&] {
      if (node.target.starts_with(kOperators)) {
        step.handle = find_operator(node.target, namespaces_);
        use_schema(node, step);
      } else {
        use_numbers(node, step);
      }
      for (const auto& output : node.outputs) add_result(output, step);
    });
    return step;
  }

  Places& places() { return places_; }
  std::vector<std::size_t>& used() { return used_; }  // by the node compiled last

 private:
  Source source(const Argument& argument, const c10::TypePtr& type) {
    return std::visit(MakeSource{places_, type, device_, used_}, argument);
  }

  void use_schema(const Node& node, Step& step) {
    const auto& schema = step.handle->schema();
    std::map<std::string, const Argument*> given;
    for (const auto& input : node.inputs) {
      if (!given.emplace(input.name, &input.value).second) {
        throw InputError(fmt::format("the argument '{}' is there twice", input.name));
      }
    }
    for (const auto& argument : schema.arguments()) {
      const auto found = given.find(argument.name());
      if (found != given.end()) {
        step.arguments.push_back(source(*found->second, argument.type()));
        given.erase(found);
      } else if (argument.default_value()) {
        step.arguments.push_back(
            [value = *argument.default_value()](const Values&) { return value; });
      } else {
        throw InputError(fmt::format("the argument '{}' is missing", argument.name()));
      }
    }
    if (!given.empty()) {
      throw InputError(fmt::format("there is no argument '{}'", given.begin()->first));
    }
    if (node.outputs.size() != schema.returns().size()) {
      throw InputError(
          fmt::format("{} results, expected {}", node.outputs.size(), schema.returns().size()));
    }
  }

  void use_numbers(const Node& node, Step& step) {
    step.numbers = find_number_operator(node.target, node.inputs.size());
    if (step.numbers == nullptr) throw InputError("there is no such operator");
    if (node.outputs.size() != 1) {
      throw InputError(fmt::format("{} results, expected 1", node.outputs.size()));
    }
    for (const auto& input : node.inputs) {
      step.arguments.push_back(source(input.value, c10::AnyType::get()));
    }
  }

  void add_result(const Argument& output, Step& step) {
    std::vector<std::size_t> places;
    const auto* list = std::get_if<std::vector<TensorName>>(&output);
    if (list != nullptr) {
      for (const auto& tensor : *list) places.push_back(places_.give(tensor.name));
    } else if (const auto* tensor = std::get_if<TensorName>(&output)) {
      places.push_back(places_.give(tensor->name));
    } else if (const auto* symbol = std::get_if<SymbolName>(&output)) {
      places.push_back(places_.give(symbol->name));
    } else if (!std::holds_alternative<Nothing>(output)) {
      throw InputError("a result is neither tensors nor a number");
    }
    step.results.push_back(std::move(places));
    step.lists.push_back(list != nullptr);
  }

  torch::Device device_;
  const std::set<std::string>& namespaces_;
  Places places_;
  std::vector<std::size_t> used_;
};

/// Runs a step, and puts what it gives in its places.
void run_step(const Step& step, Values& values) {
  torch::jit::Stack stack;
  for (const auto& argument : step.arguments) stack.push_back(argument(values));
  if (step.numbers != nullptr) {
    stack = {step.numbers(stack)};
  } else {
    step.handle->callBoxed(stack);
  }
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    const auto& places = step.results[i];
    if (!step.lists[i]) {
      if (!places.empty()) values[places[0]] = std::move(stack[i]);
      continue;
    }
    const auto list = stack[i].toTensorVector();
    if (list.size() != places.size()) {
      throw InputError(
          fmt::format("{}: {} tensors, expected {}", step.target, list.size(), places.size()));
    }
    for (std::size_t j = 0; j < list.size(); ++j) values[places[j]] = list[j];
  }
}

void record(const Step& step, const Values& values, const std::vector<std::string>& names,
            const Runner::Recorder& recorder) {
  for (const auto& places : step.results) {
    for (const auto place : places) {
      if (values[place].isTensor()) recorder(names[place], values[place].toTensor());
    }
  }
}

}  // namespace

struct Runner::Impl {
  Values start;                     // weights in their places
  std::vector<std::size_t> inputs;  // of the user, in order
  std::vector<Step> steps;
  std::vector<std::size_t> outputs;
  std::vector<std::string> names;                              // of all places
  std::vector<std::pair<std::size_t, std::size_t>> mutations;  // from a place to one of the start
};

Runner::Runner(const Program& program, const std::map<std::string, torch::Tensor>& weights,
               torch::Device device, const std::set<std::string>& namespaces)
    : impl_(std::make_unique<Impl>()) {
  Compiler compiler(device, namespaces);
  std::map<std::string, std::size_t> targets;  // what mutations name
  std::vector<std::pair<std::size_t, torch::Tensor>> given;
  for (const auto& input : program.inputs) {
    const auto place = compiler.places().give(input.name);
    if (input.kind == InputKind::user) {
      impl_->inputs.push_back(place);
      targets.emplace(input.name, place);
      continue;
    }
    const auto weight = weights.find(input.target);
    if (weight == weights.end()) {
      throw InputError(fmt::format("the weight '{}' is not in the archive", input.target));
    }
    given.emplace_back(place, weight->second);
    targets.emplace(input.target, place);
  }
  std::vector<std::size_t> last_use;  // of each place: the step
  const auto uses = [&](std::size_t step) {
    last_use.resize(compiler.places().size(), step);
    for (const auto place : compiler.used()) last_use[place] = step;
    compiler.used().clear();
  };
  for (const auto& node : program.nodes) {
    impl_->steps.push_back(compiler.compile(node));
    uses(impl_->steps.size() - 1);
  }
  for (const auto& output : program.outputs) {
    const auto* tensor = std::get_if<TensorName>(&output.value);
    if (tensor == nullptr) throw InputError("an output is no tensor");
    const auto place = compiler.places().find(tensor->name);
    compiler.used().push_back(place);
    if (output.kind == OutputKind::user) {
      impl_->outputs.push_back(place);
      continue;
    }
    const auto target = targets.find(output.target);
    if (target == targets.end()) {
      throw InputError(fmt::format("'{}', which is to change, is no input", output.target));
    }
    impl_->mutations.emplace_back(place, target->second);
    compiler.used().push_back(target->second);
  }
  uses(impl_->steps.size());
  for (std::size_t place = 0; place < last_use.size(); ++place) {
    if (last_use[place] < impl_->steps.size()) {
      impl_->steps[last_use[place]].last_used.push_back(place);
    }
  }
  impl_->names = compiler.places().names();
  impl_->start.resize(compiler.places().size());
  for (auto& [place, weight] : given) impl_->start[place] = std::move(weight);
}

Runner::~Runner() = default;

std::vector<torch::Tensor> Runner::run(const std::vector<torch::Tensor>& inputs,
                                       const Recorder& recorder) const {
  auto values = impl_->start;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[impl_->inputs[i]] = inputs[i];
  for (const auto& step : impl_->steps) {
    run_step(step, values);
    if (recorder) record(step, values, impl_->names, recorder);
    for (const auto place : step.last_used) values[place] = IValue();
  }
  std::vector<torch::Tensor> outputs;
  for (const auto place : impl_->outputs) outputs.push_back(values[place].toTensor());
  for (const auto& [from, to] : impl_->mutations) {
    values[to].toTensor().copy_(values[from].toTensor());
  }
  return outputs;
}

}  // namespace attend::pt2
