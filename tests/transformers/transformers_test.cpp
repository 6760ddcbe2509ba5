// Compares models loaded from a folder with Hugging Face transformers. transformers_test.py writes
// the cases and runs this test.
#include "attend/io/safetensors.h"
#include "attend/models/generation.h"
#include "attend/pretrained/pretrained.h"
#include "support/rounding.h"

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

/// A visitor for the variant Model. Returns the logits.
struct Forward {
  const std::map<std::string, torch::Tensor>& tensors;

  torch::Tensor operator()(LanguageModel& model) const {
    return model->forward(tensors.at("tokens"));
  }
  torch::Tensor operator()(Seq2Seq& model) const {
    return model->forward(tensors.at("tokens"), tensors.at("target"), tensors.at("key_mask"));
  }
  torch::Tensor operator()(SequenceClassifier& model) const {
    const bool has_types = model->config.type_vocab_size > 0;
    return model->forward(tensors.at("tokens"), tensors.at("key_mask"),
                          has_types ? tensors.at("token_types") : torch::Tensor());
  }
};

/// As `Forward`, but returns generated tokens (none for a classifier).
struct Generate {
  const std::map<std::string, torch::Tensor>& tensors;

  std::vector<int64_t> operator()(LanguageModel& model) const {
    return generate(model, to_vector(tensors.at("prompt")), kGreedy).tokens;
  }
  std::vector<int64_t> operator()(Seq2Seq& model) const {
    return generate(model, to_vector(tensors.at("prompt")), {.bos_token = 0, .eos_token = -1},
                    kGreedy)
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
    EXPECT_EQ(std::visit(Generate{expected}, model), to_vector(expected.at("generated")));
  }
  const auto logits = std::visit(Forward{expected}, model);
  // transformers_test.py compares this folder with the model that it has written.
  save_pretrained(pretrained, folder / "saved");
  auto saved = load_pretrained(folder / "saved");
  EXPECT_EQ(saved.model_type, pretrained.model_type);
  EXPECT_TRUE(torch::allclose(std::visit(Forward{expected}, saved.model), logits, 1e-4, 1e-4));
  module.to(torch::kDouble);
  // The logits of both libraries, computed in float32, are compared with those in float64.
  EXPECT_TRUE(within_rounding({logits, expected.at("logits")}, module.parameters(),
                              [&] { return Tensors(2, std::visit(Forward{expected}, model)); }));
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
