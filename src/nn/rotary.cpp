#include "attend/nn/rotary.h"

#include "nn/position_scheme.h"

#include <ATen/OpMathType.h>

namespace attend {

RotaryImpl::RotaryImpl(int64_t head_dim, const RotaryOptions& options)
    : head_dim(head_dim), options(options) {
  reset();
}

void RotaryImpl::reset() {
  frequencies_ = Constant(rotary_frequencies(head_dim, options));
}

void RotaryImpl::after_projection(AttentionContext& context) {
  check_one_sequence("Rotary", context);
  const auto tables_at = [&](const torch::Tensor& steps) {
    const auto positions = steps.to(at::toOpMathType(context.query.scalar_type()));
    return rotary_tables(positions, frequencies_.type_as(positions),
                         rotary_attention_scaling(options));
  };
  const auto tables = tables_at(query_positions(context));
  const auto& key_positions = context.args.key_positions;
  const auto key_tables = key_positions.defined() ? tables_at(key_positions) : tables;
  context.query = apply_rotary(context.query, tables, options.interleaved);  // (..., H, T, D)
  context.key = apply_rotary(context.key, key_tables, options.interleaved);  // (..., G, T, D)
}

void RotaryImpl::pretty_print(std::ostream& stream) const {
  const int64_t width = options.rotary_dim == 0 ? head_dim : options.rotary_dim;
  stream << "attend::Rotary(head_dim=" << head_dim << ", rotary_dim=" << width
         << ", theta=" << options.theta << std::boolalpha << ", interleaved=" << options.interleaved
         << ", scaling=" << to_string(options.scaling) << ", factor=" << options.factor << ")";
}

AttentionHookFactory rotary(const RotaryOptions& options) {
  return {"rotary", [options](const AttentionDims& shape) {
            return std::make_shared<RotaryImpl>(shape.head_dim, options);
          }};
}

}  // namespace attend
