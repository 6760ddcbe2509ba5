#include "attend/train/embedding_files.h"

#include "io/files.h"
#include "resolved.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utf8.h>

#include <fstream>

namespace attend::train {
namespace {

bool is_control(char32_t character) {
  return character < 0x20 || (character >= 0x7F && character <= 0x9F);
}

/// True for white space that is neither the space (U+0020) nor a control character. `escaped`
/// escapes this white space, because TensorBoard's Embedding Projector removes white space at both
/// ends of a line (JavaScript's trim()).
bool is_unusual_space(char32_t character) {
  return character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
         character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F ||
         character == 0x3000 || character == 0xFEFF;
}

std::string escaped(char32_t character) {
  switch (character) {
    case '\\':
      return "\\\\";
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    default:
      break;
  }
  const auto number = static_cast<uint32_t>(character);
  if (character < 0x80 && is_control(character)) return fmt::format("\\x{:02X}", number);
  if (is_control(character) || is_unusual_space(character)) return fmt::format("\\u{:04X}", number);
  std::string text;
  utf8::append(character, std::back_inserter(text));
  return text;
}

/// Returns a token as one line of text that is not blank, since the Embedding Projector skips blank
/// lines.
std::string label(const std::string& token) {
  std::string text;
  for (auto at = token.begin(); at != token.end();) {
    for (const auto valid_end = utf8::find_invalid(at, token.end()); at != valid_end;)
      text += escaped(utf8::next(at, valid_end));
    if (at != token.end()) text += fmt::format("\\x{:02X}", static_cast<unsigned char>(*at++));
  }
  const bool blank = text.find_first_not_of(' ') == std::string::npos;
  return blank ? fmt::format("\"{}\"", text) : text;
}

void write_table(const std::filesystem::path& path, const torch::Tensor& table) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& row : table.unbind(0)) {
    const auto* values = row.const_data_ptr<float>();
    file << fmt::format("{}\n", fmt::join(values, values + row.numel(), "\t"));
  }
  file.close();
  if (!file) throw_unwritable(path, errno);
}

}  // namespace

torch::Tensor token_embedding_weight(const Model& model) {
  return std::visit(
      [](const auto& kind) {
        if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, Seq2Seq>)
          return kind->source_embedding->token->weight;
        else
          return kind->embedding->token->weight;
      },
      model);
}

void write_embeddings(const std::filesystem::path& directory, const torch::Tensor& table,
                      const std::vector<std::string>& tokens) {
  TORCH_CHECK_VALUE(table.dim() == 2, "table: expected the shape (V, E), found ", table.sizes());
  TORCH_CHECK_VALUE(table.size(0) == static_cast<int64_t>(tokens.size()), "table ", table.sizes(),
                    " must have a row for each of the ", tokens.size(), " tokens");
  const auto values = contiguous_on_cpu(table.to(torch::kFloat));  // (V, E)
  std::string labels;
  for (const auto& token : tokens) labels += label(token) + "\n";

  replace_file(directory / EmbeddingFiles::table,
               [&](const auto& path) { write_table(path, values); });
  replace_file(directory / EmbeddingFiles::tokens, labels);
  replace_file(directory / EmbeddingFiles::config,
               fmt::format("embeddings {{\n"
                           "  tensor_name: \"token embeddings\"\n"
                           "  tensor_path: \"{}\"\n"
                           "  metadata_path: \"{}\"\n"
                           "}}\n",
                           EmbeddingFiles::table, EmbeddingFiles::tokens));
}

}  // namespace attend::train
