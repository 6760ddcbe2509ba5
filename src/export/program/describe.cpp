#include "export/program/describe.h"

#include "export/frozen_size.h"
#include "export/program/codes.h"
#include "export/program/runner.h"
#include "export/program/symbolic_sizes.h"
#include "export/resize.h"
#include "export/shape_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace attend::program {
namespace {

/// How many more than its least size a dynamic dimension has in a run: close together, since a
/// division shows between neighbours, and far apart, since of a large divisor there is one in many.
constexpr std::array<int64_t, 10> kOffsets{0, 1, 2, 3, 5, 8, 13, 21, 34, 55};

/// What is seen of a tensor, without keeping it.
struct Seen {
  TensorMeta meta;                            // sizes and strides are of the first run
  std::vector<std::vector<int64_t>> sizes;    // of each run, those with sizes of 1 at the end
  std::vector<std::vector<int64_t>> strides;  // of the others, and the offset
};

/// A dynamic dimension under its name in the program, and the sizes that it has in runs.
struct SampledDimension {
  std::string name;
  std::string symbol;
  Range range;
  int64_t example = 0;
  std::vector<int64_t> sizes;  // besides the example's
};

std::vector<int64_t> sizes_to_try(const Range& range) {
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t least) {
    for (const auto more : kOffsets) {
      const auto size = least + more;
      if (!range.greatest || size <= *range.greatest) sizes.push_back(size);
    }
  };
  const auto least = range.least.value_or(1);
  // Without 1, whose strides say nothing, unless there is too little else.
  add(std::max<int64_t>(least, 2));
  if (sizes.size() < 2) {
    sizes.clear();
    add(least);
  }
  return sizes;
}

/// A size far from the others, so that min(T, 100) is not taken for T; less far where the input
/// would be large.
int64_t far_size(const torch::Tensor& input, int64_t dimension, const Range& range) {
  constexpr int64_t kFar = 509;
  constexpr int64_t kMostElements = int64_t{1} << 20;
  const auto of_one = input.numel() / std::max<int64_t>(1, input.size(dimension));
  const auto far = std::min(kFar, kMostElements / std::max<int64_t>(1, of_one));
  return std::min(far, range.greatest.value_or(far));
}

std::vector<SampledDimension> dimensions_of(const std::vector<torch::Tensor>& example,
                                            const std::vector<DynamicDimension>& dynamic) {
  std::vector<SampledDimension> all;
  for (const auto& dimension : distinct(dynamic)) {
    if (dimension.least == dimension.greatest) continue;  // fixed after all
    Range range{.least = dimension.least, .greatest = {}};
    if (dimension.greatest != std::numeric_limits<int64_t>::max()) {
      range.greatest = dimension.greatest;
    }
    const auto& input = example.at(dimension.input);
    auto sizes = sizes_to_try(range);
    const auto far = far_size(input, dimension.dimension, range);
    if (far > sizes.back()) sizes.push_back(far);
    all.push_back({dimension.name, fmt::format("s{}", all.size()), range,
                   input.size(dimension.dimension), sizes});
  }
  return all;
}

using Run = std::vector<int64_t>;  // a size for each dimension

/// The example's sizes first, then each dimension for itself at all sizes, and two and three
/// together at some: all that tells polynomials of the third degree apart.
std::vector<Run> runs_of(const std::vector<SampledDimension>& dimensions) {
  Run example;
  Run base;
  for (const auto& dimension : dimensions) {
    example.push_back(dimension.example);
    base.push_back(dimension.sizes.front());
  }
  std::vector<Run> runs{example, base};
  const auto size = [&](std::size_t dimension, std::size_t place) {
    const auto& sizes = dimensions[dimension].sizes;
    return sizes[std::min(place, sizes.size() - 1)];
  };
  for (std::size_t a = 0; a < dimensions.size(); ++a) {
    auto run = base;
    for (const auto alone : dimensions[a].sizes) {
      run[a] = alone;
      runs.push_back(run);
    }
    for (std::size_t b = 0; b < a; ++b) {
      for (const auto& [place_a, place_b] : {std::pair{1, 1}, {1, 3}, {3, 1}, {3, 4}}) {
        run = base;
        run[a] = size(a, static_cast<std::size_t>(place_a));
        run[b] = size(b, static_cast<std::size_t>(place_b));
        runs.push_back(run);
        for (std::size_t c = 0; c < b && place_a == 1; ++c) {
          auto three = run;
          three[c] = size(c, 2);
          runs.push_back(three);
        }
      }
    }
  }
  return runs;
}

