#pragma once

#include "attend/api.h"
#include "attend/train/checkpoint.h"
#include "attend/train/processes.h"
#include "attend/train/training_config.h"

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

class Trainer;

/// Throws c10::ValueError if `processes` is null, InputError if a batch has fewer samples than
/// there are processes, or if several processes of a machine have the device cuda:N.
ATTEND_API void check_processes(const std::shared_ptr<Processes>& processes,
                                const TrainingConfig& config);

/// Throws in all processes unless they have frozen or unfrozen the same parameters before `step`.
/// `trained`: which parameters require a gradient in this process. `num_changed`: number of
/// processes in which `trained` has changed.
ATTEND_API void check_equally_trained(Processes& processes, const std::vector<bool>& trained,
                                      int64_t num_changed, int64_t step);

/// Throws InputError in all processes if a value differs between the processes, which have values
/// of the same names. The message contains the first process that differs from rank 0, the name,
/// and the first line of the value that differs.
ATTEND_API void check_equal(Processes& processes, const std::map<std::string, std::string>& values);

/// Replaces the values of tensors, of any dtype and strides, by those of the process `root`. All
/// processes have tensors of the same shapes and dtypes.
ATTEND_API void broadcast_values(Processes& processes, const std::vector<torch::Tensor>& tensors,
                                 int64_t root);

/// Replaces the buffers of the module, such as the statistics of batch norms, by those of rank 0.
ATTEND_API void broadcast_buffers(Processes& processes, const torch::nn::Module& module);

/// Returns the text of the process `root`.
ATTEND_API std::string broadcast(Processes& processes, std::string text, int64_t root = 0);

/// Returns the tensors of the process `root`, on the CPU.
ATTEND_API std::map<std::string, torch::Tensor> broadcast(
    Processes& processes, const std::map<std::string, torch::Tensor>& tensors, int64_t root = 0);

/// Returns the state of rank 0; in the other processes, without confusion matrices.
ATTEND_API TrainerState broadcast(Processes& processes, const TrainerState& state);

/// Restores the checkpoint of rank 0 in all processes. In the others, it is without the best
/// weights, which only rank 0 needs.
ATTEND_API void restore_from_rank_0(Processes& processes, Trainer& trainer);

}  // namespace attend::train
