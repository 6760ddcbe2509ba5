#include "export/onnx/rules.h"

namespace attend::onnx {
namespace {

/// Returns the scale factors of the spatial dimensions, or an empty list if the call has none. If a
/// call has both scale factors and output sizes, the scale factors are used.
std::vector<double> factors_of(Call& call) {
  if (call.has("scale_factors")) return call.reals("scale_factors");
  std::vector<double> factors;
  for (const auto* name : {"scales", "scales_d", "scales_h", "scales_w"}) {
    if (call.has(name)) factors.push_back(call.real(name));
  }
  return factors;
}

Value resize(Call& call, const Attributes& attributes) {
  auto& graph = call.graph();
  const auto input = call.tensor(call.has("input") ? "input" : "self");
  const auto given = factors_of(call);
  if (!given.empty()) {
    std::vector<Number> factors{1, 1};
    for (const auto factor : given) factors.emplace_back(factor);
    const auto count = static_cast<int64_t>(factors.size());
    const auto scales = graph.constant({Type::float32, {count}, std::move(factors)});
    return graph.add("Resize", {input, Value{}, scales}, attributes);
  }
  // The sizes of the batch and channel dimensions do not change.
  const auto first = graph.add("Shape", {input}, {{"start", 0}, {"end", 2}}, Type::int64);
  const auto sizes =
      graph.add("Concat", {first, graph.list(call.integers("output_size"))}, {{"axis", 0}});
  return graph.add("Resize", {input, Value{}, Value{}, sizes}, attributes);
}

void nearest(Call& call) {
  call.set_output(resize(call, {{"mode", "nearest"},
                                {"coordinate_transformation_mode", "asymmetric"},
                                {"nearest_mode", "floor"}}));
}

Rule interpolated(const char* mode) {
  return [=](Call& call) {
    const auto* coordinates = call.boolean("align_corners") ? "align_corners" : "half_pixel";
    call.set_output(resize(call, {{"mode", mode},
                                  {"coordinate_transformation_mode", coordinates},
                                  {"cubic_coeff_a", -0.75}}));
  };
}

}  // namespace

void add_resizing_rules(Rules& rules) {
  for (const auto* kind : {"1d", "2d", "3d"}) {
    rules[std::string("upsample_nearest") + kind + ".vec"] = nearest;
    rules[std::string("upsample_nearest") + kind + ".default"] = nearest;
  }
  for (const auto* overload : {".vec", ".default"}) {
    for (const auto* name : {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"}) {
      rules[std::string(name) + overload] = interpolated("linear");
    }
    rules[std::string("upsample_bicubic2d") + overload] = interpolated("cubic");
  }
}

}  // namespace attend::onnx
