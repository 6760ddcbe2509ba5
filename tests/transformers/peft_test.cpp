// Compares adapters with PEFT. peft_test.py writes the cases and runs these tests.
#include "attend/io/safetensors.h"
#include "attend/nn/lora.h"
#include "attend/pretrained/peft_adapter.h"
#include "io/files.h"
#include "support/rounding.h"
#include "transformers/forward.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace attend {
namespace {

namespace fs = std::filesystem;

/// Calls `use` with the folder of each case.
template <typename Use>
void for_each_case(const char* variable, const Use& use) {
  const char* cases = std::getenv(variable);
  if (cases == nullptr)
    GTEST_SKIP() << variable << " is not set; run peft_test.py, which creates the cases";
  int count = 0;
  for (const auto& entry : fs::directory_iterator(cases)) {
    SCOPED_TRACE(entry.path().filename().string());
    use(entry.path());
    ++count;
  }
  std::cout << "peft: compared " << count << " models\n";
}

std::map<std::string, torch::Tensor> tensors_in(const fs::path& file) {
  return load_safetensors(file).tensors;
}

/// Expects that the outputs, hidden states and logits, are those of a file.
void expect_outputs(Model& model, const std::map<std::string, torch::Tensor>& expected) {
  const torch::NoGradGuard no_grad;
  const auto outputs = std::visit(Forward{expected}, model);
  module_of(model).to(torch::kDouble);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = i == 0 ? "hidden" : "logits";
    SCOPED_TRACE(name);
    EXPECT_TRUE(
        within_rounding({outputs[i], expected.at(name)}, module_of(model).parameters(),
                        [&] { return Tensors(2, std::visit(Forward{expected}, model)[i]); }));
  }
  module_of(model).to(torch::kFloat);
}

/// Adapters that `add_lora` adds to `base`, with random values of B.
void write_own_adapter(const fs::path& folder, const std::map<std::string, torch::Tensor>& inputs) {
  auto options = nlohmann::json::parse(read_bytes(folder / "own.json"));
  auto pretrained = load_pretrained(folder / "base");
  auto& module = module_of(pretrained.model);
  add_lora(module, {.rank = options.at("rank"),
                    .alpha = options.at("alpha"),
                    .targets = options.at("targets"),
                    .rslora = options.at("rslora")});
  module.eval();
  const torch::NoGradGuard no_grad;
  for (const auto& each : lora_adapters(module)) each.adapter->B.normal_(0.0, 0.3);
  const auto outputs = std::visit(Forward{inputs}, pretrained.model);
  save_safetensors(folder / "own.safetensors", {.tensors = {{"hidden", outputs[0].contiguous()},
                                                            {"logits", outputs[1].contiguous()}}});
  save_peft_adapter(pretrained, folder / "own", {.base = (folder / "base").string()});
}

TEST(Peft, AdaptersHaveTheSameOutputs) {
  for_each_case("ATTEND_PEFT_CASES", [](const fs::path& folder) {
    const auto expected = tensors_in(folder / "expected.safetensors");
    auto pretrained = load_pretrained(folder / "adapter");  // names its base
    auto& module = module_of(pretrained.model);
    expect_outputs(pretrained.model, expected);
    save_peft_adapter(pretrained, folder / "saved");
    auto again = load_pretrained(folder / "base");
    load_peft_adapter(again, folder / "saved");
    expect_outputs(again.model, expected);
    merge_lora(module);
    remove_lora(module);
    expect_outputs(pretrained.model, expected);
    save_pretrained(pretrained, folder / "merged");
    write_own_adapter(folder, expected);
  });
}

/// Returns the loss of a batch, as transformers computes it.
torch::Tensor loss_of(Model& model, const torch::Tensor& tokens, const torch::Tensor& labels) {
  namespace F = torch::nn::functional;
  if (auto* classifier = std::get_if<SequenceClassifier>(&model))
    return F::cross_entropy((*classifier)->forward(tokens), labels);
  auto& decoder = std::get<LanguageModel>(model);
  const auto logits = decoder->forward(tokens).slice(1, 0, -1);  // (B, T - 1, V)
  return F::cross_entropy(logits.flatten(0, 1), tokens.slice(1, 1).flatten());
}

TEST(Peft, TrainingHasTheSameLosses) {
  for_each_case("ATTEND_PEFT_TRAININGS", [](const fs::path& folder) {
    const auto batches = tensors_in(folder / "batches.safetensors");
    const auto expected = batches.at("losses");
    auto pretrained = load_pretrained(folder / "adapter");
    auto& module = module_of(pretrained.model);
    module.train();
    std::vector<torch::Tensor> trained;
    for (const auto& parameter : module.parameters()) {
      if (parameter.requires_grad()) trained.push_back(parameter);
    }
    EXPECT_EQ(static_cast<int64_t>(trained.size()), batches.at("trained").item<int64_t>());
    torch::optim::AdamW optimizer(trained, torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
    std::vector<double> losses;
    for (int64_t step = 0; step < expected.size(0); ++step) {
      const auto loss =
          loss_of(pretrained.model, batches.at("tokens")[step], batches.at("labels")[step]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    const auto found = torch::tensor(losses, torch::kDouble);
    EXPECT_TRUE(torch::allclose(found, expected.to(torch::kDouble), 0.0, 1e-4))
        << found << expected;
    EXPECT_LT(losses.back(), losses.front());
  });
}

}  // namespace
}  // namespace attend
