#pragma once

#include "attend/export/export_options.h"
#include "export/program/data_dependent_sizes.h"
#include "export/program/traced_program.h"
#include "export/resize.h"
#include "export/schedule.h"
#include "program/runner.h"

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace attend::program {

/// Metadata of a tensor in all runs of a program.
struct Observation {
  TensorMeta meta;  // metadata in run 0; is_contiguous is unset if it differs between runs
  std::vector<std::vector<int64_t>> sizes;    // sizes in each run
  std::vector<std::vector<int64_t>> strides;  // strides, then the storage offset, in each run
};

/// Returns the metadata of a tensor, with integers (not expressions) as sizes and strides.
TensorMeta static_meta(const torch::Tensor& tensor);

/// Runs a program at several sizes and with several values of the inputs, and records the metadata
/// of the tensors in each run. The first runs are those of `fitting_sizes`. Then there are runs at
/// the example's sizes with other values of the inputs, or with other data-dependent sizes. Keeps
/// references to the arguments.
class Observations {
 public:
  /// Throws WrongForInputs if the program rejects sizes within the ranges of the dynamic
  /// dimensions, and std::runtime_error if the number of dimensions of a tensor is not constant.
  explicit Observations(const TracedProgram& traced);

  const std::vector<ScheduledDimension>& dimensions() const { return dimensions_; }
  const DataDependentSizes& data_dependent() const { return data_dependent_; }
  /// Sizes of the dynamic dimensions in each run. Run 0 has the example's sizes, run 1 the
  /// smallest.
  const std::vector<SizesByName>& runs() const { return runs_; }
  /// Number of regular runs. These are the first runs, those near and far without size 1.
  /// Expressions of strides are found only from regular runs: in later runs, a dimension may have
  /// size 1, and the stride of a dimension of size 1 is arbitrary.
  std::size_t num_regular_runs() const { return num_regular_runs_; }
  /// Indices of the regular runs with small sizes. `SymbolicShapes` computes the coefficients of
  /// polynomials from these runs.
  std::vector<std::size_t> fitted() const;
  bool contains(const std::string& name) const { return observations_.count(name) > 0; }
  const Observation& at(const std::string& name) const { return observations_.at(name); }

 private:
  /// Sizes and strides of a tensor when it was computed. Later operators may change the tensor in
  /// place.
  struct Layout {
    std::string name;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;  // followed by the storage offset
    bool is_contiguous;
  };

  using Recorder = std::function<void(const std::string& name, const torch::Tensor& tensor)>;

  void record_far_runs(const std::vector<SizesByName>& runs);
  void record_other_values();
  void record_smaller_sizes();
  void record(const SizesByName& run, const std::vector<Layout>& layouts);
  void record_if_accepted(const std::vector<torch::Tensor>& inputs, const Recorder& change = {});
  std::vector<Layout> layouts_of(const std::vector<torch::Tensor>& inputs,
                                 const Recorder& change = {}) const;
  void observe(const std::vector<torch::Tensor>& inputs, const Recorder& recorder) const;

  const ExportedProgram& program_;
  const std::vector<torch::Tensor>& example_;
  const std::vector<DynamicDimension>& dynamic_;
  std::vector<ScheduledDimension> dimensions_;
  Runner runner_;
  DataDependentSizes data_dependent_;
  std::vector<SizesByName> runs_;
  std::size_t num_regular_runs_ = 0;
  std::map<std::string, Observation> observations_;
};

}  // namespace attend::program
