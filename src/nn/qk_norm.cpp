#include "attend/nn/qk_norm.h"

#include "nn/checks.h"
#include "nn/submodules.h"

#include <utility>

namespace attend {

QKNormImpl::QKNormImpl(int64_t head_dim, ModuleFactory norm)
    : head_dim(head_dim), norm(std::move(norm)) {
  reset();
}

void QKNormImpl::reset() {
  check_positive("head_dim", head_dim);
  use("query", &QKNormImpl::query, make_module("norm of qk_norm", norm, head_dim));
  use("key", &QKNormImpl::key, make_module("norm of qk_norm", norm, head_dim));
}

void QKNormImpl::after_projection(AttentionContext& context) {
  context.query = query.forward(context.query);
  context.key = key.forward(context.key);
}

void QKNormImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::QKNorm(head_dim=" << head_dim << ")";
}

AttentionHookFactory qk_norm(ModuleFactory norm) {
  return {"qk_norm", [norm = std::move(norm)](const AttentionDims& dims) {
            return std::make_shared<QKNormImpl>(dims.head_dim, norm);
          }};
}

}  // namespace attend
