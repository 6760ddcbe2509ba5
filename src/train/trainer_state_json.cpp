#include "train/trainer_state_json.h"

#include "attend/input_error.h"
#include "io/parse_json.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace attend::train {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN: non-finite numbers are written as null.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
double number(const Json& json) {
  return json.is_null() ? NAN : json.get<double>();
}

Json to_object(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  const auto& [correct, total] = evaluation->exact_match;
  Json json{{"loss", number(evaluation->loss)},
            {"targets", evaluation->num_targets},
            {"partial", evaluation->is_partial},
            {"exact_match", {{"correct", correct}, {"total", total}}}};
  if (evaluation->f1) json["f1"] = *evaluation->f1;
  return json;
}

std::optional<Evaluation> evaluation_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  Evaluation evaluation;
  evaluation.loss = number(json.at("loss"));
  evaluation.num_targets = json.at("targets");
  evaluation.is_partial = json.at("partial");
  const auto& exact_match = json.at("exact_match");
  if (json.contains("f1")) evaluation.f1 = json["f1"].get<double>();
  evaluation.exact_match = {exact_match.at("correct"), exact_match.at("total")};
  return evaluation;
}

}  // namespace

std::string to_json(const TrainerState& state) {
  const Json json{{"step", state.step},
                  {"tokens", state.tokens},
                  {"skipped_steps", state.skipped_steps},
                  {"training_seconds", state.training_seconds},
                  {"evaluation_seconds", state.evaluation_seconds},
                  {"train_loss", number(state.train_loss)},
                  {"last", to_object(state.last)},
                  {"best", to_object(state.best)},
                  {"best_step", state.best_step},
                  {"evaluations_without_improvement", state.evaluations_without_improvement},
                  {"evaluation_pending", state.evaluation_pending},
                  {"threads", state.threads}};
  return json.dump(2) + "\n";
}

TrainerState trainer_state_from_json(const std::string& text) {
  try {
    const Json json = parse_json(text);
    TrainerState state;
    state.step = json.at("step");
    state.tokens = json.at("tokens");
    state.skipped_steps = json.at("skipped_steps");
    state.training_seconds = json.at("training_seconds");
    state.evaluation_seconds = json.at("evaluation_seconds");
    state.train_loss = number(json.at("train_loss"));
    state.last = evaluation_from(json.at("last"));
    state.best = evaluation_from(json.at("best"));
    state.best_step = json.at("best_step");
    state.evaluations_without_improvement = json.at("evaluations_without_improvement");
    state.evaluation_pending = json.at("evaluation_pending");
    state.threads = json.at("threads");
    return state;
  } catch (const Json::exception& error) {
    throw InputError(std::string("not the state of a trainer: ") + message_of(error));
  }
}

}  // namespace attend::train
