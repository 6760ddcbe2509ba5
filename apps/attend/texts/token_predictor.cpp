#include "texts/token_predictor.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/train/entities.h"
#include "attend/train/token_predictions.h"
#include "json_text.h"
#include "runs/evaluation_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace attend::app {
namespace {

using Json = nlohmann::ordered_json;

/// What CoNLL-U writes for a missing value.
constexpr const char* kMissing = "_";

/// Returns the `count` largest probabilities and their indices; all if `count` is 0.
std::vector<std::pair<int64_t, double>> most_probable(const torch::Tensor& probabilities,
                                                      int64_t count) {
  const auto size = probabilities.numel();
  const auto [values, indices] = probabilities.topk(count == 0 ? size : std::min(count, size));
  std::vector<std::pair<int64_t, double>> all;
  for (int64_t i = 0; i < values.numel(); ++i)
    all.emplace_back(indices[i].item<int64_t>(), values[i].item<double>());
  return all;
}

/// Returns lines and JSON of the predictions at one position. `name`: of an index.
template <typename Name>
std::pair<std::string, Json> predictions_of(const torch::Tensor& probabilities, int64_t count,
                                            const char* key, const Name& name) {
  std::vector<std::string> texts;
  auto json = Json::array();
  for (const auto& prediction : most_probable(probabilities, count)) {
    const auto text = name(prediction.first);
    texts.push_back(fmt::format("{}\t{:.4f}", printable(text), prediction.second));
    json.push_back({{key, text}, {"probability", prediction.second}});
  }
  return {fmt::format("{}", fmt::join(texts, "\t")), json};
}

Json entities_json(const std::vector<std::string>& words, const std::vector<std::string>& tags) {
  auto json = Json::array();
  for (const auto& [type, begin, end] : train::entities_of(tags)) {
    json.push_back(
        {{"type", type},
         {"text", fmt::format("{}", fmt::join(words.begin() + begin, words.begin() + end, " "))},
         {"begin", begin},
         {"end", end}});
  }
  return json;
}

}  // namespace

void TokenPredictor::predict(const std::string& text) {
  ++num_texts_;
  const auto lines = changing_unknown_token(&UnknownTokenError::without_place, [&] {
    return run_.recipe.data.problem_type == train::ProblemType::masked_lm ? masked_tokens(text)
                                                                          : tags(text);
  });
  print_now(lines);
}

void TokenPredictor::print_unusual() const {
  if (num_truncated_ == 0) return;
  write_error(fmt::format("truncated {}\n", truncation_text(num_truncated_, num_texts_, run_)));
}

std::string TokenPredictor::tags(const std::string& text) {
  const auto words = train::split_words(text);
  if (words.empty()) throw InputError("the text is empty, expected at least one word");
  const auto encoded = train::encode_words(*run_.tokenizer, words, run_.recipe.max_seq_len());
  const auto probabilities =
      train::tag_probabilities(std::get<SequenceClassifier>(run_.model), {encoded}).front();
  const bool is_truncated = encoded.first_tokens.size() < words.size();
  num_truncated_ += is_truncated;
  std::string lines;
  auto json = Json::array();
  std::vector<std::string> best;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_token = i < encoded.first_tokens.size() && encoded.first_tokens[i] >= 0;
    const auto none = std::pair<std::string, Json>(kMissing, Json::array());
    const auto [line, predictions] =
        has_token ? predictions_of(
                        probabilities[static_cast<int64_t>(i)], options_.top, "tag",
                        [&](int64_t tag) { return run_.classes.at(static_cast<std::size_t>(tag)); })
                  : none;
    lines += fmt::format("{}\t{}\n", printable(words[i]), line);
    json.push_back({{"word", words[i]}, {"predictions", predictions}});
    best.push_back(predictions.empty() ? "O" : predictions[0]["tag"].get<std::string>());
  }
  if (!options_.json) return lines + "\n";
  Json all{{"text", text}, {"truncated", is_truncated}, {"words", json}};
  if (has_entities(run_.classes, run_.recipe.data.problem_type))
    all["entities"] = entities_json(words, best);
  return json_text(all) + "\n";
}

std::string TokenPredictor::masked_tokens(const std::string& text) {
  const auto& tokenizer = *run_.tokenizer;
  const auto tokens =
      train::encode_masked(tokenizer, train::with_line_breaks(text, run_.recipe.data));
  const bool is_truncated = std::ssize(tokens) > run_.recipe.max_seq_len();
  num_truncated_ += is_truncated;
  const auto probabilities = train::mask_probabilities(std::get<SequenceClassifier>(run_.model),
                                                       tokens, *tokenizer.mask_token());  // (M, V)
  std::string lines;
  auto json = Json::array();
  for (int64_t i = 0; i < probabilities.size(0); ++i) {
    const auto [line, predictions] =
        predictions_of(probabilities[i], options_.top, "token",
                       [&](int64_t token) { return tokenizer.token(token); });
    lines += line + "\n";
    json.push_back(predictions);
  }
  if (!options_.json) return lines;
  return json_text(Json{{"text", text}, {"truncated", is_truncated}, {"masks", json}}) + "\n";
}

}  // namespace attend::app
