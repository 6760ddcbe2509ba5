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

/// A visitor for the variant Model. Returns the outputs that transformers_test.py computes: hidden
/// states (B, T, E) and logits, without padding.
struct Forward {
  const std::map<std::string, torch::Tensor>& tensors;
  const torch::Tensor& tokens = tensors.at("tokens");
  const torch::Tensor& key_mask = tensors.at("key_mask");

  Tensors operator()(LanguageModel& model) const {
    const auto hidden = model->decoder->forward(model->embedding->forward(tokens),
                                                {.key_mask = key_mask, .causal = true});
    return {without_padding(hidden),
            without_padding(model->forward(tokens, {.key_mask = key_mask}))};
  }
  Tensors operator()(Seq2Seq& model) const {
    return {without_padding(model->encode(tokens, key_mask)),
            model->forward(tokens, tensors.at("target"), key_mask)};
  }
  Tensors operator()(SequenceClassifier& model) const {
    const bool has_types = model->config.type_vocab_size > 0;
    const auto types = has_types ? tensors.at("token_types") : torch::Tensor();
    const auto embedded = model->embedding->forward(tokens, /*positions=*/{}, types);
    return {without_padding(model->encoder->forward(embedded, {.key_mask = key_mask})),
            model->forward(tokens, key_mask, types)};
  }

  torch::Tensor without_padding(const torch::Tensor& x) const {
    return x.masked_fill(key_mask.logical_not().unsqueeze(-1), 0.0);
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
