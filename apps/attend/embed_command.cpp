#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/answer.h"
#include "attend/train/example_task.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "runs/run_option.h"
#include "terminal/activity.h"
#include "terminal/output_file.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"
#include "texts/text_model.h"
#include "texts/texts_option.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace attend::app {
namespace {

struct EmbedArguments {
  RunOption model;
  TextsOption texts;
  std::string npy;
  int64_t batch_size = EncodeTextsOptions().batch_size;
  bool compare = false;
  bool json = false;
  bool overwrite = false;
};

/// Texts and their vectors (N, E).
struct Embedded {
  std::vector<std::string> texts;
  torch::Tensor vectors;
};

/// Returns `encode(options)` with options that show the progress.
template <typename Encode>
torch::Tensor with_progress(const EmbedArguments& arguments, std::size_t num_texts,
                            const Encode& encode) {
  Activity activity("encoding", "texts");
  return encode(EncodeTextsOptions{
      .batch_size = arguments.batch_size, .on_progress = [&](std::size_t done) {
        activity.show(static_cast<int64_t>(done), static_cast<int64_t>(num_texts));
      }});
}

/// Throws InputError for a classifier of tokens, which has no vectors of texts.
void check_pools(const SequenceClassifier& model, const EmbedArguments& arguments) {
  if (model->config.pooling != Pooling::none) return;
  throw InputError(
      fmt::format("{0}: the model has no vectors of texts (pooling none); use "
                  "attend predict {0}",
                  arguments.model.directory()));
}

Embedded embed_with(Pretrained model, const EmbedArguments& arguments) {
  auto& encoder = model_as<SequenceClassifier>(
      model.model, fmt::format("{}: attend embed", arguments.model.directory()));
  check_pools(encoder, arguments);
  Embedded embedded;
  std::vector<std::vector<int64_t>> tokens;
  arguments.texts.for_each([&](const std::string& text, const std::string& place) {
    tokens.push_back(with_source(place, [&] { return model.tokenize(text); }));
    embedded.texts.push_back(text);
  });
  embedded.vectors = with_progress(arguments, tokens.size(), [&](const auto& options) {
    return encode_tokens(encoder, tokens, options);
  });
  return embedded;
}

/// The vectors are those from which the classifier computes the classes.
Embedded embed_with(train::Run run, const EmbedArguments& arguments) {
  if (run.recipe.data.tokenizer == TokenizerKind::published)
    return embed_with(as_pretrained(run), arguments);
  auto& classifier = model_as<SequenceClassifier>(
      run.model, fmt::format("{}: attend embed", arguments.model.directory()));
  check_pools(classifier, arguments);
  Embedded embedded;
  std::vector<std::vector<int64_t>> tokens;
  arguments.texts.for_each([&](const std::string& text, const std::string& place) {
    tokens.push_back(
        truncated(with_source(place, [&] { return train::encode_prompt(*run.tokenizer, text); }),
                  run.recipe.max_seq_len(), run.recipe.data.truncate));
    embedded.texts.push_back(text);
  });
  embedded.vectors = with_progress(arguments, tokens.size(), [&](const auto& options) {
    return encode_tokens(classifier, tokens, options);
  });
  return embedded;
}

/// Returns the cosines of the angles between all pairs of vectors (N, E): (N, N).
torch::Tensor cosines(const torch::Tensor& vectors) {
  const auto length = vectors.square().sum(1, /*keepdim=*/true).sqrt().clamp_min(1e-12);
  return (vectors / length).matmul((vectors / length).t());
}

std::vector<float> numbers(const torch::Tensor& row) {
  const auto* data = row.const_data_ptr<float>();
  return {data, data + row.numel()};
}

std::string json_lines(const Embedded& embedded, bool compare) {
  const auto similarity = compare ? cosines(embedded.vectors) : torch::Tensor();
  std::string lines;
  for (std::size_t i = 0; i < embedded.texts.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    nlohmann::ordered_json json{{"text", embedded.texts[i]},
                                {"vector", numbers(embedded.vectors[row])}};
    if (compare) json["cosines"] = numbers(similarity[row]);
    lines += json_text(json) + "\n";
  }
  return lines;
}

/// One line per text: its first numbers or, if `compare`, its cosines with all texts.
std::string table(const Embedded& embedded, bool compare) {
  constexpr int64_t kShown = 4;
  const auto shown = compare ? cosines(embedded.vectors) : embedded.vectors.slice(1, 0, kShown);
  const bool is_cut = !compare && embedded.vectors.size(1) > kShown;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < embedded.texts.size(); ++i) {
    std::vector<std::string> cells;
    if (compare) cells.push_back(fmt::format("{}", i + 1));
    for (const auto number : numbers(shown[static_cast<int64_t>(i)].contiguous()))
      cells.push_back(fmt::format("{:.{}f}", number, compare ? 4 : 6));
    if (is_cut) cells.emplace_back("...");
    cells.push_back(printable(embedded.texts[i]));
    rows.push_back(std::move(cells));
  }
  if (rows.empty()) return "";
  return table_text(rows, std::string(rows.front().size() - 1, '>') + "<");
}

