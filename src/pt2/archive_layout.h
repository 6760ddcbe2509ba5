#pragma once

#include "program/exported_program.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

/// Layout of a .pt2 archive of torch.export.
namespace attend::pt2 {

/// Version of torch.export's schema that `export_pt2` writes. Incompatible changes of the schema
/// increase the major version, so `parse_program` accepts only this major version.
constexpr int64_t kSchemaMajor = 8;
constexpr int64_t kSchemaMinor = 20;

/// Names and contents of the archive entries that identify the format.
constexpr std::array<std::pair<const char*, const char*>, 3> kFormatEntries{
    {{"archive_format", "pt2"}, {"archive_version", "0"}, {"byteorder", "little"}}};

constexpr std::string_view kModels = "models/";  // folder that contains the programs
constexpr std::string_view kExtraFiles = "extra/";
constexpr std::string_view kSampleInputs = "data/sample_inputs/";
/// Name of the program that `torch.export.load` loads.
constexpr const char* kDefaultModel = "model";

/// A folder with tensors in the archive, and the end of the names of the files in this folder that
/// list the tensors: the name of the program and `config`.
struct WeightsLayout {
  const char* folder;
  const char* config;
};
constexpr WeightsLayout kWeights{"data/weights/", "_weights_config.json"};
constexpr WeightsLayout kConstants{"data/constants/", "_constants_config.json"};

/// A weight as listed in the file `WeightsLayout::config`.
struct Weight {
  std::string entry;  ///< name, without the folder, of the archive entry that contains the bytes
  program::TensorMeta meta;
  bool is_parameter = false;
};

}  // namespace attend::pt2
