#include "support/archive.h"

#include <caffe2/serialize/inline_container.h>

namespace attend {

std::map<std::string, std::string> archive_entries(const std::filesystem::path& path) {
  caffe2::serialize::PyTorchStreamReader reader(path.string());
  std::map<std::string, std::string> entries;
  for (const auto& name : reader.getAllRecords()) {
    const auto [bytes, size] = reader.getRecord(name);
    entries.emplace(name, std::string(static_cast<const char*>(bytes.get()), size));
  }
  return entries;
}

void write_archive(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& entries) {
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  for (const auto& [name, content] : entries) {
    if (name == "version" || name.starts_with(".data/")) continue;  // the writer adds these itself
    writer.writeRecord(name, content.data(), content.size());
  }
  writer.writeEndOfFile();
}

}  // namespace attend
