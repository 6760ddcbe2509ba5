#include "export/export_case.h"

namespace attend {

CaseInput tokens(const char* name, int64_t vocab_size, std::vector<int64_t> shape) {
  return {name, std::move(shape), [vocab_size](const std::vector<int64_t>& sizes) {
            return torch::randint(vocab_size, sizes, torch::kLong);
          }};
}

CaseInput reals(const char* name, std::vector<int64_t> shape) {
  return {name, std::move(shape),
          [](const std::vector<int64_t>& sizes) { return torch::randn(sizes); }};
}

CaseInput bools(const char* name, std::vector<int64_t> shape) {
  return {name, std::move(shape),
          [](const std::vector<int64_t>& sizes) { return torch::rand(sizes) < 0.7; }};
}

CaseInput rising(const char* name, std::vector<int64_t> shape) {
  return {name, std::move(shape),
          [](const std::vector<int64_t>& sizes) { return (torch::rand(sizes) < 0.4).cumsum(-1); }};
}

ExportCase cast(ExportCase any, torch::Dtype dtype) {
  any.module->to(dtype);
  any.dtype = dtype;
  return any;
}

}  // namespace attend
