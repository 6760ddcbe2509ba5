#include "attend/train/answer.h"

#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "support/throws.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

class ClassProbabilities : public testing::Test {
 protected:
  ClassProbabilities() { model_->eval(); }

  torch::Tensor of(const std::string& text) {
    return class_probabilities(model_, vocabulary_, text);
  }

  Vocabulary vocabulary_ = Vocabulary::of_characters("abc");
  SequenceClassifier model_{
      SequenceClassifierConfig{.vocab_size = 3,
                               .num_classes = 3,
                               .max_seq_len = 2,
                               .stack = {.num_layers = 1, .num_heads = 1, .embed_dim = 4}}};
};

TEST_F(ClassProbabilities, AreTheSoftmaxOfTheLogits) {
  {
    const torch::NoGradGuard no_grad;
    model_->head->weight.zero_();
    model_->head->bias.copy_(torch::tensor({std::log(1.0), std::log(2.0), std::log(5.0)}));
  }
  const auto expected = torch::tensor({1.0 / 8, 2.0 / 8, 5.0 / 8}, torch::kFloat);
  EXPECT_TRUE(of("a").allclose(expected)) << of("a");
}

TEST_F(ClassProbabilities, TextsAreTruncatedToMaxSeqLen) {
  EXPECT_TRUE(of("abcc").equal(of("ab")));
  EXPECT_FALSE(of("a").equal(of("ab")));
  const auto left = class_probabilities(model_, vocabulary_, "aacb", TruncationSide::left);
  EXPECT_TRUE(left.equal(of("cb")));
  EXPECT_FALSE(left.equal(of("aa")));
}

TEST_F(ClassProbabilities, OfABatchAreThoseOfEachText) {
  const std::vector<std::string> texts{"a", "bc", "ca", "b", "abc"};
  std::vector<std::vector<int64_t>> tokens;
  for (const auto& text : texts) tokens.push_back(encode_prompt(vocabulary_, text));
  const auto all = class_probabilities(model_, tokens);  // (N, C)
  ASSERT_EQ(all.sizes(), torch::IntArrayRef({5, 3}));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(all[static_cast<int64_t>(i)].allclose(of(texts[i]), /*rtol=*/1e-5, /*atol=*/1e-7))
        << texts[i];
  }
  EXPECT_FALSE(all[0].allclose(all[1]));
  EXPECT_THAT([&] { class_probabilities(model_, {{0}, {}}); }, throws_naming<c10::ValueError>("1"));
  using Texts = std::vector<std::vector<int64_t>>;
  EXPECT_THAT([&] { class_probabilities(model_, Texts()); },
              throws_naming<c10::ValueError>("texts"));
}

TEST_F(ClassProbabilities, OfTextsThatCannotBeEncoded) {
  EXPECT_THROW(of(""), InputError);
  EXPECT_THAT([&] { of("abz"); }, throws_naming<InputError>("z"));
}

TEST_F(ClassProbabilities, RequireEvalMode) {
  model_->train();
  EXPECT_THAT([&] { of("a"); }, throws_naming<c10::ValueError>("class_probabilities"));
}

}  // namespace
}  // namespace attend::train