/// Runs with each dimension that may be 1 at 1, one after the other, then all of them: squeezing
/// drops dimensions there, slices come out shorter, and tensors are contiguous that are not so
/// elsewhere. Strides say nothing there.
std::vector<Run> runs_with_ones(const std::vector<SampledDimension>& dimensions,
                                const std::vector<Run>& runs) {
  std::vector<Run> at_one;
  auto all = runs.at(1);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].range.least.value_or(1) > 1) continue;
    auto run = runs.at(1);
    run[i] = all[i] = 1;
    at_one.push_back(run);
  }
  if (at_one.size() > 1) at_one.push_back(all);
  return at_one;
}

TensorMeta fixed_meta(const torch::Tensor& tensor) {
  TensorMeta meta{.dtype = number_of(tensor.scalar_type()),
                  .sizes = {},
                  .strides = {},
                  .storage_offset = {},
                  .requires_grad = tensor.requires_grad(),
                  .device = device_of(tensor.device()),
                  .layout = number_of(tensor.layout())};
  for (const auto size : tensor.sizes()) meta.sizes.push_back({size, {}});
  for (const auto stride : tensor.strides()) meta.strides.push_back({stride, {}});
  meta.is_contiguous = tensor.is_contiguous();
  return meta;
}

void check_rank(const std::string& name, const torch::Tensor& tensor, const TensorMeta& meta) {
  if (static_cast<int64_t>(meta.sizes.size()) == tensor.dim()) return;
  throw std::runtime_error(
      fmt::format("{}: it has {} dimensions at the example's sizes, {} at others", name,
                  meta.sizes.size(), tensor.dim()));
}

/// What stands at a place of what each run gave.
std::vector<int64_t> column(const std::vector<std::vector<int64_t>>& runs, std::size_t place) {
  std::vector<int64_t> values;
  for (const auto& run : runs) values.push_back(run.at(place));
  return values;
}

/// How a number that was `values` depends on the dynamic sizes.
Size fitted(const std::vector<int64_t>& values, const std::string& name, SymbolicSizes& sizes,
            UnfittedSizes unfitted_sizes, const char* advice = "") {
  const auto size = sizes.find(values);
  if (size) return *size;
  if (unfitted_sizes == UnfittedSizes::left_open) {
    return {.value = values.front(),
            .expression = fmt::format("unfitted({})", fmt::join(values, ","))};
  }
  const auto other = std::find_if(values.begin(), values.end(),
                                  [&](int64_t value) { return value != values.front(); });
  throw std::runtime_error(fmt::format(
      "a size or stride of the traced {} depends on the dynamic sizes in a way that is "
      "no polynomial of them or of their quotients: {} at the example's, {} at others{}",
      name, values.front(), *other, advice));
}

/// Runs the program at other sizes, and holds what its tensors were there.
class Observations {
 public:
  Observations(const TracedProgram& traced, const std::vector<torch::Tensor>& example,
               const std::vector<DynamicDimension>& dynamic)
      : program_(traced.program),
        example_(example),
        dynamic_(dynamic),
        dimensions_(dimensions_of(example, dynamic)),
        runs_(runs_of(dimensions_)),
        runs_at_one_(runs_with_ones(dimensions_, runs_)),
        runner_(traced.program, traced.weights, example.front().device(), {"aten"}) {
    for (const auto& run : runs_) {
      observe(run, [&](const std::string& name, const torch::Tensor& tensor) {
        note(name, tensor).strides.push_back(tensor.strides().vec());
        seen_.at(name).strides.back().push_back(tensor.storage_offset());
      });
    }
    for (const auto& run : runs_at_one_) {
      observe(run,
              [&](const std::string& name, const torch::Tensor& tensor) { note(name, tensor); });
    }
  }

  const std::vector<SampledDimension>& dimensions() const { return dimensions_; }
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<Run>& runs_at_one() const { return runs_at_one_; }
  /// In the order in which the program makes them.
  const std::vector<std::string>& names() const { return names_; }
  const Seen& at(const std::string& name) const { return seen_.at(name); }

