// Lines about the classes and files of a task.
#include "attend/io/utf8.h"
#include "train/tasks/tasks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace attend::train {
namespace {

std::uintmax_t size_of_files(const std::vector<std::string>& paths) {
  return std::accumulate(paths.begin(), paths.end(), std::uintmax_t{0}, [](auto sum, auto& path) {
    return sum + std::filesystem::file_size(path);
  });
}

}  // namespace

void add_file_notes(const Recipe& recipe, std::vector<DataNote>& notes) {
  notes.push_back(files_note("text", recipe.text, size_of_files(recipe.text)));
  if (const auto& val_text = recipe.data.val_text; !val_text.empty())
    notes.push_back(files_note("val text", val_text, size_of_files(val_text)));
}

std::string shortened(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  const auto count = std::min(names.size(), kShown);
  const auto shown = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "));
  const auto more = names.size() - count;
  return printable(more == 0 ? shown : fmt::format("{}, {} more", shown, more));
}

std::string class_counts(const std::map<std::string, int64_t>& classes) {
  std::vector<std::pair<int64_t, std::string>> counts;  // count, negated for sorting, and class
  for (const auto& [name, count] : classes) counts.emplace_back(-count, name);
  std::sort(counts.begin(), counts.end());
  std::vector<std::string> texts;
  for (const auto& [count, name] : counts) texts.push_back(fmt::format("{} ({})", name, -count));
  return fmt::format("{}: {}", counts.size(), shortened(texts));
}

std::string weights_text(const torch::Tensor& weights, const std::vector<std::string>& classes) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    texts.push_back(
        fmt::format("{} {:.4f}", classes[i], weights[static_cast<int64_t>(i)].item<double>()));
  }
  return shortened(texts);
}

}  // namespace attend::train