/// Writes a matrix of float32 in the format of NumPy, version 1.0.
void write_npy(const std::filesystem::path& path, const torch::Tensor& matrix) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kPreamble = 10;  // bytes before the header
  auto header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                            matrix.size(0), matrix.size(1));
  const auto unpadded = kPreamble + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string content("\x93NUMPY\x01\x00", 8);
  content += static_cast<char>(header.size() & 0xFF);
  content += static_cast<char>(header.size() >> 8);
  content += header;
  content.append(static_cast<const char*>(matrix.const_data_ptr()), matrix.nbytes());
  replace_file(path, content);
}

void run_embed(const EmbedArguments& arguments) {
  const auto& directory = arguments.model.directory();
  if (!arguments.npy.empty())
    check_output_file("--npy", arguments.npy, directory, arguments.overwrite);
  else if (arguments.overwrite)
    refuse_without_effect("--overwrite", "without --npy");
  const auto embedded =
      std::visit([&](auto model) { return embed_with(std::move(model), arguments); },
                 arguments.model.load_run_or_pretrained());
  if (!arguments.npy.empty()) write_npy(arguments.npy, embedded.vectors);
  if (arguments.json) {
    print_now(json_lines(embedded, arguments.compare));
  } else if (arguments.npy.empty() || arguments.compare) {
    print_now(table(embedded, arguments.compare));
  } else {
    print_now(fmt::format("{}: {} vectors of {} numbers\n", arguments.npy, embedded.vectors.size(0),
                          embedded.vectors.size(1)));
  }
}

}  // namespace

void add_embed_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "embed", "Compute vectors of texts with a published encoder or a trained classifier");
  auto arguments = std::make_shared<EmbedArguments>();
  arguments->model.add_to(*command, "model", kRunOrPretrained);
  arguments->texts.add_to(*command, "model", "texts to encode [lines of standard input]");
  arguments->model.add_device_to(*command);
  add_number(*command, "--batch-size", arguments->batch_size, kPositive,
             "maximum number of texts in a forward pass", "TEXTS");
  command->add_flag("--compare", arguments->compare, "print the cosines of all pairs of texts")
      ->group("Output");
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object per text, on one line: text, vector and, with --compare, "
                 "cosines (with all texts)")
      ->group("Output");
  command->add_option("--npy", arguments->npy, "file for the vectors, float32, for numpy.load")
      ->type_name("FILE")
      ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace the file of --npy")
      ->group("Output");
  command->footer(
      "Prints the first numbers of each vector. A text with more tokens than the model's maximum "
      "is\n"
      "truncated. The published models that can be loaded are listed in docs/pretrained.md.\n\n"
      "Examples:\n"
      "  attend embed all-MiniLM-L6-v2 \"The cat sits.\" \"A kitten rests.\" --compare\n"
      "  attend embed all-MiniLM-L6-v2 --file lines.txt --npy vectors.npy\n"
      "  attend embed runs/lines --json < lines.txt");
  command->callback([=] { run_embed(*arguments); });
}

}  // namespace attend::app
