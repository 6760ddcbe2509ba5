#include "export/specialized_dimension.h"

#include "export/resize.h"
#include "export/shape_text.h"
#include "export/traced_calls.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace attend {
namespace {

namespace jit = torch::jit;

std::string text_of(const c10::IValue& value) {
  if (value.isTensor()) {
    return "a tensor of shape " + shape_text(value.toTensor());
  }
  if (value.isDouble()) return fmt::format("{}", value.toDouble());  // `<<` writes "5."
  std::ostringstream text;
  text << value;
  return text.str();
}

bool same(const c10::IValue& one, const c10::IValue& other) {
  if (one.tagKind() != other.tagKind()) return false;
  if (one.isTensor()) {
    return one.toTensor().sizes() == other.toTensor().sizes() &&
           one.toTensor().allclose(other.toTensor(), /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
  }
  return one == other;
}

/// Two values of a constant argument.
using Difference = std::pair<c10::IValue, c10::IValue>;

/// Returns the first constant arguments in which call `index` of two traces differs, without the
/// arguments in `lifted`.
std::optional<Difference> find_difference(std::size_t index, jit::Node& one, jit::Node& other,
                                          const std::set<ArgumentPosition>& lifted) {
  const auto arguments = traced_arguments(one);
  const auto others = traced_arguments(other);
  for (std::size_t i = 0; i < std::min(arguments.size(), others.size()); ++i) {
    const auto left = jit::toIValue(arguments[i].value());
    const auto right = jit::toIValue(others[i].value());
    if (left && right && !same(*left, *right) && !lifted.contains({index, i})) {
      return Difference(*left, *right);
    }
  }
  return std::nullopt;
}

/// A trace, and a description of its inputs for messages.
struct Trace {
  std::string inputs;
  const TracedCalls& calls;

  std::string text_of(std::size_t i) const {
    if (i >= calls.nodes.size()) return "no further operator";
    return calls.nodes[i]->kind().toQualString() + calls.sites.text_of(*calls.nodes[i]);
  }
};

/// A difference between two traces, and what to change in forward if a size causes it.
struct Description {
  std::string text;
  const char* remedy;
};

/// Describes the first difference between two traces. Returns nullopt if there is none.
std::optional<Description> find_difference(const Trace& one, const Trace& other,
                                           const std::set<ArgumentPosition>& lifted) {
  const auto& left = one.calls.nodes;
  const auto& right = other.calls.nodes;
  const auto diverges_at = [&](std::size_t i) {
    return Description{
        fmt::format("with {}, forward calls {}; with {}, it calls {}", one.inputs, one.text_of(i),
                    other.inputs, other.text_of(i)),
        "forward must call the same operators for all sizes: replace branches and loops that "
        "depend on a size by operators on whole tensors, or restrict the dimension by min and max "
        "to the sizes of one branch"};
  };
  std::optional<std::size_t> diverged;  // index of the first call with different call sites
  const auto count = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (!diverged && !one.calls.sites.same(*left[i], other.calls.sites, *right[i])) diverged = i;
    if (left[i]->kind() != right[i]->kind()) return diverges_at(diverged.value_or(i));
    const auto values = find_difference(i, *left[i], *right[i], lifted);
    const auto outputs =
        std::pair(traced_outputs(*left[i]).size(), traced_outputs(*right[i]).size());
    if (!values && outputs.first == outputs.second) continue;
    if (diverged) return diverges_at(*diverged);
    if (!values) {
      return Description{
          fmt::format("{} returns {} tensors for {}, but {} for {}{}",
                      left[i]->kind().toQualString(), outputs.first, one.inputs, outputs.second,
                      other.inputs, one.calls.sites.text_of(*left[i])),
          "the number of parts must not depend on a size: use torch::unflatten or Tensor::unfold"};
    }
    return Description{
        fmt::format("{} is called with the argument {} for {}, but with {} for {}{}",
                    left[i]->kind().toQualString(), text_of(values->first), one.inputs,
                    text_of(values->second), other.inputs, one.calls.sites.text_of(*left[i])),
        values->first.isTensor()
            ? "create the tensor with operators, such as torch::arange or torch::full, instead of "
              "from C++ numbers"
            : "compute the argument from the sizes of tensors by +, -, *, /, %, std::min, std::max "
              "and std::sqrt, or use an operator such as torch::unflatten that needs no size"};
  }
  if (left.size() != right.size()) return diverges_at(diverged.value_or(count));
  return std::nullopt;
}

}  // namespace

std::optional<WrongForInputs> find_specialization(const torch::nn::Module& module,
                                                  const Forward& function,
                                                  const std::vector<torch::Tensor>& inputs,
                                                  const std::vector<torch::Tensor>& others,
                                                  const std::set<ArgumentPosition>& lifted) {
  // The loop makes both traces with the same call of `trace_calls`. Two calls in the source code
  // would have different return addresses in the call stacks.
  std::vector<TracedCalls> traces;
  for (const auto* some : {&inputs, &others}) {
    traces.push_back(trace_calls(module, function, *some));
  }
  const auto shape = shape_text(inputs);
  const auto other_shape = shape_text(others);
  const bool sizes_differ = shape != other_shape;
  const auto difference =
      find_difference({sizes_differ ? "inputs of shape " + shape : "the example inputs", traces[0]},
                      {sizes_differ ? other_shape : "other values", traces[1]}, lifted);
  if (!difference) return std::nullopt;
  if (sizes_differ) {
    return WrongForInputs(
        fmt::format("a size was specialized: {}; {}", difference->text, difference->remedy),
        others);
  }
  return WrongForInputs(
      fmt::format("a value was specialized: {}; in forward, use operators such as torch::where "
                  "instead of values read into C++ numbers",
                  difference->text),
      others);
}

std::optional<WrongForInputs> find_specialization(const torch::nn::Module& module,
                                                  const Forward& function,
                                                  const std::vector<torch::Tensor>& inputs,
                                                  const std::vector<DynamicDimension>& dynamic,
                                                  const std::set<ArgumentPosition>& lifted) {
  for (const auto& dimension : distinct(dynamic)) {
    auto sizes = sizes_of(inputs, dynamic);
    const auto size = sizes.at(dimension.name);
    // size + 1 alone is not enough: (size + 1) / 2 may be equal to size / 2.
    for (const auto other : {size + 1, 2 * size, dimension.min}) {
      if (other > dimension.max) continue;
      sizes[dimension.name] = other;
      const auto others = resize(inputs, dynamic, sizes);
      try {
        auto specialization = find_specialization(module, function, inputs, others, lifted);
        if (specialization) return specialization;
      } catch (const std::exception& error) {
        throw module_rejects(others, error);
      }
    }
  }
  return std::nullopt;
}

std::string short_message(const std::exception& error) {
  const std::string text = error.what();
  if (!text.starts_with("The following operation failed in the TorchScript interpreter")) {
    return text.substr(0, text.find('\n'));
  }
  const auto end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

std::runtime_error module_rejects(const std::vector<torch::Tensor>& inputs,
                                  const std::exception& error) {
  return std::runtime_error(
      fmt::format("the module rejects {}, although all sizes are within min and max of the dynamic "
                  "dimensions: {}",
                  shapes_text(inputs), short_message(error)));
}

WrongForInputs with_specialization(const std::exception& error,
                                   const WrongForInputs& specialization) {
  return {fmt::format("{}; {}", short_message(error), specialization.what()),
          specialization.inputs};
}

}  // namespace attend
