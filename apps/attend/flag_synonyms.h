#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// Returns "; did you mean '--max-seq-len'?" for an unknown flag such as --block_size. The flags
/// of nanoGPT, litgpt, Hugging Face transformers and Keras are known by meaning, all others by
/// similarity of the names. Returns an empty string if no flag of `command` is similar.
std::string suggest_flag(const std::string& unknown, const CLI::App& command);

}  // namespace attend::app
