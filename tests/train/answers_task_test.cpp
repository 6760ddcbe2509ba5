#include "attend/input_error.h"
#include "attend/models/language_model.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/answer_lengths.h"
#include "attend/train/example_task.h"
#include "attend/train/loss.h"
#include "attend/train/task.h"
#include "attend/train/task_objective.h"
#include "io/files.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "tokenizers/small_tokenizers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace attend::train {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr int64_t kVocabSize = 11;
constexpr int64_t kMaxSeqLen = 12;

std::vector<PackedExample> random_packed_examples(int64_t count) {
  std::vector<PackedExample> examples;
  for (int64_t i = 0; i < count; ++i) {
    PackedExample example;
    for (int64_t t = draw(2, kMaxSeqLen + 1); t > 0; --t)
      example.tokens.push_back(draw(0, kVocabSize - 1));
    for (std::size_t t = 0; t < example.tokens.size(); ++t)
      example.is_answer.push_back(draw(0, 1) == 1);
    example.is_answer.back() = true;
    examples.push_back(std::move(example));
  }
  return examples;
}

torch::Tensor loss_of(LanguageModel& model, const Batch& batch) {
  Model any = model;
  return summed_loss(logits_of(any, batch), batch.targets);
}

/// The loss of the examples, each in a batch of its own without segments.
torch::Tensor loss_one_by_one(LanguageModel& model, const std::vector<PackedExample>& examples) {
  torch::Tensor sum;
  for (const auto& [tokens, is_answer] : examples) {
    const auto all = torch::tensor(tokens, torch::kLong).unsqueeze(0);  // (1, T + 1)
    const auto length = all.size(1) - 1;
    auto targets = all.narrow(1, 1, length).clone();
    for (int64_t t = 0; t < length; ++t)
      if (!is_answer[static_cast<std::size_t>(t) + 1]) targets[0][t] = kIgnoreIndex;
    const auto loss = loss_of(model, {all.narrow(1, 0, length), targets});
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

TEST(PackedRows, LossIsThatOfTheExamplesOneByOne) {
  seed_afresh();
  std::mt19937_64 generator(static_cast<uint64_t>(draw(0, 1 << 20)));
  auto stacks = each_stack();
  std::shuffle(stacks.begin(), stacks.end(), generator);
  stacks.resize(5);
  for (const auto& [name, stack] : stacks) {
    LanguageModelConfig config{.vocab_size = kVocabSize, .max_seq_len = kMaxSeqLen, .stack = stack};
    LanguageModel model(config);
    model->eval();
    auto examples = random_packed_examples(draw(1, 12));
    const auto one_by_one = [&](LanguageModel& exact, const std::vector<torch::Tensor>&) {
      return loss_one_by_one(exact, examples);
    };
    const Rounding rounding{.terms = 12 * kMaxSeqLen * 64, .largest_term = 50.0};
    for (int i = 0; i < 2; ++i) {
      const auto batch = packed_rows(examples, kMaxSeqLen);
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(equals_in_float64(loss_of(model, batch), model, {}, one_by_one, rounding))
          << name;
      std::shuffle(examples.begin(), examples.end(), generator);
    }
  }
}

TEST(PackedRows, LongestExamplesGoToTheRowsWithTheLeastSpace) {
  const auto batch =
      packed_rows({{.tokens = {1, 2, 3}, .is_answer = {false, true, true}},
                   {.tokens = {4, 5, 6, 7, 8}, .is_answer = {false, true, false, true, true}},
                   {.tokens = {9, 1}, .is_answer = {true, true}}},
                  5);
  const auto row = [](std::vector<int64_t> values) { return torch::tensor(values); };
  ASSERT_EQ(batch.tokens.size(0), 2);
  EXPECT_TRUE(batch.tokens[0].equal(row({4, 5, 6, 7, 9})));
  EXPECT_TRUE(batch.tokens[1].equal(row({1, 2, 0, 0, 0})));
  EXPECT_TRUE(batch.targets[0].equal(row({5, kIgnoreIndex, 7, 8, 1})));
  EXPECT_TRUE(batch.targets[1].equal(row({2, 3, kIgnoreIndex, kIgnoreIndex, kIgnoreIndex})));
  EXPECT_TRUE(batch.segments[0].equal(row({1, 1, 1, 1, 2})));
  EXPECT_TRUE(batch.segments[1].equal(row({1, 1, 0, 0, 0})));
  EXPECT_TRUE(batch.positions[0].equal(row({0, 1, 2, 3, 0})));
  EXPECT_THROW(packed_rows({}, 5), c10::ValueError);
  EXPECT_THROW(packed_rows({{{1}, {true}}}, 5), c10::ValueError);
  EXPECT_THROW(packed_rows({{{1, 2, 3, 4}, {true, true, true, true}}}, 2), c10::ValueError);
  EXPECT_THROW(packed_rows({{{1, 2}, {true}}}, 5), c10::ValueError);
}

/// A tokenizer of words with a chat template. It adds the token <s> to other texts, or [e] if
/// `is_at_end`.
std::shared_ptr<const Tokenizer> tokenizer_of_chats(const std::string& chat_template,
                                                    bool is_at_end = false) {
  using nlohmann::json;
  const json model{{"type", "WordLevel"},
                   {"unk_token", "?"},
                   {"vocab", vocab_of({"?", "<s>", "[u]", "[a]", "[e]", "hi", "you", "yes", "no",
                                       "hm", "\r\n"})}};
  const char* added = is_at_end ? "[e]" : "<s>";
  const json special{{"SpecialToken", {{"id", added}, {"type_id", 0}}}};
  const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json ids{{"id", added}, {"ids", {is_at_end ? 4 : 1}}, {"tokens", {added}}};
  const json post_processor{{"type", "TemplateProcessing"},
                            {"single", is_at_end ? json{text, special} : json{special, text}},
                            {"pair", json::array()},
                            {"special_tokens", {{added, ids}}}};
  const json split{{"type", "Split"},
                   {"pattern", {{"String", " "}}},
                   {"behavior", "Removed"},
                   {"invert", false}};
  const auto parts =
      tokenizer_json(model, {{"pre_tokenizer", split}, {"post_processor", post_processor}});
  PublishedModel published{.vocab_size = 11, .eos_tokens = {4}};
  if (!chat_template.empty()) published.chat_template = ChatTemplate::parse(chat_template);
  return std::make_shared<PublishedTokenizer>(TextTokenizer::parse(parts.dump()), published);
}

constexpr const char* kTurns =
    "{{ '<s> ' }}{% for m in messages %}"
    "{{ '[' + m.role[0] + '] ' + m.content + ' [e] ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[a] ' }}{% endif %}";

class AnswersTaskTest : public testing::Test {
 protected:
  Recipe recipe_with(const std::string& name, const std::string& content) {
    replace_file(directory_ / name, content);
    auto recipe = find_task("answers").defaults;
    recipe.text = {(directory_ / name).string()};
    return recipe;
  }

  /// Recipe that reads chats, each with messages from "user" and "assistant" in turn.
  Recipe recipe_of_chats(const std::vector<std::vector<std::string>>& chats) {
    std::string lines;
    for (const auto& chat : chats) {
      auto messages = nlohmann::json::array();
      for (const auto& content : chat)
        messages.push_back(
            {{"role", messages.size() % 2 == 0 ? "user" : "assistant"}, {"content", content}});
      lines += nlohmann::json{{"chat", messages}}.dump() + "\n";
    }
    auto recipe = recipe_with("chats.jsonl", lines);
    recipe.data.messages_column = "chat";
    recipe.data.tokenizer = TokenizerKind::published;
    recipe.data.val_text = recipe.text;
    return recipe;
  }

  /// Returns the sequences of the task, with targets in parentheses.
  static std::vector<std::string> sequences(const Task& task) {
    std::vector<std::string> found;
    for (const auto& batch : task.validation_batches(1)) {
      for (int64_t segment = 1; segment <= batch.segments.max().item<int64_t>(); ++segment) {
        const auto columns = batch.segments[0].eq(segment).nonzero().flatten();  // (T)
        auto text = task.tokenizer().token(batch.tokens[0][columns[0]].item<int64_t>());
        for (int64_t i = 0; i < columns.size(0); ++i) {
          const auto column = columns[i].item<int64_t>();
          const auto target = batch.targets[0][column].item<int64_t>();
          const bool is_last = i + 1 == columns.size(0);
          if (target != kIgnoreIndex)
            text += " (" + task.tokenizer().token(target) + ")";
          else if (!is_last)
            text += " " + task.tokenizer().token(batch.tokens[0][columns[i + 1]].item<int64_t>());
        }
        found.push_back(text);
      }
    }
    return found;
  }

  TemporaryDirectory directory_;
};

TEST_F(AnswersTaskTest, OnlyAnswersAndTheirEndsAreTargets) {
  auto recipe = recipe_with("qa.jsonl",
                            "{\"question\": \"ab?\", \"reply\": \"cd\"}\n"
                            "{\"question\": \"b?\", \"reply\": 5}\n");
  recipe.data.prompt_column = "question";
  recipe.data.answer_column = "reply";
  recipe.data.val_text = recipe.text;
  const auto task = make_task(recipe);
  const auto batch = task->validation_batches(10).at(0);
  const auto targets = batch.targets.masked_select(batch.targets.ne(kIgnoreIndex));
  const auto* ids = targets.const_data_ptr<int64_t>();
  EXPECT_EQ(task->tokenizer().decode({ids, ids + targets.numel()}), "cd\n5\n");
  const auto samples = task->samples();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].prompt, "ab?");
  EXPECT_EQ(samples[0].answer, "cd");
}

