// Fuzz target: the zip archive of a .pt2 or TorchScript file.
#include "io/zip_archive.h"

#include "fuzz/fuzz.h"
#include "support/temporary_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const attend::TemporaryDirectory directory;
  return attend::fuzz::check(data, size, [](auto input) {
    const auto path = directory / "archive.pt2";
    attend::fuzz::write_input(path, input);
    const attend::ZipArchive archive(path);
    archive.sizes_in("");
    for (const auto& name : archive.names()) {
      archive.decompress(name, /*max_bytes=*/1 << 20);
      archive.read(name);
    }
  });
}
