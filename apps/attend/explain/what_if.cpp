#include "explain/what_if.h"

#include "attend/input_error.h"
#include "explain/explanation.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::app {
namespace {

/// `layer_and_head`: "LAYER.HEAD".
HeadPlace head_place(const std::string& layer_and_head, const ExplainedText& text) {
  const auto dot = layer_and_head.find('.');
  const auto part = [&](const std::string& digits, int64_t count) {
    const auto number = number_in(digits).value_or(0);
    if (number < 1 || number > count) {
      throw InputError(fmt::format(
          "--no-head {}: expected LAYER.HEAD, with a layer from 1 to {} and a head from 1 to {}",
          layer_and_head, text.num_layers(), text.num_heads()));
    }
    return number - 1;
  };
  return {part(layer_and_head.substr(0, dot), text.num_layers()),
          part(dot == layer_and_head.npos ? "" : layer_and_head.substr(dot + 1), text.num_heads())};
}

/// `token_and_new`: "TOKEN=NEW".
void swap_token(const std::string& token_and_new, ExplainedText& text) {
  auto at = token_and_new.find('=', 1);  // the token may be '='
  for (auto i = at; i != token_and_new.npos; i = token_and_new.find('=', i + 1)) {
    // Also a token with this character, such as x=y in x=y=z.
    if (std::ranges::find(text.text_labels, token_and_new.substr(0, i)) != text.text_labels.end())
      at = i;
  }
  const auto ids = at == token_and_new.npos
                       ? std::vector<int64_t>()
                       : text.run.tokenizer->encode(token_and_new.substr(at + 1));
  if (ids.size() != 1) {
    throw InputError(fmt::format("--swap {}: expected TOKEN=NEW, where NEW is one token, found {}",
                                 token_and_new, ids.size()));
  }
  text.text[row_of("--swap", text.text_labels, token_and_new.substr(0, at))] = ids.front();
}

}  // namespace

ExplainedText with_changes(ExplainedText text, const RunQuestion& question) {
  text.text = text.text.clone();  // a copy of the text has the same tensor
  if (!question.masks.empty()) text.text_mask = torch::ones_like(text.text, torch::kBool);
  for (const auto& masked : question.masks)
    text.text_mask[row_of("--mask", text.text_labels, masked)] = false;
  for (const auto& head : question.no_heads) text.no_heads.push_back(head_place(head, text));
  for (const auto& swap : question.swaps) swap_token(swap, text);
  return text;
}

std::vector<std::string> changes_of(const RunQuestion& question) {
  std::vector<std::string> changes;
  for (const auto& token : question.masks) changes.push_back(fmt::format("mask {}", token));
  for (const auto& head : question.no_heads) changes.push_back(fmt::format("no head {}", head));
  for (const auto& swap : question.swaps) changes.push_back(fmt::format("swap {}", swap));
  return changes;
}

}  // namespace attend::app