TEST_F(AnswersTaskTest, AnswersOfChatsAreTargets) {
  const auto recipe = recipe_of_chats({{"hi", "yes", "you", "no no", "hi"}});
  const auto task = make_task(recipe, tokenizer_of_chats(kTurns));
  EXPECT_THAT(sequences(*task),
              ElementsAre("<s> [u] hi [e] [a] (yes) ([e]) [u] you [e] [a] (no) (no) ([e])"));
  const auto samples = task->samples();
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].prompt, "<s> [u] hi [e] [a] yes [e] [u] you [e] [a] ");
  EXPECT_EQ(samples[0].answer, "no no [e]");
  EXPECT_THAT(samples[0].prompt_tokens, ElementsAre(1, 2, 5, 4, 3, 7, 4, 2, 6, 4, 3));
  const auto batches =
      find_task("answers").batches_of_file(recipe.text.front(), recipe, task->tokenizer(), {}, 8);
  EXPECT_TRUE(batches.at(0).targets.equal(task->validation_batches(8).at(0).targets));
}

TEST_F(AnswersTaskTest, AChatMayBeginWithAnAnswer) {
  std::string lines;
  for (const char* content : {"yes", "no"}) {
    auto messages = nlohmann::json::array();
    for (const auto& [role, text] :
         {std::pair("assistant", content), std::pair("user", "hi"), std::pair("assistant", "no")})
      messages.push_back({{"role", role}, {"content", text}});
    lines += nlohmann::json{{"chat", messages}}.dump() + "\n";
  }
  auto recipe = recipe_with("greetings.jsonl", lines);
  recipe.data.messages_column = "chat";
  recipe.data.tokenizer = TokenizerKind::published;
  const auto task = make_task(recipe, tokenizer_of_chats(kTurns));  // has two groups
  EXPECT_THAT(sequences(*task), ElementsAre(AnyOf("<s> [a] (yes) ([e]) [u] hi [e] [a] (no) ([e])",
                                                  "<s> [a] (no) ([e]) [u] hi [e] [a] (no) ([e])")));
  // The beginning of the first answer is not known.
  const auto* silent = "{% for m in messages %}{{ m.content + ' [e] ' }}{% endfor %}";
  EXPECT_THAT(sequences(*make_task(recipe, tokenizer_of_chats(silent))),
              ElementsAre(AnyOf("yes [e] hi [e] (no) ([e])", "no [e] hi [e] (no) ([e])")));
}

