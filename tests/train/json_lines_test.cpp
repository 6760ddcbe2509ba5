#include "train/json_lines.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

class ReadJsonLines : public testing::Test {
 protected:
  std::vector<nlohmann::json> read(const std::string& text, bool is_finished = true) const {
    replace_file(path_, text);
    return read_json_lines(path_, is_finished);
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "log.jsonl";
};

TEST_F(ReadJsonLines, ReturnsTheLines) {
  const nlohmann::json first{{"step", 1}, {"loss", nullptr}};
  EXPECT_THAT(read("{\"step\":1,\"loss\":null}\n{\"step\":2}\n"),
              testing::ElementsAre(first, nlohmann::json{{"step", 2}}));
  EXPECT_THAT(read(""), testing::IsEmpty());
}

TEST_F(ReadJsonLines, NamesADamagedLine) {
  for (const auto* damaged :
       {"{\"step\":2", "", "[2]", "{\"step\":\"2\"}", "{\"step\":2,\"step\":2}"}) {
    const auto text = std::string("{\"step\":1}\n") + damaged + "\n{\"step\":3}\n";
    for (const bool is_finished : {true, false}) {
      EXPECT_THAT([&] { read(text, is_finished); },
                  throws_naming<InputError>("log.jsonl", "line 2"))
          << damaged;
    }
  }
}

TEST_F(ReadJsonLines, IgnoresAnIncompleteLastLineOfAnUnfinishedRun) {
  const auto* text = "{\"step\":1}\n{\"step\":2";
  EXPECT_THAT(read(text, false), testing::ElementsAre(nlohmann::json{{"step", 1}}));
  EXPECT_THAT([&] { read(text, true); }, throws_naming<InputError>("line 2"));
  EXPECT_THAT(read("{", false), testing::IsEmpty());
}

}  // namespace
}  // namespace attend::train
