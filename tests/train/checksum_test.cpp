#include "train/checksum.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

#include <ATen/ops/_neg_view.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Checksum, MatchesTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  // Test vectors of RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Checksum, OfPartsEqualsTheWhole) {
  seed_afresh();
  for (int i = 0; i < 50; ++i) {
    const auto first = random_bytes(200);
    const auto second = random_bytes(200);
    EXPECT_EQ(crc32c(second, crc32c(first)), crc32c(first + second));
  }
}

TEST(Checksum, OfAFileEqualsItsContent) {
  const TemporaryDirectory directory;
  std::string content;
  while (content.size() < 2'500'000) content += "larger than what is read at a time, ";
  replace_file(directory / "large", content);
  EXPECT_EQ(crc32c_of_file(directory / "large"), crc32c(content));
  replace_file(directory / "empty", "");
  EXPECT_EQ(crc32c_of_file(directory / "empty"), 0u);
  EXPECT_THAT([&] { crc32c_of_file(directory / "missing"); },
              ThrowsMessage<InputError>(HasSubstr("missing: no such file")));
}

TEST(Checksum, OfTensorsDependsOnNameDtypeShapeAndElements) {
  const auto ones = torch::ones({2, 3});
  const auto checksum = checksum_of({{"a", ones}});
  EXPECT_EQ(checksum_of({{"a", ones.clone()}}), checksum);
  EXPECT_NE(checksum_of({{"b", ones}}), checksum);
  EXPECT_NE(checksum_of({{"a", ones.view(torch::kInt)}}), checksum);
  EXPECT_NE(checksum_of({{"a", ones.t()}}), checksum);
  EXPECT_NE(checksum_of({{"a", 2 * ones}}), checksum);
}

TEST(Checksum, OfViewsIsThatOfTheirValues) {
  const auto z = torch::complex(torch::tensor({1.0F}), torch::tensor({10.0F}));
  const auto x = torch::tensor({1.0F, -2.0F});
  EXPECT_EQ(checksum_of({{"a", z.conj()}}), checksum_of({{"a", z.conj().resolve_conj()}}));
  EXPECT_NE(checksum_of({{"a", z.conj()}}), checksum_of({{"a", z}}));
  EXPECT_EQ(checksum_of({{"a", at::_neg_view(x)}}), checksum_of({{"a", -x}}));
}

TEST(Checksum, OfJsonIsIndependentOfWhiteSpaceAndOrder) {
  const auto text = to_text_with_checksum({{"b", 1}, {"a", {{"list", {1.5, nullptr, "é"}}}}});
  const auto json = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(json.begin().key(), "b");
  EXPECT_EQ(parse_with_checksum(text), json);
  EXPECT_EQ(parse_with_checksum(json.dump()), json);
  EXPECT_EQ(parse_with_checksum(nlohmann::json(json).dump()).at("b"), 1);
}

TEST(Checksum, OfJsonIsRequired) {
  const auto text = to_text_with_checksum({{"b", 1}});
  const auto with = [&](const char* key, const nlohmann::ordered_json& value) {
    auto json = nlohmann::ordered_json::parse(text);
    json[key] = value;
    return json.dump();
  };
  for (const auto& damaged :
       {std::string(), std::string("[]"), std::string("{\"b\": 1}"), text.substr(0, 9),
        with("b", 2), with("c", 1), with("crc32c", "00000000"), with("crc32c", 1),
        "{\"b\": 1," + text.substr(1)}) {
    EXPECT_THROW(parse_with_checksum(damaged), InputError) << damaged;
  }
}

}  // namespace
}  // namespace attend::train
