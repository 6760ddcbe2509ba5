#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "support/throws.h"

#include <string>

namespace attend {
namespace {

template <typename Call>
void expect_submodule_error(const std::string& submodule, const Call& call) {
  EXPECT_THAT(call, throws<c10::ValueError>(("submodule " + submodule + " of").c_str()));
  EXPECT_THAT(call, throws<c10::ValueError>("is not the module that forward calls"));
}

TEST(ModelSubmodules, ReplacedWithoutTheMemberThrow) {
  const StackConfig stack{.num_layers = 1, .num_heads = 2, .embed_dim = 8};
  for (const auto* name : {"embedding", "decoder", "head"}) {
    LanguageModel model(LanguageModelConfig{
        .vocab_size = 11, .max_seq_len = 4, .tie_embeddings = false, .stack = stack});
    model->replace_module(name, model->named_children()[name]->clone());
    expect_submodule_error(name, [&] { model->eval(); });
  }
  for (const auto* name : {"embedding", "encoder", "pooler", "head"}) {
    SequenceClassifier model(SequenceClassifierConfig{
        .vocab_size = 11, .num_classes = 3, .max_seq_len = 4, .pooler = true, .stack = stack});
    model->replace_module(name, model->named_children()[name]->clone());
    expect_submodule_error(name, [&] { model->eval(); });
  }
  for (const auto* name : {"source_embedding", "target_embedding", "transformer", "head"}) {
    Seq2Seq model(Seq2SeqConfig{.source_vocab_size = 11,
                                .target_vocab_size = 11,
                                .max_seq_len = 4,
                                .tie_embeddings = false,
                                .stack = stack});
    model->replace_module(name, model->named_children()[name]->clone());
    expect_submodule_error(name, [&] { model->eval(); });
  }
}

}  // namespace
}  // namespace attend
