#include "io/zip_archive.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <zip.h>

#include <string_view>

namespace attend {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw InputError(fmt::format("not a PyTorch zip archive: {}", why));
}

[[noreturn]] void refuse(zip_error_t& error) {
  const std::string why = zip_error_strerror(&error);
  const int code = zip_error_code_zip(&error);
  zip_error_fini(&error);
  if (code == ZIP_ER_NOENT) throw InputError("no such file");
  if (code == ZIP_ER_OPNOTSUPP) throw InputError("not a regular file");
  auto no_zip = code == ZIP_ER_NOZIP;
#ifdef ZIP_ER_TRUNCATED_ZIP  // since libzip 1.10
  no_zip = no_zip || code == ZIP_ER_TRUNCATED_ZIP;
#endif
  if (no_zip) throw InputError("not a zip archive, or a truncated one");
  if (code == ZIP_ER_OPEN || code == ZIP_ER_READ) throw InputError(why);
  refuse(why);
}

zip_t* open(const std::filesystem::path& path) {
  int code = 0;
  auto* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (archive != nullptr) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  refuse(error);
}

/// Returns the size of a file, or 0 if the size cannot be read. In that case, `open` throws an
/// error.
uint64_t size_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

/// Returns the metadata of entry `number`. Throws InputError if the metadata cannot be read or is
/// incomplete.
zip_stat_t stat_of(zip_t* archive, uint64_t number) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat_index(archive, number, ZIP_FL_ENC_STRICT, &stat) != 0) {
    refuse(zip_strerror(archive));
  }
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & kNeeded) != kNeeded)
    refuse(fmt::format("the metadata of entry {} is incomplete", number));
  return stat;
}

}  // namespace

void ZipArchive::Close::operator()(zip* archive) const {
  zip_discard(archive);
}

ZipArchive::ZipArchive(const std::filesystem::path& path)
    : archive_(open(path)), bytes_(size_of(path)) {
  std::string folder;
  uint64_t stored = 0;
  const auto count = zip_get_num_entries(archive_.get(), 0);
  for (int64_t number = 0; number < count; ++number) {
    const auto stat = stat_of(archive_.get(), static_cast<uint64_t>(number));
    const std::string_view name = stat.name;
    const auto slash = name.find('/');
    if (slash == std::string_view::npos) refuse(fmt::format("entry '{}' is not in a folder", name));
    if (number == 0) folder = name.substr(0, slash);
    if (name.substr(0, slash) != folder) {
      refuse(fmt::format("entry '{}' is outside folder '{}', expected all entries in one folder",
                         name, folder));
    }
    const bool is_stored = stat.comp_method == ZIP_CM_STORE &&
                           stat.encryption_method == ZIP_EM_NONE && stat.size == stat.comp_size;
    // Overlapping entries could have far more bytes in total than the file.
    if (is_stored && stat.size > bytes_ - stored) refuse("its entries overlap");
    if (is_stored) stored += stat.size;
    const Entry entry{static_cast<uint64_t>(number), stat.size, is_stored};
    if (!entries_.emplace(name.substr(slash + 1), entry).second) {
      refuse(fmt::format("duplicate entry '{}'", name));
    }
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::map<std::string, uint64_t> ZipArchive::sizes_in(std::string_view folder) const {
  std::map<std::string, uint64_t> sizes;
  for (const auto& [name, entry] : entries_) {
    if (name.starts_with(folder)) sizes.emplace(name.substr(folder.size()), size(name));
  }
  return sizes;
}

const ZipArchive::Entry& ZipArchive::find_any(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) refuse(fmt::format("entry '{}' not found", name));
  return found->second;
}

const ZipArchive::Entry& ZipArchive::find(const std::string& name) const {
  const auto& entry = find_any(name);
  if (!entry.is_stored) {
    refuse(fmt::format("entry '{}' is compressed or encrypted, expected neither", name));
  }
  return entry;
}

std::string ZipArchive::read(const std::string& entry) const {
  std::string bytes(size(entry), '\0');
  read(entry, bytes.data());
  return bytes;
}

void ZipArchive::read(const std::string& entry, void* bytes) const {
  read(entry, find(entry), bytes);
}

std::string ZipArchive::decompress(const std::string& name, uint64_t max_bytes) const {
  const auto& entry = find_any(name);
  if (entry.size > max_bytes) {
    refuse(
        fmt::format("entry '{}' has {} bytes, expected at most {}", name, entry.size, max_bytes));
  }
  std::string bytes(entry.size, '\0');
  read(name, entry, bytes.data());
  return bytes;
}

void ZipArchive::read(const std::string& name, const Entry& entry, void* bytes) const {
  struct CloseFile {
    void operator()(zip_file_t* file) const { zip_fclose(file); }
  };
  const std::unique_ptr<zip_file_t, CloseFile> file(
      zip_fopen_index(archive_.get(), entry.number, 0));
  if (!file) refuse(fmt::format("'{}': {}", name, zip_strerror(archive_.get())));
  uint64_t done = 0;
  while (done < entry.size) {
    const auto got = zip_fread(file.get(), static_cast<char*>(bytes) + done, entry.size - done);
    if (got <= 0) refuse(fmt::format("'{}': {}", name, zip_file_strerror(file.get())));
    done += static_cast<uint64_t>(got);
  }
  // libzip verifies the checksum when the end of the entry is read.
  char more = 0;
  if (zip_fread(file.get(), &more, 1) != 0) {
    refuse(fmt::format("'{}': {}", name, zip_file_strerror(file.get())));
  }
}

}  // namespace attend
