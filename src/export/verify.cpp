#include "export/verify.h"

#include "export/compare.h"
#include "export/copy_before_write.h"
#include "export/cost_model.h"
#include "export/nested.h"
#include "export/resize.h"
#include "export/rounding.h"
#include "export/schedule.h"
#include "export/shape_text.h"
#include "export/specialized_dimension.h"
#include "export/trial_values.h"
#include "ops/rng_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace attend {
namespace {

/// Returns true if a value differs between `inputs` and `example`, which have the same shapes.
/// Ignores inputs for which `supports_other_values` returns false.
bool has_other_values(const std::vector<torch::Tensor>& inputs,
                      const std::vector<torch::Tensor>& example) {
  return !std::equal(inputs.begin(), inputs.end(), example.begin(),
                     [](const torch::Tensor& one, const torch::Tensor& other) {
                       return !supports_other_values(one) || one.equal(other);
                     });
}

/// Returns the outputs of the module, and sets `cost` to the cost of the call. If the module throws
/// and the inputs have the example's values, throws the error that `module_rejects` returns. If the
/// module throws and the inputs have other values, restores the buffers of the module and returns
/// nullopt.
std::optional<Outputs> expected_of(const torch::nn::Module& module, const Forward& forward,
                                   Values values, const std::vector<torch::Tensor>& inputs,
                                   OperatorCost& cost) {
  const bool may_reject = values != Values::as_in_example;
  const CopyBeforeWrite buffers(may_reject ? module.buffers() : std::vector<torch::Tensor>());
  const OperatorCostGuard guard(cost);
  try {
    return forward(inputs);
  } catch (const std::exception& error) {
    if (!may_reject) throw module_rejects(inputs, error);
    restore_all(buffers.kept());
    return std::nullopt;
  }
}

/// Returns the states of the generators from which a call with these inputs draws random numbers.
RngState rng_of(const std::vector<torch::Tensor>& inputs) {
  return rng_state(rng_devices(inputs.front().device()));
}

/// Returns a message if two calls of the module with the same inputs and the same random numbers
/// return different outputs, else an empty string.
std::string nondeterminism_message(ExportGuard& guard, const Forward& forward,
                                   const std::vector<torch::Tensor>& inputs) {
  const auto rng = rng_of(inputs);
  const auto one = forward(copies_of(inputs)).tensors;
  guard.restore();
  set_rng_state(rng);
  const auto other = forward(copies_of(inputs)).tensors;
  guard.restore();
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    try {
      compare(one[i], other[i], /*tolerance=*/0.0, "");
    } catch (const std::runtime_error&) {
      return "; the module is not deterministic: it has state that is not a buffer, or draws "
             "random numbers from generators other than LibTorch's default generator";
    }
  }
  return "";
}

