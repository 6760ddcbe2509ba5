#include "train/trainer_state_json.h"

#include "attend/input_error.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace attend::train {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN, so a number that is not finite is null.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
double number(const Json& json) {
  return json.is_null() ? NAN : json.get<double>();
}

Json to_object(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  Json json{{"loss", number(evaluation->loss)}, {"targets", evaluation->targets}};
  if (evaluation->accuracy) json["accuracy"] = *evaluation->accuracy;
  return json;
}

std::optional<Evaluation> evaluation_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  Evaluation evaluation;
  evaluation.loss = number(json.at("loss"));
  evaluation.targets = json.at("targets");
  if (json.contains("accuracy")) evaluation.accuracy = json.at("accuracy").get<double>();
  return evaluation;
}

}  // namespace

std::string to_json(const TrainerState& standing) {
  const Json json{{"step", standing.step},
                  {"tokens", standing.tokens},
                  {"skipped_steps", standing.skipped_steps},
                  {"training_seconds", standing.training_seconds},
                  {"evaluation_seconds", standing.evaluation_seconds},
                  {"train_loss", number(standing.train_loss)},
                  {"last", to_object(standing.last)},
                  {"best", to_object(standing.best)},
                  {"best_step", standing.best_step},
                  {"evaluations_without_gain", standing.evaluations_without_gain}};
  return json.dump(2) + "\n";
}

TrainerState trainer_state_from_json(const std::string& text) {
  try {
    const auto json = Json::parse(text);
    TrainerState standing;
    standing.step = json.at("step");
    standing.tokens = json.at("tokens");
    standing.skipped_steps = json.at("skipped_steps");
    standing.training_seconds = json.at("training_seconds");
    standing.evaluation_seconds = json.at("evaluation_seconds");
    standing.train_loss = number(json.at("train_loss"));
    standing.last = evaluation_from(json.at("last"));
    standing.best = evaluation_from(json.at("best"));
    standing.best_step = json.at("best_step");
    standing.evaluations_without_gain = json.at("evaluations_without_gain");
    return standing;
  } catch (const Json::exception& error) {
    throw InputError(std::string("not the standing of a run: ") + error.what());
  }
}

}  // namespace attend::train
