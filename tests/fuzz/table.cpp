// Fuzz target: a table, read as .jsonl if it begins like JSON, else as .csv and as .tsv.
#include "attend/train/read_table.h"
#include "fuzz/fuzz.h"
#include "support/temporary_directory.h"

namespace {

int read(const uint8_t* data, size_t size, const char* name) {
  static const attend::TemporaryDirectory directory;
  return attend::fuzz::check(data, size, [&](auto input) {
    const auto path = directory / name;
    attend::fuzz::write_input(path, input);
    attend::train::read_table(
        path, {{.name = "text"}, {.name = "label", .may_be_empty = true, .may_be_list = true}},
        /*max_bytes=*/1 << 20);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == '{') return read(data, size, "table.jsonl");
  read(data, size, "table.tsv");
  return read(data, size, "table.csv");
}
