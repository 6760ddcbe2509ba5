#include "attend/train/checkpoint_store.h"

#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <optional>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

/// A small checkpoint whose weights identify its step.
Checkpoint checkpoint_at(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.trainer_state.step = step;
  checkpoint.weights = {{"weight", torch::full({2, 3}, static_cast<double>(step))}};
  checkpoint.state = {{"random.cpu", torch::arange(5).to(torch::kByte)}};
  return checkpoint;
}

class CheckpointStoreTest : public testing::Test {
 protected:
  std::vector<std::string> folders() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  int64_t latest_step() const { return store_.load_latest()->trainer_state.step; }

  TemporaryDirectory directory_;
  fs::path path_ = directory_ / "run" / "checkpoint";
  CheckpointStore store_{path_};
};

TEST_F(CheckpointStoreTest, LoadsWhatWasSaved) {
  Checkpoint saved;
  saved.trainer_state = {.step = 12,
                         .tokens = 9007199254740993,
                         .skipped_steps = 3,
                         .training_seconds = 0.1 + 0.2,
                         .evaluation_seconds = 1e-9,
                         .train_loss = 1.0 / 3.0,
                         .last = Evaluation{2.0 / 3.0, {}, 17},
                         .best = Evaluation{0.1, {7, 10}, 18},
                         .best_step = 8,
                         .evaluations_without_improvement = 2,
                         .threads = 3};
  saved.weights = {{"a.weight", torch::randn({3, 4})}, {"b", torch::randn({2}, torch::kBFloat16)}};
  saved.state = {{"sampler.order", torch::empty({0}, torch::kLong)},
                 {"sampler.next", torch::tensor(0, torch::kLong)},
                 {"random.cpu", torch::arange(256).to(torch::kByte)},
                 {"optimizer.a.weight/step", torch::tensor(2.0F)}};
  saved.best = {{"a.weight", torch::randn({3, 4})}};
  store_.save(saved);
  const auto found = store_.load_latest().value();
  EXPECT_EQ(found.path, path_ / "step-000000012");
  EXPECT_THAT(found.damaged, IsEmpty());
  EXPECT_TRUE(equal_tensors(found.weights, saved.weights));
  EXPECT_TRUE(equal_tensors(found.state, saved.state));
  EXPECT_TRUE(equal_tensors(found.best, saved.best));
  const auto& state = found.trainer_state;
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.tokens, saved.trainer_state.tokens);
  EXPECT_EQ(state.skipped_steps, 3);
  EXPECT_EQ(state.training_seconds, saved.trainer_state.training_seconds);
  EXPECT_EQ(state.evaluation_seconds, saved.trainer_state.evaluation_seconds);
  EXPECT_EQ(state.train_loss, saved.trainer_state.train_loss);
  EXPECT_EQ(state.last->loss, 2.0 / 3.0);
  EXPECT_EQ(state.last->accuracy(), std::nullopt);
  EXPECT_EQ(state.last->num_targets, 17);
  EXPECT_EQ(state.best->loss, 0.1);
  EXPECT_EQ(state.best->exact_match.correct, 7);
  EXPECT_EQ(state.best->exact_match.total, 10);
  EXPECT_EQ(state.best_step, 8);
  EXPECT_EQ(state.evaluations_without_improvement, 2);
  EXPECT_EQ(state.threads, 3);
}

TEST_F(CheckpointStoreTest, NonFiniteLossesAreLoadedAsNaN) {
  auto checkpoint = checkpoint_at(1);
  checkpoint.trainer_state.train_loss = INFINITY;
  store_.save(checkpoint);
  EXPECT_TRUE(std::isnan(store_.load_latest()->trainer_state.train_loss));
  EXPECT_EQ(store_.load_latest()->trainer_state.best, std::nullopt);
}

TEST_F(CheckpointStoreTest, LoadsNothingFromAnEmptyStore) {
  EXPECT_FALSE(store_.load_latest().has_value());
  EXPECT_EQ(store_.latest(), "");
}

TEST_F(CheckpointStoreTest, KeepsTheLatestTwo) {
  for (const int64_t step : {1, 5, 10, 20}) store_.save(checkpoint_at(step));
  EXPECT_THAT(folders(), ElementsAre("step-000000010", "step-000000020"));
  EXPECT_EQ(latest_step(), 20);
  EXPECT_EQ(store_.latest(), path_ / "step-000000020");
}

TEST_F(CheckpointStoreTest, UnchangedBestWeightsAreWrittenOnce) {
  auto checkpoint = checkpoint_at(1);
  checkpoint.best = {{"weight", torch::ones({3})}};
  const auto save = [&](int64_t step) {
    checkpoint.trainer_state.step = step;
    store_.save(checkpoint);
    const auto file = store_.latest() / "best.safetensors";
    EXPECT_TRUE(equal_tensors(store_.load_latest()->best, checkpoint.best));
    return fs::hard_link_count(file);
  };
  EXPECT_EQ(save(1), 1);
  EXPECT_EQ(save(2), 2) << "must share the file of step 1";
  EXPECT_EQ(save(3), 2) << "must share the file of step 2, since step 1 is removed";
  checkpoint.best["weight"].add_(1.0);
  EXPECT_EQ(save(4), 1) << "must not share a file: the weights have changed in place";
  checkpoint.best["weight"] = torch::zeros({3});
  EXPECT_EQ(save(5), 1);
  EXPECT_EQ(save(6), 2);
  std::ofstream(store_.latest() / "best.safetensors") << "damaged";
  EXPECT_EQ(save(7), 1) << "must not share a damaged file";
}

