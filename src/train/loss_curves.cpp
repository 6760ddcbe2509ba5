#include "attend/train/loss_curves.h"

#include "io/files.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

namespace attend::train {
namespace {

std::optional<double> number(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace

LossCurves read_loss_curves(const std::filesystem::path& metrics) {
  LossCurves curves;
  if (!std::filesystem::exists(metrics)) return curves;
  auto file = open_to_read(metrics);
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !line.value("step", nlohmann::json()).is_number_integer()) {
      if (!file.eof()) ++curves.damaged;  // else the line may be incomplete
      continue;
    }
    const auto step = line["step"].get<int64_t>();
    curves.steps = step;
    if (const auto loss = number(line, "train_loss")) curves.train.push_back({step, *loss});
    if (const auto loss = number(line, "val_loss")) curves.val.push_back({step, *loss});
    if (const auto seconds = number(line, "seconds")) curves.seconds = seconds;
  }
  return curves;
}

}  // namespace attend::train
