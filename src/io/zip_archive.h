#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct zip;

namespace attend {

/// A zip archive whose entries lie in one folder, as PyTorch writes archives. Only those are read
/// that are stored as they are: their bytes are never more than the file's, whatever it says. For
/// files of any origin: LibTorch's own reader trusts them.
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
  /// In bytes. Throws InputError if there is no such entry, or it is compressed.
  uint64_t size(const std::string& entry) const { return find(entry).size; }
  /// Throws InputError for those, too, and if the checksum is not that of the bytes.
  std::string read(const std::string& entry) const;
  /// The same to where `size(entry)` bytes have room.
  void read(const std::string& entry, void* bytes) const;
  /// Of all entries, without the folder, in order.
  std::vector<std::string> names() const;
  /// In bytes, of the entries whose names begin with `folder`, by the rest of their names.
  std::map<std::string, uint64_t> sizes_in(std::string_view folder) const;

 private:
  explicit ZipArchive(zip* archive);

  struct Entry {
    uint64_t number;
    uint64_t size;
    bool is_stored;
  };
  const Entry& find(const std::string& name) const;

  struct Close {
    void operator()(zip* archive) const;
  };

  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, Entry> entries_;
};

}  // namespace attend
