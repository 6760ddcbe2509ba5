#include "export/specialized_dimension.h"

#include "export/resize.h"
#include "export/shape_text.h"
#include "export/traced_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace attend {
namespace {

namespace jit = torch::jit;

std::string text_of(const c10::IValue& value) {
  if (value.isTensor()) {
    constexpr int64_t kFew = 4;
    const auto& tensor = value.toTensor();
    if (tensor.numel() > kFew) return "a tensor of shape " + shape_text(tensor);
    std::vector<std::string> elements;
    for (const auto& element : tensor.flatten().unbind())
      elements.push_back(text_of(element.item()));
    return fmt::format("a tensor with the elements {}", fmt::join(elements, ", "));
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
  std::string remedy;
};

/// Returns true if call `i` of a trace repeats an earlier one: the same operator at the same call
/// site.
bool is_repeated(const TracedCalls& calls, std::size_t i) {
  const auto end = calls.nodes.begin() + static_cast<std::ptrdiff_t>(i);
  return std::any_of(calls.nodes.begin(), end, [&](const jit::Node* earlier) {
    const auto& node = *calls.nodes[i];
    return earlier->kind() == node.kind() && calls.sites.same(*earlier, calls.sites, node);
  });
}

/// Returns what to change if two traces differ from call `i` on.
const char* remedy_of_divergence(const TracedCalls& one, const TracedCalls& other, std::size_t i) {
  const auto& longer = one.nodes.size() > other.nodes.size() ? one : other;
  const bool is_loop = one.nodes.size() != other.nodes.size() && is_repeated(longer, i);
  return is_loop ? "the number of steps of a loop must not depend on a size: replace the loop by "
                   "operators on whole tensors, such as cumsum or matmul, or a loop over a "
                   "recurrent cell by torch::nn::LSTM, GRU or RNN"
                 : "forward must call the same operators for all sizes: replace branches and loops "
                   "that depend on a size by operators on whole tensors, or restrict the dimension "
                   "by min and max to the sizes of one branch";
}

/// Returns an alternative to a computed argument of the operator `name`, or "".
std::string_view alternative_of(std::string_view name) {
  static const std::vector<std::pair<std::string_view, std::vector<std::string_view>>>
      kAlternatives{
          {"torch::unflatten and torch::flatten, which need no size", {"view", "reshape"}},
          {"an operator such as torch::zeros_like, which takes the shape of a tensor",
           {"zeros", "ones", "full", "empty", "rand", "randn", "new_zeros", "new_ones",
            "new_full"}},
          {"torch::ones_like(x).cumsum(dim), which counts the elements of a dimension",
           {"arange", "linspace"}},
          {"expand_as or broadcasting, which need no size",
           {"expand", "repeat", "broadcast_to", "tile"}},
          {"a negative index, which counts from the end", {"narrow", "slice", "select"}},
          {"a constant padding, and slice the result", {"constant_pad_nd", "pad"}},
          {"a scale factor",
           {"upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d", "upsample_bilinear2d",
            "upsample_bicubic2d", "upsample_nearest3d", "upsample_trilinear3d"}},
          {"an operator such as mean, which divides by the size itself", {"div", "div_"}}};
  for (const auto& [alternative, names] : kAlternatives) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return alternative;
  }
  return "";
}

/// Returns what to change if an argument of `node` is a number that is no expression of sizes.
std::string remedy_of_number(const jit::Node& node) {
  const auto alternative = alternative_of(node.kind().toUnqualString());
  return fmt::format(
      "compute the argument from the sizes of tensors by +, -, *, /, %, std::min, std::max and "
      "std::sqrt{}{}",
      alternative.empty() ? "" : ", or use ", alternative);
}

/// Describes the first difference between two traces. Returns nullopt if there is none. If the
/// traces call different operators, no argument was lifted: arguments that differ before are
/// ignored, since most of them are sizes that can be lifted.
std::optional<Description> find_difference(const Trace& one, const Trace& other,
                                           const std::set<ArgumentPosition>& lifted) {
  const auto& left = one.calls.nodes;
  const auto& right = other.calls.nodes;
  const auto diverges_at = [&](std::size_t i) {
    return Description{fmt::format("with {}, forward calls {}; with {}, it calls {}", one.inputs,
                                   one.text_of(i), other.inputs, other.text_of(i)),
                       remedy_of_divergence(one.calls, other.calls, i)};
  };
  std::optional<std::size_t> diverged;   // index of the first call with different call sites
  std::optional<std::size_t> differing;  // index of the first call with different arguments
  const auto count = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (!diverged && !one.calls.sites.same(*left[i], other.calls.sites, *right[i])) diverged = i;
    if (left[i]->kind() != right[i]->kind()) return diverges_at(diverged.value_or(i));
    const auto outputs =
        std::pair(traced_outputs(*left[i]).size(), traced_outputs(*right[i]).size());
    if (outputs.first != outputs.second) {
      if (diverged) return diverges_at(*diverged);
      return Description{
          fmt::format("{} returns {} tensors for {}, but {} for {}{}",
                      left[i]->kind().toQualString(), outputs.first, one.inputs, outputs.second,
                      other.inputs, one.calls.sites.text_of(*left[i])),
          "the number of parts must not depend on a size: use torch::unflatten or Tensor::unfold"};
    }
    if (!differing && find_difference(i, *left[i], *right[i], lifted)) differing = i;
  }
  if (left.size() != right.size()) return diverges_at(diverged.value_or(count));
  if (!differing) return std::nullopt;
  if (diverged && *diverged <= *differing) return diverges_at(*diverged);
  const auto& node = *left[*differing];
  const auto values = find_difference(*differing, *left[*differing], *right[*differing], lifted);
  return Description{
      fmt::format("{} is called with the argument {} for {}, but with {} for {}{}",
                  node.kind().toQualString(), text_of(values->first), one.inputs,
                  text_of(values->second), other.inputs, one.calls.sites.text_of(node)),
      values->first.isTensor()
          ? "create the tensor with operators, such as torch::arange or torch::full, instead of "
            "from C++ numbers"
          : remedy_of_number(node)};
}

}  // namespace

std::optional<WrongForInputs> find_specialization(const torch::nn::Module& module,
                                                  const TraceSummary& trace,
                                                  const std::vector<torch::Tensor>& others) {
  const auto& inputs = trace.method.example_inputs;
  // The loop makes both traces with the same call of `trace_calls`. Two calls in the source code
  // would have different return addresses in the call stacks.
  std::vector<TracedCalls> traces;
  for (const auto* some : {&inputs, &others}) {
    traces.push_back(trace_calls(module, trace.method.function, *some));
  }
  const auto shape = shape_text(inputs);
  const auto other_shape = shape_text(others);
  const bool sizes_differ = shape != other_shape;
  const auto difference =
      find_difference({sizes_differ ? "inputs of shape " + shape : "the example inputs", traces[0]},
                      {sizes_differ ? other_shape : "other values", traces[1]}, trace.lifted);
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
                                                  const TraceSummary& trace) {
  const auto& inputs = trace.method.example_inputs;
  const auto& dynamic = trace.method.dynamic;
  for (const auto& dimension : distinct(dynamic)) {
    const auto size = inputs.at(dimension.input).size(dimension.dimension);
    // size + 1 alone is not enough: (size + 1) / 2 may be equal to size / 2.
    for (const auto other : {size + 1, 2 * size, dimension.min}) {
      if (other > dimension.max) continue;
      const auto others = resize(inputs, dynamic, {{dimension.name, other}});
      try {
        auto specialization = find_specialization(module, trace, others);
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
