#include "export/pt2/describe.h"

#include "export/pt2/codes.h"
#include "export/pt2/run.h"
#include "export/pt2/symbolic_sizes.h"
#include "export/resize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

namespace attend::pt2 {
namespace {

/// How many more than the least sizes of the dynamic dimensions the program runs with.
constexpr std::array<int64_t, 4> kMore{0, 1, 3, 5};

/// What is seen of a tensor in one run.
struct Shape {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

struct Seen {
  torch::Tensor example;
  std::vector<Shape> shapes;  // one for each run
};

using Point = std::vector<int64_t>;  // a size for each symbol

std::vector<Symbol> symbols_of(const std::vector<DynamicDimension>& dynamic,
                               std::vector<std::string>& names) {
  std::vector<Symbol> symbols;
  for (const auto& dimension : dynamic) {
    if (std::find(names.begin(), names.end(), dimension.name) != names.end()) continue;
    names.push_back(dimension.name);
    Range range{.least = dimension.least, .greatest = {}};
    if (dimension.greatest != std::numeric_limits<int64_t>::max())
      range.greatest = dimension.greatest;
    symbols.push_back({fmt::format("s{}", symbols.size()), range});
  }
  return symbols;
}

/// The example's sizes first, then all combinations of those that are tried.
std::vector<Point> points_of(const std::vector<Symbol>& symbols, const Point& example) {
  std::vector<Point> points{{}};
  for (const auto& symbol : symbols) {
    std::vector<Point> more;
    for (const auto& point : points) {
      for (const auto more_than_least : kMore) {
        // No 1, whose strides say nothing.
        const auto size = std::max<int64_t>(symbol.range.least.value_or(0), 2) + more_than_least;
        if (symbol.range.greatest && size > *symbol.range.greatest) continue;
        more.push_back(point);
        more.back().push_back(size);
      }
    }
    points = std::move(more);
  }
  points.insert(points.begin(), example);
  return points;
}

Device device_of_tensor(const torch::Tensor& tensor) {
  return {.type = c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true),
          .index = tensor.device().has_index() ? std::optional<int64_t>(tensor.device().index())
                                               : std::nullopt};
}

TensorMeta fixed_meta(const torch::Tensor& tensor) {
  TensorMeta meta{.dtype = number_of(tensor.scalar_type()),
                  .sizes = {},
                  .strides = {},
                  .storage_offset = {},
                  .requires_grad = tensor.requires_grad(),
                  .device = device_of_tensor(tensor),
                  .layout = number_of(tensor.layout())};
  for (const auto size : tensor.sizes()) meta.sizes.push_back({size, {}});
  for (const auto stride : tensor.strides()) meta.strides.push_back({stride, {}});
  return meta;
}

/// A size that is known by what it was.
Size left_open(const std::vector<Sample>& samples) {
  std::vector<int64_t> sizes;
  for (const auto& sample : samples) sizes.push_back(sample.size);
  return {.value = sizes.front(), .expression = fmt::format("odd({})", fmt::join(sizes, ","))};
}

}  // namespace

void describe_tensors(TracedProgram& traced, const std::vector<torch::Tensor>& example_inputs,
                      const std::vector<DynamicDimension>& dynamic, OddSizes odd_sizes) {
  std::vector<std::string> names;
  const auto symbols = symbols_of(dynamic, names);
  Point example;
  for (const auto& name : names) {
    const auto first = std::find_if(dynamic.begin(), dynamic.end(),
                                    [&](const auto& dimension) { return dimension.name == name; });
    example.push_back(example_inputs.at(first->input).size(first->dimension));
  }
  const auto points = points_of(symbols, example);
  const Runner runner(traced.program, traced.weights, example_inputs.front().device(), {"aten"});
  std::map<std::string, Seen> seen;
  const auto see = [&](const std::string& name, const torch::Tensor& tensor) {
    auto& found = seen[name];
    if (!found.example.defined()) found.example = tensor;
    found.shapes.push_back({tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()});
  };
  for (const auto& point : points) {
    std::map<std::string, int64_t> sizes;
    for (std::size_t i = 0; i < names.size(); ++i) sizes[names[i]] = point[i];
    const auto inputs = resize(example_inputs, dynamic, sizes);
    std::size_t next = 0;
    for (const auto& input : traced.program.inputs) {
      if (input.kind == InputKind::user) see(input.name, inputs.at(next++));
    }
    runner.run(inputs, see);
  }
  for (const auto& input : traced.program.inputs) {
    if (input.kind == InputKind::user) continue;
    traced.program.tensors[input.name] = fixed_meta(traced.weights.at(input.target));
  }
  for (const auto& [name, tensor] : seen) {
    const auto fit = [&, &name = name, &shapes = tensor.shapes](const auto& read) {
      std::vector<Sample> samples;
      for (std::size_t i = 0; i < points.size(); ++i)
        samples.push_back({points[i], read(shapes[i])});
      const auto size = fit_size(symbols, samples);
      if (size) return *size;
      if (odd_sizes == OddSizes::left_open) return left_open(samples);
      throw std::runtime_error(
          fmt::format("{}: a size or stride of it is no polynomial of the dynamic sizes: {} at the "
                      "example's, {} "
                      "at others",
                      name, samples.front().size, samples.back().size));
    };
    auto meta = fixed_meta(tensor.example);
    for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
      meta.sizes[i] = fit([i](const Shape& shape) { return shape.sizes.at(i); });
      meta.strides[i] = fit([i](const Shape& shape) { return shape.strides.at(i); });
    }
    meta.storage_offset = fit([](const Shape& shape) { return shape.offset; });
    traced.program.tensors[name] = std::move(meta);
  }
  for (const auto& symbol : symbols) traced.program.ranges[symbol.name] = symbol.range;
}

}  // namespace attend::pt2
