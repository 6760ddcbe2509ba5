#pragma once

#include "attend/api.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct zip;

namespace attend {

/// Reads zip archives as written by PyTorch: all entries are in one folder, and only TorchScript
/// code is compressed. Unlike LibTorch's own reader, this class is safe for untrusted files:
/// `decompress` allocates at most `max_bytes` bytes, and no other function allocates more bytes
/// than the file has.
///
///     ZipArchive archive("model.pt2");
///     archive.read("models/model.json");
class ATTEND_API ZipArchive {
 public:
  /// Throws InputError if the file does not exist, is corrupt, or is not an archive in this format.
  /// The message does not contain the path; see `with_source`.
  explicit ZipArchive(const std::filesystem::path& path);

  /// Returns true if there is an entry with this name.
  bool has(const std::string& entry) const { return entries_.count(entry) > 0; }
  /// Returns the size of an entry in bytes. Throws InputError if the entry does not exist, or is
  /// compressed or encrypted.
  uint64_t size(const std::string& entry) const { return find(entry).size; }
  /// Returns the content of an entry. Throws InputError if the entry does not exist, is compressed
  /// or encrypted, or has a wrong checksum.
  std::string read(const std::string& entry) const;
  /// Reads the content of an entry into a buffer of `size(entry)` bytes. Throws InputError under
  /// the same conditions as the function above.
  void read(const std::string& entry, void* bytes) const;
  /// Returns the content of an entry that may be compressed. Throws InputError if the entry does
  /// not exist, is encrypted, has more than `max_bytes` bytes, or has a wrong checksum.
  std::string decompress(const std::string& entry, uint64_t max_bytes) const;
  /// Returns the size of the archive in bytes.
  uint64_t bytes() const { return bytes_; }
  /// Returns the names of all entries, sorted, without the archive's root folder.
  std::vector<std::string> names() const;
  /// Returns the sizes in bytes of the entries whose names begin with `folder`. The keys of the map
  /// are these names without `folder`.
  std::map<std::string, uint64_t> sizes_in(std::string_view folder) const;

 private:
  struct Entry {
    uint64_t number;
    uint64_t size;
    bool is_stored;
  };
  const Entry& find_any(const std::string& name) const;
  const Entry& find(const std::string& name) const;
  void read(const std::string& name, const Entry& entry, void* bytes) const;

  struct Close {
    void operator()(zip* archive) const;
  };

  std::unique_ptr<zip, Close> archive_;
  uint64_t bytes_;
  std::map<std::string, Entry> entries_;
};

}  // namespace attend
