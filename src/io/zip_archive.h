#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

struct zip;

namespace attend {

/// A zip archive whose entries are stored as they are and lie in one folder, as PyTorch writes
/// archives: their bytes are never more than the file's, whatever it says. For files of any origin:
/// LibTorch's own reader trusts them.
///
///     ZipArchive archive("model.pt2");
///     archive.read("models/model.json");
class ZipArchive {
 public:
  /// Throws InputError, whose messages name no file, if it is not such an archive, or not
  /// consistent.
  explicit ZipArchive(const std::filesystem::path& path);
  /// The same of the content of a file, which has to outlive it.
  explicit ZipArchive(std::string_view bytes);

  bool has(const std::string& entry) const { return entries_.count(entry) > 0; }
  /// In bytes. Throws InputError if there is no such entry.
  uint64_t size(const std::string& entry) const;
  /// Throws InputError if there is no such entry, or its checksum is not that of its bytes.
  std::string read(const std::string& entry) const;
  /// The same to where `size(entry)` bytes have room.
  void read(const std::string& entry, void* bytes) const;
  /// By their names without the folder.
  const std::map<std::string, uint64_t>& entries() const { return sizes_; }

 private:
  explicit ZipArchive(zip* archive);

  struct Close {
    void operator()(zip* archive) const;
  };

  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, uint64_t> entries_;  // the number of each
  std::map<std::string, uint64_t> sizes_;
};

}  // namespace attend
