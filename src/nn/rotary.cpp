#include "attend/nn/rotary.h"

#include "nn/position_scheme.h"
#include "ops/math_type.h"

namespace attend {

RotaryImpl::RotaryImpl(int64_t head_dim, const RotaryOptions& options)
    : head_dim(head_dim), options(options) {
  reset();
}

void RotaryImpl::reset() {
  numbers_ = rotary_frequencies(head_dim, options);
  frequencies_ = Constant(numbers_);
}

void RotaryImpl::after_projection(AttentionContext& context) {
  check_self_attention("Rotary", context);
  const auto& args = context.args;
  const auto tables = shared_tables(context, args.positions, context.query);
  const auto key_tables = args.key_positions.defined()
                              ? shared_tables(context, args.key_positions, context.key)
                              : tables;
  context.query = apply_rotary(context.query, tables, options.interleaved);  // (..., H, T, D)
  context.key = apply_rotary(context.key, key_tables, options.interleaved);  // (..., G, T, D)
}

RotaryTables RotaryImpl::shared_tables(const AttentionContext& context,
                                       const torch::Tensor& positions, const torch::Tensor& x) {
  SharedKey key("rotary_tables", x, {positions}, x.size(-2));
  for (const double number : numbers_) key.add(number);
  key.add(rotary_attention_scaling(options));
  return context.state.share(&SharedTensors::rotary, key, [&] {
    const auto tokens = positions.defined() ? positions : positions_like(x, -2);
    const auto exact = to_math_type(tokens, x);  // (T) or (B, T)
    return rotary_tables(exact, frequencies_.type_as(exact), rotary_attention_scaling(options));
  });
}

void RotaryImpl::pretty_print(std::ostream& stream) const {
  const int64_t width = options.rotary_dim == 0 ? head_dim : options.rotary_dim;
  stream << "attend::Rotary(head_dim=" << head_dim << ", rotary_dim=" << width
         << ", theta=" << options.theta << std::boolalpha << ", interleaved=" << options.interleaved
         << ", scaling=" << to_string(options.scaling) << ", factor=" << options.factor << ")";
}

AttentionHookFactory rotary(const RotaryOptions& options) {
  return {"rotary", [options](const AttentionDims& dims) {
            return std::make_shared<RotaryImpl>(dims.head_dim, options);
          }};
}

}  // namespace attend
