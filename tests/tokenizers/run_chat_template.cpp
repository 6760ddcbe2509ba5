// Renders chat templates, for chat_template_test.py. Reads one JSON object per line of standard
// input, and prints one JSON value per line:
//
//     {"parse": TEMPLATE, "tokens": {"bos_token": "<s>"}}         null; all renders use this
//     template
//     {"load": FOLDER}                                            true if there is a template
//     {"render": MESSAGES, "add_generation_prompt": true, "variables": {}, "now": 0}
//                                                                 [text, [[begin, end], ...]]
//
// The messages and variables are JSON texts. An InputError is printed as {"error": MESSAGE}.
#include "attend/input_error.h"
#include "attend/tokenizers/chat_template.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <optional>
#include <string>

namespace {

using nlohmann::json;

json answer(std::optional<attend::ChatTemplate>& chat, const json& request) {
  if (request.contains("parse")) {
    chat = attend::ChatTemplate::parse(
        request["parse"], request["tokens"].get<std::map<std::string, std::string>>(), "template");
    return nullptr;
  }
  if (request.contains("load")) {
    chat = attend::load_chat_template(request["load"].get<std::string>());
    return chat.has_value();
  }
  const auto rendered =
      chat->render_json(request["render"].get<std::string>(),
                        {.add_generation_prompt = request["add_generation_prompt"],
                         .variables = request["variables"],
                         .now = request["now"].get<std::time_t>()});
  return {rendered.text, rendered.generated};
}

}  // namespace

int main() {
  std::optional<attend::ChatTemplate> chat;
  for (std::string line; std::getline(std::cin, line);) {
    json result;
    try {
      result = answer(chat, json::parse(line));
    } catch (const attend::InputError& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  }
}
