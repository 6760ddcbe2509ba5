#include "attend/nn/query_key_norm.h"

#include "nn/checks.h"

#include <utility>

namespace attend {

QueryKeyNormImpl::QueryKeyNormImpl(int64_t head_dim, ModuleFactory norm)
    : head_dim(head_dim), norm(std::move(norm)) {
  reset();
}

void QueryKeyNormImpl::reset() {
  check_positive("head_dim", head_dim);
  TORCH_CHECK_VALUE(norm, "query_key_norm needs a norm, such as rms_norm(), found none");
  query = norm(head_dim);
  key = norm(head_dim);
  register_module("query", query.ptr());
  register_module("key", key.ptr());
}

void QueryKeyNormImpl::on_heads(Heads& heads) {
  heads.query = query.forward(heads.query);
  heads.key = key.forward(heads.key);
}

void QueryKeyNormImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::QueryKeyNorm(head_dim=" << head_dim << ")";
}

AttentionPartFactory query_key_norm(ModuleFactory norm) {
  return {"query_key_norm", [norm = std::move(norm)](const HeadShape& shape) {
            return std::make_shared<QueryKeyNormImpl>(shape.head_dim, norm);
          }};
}

}  // namespace attend
