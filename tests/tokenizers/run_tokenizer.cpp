// Encodes and decodes with a tokenizer.json, for tokenizers_test.py. Reads one JSON object per line
// of standard input, and prints one JSON value per line:
//
//     {"load": "tokenizer.json"}                       null; all other requests use this tokenizer
//     {"encode": [HEX], "special": true}               [ids, type ids, attention mask]
//     {"encode": [HEX, HEX], "special": true}          the same of a pair
//     {"decode": [1, 2], "skip": true}                 text
//     {"stream": [1, 2], "skip": true}                 texts, one per id and the rest
//     {"measure": [HEX, HEX]}                          seconds to encode all texts
//
// Texts are bytes in hexadecimal. An InputError is printed as {"error": MESSAGE}.
#include "attend/input_error.h"
#include "attend/tokenizers/text_tokenizer.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>

namespace {

using nlohmann::json;

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

json answer(std::optional<attend::TextTokenizer>& tokenizer, const json& request) {
  if (request.contains("load")) {
    tokenizer = attend::TextTokenizer::load(request["load"].get<std::string>());
    return nullptr;
  }
  if (request.contains("encode")) {
    const auto& texts = request["encode"];
    const attend::EncodeOptions options{request["special"].get<bool>()};
    const auto encoding =
        texts.size() == 1 ? tokenizer->encode(bytes_of(texts[0]), options)
                          : tokenizer->encode_pair(bytes_of(texts[0]), bytes_of(texts[1]), options);
    return {encoding.ids, encoding.type_ids, encoding.attention_mask};
  }
  if (request.contains("measure")) {
    std::vector<std::string> texts;
    for (const auto& text : request["measure"]) texts.push_back(bytes_of(text));
    const auto start = std::chrono::steady_clock::now();
    for (const auto& text : texts) tokenizer->encode(text);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const attend::DecodeOptions options{request["skip"].get<bool>()};
  if (request.contains("decode")) {
    return tokenizer->decode(request["decode"].get<std::vector<int64_t>>(), options);
  }
  attend::StreamingDecoder decoder(*tokenizer, options);
  auto texts = json::array();
  for (const int64_t id : request.at("stream")) texts.push_back(decoder.step(id));
  texts.push_back(decoder.finish());
  return texts;
}

}  // namespace

int main() {
  std::optional<attend::TextTokenizer> tokenizer;
  for (std::string line; std::getline(std::cin, line);) {
    json result;
    try {
      result = answer(tokenizer, json::parse(line));
    } catch (const attend::InputError& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  }
}