/// Returns how many bytes this process has read from files, or std::nullopt if this is not known.
std::optional<int64_t> bytes_read() {
  std::ifstream statistics("/proc/self/io");
  std::string key;
  int64_t value = 0;
  if (statistics >> key >> value && key == "rchar:") return value;
  return std::nullopt;
}

TEST_F(CheckpointStoreTest, UnchangedBestWeightsAreReadOnce) {
  if (!bytes_read()) GTEST_SKIP() << "/proc/self/io is missing";
  auto checkpoint = checkpoint_at(1);
  checkpoint.best = {{"weight", torch::ones({1 << 20})}};
  for (const int64_t step : {1, 2, 3}) {
    checkpoint.trainer_state.step = step;
    const auto before = *bytes_read();
    store_.save(checkpoint);
    const auto read = static_cast<double>(*bytes_read() - before);
    const auto size = static_cast<double>(fs::file_size(store_.latest() / "best.safetensors"));
    EXPECT_GE(read / size, 1.0) << "a damaged file would not be noticed";
    EXPECT_LT(read / size, 1.1) << "step " << step;
  }
}

TEST_F(CheckpointStoreTest, OrdersStepsNumerically) {
  for (const int64_t step : {999999998, 999999999, 1000000000}) store_.save(checkpoint_at(step));
  EXPECT_EQ(latest_step(), 1000000000);
  EXPECT_THAT(folders(), ElementsAre("step-1000000000", "step-999999999"));
}

TEST_F(CheckpointStoreTest, RemovesTemporaryFoldersOfAKilledProcess) {
  store_.save(checkpoint_at(1));
  for (const auto* left : {".partial", ".replaced"}) {
    fs::create_directories(path_ / left / "deep");
    replace_file(path_ / left / "model.safetensors", "half of it");
  }
  EXPECT_EQ(latest_step(), 1);
  store_.save(checkpoint_at(2));
  EXPECT_THAT(folders(), ElementsAre("step-000000001", "step-000000002"));
}

TEST_F(CheckpointStoreTest, DoesNotTouchOtherFiles) {
  store_.save(checkpoint_at(1));
  fs::copy(path_ / "step-000000001", path_ / "step-000000001-backup", fs::copy_options::recursive);
  replace_file(path_ / "step-notes", "mine");
  for (const int64_t step : {2, 3}) store_.save(checkpoint_at(step));
  EXPECT_EQ(latest_step(), 3);
  EXPECT_THAT(folders(), ElementsAre("step-000000001-backup", "step-000000002", "step-000000003",
                                     "step-notes"));
}

TEST_F(CheckpointStoreTest, SavingTheSameStepReplacesADamagedCheckpoint) {
  store_.save(checkpoint_at(1));
  store_.save(checkpoint_at(2));
  fs::remove(path_ / "step-000000002" / "trainer_state.json");
  EXPECT_EQ(latest_step(), 1);
  store_.save(checkpoint_at(2));
  EXPECT_EQ(latest_step(), 2);
  EXPECT_THAT(folders(), ElementsAre("step-000000001", "step-000000002"));
}

TEST_F(CheckpointStoreTest, DamagedCheckpointsDoNotReplaceValidOnes) {
  store_.save(checkpoint_at(4));
  store_.save(checkpoint_at(8));
  fs::remove(path_ / "step-000000008" / "trainer_state.json");
  store_.save(checkpoint_at(6));  // the run was resumed from step 4
  EXPECT_EQ(latest_step(), 6);
  EXPECT_THAT(folders(), ElementsAre("step-000000004", "step-000000006"));
}

/// RAII guard that limits the size of files. Writes beyond the limit fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(CheckpointStoreTest, FailedSaveKeepsOldCheckpoints) {
  store_.save(checkpoint_at(1));
  store_.save(checkpoint_at(2));
  auto large = checkpoint_at(3);
  large.weights["weight"] = torch::zeros({100, 100});
  // With a limit of 0 bytes, saving fails before the weights are written. With 20000 bytes, it
  // fails while the large weights are written. Below, the weights are small and the state is large,
  // so saving fails after the weights are written.
  for (const rlim_t bytes : {0U, 20000U}) {
    const FileSizeLimit full(bytes);
    EXPECT_THROW(store_.save(large), std::runtime_error) << bytes;
  }
  large = checkpoint_at(3);
  large.state["state"] = torch::zeros({100, 100});
  {
    const FileSizeLimit full(20000);
    EXPECT_THROW(store_.save(large), std::runtime_error);
  }
  EXPECT_THAT(folders(), ElementsAre("step-000000001", "step-000000002"));
  EXPECT_EQ(latest_step(), 2);
}

TEST_F(CheckpointStoreTest, NamesADirectoryThatCannotBeCreated) {
  replace_file(directory_ / "file", "mine");
  EXPECT_THAT([&] { CheckpointStore(directory_ / "file" / "below").save(checkpoint_at(1)); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("file/below")));
}

}  // namespace
}  // namespace attend::train
