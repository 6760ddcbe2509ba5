#include "attend/io/file_kind.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "io/safetensors_layout.h"
#include "io/zip_archive.h"

#include <fmt/format.h>
#include <utf8.h>

#include <algorithm>
#include <array>

namespace attend {
namespace {

using std::literals::operator""sv;

constexpr std::size_t kStartBytes = 16;

struct Signature {
  std::string_view start;
  const char* name;
};

/// Formats that are not supported: the first bytes of a file, and the text for the error message.
constexpr std::array<Signature, 9> kOthers{{
    {"\x80\x02"sv, "a Python pickle, as written by torch.save before PyTorch 1.6"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"\xfd\x37zXZ"sv, "an xz archive"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive"},
    {"GGUF"sv, "a GGUF file"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\x7f"
     "ELF"sv,
     "an ELF executable or library"},
    {"version https://"sv, "a Git LFS pointer; fetch the file with `git lfs pull`"},
}};

/// Returns true if a file starts with the field `ir_version` of ONNX's ModelProto, a small number,
/// followed by the tag of another field of ModelProto.
bool begins_as_onnx(std::string_view start) {
  constexpr std::string_view kTagsOfModel = "\x12\x1a\x22\x28\x32\x3a\x42\x72";
  return start.size() > 2 && start[0] == '\x08' && start[1] > 0 && start[1] < 0x20 &&
         kTagsOfModel.find(start[2]) != std::string_view::npos;
}

bool looks_like_text(std::string_view start) {
  const auto is_control = [](unsigned char c) {
    return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
  };
  if (std::any_of(start.begin(), start.end(), is_control)) return false;
  const auto invalid = utf8::find_invalid(start.begin(), start.end());
  // If `start` is only the beginning of the file, its last character may be cut off. A character
  // has up to 4 bytes, so up to 3 bytes of an incomplete character are allowed.
  return start.end() - invalid <= (start.size() == kStartBytes ? 3 : 0);
}

std::string describe_start(std::string_view start) {
  if (start.empty()) return "an empty file";
  for (const auto& other : kOthers) {
    if (start.starts_with(other.start)) return other.name;
  }
  if (looks_like_text(start)) return "a text file";
  std::string bytes;
  for (const char c : start.substr(0, kLengthBytes)) {
    bytes += fmt::format(" {:02x}", static_cast<unsigned char>(c));
  }
  return "an unknown format that begins with the bytes" + bytes;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& found) {
  throw InputError(
      fmt::format("{}: expected a safetensors, TorchScript, .pt2 or ONNX file, found {}",
                  path.string(), found));
}

FileKind kind_of_archive(const std::filesystem::path& path) {
  const auto archive = with_source(path.string(), [&] { return ZipArchive(path); });
  const auto names = archive.names();
  const auto has_folder = [&](std::string_view folder) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name.starts_with(folder); });
  };
  if (has_folder("code/")) return FileKind::torchscript;
  if (has_folder("models/")) return FileKind::pt2;
  if (archive.has("data.pkl")) {
    refuse(
        path,
        "a Python pickle, as written by torch.save; save the model as safetensors or TorchScript");
  }
  refuse(path, "a zip archive without a TorchScript or torch.export model");
}

}  // namespace

FileKind file_kind(const std::filesystem::path& path) {
  const auto start = read_start(path, kStartBytes);
  if (start.starts_with("PK\x03\x04")) return kind_of_archive(path);
  if (begins_as_safetensors(start)) return FileKind::safetensors;
  if (begins_as_onnx(start)) return FileKind::onnx;
  refuse(path, describe_start(start));
}

}  // namespace attend
