#pragma once

#include "attend/train/checkpoint.h"
#include "attend/train/processes.h"
#include "attend/train/training_config.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace attend::train {

/// Throws c10::ValueError if `processes` is null, InputError if a batch has fewer samples than
/// there are processes.
void check_processes(const std::shared_ptr<Processes>& processes, const TrainingConfig& config);

/// True in all processes if `value` is true in at least one.
bool any_process(Processes& processes, bool value);

/// Returns the text of rank 0.
std::string broadcast(Processes& processes, std::string text);

/// Returns the tensors of rank 0, on the CPU.
std::map<std::string, torch::Tensor> broadcast(Processes& processes,
                                               const std::map<std::string, torch::Tensor>& tensors);

/// Returns the state of rank 0.
TrainerState broadcast(Processes& processes, const TrainerState& state);

/// Returns the checkpoint of rank 0.
Checkpoint broadcast(Processes& processes, const Checkpoint& checkpoint);

/// Calls `work` in rank 0 while the other processes wait. If it throws InputError, the others throw
/// InputError with the same message; for another exception, std::runtime_error.
void in_rank_0(Processes& processes, const std::function<void()>& work);

}  // namespace attend::train
