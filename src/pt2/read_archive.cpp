#include "pt2/read_archive.h"

#include "attend/input_error.h"
#include "io/utf8.h"
#include "pt2/archive_layout.h"
#include "pt2/parse_program.h"
#include "pt2/read_weights.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace attend::pt2 {
namespace {

/// Returns the name of the entry that contains the program. Throws InputError unless the archive
/// contains exactly one program.
std::string find_model(const ZipArchive& archive) {
  std::vector<std::string> models;
  for (const auto& entry : archive.names()) {
    if (entry.starts_with(kModels) && entry.ends_with(".json")) models.push_back(entry);
  }
  if (models.size() != 1) {
    throw InputError(
        fmt::format("expected one program (*.json) in {}, found {}", kModels, models.size()));
  }
  return models.front();
}

/// A message shows the content of an entry only if the entry has at most this many bytes.
constexpr uint64_t kMaxShown = 60;

void expect(const ZipArchive& archive, const std::string& entry, const std::string& content) {
  const auto size = archive.size(entry);
  const auto found = size > kMaxShown ? std::string() : archive.read(entry);
  if (found == content) return;
  const auto shown =
      size > kMaxShown ? fmt::format("{} bytes", size) : fmt::format("'{}'", printable(found));
  throw InputError(fmt::format("{}: expected '{}', found {}", entry, content, shown));
}

}  // namespace

Archive read_archive(const ZipArchive& zip, torch::Device device) {
  for (const auto& [entry, content] : kFormatEntries) expect(zip, entry, content);
  Archive archive{.model = find_model(zip), .program = {}, .weights = {}};
  archive.program =
      with_source(archive.model, [&] { return parse_program(zip.read(archive.model)); });
  for (const auto& layout : {kWeights, kConstants}) {
    read_weights(zip, layout, device, archive.weights);
  }
  return archive;
}

}  // namespace attend::pt2
