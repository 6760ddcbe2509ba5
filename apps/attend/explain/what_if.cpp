#include "explain/what_if.h"

#include "attend/input_error.h"
#include "explain/explanation.h"

#include <fmt/format.h>

namespace attend::app {

bool has_changes(const RunQuestion& question) {
  return !question.masks.empty() || !question.no_heads.empty() || !question.swaps.empty();
}

WhatIf::WhatIf(const RunQuestion& question, ExplainedText& text) : text_(text) {
  if (!question.masks.empty()) text.text_mask = torch::ones_like(text.text, torch::kBool);
  for (const auto& masked : question.masks) {
    text.text_mask[row_of("--mask", text.text_labels, masked)] = false;
    descriptions_.push_back(fmt::format("mask {}", masked));
  }
  for (const auto& head : question.no_heads) remove_head(head);
  text.text = text.text.clone();
  for (const auto& swap : question.swaps) swap_token(swap);
}

WhatIf::~WhatIf() {
  // In reverse order, because two heads of a layer are in the same weight.
  for (auto i = weights_.rbegin(); i != weights_.rend(); ++i) i->first.copy_(i->second);
}

/// `layer_and_head`: "LAYER.HEAD".
void WhatIf::remove_head(const std::string& layer_and_head) {
  const auto dot = layer_and_head.find('.');
  const auto part = [&](const std::string& digits, int64_t count) {
    const auto number = number_in(digits).value_or(0);
    if (number < 1 || number > count) {
      throw InputError(fmt::format(
          "--no-head {}: expected LAYER.HEAD, with a layer from 1 to {} and a head from 1 to {}",
          layer_and_head, text_.num_layers(), text_.num_heads()));
    }
    return number - 1;
  };
  const auto layer = part(layer_and_head.substr(0, dot), text_.num_layers());
  const auto head =
      part(dot == layer_and_head.npos ? "" : layer_and_head.substr(dot + 1), text_.num_heads());
  auto& block = *text_.blocks->ptr(static_cast<std::size_t>(layer));
  auto* decoder = block.as<DecoderBlock>();
  const auto& attention =
      decoder != nullptr ? decoder->cross_attention : block.as<TransformerBlock>()->attention;
  auto weight = attention->out->weight;  // (E, H * D)
  weights_.emplace_back(weight, weight.clone());
  const auto width = weight.size(1) / text_.num_heads();
  weight.slice(1, head * width, (head + 1) * width).zero_();
  descriptions_.push_back(fmt::format("no head {}", layer_and_head));
}

/// `token_and_new`: "TOKEN=NEW".
void WhatIf::swap_token(const std::string& token_and_new) {
  const auto at = token_and_new.find('=', 1);  // the token may be '='
  const auto ids = at == token_and_new.npos
                       ? std::vector<int64_t>()
                       : text_.run.tokenizer->encode(token_and_new.substr(at + 1));
  if (ids.size() != 1) {
    throw InputError(fmt::format("--swap {}: expected TOKEN=NEW, where NEW is one token, found {}",
                                 token_and_new, ids.size()));
  }
  text_.text[row_of("--swap", text_.text_labels, token_and_new.substr(0, at))] = ids.front();
  descriptions_.push_back(fmt::format("swap {}", token_and_new));
}

}  // namespace attend::app