TEST_F(AnswersTaskTest, AnAnswerEndsOnce) {
  auto recipe = recipe_with("qa.csv", "prompt,answer\nhi ,yes\nyou ,no\n");
  recipe.data.tokenizer = TokenizerKind::published;
  recipe.data.val_text = recipe.text;
  for (const bool is_at_end : {false, true}) {
    const auto start = is_at_end ? "" : "<s> ";
    EXPECT_THAT(sequences(*make_task(recipe, tokenizer_of_chats("", is_at_end))),
                UnorderedElementsAre(start + std::string("hi (yes) ([e])"),
                                     start + std::string("you (no) ([e])")));
  }
}

TEST_F(AnswersTaskTest, TargetsOfChatsAreTheMarkedParts) {
  const auto* marked =
      "{% for m in messages %}{{ '[' + m.role[0] + '] ' }}{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}{% endgeneration %}{{ ' [e] ' }}"
      "{% else %}{{ m.content + ' ' }}{% endif %}{% endfor %}";
  const auto task =
      make_task(recipe_of_chats({{"hi", "yes", "you", "no no"}}), tokenizer_of_chats(marked));
  EXPECT_THAT(sequences(*task), ElementsAre("[u] hi [a] (yes) [e] [u] you [a] (no) (no)"));
}

