#include "attend/input_error.h"
#include "attend/train/checkpoint_store.h"
#include "io/files.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DamagedCheckpoint : public testing::TestWithParam<const char*> {
 protected:
  DamagedCheckpoint() {
    for (const int64_t step : {1, 2}) {
      Checkpoint checkpoint;
      checkpoint.trainer_state.step = step;
      checkpoint.weights = {{"weight", torch::full({2, 3}, static_cast<double>(step))}};
      checkpoint.best = checkpoint.weights;
      checkpoint.state = {{"sampler.next", torch::tensor(step, torch::kLong)}};
      store_.save(checkpoint);
    }
    whole_ = read_bytes(file_);
  }

  /// Expects that the previous checkpoint is loaded and that the error names the damaged file.
  void expect_fallback() const {
    const auto found = store_.load_latest();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->trainer_state.step, 1);
    EXPECT_EQ(found->weights.at("weight")[0][0].item<double>(), 1.0);
    EXPECT_THAT(found->damaged,
                ElementsAre(AllOf(HasSubstr("step-000000002"), HasSubstr(GetParam()))));
  }

  int64_t last() const { return static_cast<int64_t>(whole_.size()) - 1; }

  TemporaryDirectory directory_;
  CheckpointStore store_{directory_.path()};
  fs::path file_ = directory_ / "step-000000002" / GetParam();
  std::string whole_;
};

TEST_P(DamagedCheckpoint, IsSkippedWithAnyBitFlipped) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    auto bytes = whole_;
    const auto place = draw(0, last());
    auto& byte = bytes[static_cast<std::size_t>(place)];
    byte = static_cast<char>(byte ^ (1 << draw(0, 7)));
    replace_file(file_, bytes);
    SCOPED_TRACE("byte " + std::to_string(place));
    if (std::string(GetParam()) == "manifest.json") {
      // The error always names manifest.json. If the file is still valid JSON, but contains a wrong
      // size or checksum of another file, the error also names this other file.
      EXPECT_THAT(store_.load_latest()->damaged, ElementsAre(HasSubstr("manifest.json")));
      EXPECT_EQ(store_.load_latest()->trainer_state.step, 1);
    } else {
      expect_fallback();
    }
  }
  replace_file(file_, whole_);
  EXPECT_EQ(store_.load_latest()->trainer_state.step, 2);
}

TEST_P(DamagedCheckpoint, IsSkippedWhenTruncated) {
  seed_afresh();
  for (const int64_t length : {int64_t{0}, draw(1, last()), draw(1, last()), last()}) {
    replace_file(file_, whole_.substr(0, static_cast<std::size_t>(length)));
    SCOPED_TRACE(std::to_string(length) + " bytes");
    expect_fallback();
  }
  replace_file(file_, whole_ + " ");
  expect_fallback();
}

TEST_P(DamagedCheckpoint, IsSkippedWithAMissingFileOrADirectory) {
  fs::remove(file_);
  expect_fallback();
  fs::create_directory(file_);
  expect_fallback();
}

TEST_P(DamagedCheckpoint, ThrowsWithAllErrorsIfEveryCheckpointIsDamaged) {
  fs::remove(file_);
  replace_file(directory_ / "step-000000001" / "state.safetensors", "");
  EXPECT_THAT([&] { store_.load_latest(); },
              testing::ThrowsMessage<InputError>(
                  AllOf(HasSubstr("all checkpoints are damaged: "),
                        HasSubstr(std::string("step-000000002/") + GetParam()),
                        HasSubstr("step-000000001/state.safetensors"))));
}

TEST_P(DamagedCheckpoint, LatestStateReadsNoWeights) {
  const std::string name = GetParam();
  EXPECT_EQ(store_.latest_state()->step, 2);
  replace_file(file_, whole_.substr(0, whole_.size() / 2));
  if (name.ends_with(".safetensors")) {
    EXPECT_EQ(store_.latest_state()->step, 2);
  } else {
    EXPECT_THAT([&] { store_.latest_state(); }, throws_naming<InputError>(name));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DamagedCheckpoint,
                         testing::Values("model.safetensors", "state.safetensors",
                                         "best.safetensors", "trainer_state.json", "manifest.json"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace attend::train
