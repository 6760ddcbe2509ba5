#pragma once

#include "attend/pretrained/pretrained.h"
#include "pretrained/published_config.h"

#include <filesystem>
#include <string>

namespace attend {

/// Returns the config of the first architecture that can have all options of the model. Throws
/// InputError if there is none.
PublishedConfig publish(const Pretrained& pretrained, const SavePretrainedOptions& options);

/// Returns the name of a weight or module in the class of `published`, which may have the prefix of
/// the architecture.
std::string name_in_class(const PublishedConfig& published, const std::string& name);

/// Returns the config of a model of any kind.
ModelConfig config_of(const Model& model);

/// Throws InputError if `folder` exists and is not an empty folder, or is the current folder, which
/// a new folder would replace under the shell of the user.
void check_is_new(const std::filesystem::path& folder);

}  // namespace attend
