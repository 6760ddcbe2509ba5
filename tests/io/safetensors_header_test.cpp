#include "attend/io/safetensors_header.h"

#include "attend/input_error.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <random>

namespace attend {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string file;
  for (int shift = 0; shift < 64; shift += 8) {
    file += static_cast<char>(static_cast<uint64_t>(header.size()) >> shift & 0xFF);
  }
  return file + header + std::string(data_bytes, '\0');
}

const std::string kTwoTensors = R"({"__metadata__":{"format":"pt"},)"
                                R"("b":{"dtype":"I64","shape":[2],"data_offsets":[24,40]},)"
                                R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";

TEST(SafetensorsHeader, EntriesAreSortedByOffset) {
  const auto header = parse_safetensors_header(file_of(kTwoTensors, 40));
  ASSERT_EQ(header.entries.size(), 2U);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_THAT(header.entries[0].shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(header.entries[1].dtype, "I64");
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.data_offset, 8 + kTwoTensors.size());
}

TEST(SafetensorsHeader, AcceptsScalarsAndEmptyTensors) {
  const auto header =
      parse_safetensors_header(file_of(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                                       R"("e":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}})",
                                       8));
  EXPECT_EQ(header.entries.size(), 2U);
  EXPECT_TRUE(parse_safetensors_header(file_of("{}", 0)).entries.empty());
}

TEST(SafetensorsHeader, ViolationsOfTheFormatThrow) {
  const auto expect_rejected = [](const std::string& header, std::size_t bytes,
                                  const char* message) {
    EXPECT_THAT([&] { parse_safetensors_header(file_of(header, bytes)); },
                ThrowsMessage<InputError>(HasSubstr(message)));
  };
  expect_rejected("[]", 0, "not a JSON object");
  expect_rejected("{", 0, "offset 1");
  expect_rejected(kTwoTensors, 39, "found 39 bytes of tensor data, expected 40");
  expect_rejected(kTwoTensors, 41, "found 41 bytes of tensor data, expected 40");
  expect_rejected(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4,
                  "unknown dtype 'F33'");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "found -1");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "found 1.0");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                  "its dtype and shape (8 bytes)");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
                  "data_offsets 4 to 0");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two data_offsets");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
                  "begins at byte 4");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                  0, "overflows");
  expect_rejected(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "data_offsets");
  expect_rejected(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                  2, "duplicate key 'a'");
  expect_rejected(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                  3, "begins at byte 1");
  expect_rejected(R"({"__metadata__":{"a":1}})", 0, "must be string");
}

TEST(SafetensorsHeader, HeaderLengthBeyondTheFileThrows) {
  EXPECT_THROW(parse_safetensors_header(""), InputError);
  EXPECT_THROW(parse_safetensors_header(std::string(7, '\0')), InputError);
  auto file = file_of("{}", 0);
  file[7] = '\x7F';
  EXPECT_THAT([&] { parse_safetensors_header(file); },
              ThrowsMessage<InputError>(HasSubstr("header length")));
}

TEST(SafetensorsHeader, DamagedFilesThrowOrParseConsistently) {
  std::mt19937_64 random(seed_afresh());
  const auto whole = file_of(kTwoTensors, 40);
  int rejected = 0;
  for (int round = 0; round < 20000; ++round) {
    auto damaged = whole;
    const auto edits = 1 + random() % 4;
    for (uint64_t i = 0; i < edits; ++i) {
      const auto at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        default:
          damaged.insert(at, 1, static_cast<char>(random()));
          break;
      }
      if (damaged.empty()) break;
    }
    try {
      const auto header = parse_safetensors_header(damaged);
      for (const auto& entry : header.entries) {
        EXPECT_LE(header.data_offset + entry.end, damaged.size());
      }
    } catch (const InputError&) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 10000);
}

}  // namespace
}  // namespace attend
