#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/answer.h"
#include "attend/train/example_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <array>
#include <set>

namespace attend::train {
namespace {

struct Noun {
  const char* english;
  const char* toy;
  char gender;  // last letter of the noun's article and adjectives
};
struct Word {
  const char* english;
  const char* toy;
};

constexpr std::array<Noun, 8> kNouns{{{"cat", "miro", 'o'},
                                      {"dog", "bako", 'o'},
                                      {"bird", "fila", 'a'},
                                      {"fish", "suna", 'a'},
                                      {"tree", "lodo", 'o'},
                                      {"house", "kesa", 'a'},
                                      {"river", "vuna", 'a'},
                                      {"stone", "pero", 'o'}}};
constexpr std::array<Word, 6> kAdjectives{{{"red", "rub"},
                                           {"small", "min"},
                                           {"old", "vet"},
                                           {"quiet", "kal"},
                                           {"bright", "luz"},
                                           {"tall", "alt"}}};
constexpr std::array<Word, 6> kVerbs{{{"sees", "vidi"},
                                      {"finds", "trovi"},
                                      {"follows", "segi"},
                                      {"loves", "ami"},
                                      {"hears", "audi"},
                                      {"fears", "timi"}}};

/// Translation of English sentences into a toy language with another grammar: adjectives follow
/// the noun, articles and adjectives agree with the noun's gender, and the verb comes last. A
/// negated verb is preceded by "ne" and followed by "pa".
class TranslationTask : public ExampleTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.model = Seq2SeqConfig{};
    recipe.max_seq_len() = 16;
    recipe.training.optimizer = OptimizerKind::muon;
    recipe.training.lr = 1e-2;
    recipe.training.max_steps = 600;
    return recipe;
  }

  explicit TranslationTask(const Recipe& recipe) : vocabulary_(TokenizerKind::word, words()) {
    check_max_seq_len(recipe, kMaxLength);
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }

 protected:
  Example draw(Sampler& sampler) const override {
    const auto subject = phrase(sampler);
    const auto object = phrase(sampler);
    const auto& verb = pick(kVerbs, sampler);
    const bool negated = sampler.below(3) == 0;
    return {fmt::format("{}{} {} {}", subject.prompt, negated ? " never" : "", verb.english,
                        object.prompt),
            fmt::format("{} {}{}{}{}", subject.answer, object.answer, negated ? " ne " : " ",
                        verb.toy, negated ? " pa" : "")};
  }

  Batch rows(const std::vector<Example>& examples) const override {
    return translation_rows(
        examples,
        {.tokenizer = vocabulary_, .padding = vocabulary_.id(kPadToken), .length = kMaxLength},
        vocabulary_.id(kBosToken), vocabulary_.id(kEosToken));
  }

 private:
  // Maximum number of tokens of a translation: two phrases (four words each), the verb, "ne", "pa"
  // and the end token.
  static constexpr int64_t kMaxLength = 2 * 4 + 3 + 1;

  template <typename List>
  static const typename List::value_type& pick(const List& list, Sampler& sampler) {
    return list[static_cast<std::size_t>(sampler.below(static_cast<int64_t>(list.size())))];
  }

  /// Returns a random noun phrase and its translation. The phrase consists of an article, up to two
  /// adjectives and a noun.
  static Example phrase(Sampler& sampler) {
    const auto& noun = pick(kNouns, sampler);
    Example example{"the", fmt::format("l{} {}", noun.gender, noun.toy)};
    for (int64_t count = sampler.below(3); count > 0; --count) {
      const auto& adjective = pick(kAdjectives, sampler);
      example.prompt += fmt::format(" {}", adjective.english);
      example.answer += fmt::format(" {}{}", adjective.toy, noun.gender);
    }
    example.prompt += fmt::format(" {}", noun.english);
    return example;
  }

  static std::vector<std::string> words() {
    std::set<std::string> all{"the", "never", "lo", "la", "ne", "pa"};
    for (const auto& noun : kNouns) all.insert({noun.english, noun.toy});
    for (const auto& verb : kVerbs) all.insert({verb.english, verb.toy});
    for (const auto& adjective : kAdjectives) {
      all.insert(
          {adjective.english, adjective.toy + std::string("o"), adjective.toy + std::string("a")});
    }
    std::vector<std::string> tokens{kPadToken, kBosToken, kEosToken};
    tokens.insert(tokens.end(), all.begin(), all.end());
    return tokens;
  }

  Vocabulary vocabulary_;
};

}  // namespace

TaskInfo translation_task() {
  return {.name = "translation",
          .summary = "translation of English into a toy language with another grammar",
          .defaults = TranslationTask::defaults(),
          .make = make<TranslationTask>,
          .data_keys = {}};
}

}  // namespace attend::train
