// Compares models loaded from a folder with Hugging Face transformers. transformers_test.py writes
// the cases and runs this test.
#include "attend/io/safetensors.h"
#include "attend/models/generation.h"
#include "attend/pretrained/pretrained.h"
#include "support/rounding.h"
#include "transformers/forward.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace attend {
namespace {

const GenerationOptions kGreedy{.max_new_tokens = 20, .sampling = {.temperature = 0.0}};

std::vector<int64_t> to_vector(const torch::Tensor& tokens) {
  const auto* data = tokens.const_data_ptr<int64_t>();
  return {data, data + tokens.numel()};
}

/// Returns the options of the tokens "restricted" of a case.
GenerationOptions restricted(const std::map<std::string, torch::Tensor>& tensors) {
  auto options = kGreedy;
  options.min_new_tokens = tensors.at("min_new_tokens").item<int64_t>();
  options.eos_tokens = to_vector(tensors.at("eos_tokens"));
  options.sampling.no_repeat_ngram_size = tensors.at("ngram_size").item<int64_t>();
  options.sampling.suppress_tokens = to_vector(tensors.at("suppressed"));
  return options;
}

/// As `Forward`, but returns generated tokens (none for a classifier).
struct Generate {
  const std::map<std::string, torch::Tensor>& tensors;
  const char* prompt;
  const GenerationOptions& options;

  std::vector<int64_t> operator()(LanguageModel& model) const {
    return generate(model, to_vector(tensors.at(prompt)), options).tokens;
  }
  std::vector<int64_t> operator()(Seq2Seq& model) const {
    return generate(model, to_vector(tensors.at(prompt)), {.bos_token = 0, .eos_token = -1},
                    options)
        .tokens;
  }
  std::vector<int64_t> operator()(SequenceClassifier& /*model*/) const { return {}; }
};

void expect_equal(const std::filesystem::path& folder) {
  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  auto pretrained = load_pretrained(folder);
  EXPECT_THAT(pretrained.warnings, testing::IsEmpty());
  auto& model = pretrained.model;
  auto& module = module_of(model);
  const torch::NoGradGuard no_grad;
  if (expected.contains("generated")) {
    EXPECT_EQ(std::visit(Generate{expected, "prompt", kGreedy}, model),
              to_vector(expected.at("generated")));
    EXPECT_EQ(std::visit(Generate{expected, "restricted_prompt", restricted(expected)}, model),
              to_vector(expected.at("restricted")));
  }
  const auto outputs = std::visit(Forward{expected}, model);
  // transformers_test.py compares this folder with the model that it has written.
  save_pretrained(pretrained, folder / "saved");
  auto saved = load_pretrained(folder / "saved");
  EXPECT_EQ(saved.model_type, pretrained.model_type);
  const auto saved_outputs = std::visit(Forward{expected}, saved.model);
  module.to(torch::kDouble);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = i == 0 ? "hidden" : "logits";
    SCOPED_TRACE(name);
    EXPECT_TRUE(torch::allclose(saved_outputs[i], outputs[i], 1e-4, 1e-4));
    // The outputs of both libraries, computed in float32, are compared with those in float64.
    EXPECT_TRUE(within_rounding({outputs[i], expected.at(name)}, module.parameters(), [&] {
      return Tensors(2, std::visit(Forward{expected}, model)[i]);
    }));
  }
}

TEST(Transformers, LogitsProcessorsMatchHuggingFace) {
  const char* file = std::getenv("ATTEND_LOGITS_PROCESSORS_CASES");
  if (file == nullptr) {
    GTEST_SKIP() << "ATTEND_LOGITS_PROCESSORS_CASES is not set; run transformers_test.py, which "
                    "creates the cases";
  }
  const auto tensors = load_safetensors(file).tensors;
  int64_t count = 0;
  for (; tensors.contains(fmt::format("{}.logits", count)); ++count) {
    const auto of = [&](const char* name) { return tensors.at(fmt::format("{}.{}", count, name)); };
    SCOPED_TRACE(count);
    const auto ngrams =
        repeated_ngram_tokens(to_vector(of("previous")), of("ngram_size").item<int64_t>());
    const auto found =
        suppress_tokens(suppress_tokens(of("logits"), ngrams), to_vector(of("suppressed")));
    EXPECT_TRUE(torch::equal(found, of("expected")));
  }
  std::cout << "transformers: compared " << count << " logits\n";
}

TEST(Transformers, MatchesHuggingFace) {
  const char* cases = std::getenv("ATTEND_TRANSFORMERS_CASES");
  if (cases == nullptr) {
    GTEST_SKIP() << "ATTEND_TRANSFORMERS_CASES is not set; run transformers_test.py, which creates "
                    "the cases";
  }
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    SCOPED_TRACE(entry.path().filename().string());
    expect_equal(entry.path());
    ++count;
  }
  std::cout << "transformers: compared " << count << " models\n";
}

}  // namespace
}  // namespace attend
