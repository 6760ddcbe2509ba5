#pragma once

#include "export/program/program.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

/// Where what stands in an archive of torch.export.
namespace attend::pt2 {

/// The version of the schema. A change to what is there makes the first number higher.
constexpr int64_t kSchemaMajor = 8;
constexpr int64_t kSchemaMinor = 20;

/// Entries that say what an archive is, and what they hold.
constexpr std::array<std::pair<const char*, const char*>, 3> kMarks{
    {{"archive_format", "pt2"}, {"archive_version", "0"}, {"byteorder", "little"}}};

constexpr std::string_view kModels = "models/";  // programs
constexpr std::string_view kExtraFiles = "extra/";
constexpr const char* kSampleInputs = "data/sample_inputs/model.pt";

/// A folder of tensors, and the entry in it that lists them.
struct WeightsLayout {
  const char* folder;
  const char* config;
};
constexpr WeightsLayout kWeights{"data/weights/", "model_weights_config.json"};
constexpr WeightsLayout kConstants{"data/constants/", "model_constants_config.json"};

/// Where the bytes of a weight stand.
struct Weight {
  std::string entry;  ///< of the archive, in its folder
  program::TensorMeta meta;
  bool is_parameter = false;  ///< so that optimizers know it
};

}  // namespace attend::pt2
