#pragma once

#include <torch/types.h>

#include <string>

namespace attend::train {

/// The device of a name: "cpu", "cuda", "cuda:1", or "auto": a GPU if there is one, else the CPU.
/// Throws InputError, naming what there is, for another name and for a device that is not there.
torch::Device resolve_device(const std::string& name);

/// From here on LibTorch uses so many CPU threads; 0 = as many as now.
void set_num_threads(int64_t threads);

}  // namespace attend::train
