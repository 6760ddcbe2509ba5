// Exports a module that takes and returns a dictionary, as Python callers pass it, and runs the
// file in C++.

#include <attend/attend.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <map>
#include <string>
#include <tuple>

int main() {
  using Dictionary = std::map<std::string, torch::Tensor>;
  const torch::NoGradGuard no_grad;
  torch::nn::Linear model(4, 3);
  const auto forward = [&](const Dictionary& batch) {
    const auto logits = model(batch.at("x") * batch.at("mask"));
    return Dictionary{{"logits", logits}, {"classes", logits.argmax(-1)}};
  };
  const Dictionary batch{{"x", torch::randn({2, 4})}, {"mask", torch::ones({2, 4})}};

  // In Python: torch.export.load("dictionary.pt2").module()({"x": x, "mask": mask})["logits"]
  const auto path = std::filesystem::temp_directory_path() / "attend_dictionary.pt2";
  attend::export_pt2(model, forward, std::tuple(batch), path,
                     {.input_names = {"batch"}, .dynamic = {{0, 0, "batch"}, {1, 0, "batch"}}});

  const auto outputs = attend::load_pt2(path).forward_named(
      {{"batch_x", batch.at("x")}, {"batch_mask", batch.at("mask")}});
  fmt::print("logits: {}, classes: {}\n", outputs.at("logits").sizes(),
             outputs.at("classes").sizes());
  std::filesystem::remove(path);
}