TEST_F(AnswersTaskTest, AnswersThatATemplateShortensAreSequencesOfTheirOwn) {
  // Only the last answer has its reasoning, "hm".
  const auto* shortening =
      "{% for m in messages %}{{ '[' + m.role[0] + '] ' }}"
      "{{ m.content if loop.last else m.content.removeprefix('hm ') }}{{ ' [e] ' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '[a] ' }}{% endif %}";
  const auto task = make_task(recipe_of_chats({{"hi", "hm yes", "you", "hm no"}}),
                              tokenizer_of_chats(shortening));
  EXPECT_THAT(sequences(*task),
              UnorderedElementsAre("[u] hi [e] [a] (hm) (yes) ([e])",
                                   "[u] hi [e] [a] yes [e] [u] you [e] [a] (hm) (no) ([e])"));
}

TEST_F(AnswersTaskTest, LongChatsAreTruncatedAndCounted) {
  auto recipe = recipe_of_chats({{"hi", "yes", "hi hi hi", "no"}, {"hi hi hi hi hi hi hi", "no"}});
  recipe.max_seq_len() = 7;
  const auto task = make_task(recipe, tokenizer_of_chats(kTurns));
  EXPECT_THAT(sequences(*task), ElementsAre("<s> [u] hi [e] [a] (yes) ([e])"));
  const auto lengths = answer_lengths(recipe.text.front(), recipe, task->tokenizer());
  EXPECT_EQ(lengths.examples, 2);
  EXPECT_EQ(lengths.truncated, 1);
  EXPECT_EQ(lengths.left_out, 1);
}

TEST_F(AnswersTaskTest, ChatsWithOneBeginningAreNotSplit) {
  std::vector<std::vector<std::string>> chats;
  for (int i = 0; i < 40; ++i) chats.push_back({i % 4 == 0 ? "hi" : "you", "yes", "hi", "no"});
  auto recipe = recipe_of_chats(chats);
  recipe.data.val_text.clear();
  const auto task = make_task(recipe, tokenizer_of_chats(kTurns));
  const auto found = sequences(*task);
  EXPECT_TRUE(found.size() == 10 || found.size() == 30) << found.size();
}

