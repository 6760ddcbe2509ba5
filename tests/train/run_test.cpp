#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/metrics_log.h"
#include "attend/train/senses_task.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RunDirectory : public testing::Test {
 protected:
  RunDirectory() {
    recipe_.model.embed_dim = 8;
    create_run_directory(path_, false);
    save_run(path_, recipe_, task_.vocabulary(), model_, Outcome{});
  }

  TemporaryDirectory directory_;
  fs::path path_ = directory_ / "deep" / "run";
  Recipe recipe_ = SensesTask::defaults();
  SensesTask task_{recipe_};
  LanguageModel model_ = make_model(recipe_, task_.vocabulary());
};

TEST_F(RunDirectory, LoadsWhatWasSaved) {
  save_run(path_, SensesTask::defaults(), task_.vocabulary(), model_, Outcome{});
  auto run = load_run(path_);
  EXPECT_FALSE(run.model->is_training());
  EXPECT_EQ(run.vocabulary.size(), task_.vocabulary().size());
  const auto tokens = torch::randint(run.vocabulary.size(), {2, 9}, torch::kLong);
  EXPECT_TRUE(run.model(tokens).equal(model_(tokens)));
}

TEST_F(RunDirectory, IsNotReplacedUnlessAsked) {
  EXPECT_THAT([&] { create_run_directory(path_, false); },
              ThrowsMessage<InputError>(HasSubstr("exists")));
  create_run_directory(path_, true);
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(RunDirectory, ReplacingLeavesForeignFilesAlone) {
  replace_file(path_ / "notes.txt", "mine");
  create_run_directory(path_, true);
  EXPECT_EQ(read_bytes(path_ / "notes.txt"), "mine");

  const auto foreign = directory_ / "foreign";
  fs::create_directory(foreign);
  replace_file(foreign / "model.safetensors", "mine");
  EXPECT_THAT([&] { create_run_directory(foreign, true); },
              ThrowsMessage<InputError>(HasSubstr("it is left alone")));
  EXPECT_EQ(read_bytes(foreign / "model.safetensors"), "mine");
}

TEST_F(RunDirectory, LoadingNamesWhatIsMissing) {
  EXPECT_THAT([&] { load_run(directory_ / "none"); },
              ThrowsMessage<InputError>(HasSubstr("no such run directory")));
  fs::remove(path_ / "model.safetensors");
  EXPECT_THAT([&] { load_run(path_); },
              ThrowsMessage<InputError>(HasSubstr("model.safetensors: no such file")));
}

TEST_F(RunDirectory, WeightsOfAnotherModelAreRefused) {
  // Saved with width 8 in the recipe, but the model has the default's width.
  EXPECT_THAT([&] { load_run(path_); },
              ThrowsMessage<InputError>(HasSubstr("the weights do not fit the model")));
}

TEST_F(RunDirectory, MetricsAreALineEach) {
  {
    MetricsLog log(path_ / RunFiles::metrics);
    log.on_progress(Progress{.step = 3, .loss = 0.5});
    log.on_evaluation(3, Evaluation{.loss = 0.25, .accuracy = 1.0});
  }
  const auto text = read_bytes(path_ / RunFiles::metrics);
  EXPECT_THAT(text, HasSubstr("{\"step\":3,\"loss\":0.5,"));
  EXPECT_THAT(text, HasSubstr("{\"step\":3,\"val_loss\":0.25,\"val_accuracy\":1.0}\n"));
}

}  // namespace
}  // namespace attend::train