/// Returns the keys and indices of the outputs.
std::string leaves_text(const TreeSpec& spec) {
  std::vector<std::string> texts;
  for (const auto& leaf : leaves_of(spec)) {
    texts.push_back(leaf.path + (leaf.is_none ? " (None)" : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

class Verification {
 public:
  Verification(ExportGuard& guard, const ExportedModule& subject)
      : guard_(guard),
        subject_(subject),
        forward_(subject.trace.method.function),
        dimensions_(scheduled_dimensions(subject.example_inputs, subject.options.dynamic,
                                         subject.trace.integers, kSeed)),
        example_sizes_(sizes_of(subject.example_inputs, subject.options.dynamic)) {
    for (const auto& dimension : dimensions_) smallest_sizes_[dimension.name] = dimension.min;
  }

  ExportReport run() && {
    RunLoop loop(example_sizes_, {.bytes = kMaxBytes, .elements = kMaxElements},
                 [&](const SizesByName& sizes) { return compare_at(sizes); });
    for (const auto values : kOtherValues) compare_at(example_sizes_, values);
    for (const auto& sizes : sizes_near_example(dimensions_)) {
      if (verified_.count(sizes) == 0) loop.run(sizes);
    }
    for (const auto& dimension : dimensions_) run_growing_sizes(dimension, loop);
    run_one_by_one(&ScheduledDimension::around_constants, loop);
    run_one_by_one(&ScheduledDimension::others, loop);
    // All dimensions together have the largest sizes that were verified one at a time.
    auto largest = example_sizes_;
    for (auto& [name, size] : largest) size = loop.costs().largest(name);
    run_if_affordable(largest, loop);
    guard_.restore();
    report_.values_read = guard_.values_read();
    return std::move(report_);
  }

 private:
  /// Maximum memory of a tensor, and of all inputs and outputs together, in bytes. A comparison
  /// needs several times this memory.
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;
  /// Maximum number of elements that the operators of the module compute. In `run_growing_sizes`,
  /// the limit applies to each single run, and only if the dimension has no maximum. After
  /// `run_growing_sizes`, the limit applies to the sum over all further runs.
  static constexpr int64_t kMaxElements = int64_t{1} << 26;
  static constexpr uint64_t kSeed = 1;  // of random sizes
  /// A dimension does not grow further after a comparison that took more than this number of
  /// seconds of processor time. What is verified then does not depend on the load of the machine.
  static constexpr double kMaxSeconds = 4.0;

  /// Runs at growing sizes of one dimension. The other dimensions have the example's sizes or, if a
  /// run would then exceed the limit of memory or elements, their smallest sizes. Stops if the run
  /// would exceed a limit even with the smallest sizes, or after a run that took more than
  /// kMaxSeconds.
  void run_growing_sizes(const ScheduledDimension& dimension, RunLoop& loop) const {
    constexpr auto kUnlimited = std::numeric_limits<int64_t>::max();
    const auto max_elements = dimension.has_max() ? kUnlimited : kMaxElements;
    for (const auto size : dimension.growing) {
      const auto begin = std::clock();
      if (!loop.run_if_affordable(with_size(example_sizes_, dimension, size), max_elements) &&
          !loop.run_if_affordable(with_size(smallest_sizes_, dimension, size), max_elements)) {
        return;
      }
      const auto taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      if (taken > kMaxSeconds) return;
    }
  }

  /// Runs at sizes from `list` in one dimension. The other dimensions have the example's sizes or,
  /// if that run is omitted, their smallest sizes. Different dimensions alternate.
  void run_one_by_one(std::vector<int64_t> ScheduledDimension::*list, RunLoop& loop) const {
    std::size_t count = 0;
    for (const auto& dimension : dimensions_) count = std::max(count, (dimension.*list).size());
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& dimension : dimensions_) {
        const auto& all = dimension.*list;
        if (i >= all.size()) continue;
        if (!run_if_affordable(with_size(example_sizes_, dimension, all[i]), loop)) {
          run_if_affordable(with_size(smallest_sizes_, dimension, all[i]), loop);
        }
      }
    }
  }

  /// Runs, unless the sizes are already verified. Returns false if the run is omitted because it
  /// would be too expensive.
  bool run_if_affordable(const SizesByName& sizes, RunLoop& loop) const {
    return verified_.count(sizes) > 0 || loop.run_if_affordable(sizes);
  }

  /// Compares the outputs of the exported program with those of the module. Returns the cost of the
  /// module's forward.
  OperatorCost compare_at(const SizesByName& sizes, Values values = Values::as_in_example) {
    const auto& options = subject_.options;
    // At each of the other sizes, the values are shifted by another number, see `resize`.
    const auto shift = sizes == example_sizes_ ? 0 : static_cast<int64_t>(verified_.size());
    auto inputs = resize(subject_.example_inputs, options.dynamic, sizes, shift);
    for (auto& input : inputs) input = with_values(input, values);
    const auto shapes = shapes_text(inputs);
    OperatorCost cost;
    const auto mutated = copies_of(inputs);
    const auto rng = rng_of(inputs);
    const auto outputs = expected_of(subject_.module, forward_, values, mutated, cost);
    if (!outputs) return cost;
    const auto& expected = outputs->tensors;
    const auto next_rng = rng_of(inputs);
    cost.bytes = std::max(cost.bytes, bytes_of(inputs) + bytes_of(expected));
    TORCH_CHECK_VALUE(options.output_names.size() <= expected.size(), "found ",
                      options.output_names.size(), " output_names, expected at most ",
                      expected.size(), ", the number of outputs");
    set_rng_state(rng);  // the exported program draws the same random numbers
    try {
      compare_outputs(inputs, mutated, *outputs, shapes);
    } catch (const std::exception& error) {
      guard_.restore();  // throws if forward mutates parameters or constants
      const auto specialization = find_specialization(subject_.module, subject_.trace, inputs);
      if (specialization) throw with_specialization(error, *specialization);
      throw WrongForInputs(short_message(error) + nondeterminism_message(guard_, forward_, inputs),
                           inputs);
    }
    // The next run draws other random numbers, also if the exported program draws none.
    set_rng_state(next_rng);
    add_to_report(sizes, values, inputs);
    return cost;
  }

  /// Runs the exported program. If the program throws, adds the shapes of the inputs to the
  /// message.
  std::vector<torch::Tensor> run_exported(const std::vector<torch::Tensor>& inputs,
                                          const std::string& shapes) const {
    try {
      return subject_.exported(inputs).tensors;
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("for {}: {}", shapes, short_message(error)));
    }
  }

  void compare_outputs(const std::vector<torch::Tensor>& inputs,
                       const std::vector<torch::Tensor>& mutated, const Outputs& outputs,
                       const std::string& shapes) {
    const auto& expected = outputs.tensors;
    const auto copies = copies_of(inputs);
    const auto found = run_exported(copies, shapes);
    if (found.size() != expected.size()) {
      throw std::runtime_error(
          fmt::format("for {}: the exported program returns {} outputs, expected {}", shapes,
                      found.size(), expected.size()));
    }
    if (outputs.spec != subject_.trace.outputs) {
      throw std::runtime_error(fmt::format(
          "for {}: forward returns the outputs {}, expected {} as for the example inputs", shapes,
          leaves_text(outputs.spec), leaves_text(subject_.trace.outputs)));
    }
    const auto tolerance = subject_.options.tolerance;
    std::vector<double> rounding;  // of each output
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto rounding_of_output = [&] {
        if (rounding.empty()) {
          rounding = rounding_of_outputs(subject_.module, forward_, inputs);
        }
        return rounding.at(i);
      };
      report_.max_abs_diff = std::max(
          report_.max_abs_diff,
          compare(found[i], expected[i], tolerance,
                  fmt::format("for {}, the exported program returns", shapes), rounding_of_output));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {  // forward may mutate its inputs
      compare(copies[i], mutated[i], tolerance,
              fmt::format("for {}, the exported program changes input {} in place to", shapes, i));
    }
  }

  void add_to_report(const SizesByName& sizes, Values values,
                     const std::vector<torch::Tensor>& inputs) {
    if (values != Values::as_in_example) {
      if (has_other_values(inputs, subject_.example_inputs)) report_.verified_other_values = true;
      return;
    }
    if (!verified_.insert(sizes).second) return;
    ++report_.num_verified_shapes;
    for (const auto& [name, size] : sizes) {
      auto& range = report_.verified_sizes.try_emplace(name, SizeRange{size, size}).first->second;
      range = {std::min(range.min, size), std::max(range.max, size)};
    }
  }

  ExportGuard& guard_;
  const ExportedModule& subject_;
  const Forward& forward_;
  std::vector<ScheduledDimension> dimensions_;
  SizesByName example_sizes_;
  SizesByName smallest_sizes_;
  std::set<SizesByName> verified_;
  ExportReport report_;
};

}  // namespace

ExportReport verify(ExportGuard& guard, const ExportedModule& subject) {
  return Verification(guard, subject).run();
}

ExportReport export_with_retries(
    const std::vector<torch::Tensor>& example_inputs,
    const std::function<ExportReport(const std::vector<torch::Tensor>&)>& attempt) {
  constexpr int kMaxAttempts = 3;
  auto inputs = example_inputs;
  std::exception_ptr first;
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto shapes = shapes_text(inputs);
    try {
      return attempt(inputs);
    } catch (const WrongForInputs& error) {
      if (!first) first = std::current_exception();
      inputs = error.inputs;
      // A trace with empty inputs lacks what the module does with elements.
      const bool is_empty = std::any_of(inputs.begin(), inputs.end(),
                                        [](const auto& input) { return input.numel() == 0; });
      if (is_empty || shapes_text(inputs) == shapes) break;
    } catch (const std::exception&) {
      if (!first) throw;
      break;
    }
  }
  std::rethrow_exception(first);
}

void with_method_name(const TracedMethod& method, const std::string& forward,
                      const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    if (method.name == forward) throw;
    throw std::runtime_error(fmt::format("method '{}': {}", method.name, error.what()));
  }
}

}  // namespace attend