TEST_F(AnswersTaskTest, LineBreaksOfMessagesAreRead) {
  auto recipe = recipe_of_chats({{"hi", "yes \r\n"}});
  const auto tokenizer = tokenizer_of_chats(kTurns);
  EXPECT_THAT(sequences(*make_task(recipe, tokenizer)),
              ElementsAre("<s> [u] hi [e] [a] (yes) (?) ([e])"));
  recipe.data.keep_carriage_returns = true;
  EXPECT_THAT(sequences(*make_task(recipe, tokenizer)),
              ElementsAre("<s> [u] hi [e] [a] (yes) (\\x0d\\x0a) ([e])"));
}

TEST_F(AnswersTaskTest, MessagesAboutChatsNameLineAndColumn) {
  const auto throws_with = [&](const std::string& line, auto... names) {
    auto recipe = recipe_of_chats({{"hi", "yes"}});
    recipe.text = recipe_with("other.jsonl", "\n" + line + "\n").text;
    EXPECT_THAT([&] { make_task(recipe, tokenizer_of_chats(kTurns)); },
                throws_naming<InputError>(recipe.text.front() + ":2", names...))
        << line;
  };
  throws_with(R"({"chat": "hi"})", "'chat'", "'hi'");
  throws_with(R"({"chat": []})", "'chat'", "'assistant'");
  throws_with(R"({"chat": [{"role": "user", "content": "hi"}]})", "'chat'", "'assistant'");
  throws_with(R"({"chat": ["hi", {"role": "assistant", "content": "hi"}]})", "string");
  throws_with(R"({"chat": [{"role": "assistant"}]})", "undefined");
  throws_with(R"({"messages": []})", "'chat'", "messages_column", "'messages'");
  const auto recipe = recipe_of_chats({{"hi", "yes"}});
  EXPECT_THAT([&] { make_task(recipe, tokenizer_of_chats("")); },
              throws_naming<InputError>("messages_column", "--init-from"));
  EXPECT_THAT([&] { make_task(recipe); },
              throws_naming<InputError>("messages_column", "--init-from"));
  auto with_prompts = recipe;
  with_prompts.data.answer_column = "reply";
  EXPECT_THAT([&] { make_task(with_prompts, tokenizer_of_chats(kTurns)); },
              throws_naming<InputError>("answer_column", "messages_column"));
}

TEST_F(AnswersTaskTest, CountsTruncatedAnswersAndPromptsWithoutRoom) {
  auto recipe = recipe_with("qa.csv", "prompt,answer\nabc,de\nabcde,fgh\nabcdefgh,i\n");
  recipe.data.val_text = recipe.text;
  recipe.max_seq_len() = 6;
  const auto task = make_task(recipe);
  const auto notes = task->data_notes();
  const auto note = std::ranges::find(notes, "truncated", &DataNote::name);
  ASSERT_NE(note, notes.end());
  for (const char* part : {"2 of 6", "7 tokens", "2 prompts", "10", "--max-seq-len"})
    EXPECT_THAT(note->text, Names(std::string(part)));
  const auto batch = task->validation_batches(10).at(0);
  EXPECT_EQ(batch.targets.ne(kIgnoreIndex).sum().item<int64_t>(), 3 + 2);
}

TEST_F(AnswersTaskTest, MessagesNameColumnsAndLines) {
  EXPECT_THAT([&] { make_task(recipe_with("qa.csv", "prompt,reply\na,b\n")); },
              throws_naming<InputError>("'answer'", "answer_column", "'reply'"));
  auto recipe = recipe_with("qa.csv", "prompt,answer\na,b\nb,a\n");
  recipe.data.val_text = {(directory_ / "val.csv").string()};
  replace_file(recipe.data.val_text.front(), "prompt,answer\na,b\na,x\n");
  EXPECT_THAT([&] { make_task(recipe); },
              throws_naming<InputError>(recipe.data.val_text.front() + ":3", "'x'"));
}

}  // namespace
}  // namespace attend::train