 private:
  void observe(const Run& run, const Runner::Recorder& recorder) const {
    const auto inputs = inputs_of(run);
    std::size_t next = 0;
    for (const auto& input : program_.inputs) {
      if (input.kind == InputKind::user) recorder(input.name, inputs.at(next++));
    }
    try {
      runner_.run(inputs, recorder);
    } catch (const c10::Error& error) {
      throw std::runtime_error(fmt::format(
          "what was traced does not take {}, which the bounds of the dynamic dimensions allow: {}",
          shapes_text(inputs), reason_of(error)));
    }
  }

  Seen& note(const std::string& name, const torch::Tensor& tensor) {
    const auto [found, is_new] = seen_.try_emplace(name);
    auto& seen = found->second;
    if (is_new) {
      seen.meta = fixed_meta(tensor);
      names_.push_back(name);
    }
    check_rank(name, tensor, seen.meta);
    if (seen.meta.is_contiguous != tensor.is_contiguous()) seen.meta.is_contiguous.reset();
    seen.sizes.push_back(tensor.sizes().vec());
    return seen;
  }

  std::vector<torch::Tensor> inputs_of(const Run& run) const {
    auto sizes = sizes_of(example_, dynamic_);
    for (std::size_t i = 0; i < dimensions_.size(); ++i) sizes[dimensions_[i].name] = run[i];
    return resize(example_, dynamic_, sizes);
  }

  const Program& program_;
  const std::vector<torch::Tensor>& example_;
  const std::vector<DynamicDimension>& dynamic_;
  std::vector<SampledDimension> dimensions_;
  std::vector<Run> runs_;
  std::vector<Run> runs_at_one_;
  Runner runner_;
  std::map<std::string, Seen> seen_;
  std::vector<std::string> names_;
};

SymbolicSizes symbolic_sizes(const std::vector<SampledDimension>& dimensions,
                             const std::vector<Run>& runs) {
  std::vector<std::string> symbols;
  std::vector<std::vector<int64_t>> values(dimensions.size());
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    symbols.push_back(dimensions[i].symbol);
    for (const auto& run : runs) values[i].push_back(run[i]);
  }
  return {symbols, values};
}

/// Says how the numbers of a tensor depend on the dynamic sizes: `sizes` in all runs, `strides` in
/// those without sizes of 1.
TensorMeta fitted_meta(const std::string& name, const Seen& seen, SymbolicSizes& sizes,
                       SymbolicSizes& strides, UnfittedSizes unfitted_sizes) {
  auto meta = seen.meta;
  const auto runs_beside_ones = static_cast<std::ptrdiff_t>(seen.strides.size());
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    const auto values = column(seen.sizes, i);
    if (unfitted_sizes == UnfittedSizes::left_open) {
      meta.sizes[i] = fitted(values, name, sizes, unfitted_sizes);
      continue;
    }
    // Strides are products of the quotients that are found among sizes.
    const auto beside_ones = strides.find({values.begin(), values.begin() + runs_beside_ones});
    meta.sizes[i] = fitted(values, name, sizes, unfitted_sizes,
                           beside_ones ? "; a least size of 2 would do" : "");
  }
  if (unfitted_sizes == UnfittedSizes::left_open) return meta;
  const auto rank = meta.strides.size();
  for (std::size_t i = 0; i < rank; ++i) {
    meta.strides[i] = fitted(column(seen.strides, i), name, strides, unfitted_sizes);
  }
  meta.storage_offset = fitted(column(seen.strides, rank), name, strides, unfitted_sizes);
  return meta;
}

}  // namespace

void describe_tensors(TracedProgram& traced, const std::vector<torch::Tensor>& example_inputs,
                      const std::vector<DynamicDimension>& dynamic, UnfittedSizes unfitted_sizes) {
  auto& program = traced.program;
  const Observations observations(traced, example_inputs, dynamic);
  for (const auto& dimension : observations.dimensions()) {
    program.ranges[dimension.symbol] = dimension.range;
  }
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::user) continue;
    program.tensors[input.name] = fixed_meta(traced.weights.at(input.target));
  }
  auto strides = symbolic_sizes(observations.dimensions(), observations.runs());
  auto all_runs = observations.runs();
  all_runs.insert(all_runs.end(), observations.runs_at_one().begin(),
                  observations.runs_at_one().end());
  auto sizes = symbolic_sizes(observations.dimensions(), all_runs);
  for (const auto& name : observations.names()) {
    program.tensors[name] =
        fitted_meta(name, observations.at(name), sizes, strides, unfitted_sizes);
  }
}

}  // namespace attend::program
