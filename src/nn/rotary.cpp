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

void RotaryImpl::on_heads(Heads& heads) {
  check_one_sequence("Rotary", heads);
  const auto turns_at = [&](const torch::Tensor& steps) {
    const auto positions = steps.to(at::toOpMathType(heads.query.scalar_type()));
    return rotary_turns(positions, frequencies_.type_as(positions), rotary_amplitude(options));
  };
  const auto turns = turns_at(query_positions(heads));
  const auto& key_positions = heads.args.key_positions;
  const auto key_turns = key_positions.defined() ? turns_at(key_positions) : turns;
  heads.query = rotate(heads.query, turns, options.interleaved);  // (..., H, T, D)
  heads.key = rotate(heads.key, key_turns, options.interleaved);  // (..., G, T, D)
}

void RotaryImpl::pretty_print(std::ostream& stream) const {
  const int64_t width = options.rotary_dim == 0 ? head_dim : options.rotary_dim;
  stream << "attend::Rotary(head_dim=" << head_dim << ", rotary_dim=" << width
         << ", theta=" << options.theta << std::boolalpha << ", interleaved=" << options.interleaved
         << ", scaling=" << to_string(options.scaling) << ", factor=" << options.factor << ")";
}

AttentionPartFactory rotary(const RotaryOptions& options) {
  return {"rotary", [options](const HeadShape& shape) {
            return std::make_shared<RotaryImpl>(shape.head_dim, options);
          }};
}

}  // namespace attend
