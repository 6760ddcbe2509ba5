#include "attend/export/pt2.h"

#include "attend/input_error.h"
#include "attend/model_export/export_plan.h"
#include "attend/pt2/pt2_program.h"
#include "io/files.h"
#include "support/archive.h"
#include "support/close.h"
#include "support/specializing_modules.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <nlohmann/json.hpp>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>

#include <atomic>
#include <bit>
#include <thread>

namespace attend {
namespace {

/// A module with a tied embedding, a buffer and two outputs.
struct TiedImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& tokens) {
    const auto x = dropout(table(tokens)) + offset;  // (B, T, E)
    return {x.matmul(head.t()), x.mean(-2)};         // (B, T, V), (B, E)
  }
  torch::nn::Embedding table = register_module("table", torch::nn::Embedding(7, 4));
  torch::Tensor head = register_parameter("head", table->weight);
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.5));
  torch::Tensor offset = register_buffer("offset", torch::randn({4}));
};
TORCH_MODULE(Tied);

struct Pt2 : testing::Test {
  inline static const std::vector<DynamicDimension> kBatchAndLength{{0, 0, "batch"},
                                                                    {0, 1, "length", 1, 9}};

  static torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(7, {batch, length}, torch::kLong);
  }

  Tied model;
  TemporaryDirectory directory;
  std::filesystem::path path = directory / "model.pt2";

  ExportReport write(const ExportOptions& options = {.input_names = {"tokens"},
                                                     .dynamic = kBatchAndLength}) {
    return export_pt2(model, tokens(2, 5), path, options);
  }
};

TEST_F(Pt2, SeveralProgramsShareTheirWeights) {
  const auto example = tokens(2, 5);
  write();
  const auto size = std::filesystem::file_size(path);
  const Forward forward = [&](const auto& in) { return model->forward(in[0]); };
  const Forward embed = [&](const auto& in) { return model->table(in[0]) * in[1]; };
  export_pt2(model, forward, {example}, path,
             {.input_names = {"tokens"}, .dynamic = kBatchAndLength},
             {{.name = "embed",
               .function = embed,
               .example_inputs = {example, torch::ones({5, 4})},
               .input_names = {"tokens", "scale"},
               .dynamic = {{0, 0, "batch"}}}});
  const auto entries = archive_entries(path);
  EXPECT_EQ(entries.count("data/weights/weight_1"), 1U);
  EXPECT_EQ(entries.count("data/weights/weight_2"), 0U);  // the table is tied
  EXPECT_LT(std::filesystem::file_size(path), 3 * size);
  model->eval();
  const auto input = tokens(3, 5);
  const auto [logits, mean] = model->forward(input);
  for (const auto* name : {"", "model"}) {
    const auto program = load_pt2(path, {.model = name});
    EXPECT_THAT(program.input_names(), testing::ElementsAre("tokens"));
    EXPECT_TRUE(close(program.forward({input}).at(1), mean, 1e-6));
  }
  const auto program = load_pt2(path, {.model = "embed"});
  EXPECT_THAT(program.input_names(), testing::ElementsAre("tokens", "scale"));
  const auto scale = torch::randn({5, 4});
  EXPECT_TRUE(close(program.forward({input, scale}).at(0), model->table(input) * scale, 1e-6));
  EXPECT_EQ(program.state_dict().size(), 3U);
  EXPECT_THAT([&] { load_pt2(path, {.model = "decode"}); },
              throws_naming<InputError>("decode", "embed", "model"));
}

TEST_F(Pt2, InvalidMethodsAreErrors) {
  const Forward forward = [&](const auto& in) { return model->forward(in[0]); };
  const auto example = tokens(2, 5);
  const auto export_methods = [&](std::vector<TracedMethod> methods) {
    return [&, methods] { export_pt2(model, forward, {example}, path, {}, methods); };
  };
  const TracedMethod same{.name = "same", .function = forward, .example_inputs = {example}};
  auto other = same;
  other.name = "model";
  EXPECT_THAT(export_methods({other}), throws_naming<c10::ValueError>("model"));
  EXPECT_THAT(export_methods({same, same}), throws_naming<c10::ValueError>("same"));
  other = {.name = "bits",
           .function =
               [](const auto& in) {
                 return in[0].narrow(1, 0, std::popcount(static_cast<uint64_t>(in[0].size(1))));
               },
           .example_inputs = {example},
           .dynamic = kBatchAndLength};
  EXPECT_THAT(export_methods({other}), throws_naming<std::runtime_error>("bits", "aten::narrow"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Pt2, NodesHaveTheirSourceLines) {
  export_pt2(SpecializesLength(), torch::ones({2, 3}), path, {});
  const auto json = nlohmann::json::parse(archive_entries(path).at("models/model.json"));
  std::set<std::string> traces;
  for (const auto& node : json["graph_module"]["graph"]["nodes"]) {
    traces.insert(node["metadata"].value("stack_trace", ""));
  }
  EXPECT_THAT(traces, testing::ElementsAre(testing::MatchesRegex(
                          "File \"/.*/specializing_modules.cpp\", line 16, in "
                          "attend::SpecializesLengthImpl::forward")));
}

TEST_F(Pt2, RunsAtOtherShapes) {
  const auto report = write();
  EXPECT_LE(report.max_abs_diff, 1e-6);
  EXPECT_GE(report.num_verified_shapes, 5);
  const auto program = load_pt2(path);
  model->eval();
  for (const auto& [batch, length] : {std::pair{1, 1}, {4, 7}, {2, 9}}) {
    const auto input = tokens(batch, length);
    const auto found = program.forward({input});
    const auto [logits, mean] = model(input);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_TRUE(close(found[0], logits, 1e-6));
    EXPECT_TRUE(close(found[1], mean, 1e-6));
  }
}

/// The functions return slices, slices of slices, and a concatenation of slices. Most of the slices
/// reach their maximum size only if T is much larger than in the example (6): `x.slice(1, -2000)`
/// has the size min(T, 2000).
TEST_F(Pt2, IsCorrectUpToTheMaximum) {
  using Function = torch::Tensor (*)(const torch::Tensor&);
  const std::vector<Function> functions{
      [](const torch::Tensor& x) { return x.slice(1, -2000); },
      [](const torch::Tensor& x) { return x.slice(1, 0, 4000, 4).slice(1, 250); },
      [](const torch::Tensor& x) { return x.slice(1, 100, 200); },
      [](const torch::Tensor& x) { return x.slice(1, 89).slice(1, 0, 4000, 3); },
      [](const torch::Tensor& x) { return x.slice(1, 0, 4000, 4).slice(1, 0, 4000, 4); },
      [](const torch::Tensor& x) {
        return torch::cat({x.slice(1, 0, 7), x.slice(1, -3)}, 1);
      }};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    export_pt2(*model, [&](const auto& in) { return functions[i](in[0]); }, {torch::randn({2, 6})},
               path, {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 2, 4096}}});
    const auto program = load_pt2(path);
    for (const int64_t length : {2, 33, 92, 1000, 1999, 2000, 2001, 4000, 4096}) {
      const auto x = torch::randn({3, length});
      EXPECT_TRUE(program.forward({x}).front().equal(functions[i](x))) << length;
    }
  }
}

TEST_F(Pt2, AcceptsSizesWithoutAnExpression) {
  const auto pairs = [](const std::vector<torch::Tensor>& in) {
    return torch::combinations(in[0][0]);  // T * (T - 1) / 2 pairs
  };
  export_pt2(*model, pairs, {torch::randn({2, 6})}, path,
             {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
  for (const int64_t length : {1, 6, 9}) {
    const auto x = torch::randn({3, length});
    EXPECT_TRUE(load_pt2(path).forward({x}).at(0).equal(pairs({x})));
  }
}

TEST_F(Pt2, RejectsDimensionsWithAtMostTwoSizes) {
  const auto write = [&](int64_t min, int64_t max) {
    export_pt2(model, tokens(2, 5), path, {.dynamic = {{0, 0, "batch", min, max}}});
  };
  EXPECT_THAT([&] { write(1, 2); },
              throws<c10::ValueError>("found the sizes 1 to 2, expected a max"));
  write(1, 3);
  write(2, 2);
}

TEST_F(Pt2, KeepsNamesBuffersAndTiedWeights) {
  write();
  const auto program = load_pt2(path);
  EXPECT_THAT(program.input_names(), testing::ElementsAre("tokens"));
  const auto state = program.state_dict();
  EXPECT_EQ(state.size(), 3U);
  EXPECT_TRUE(state.at("offset").equal(model->offset));
  EXPECT_TRUE(state.at("table.weight").equal(model->table->weight));
  EXPECT_TRUE(state.at("head").is_alias_of(state.at("table.weight")));
  int weights = 0;
  for (const auto& [name, content] : archive_entries(path)) {
    if (name.starts_with("data/weights/weight_")) ++weights;
  }
  EXPECT_EQ(weights, 2) << "tied weights must be stored once";
}

TEST_F(Pt2, StoresExtraFilesAndRestoresTrainingMode) {
  model->train();
  write({.dynamic = kBatchAndLength, .extra_files = {{"notes.txt", "seven b"}}});
  EXPECT_TRUE(model->dropout->is_training());
  EXPECT_EQ(archive_entries(path).at("extra/notes.txt"), "seven b");
}

TEST_F(Pt2, IsThreadSafe) {
  write();
  const auto program = load_pt2(path);
  const auto input = tokens(3, 4);
  const auto expected = program.forward({input});
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) equal += program.forward({input})[0].equal(expected[0]);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 80);
}

TEST_F(Pt2, RejectsSpecializedDimensionsAndNamesTheCallSite) {
  const auto x = torch::randn({2, 5});
  const ExportOptions other_lengths{.dynamic = {{0, 1, "length"}}};
  EXPECT_THAT(
      [&] { export_pt2(SpecializesLength(), x, path, other_lengths); },
      throws<std::runtime_error>("SpecializesLengthImpl::forward (specializing_modules.cpp:16)"));
  EXPECT_THAT(
      [&] { export_pt2(NarrowsToBits(), x, path, other_lengths); },
      throws<std::runtime_error>("NarrowsToBitsImpl::forward (specializing_modules.cpp:20)"));
  // The module is rejected before the exported program is run at another size: at other sizes, the
  // LSTM would read out of bounds on the CPU.
  EXPECT_THAT(
      [&] {
        export_pt2(SpecializesBatch(), torch::randn({5, 2, 3}), path,
                   {.dynamic = {{0, 1, "batch"}}});
      },
      throws<std::runtime_error>("SpecializesBatchImpl::forward (specializing_modules.cpp:24)"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

TEST_F(Pt2, RejectsInvalidInputs) {
  write();
  const auto program = load_pt2(path);
  const auto expect_error = [&](const std::vector<torch::Tensor>& inputs, const char* message) {
    EXPECT_THAT([&] { program.forward(inputs); }, throws<InputError>(message));
  };
  expect_error({}, "expected 1 inputs (tokens), found 0");
  expect_error({torch::Tensor()}, "input 'tokens': expected a tensor, found an undefined tensor");
  expect_error({torch::zeros({2, 3})}, "expected dtype Long, found Float");
  expect_error({torch::zeros({2}, torch::kLong)}, "expected number of dimensions 2, found 1");
  expect_error({tokens(2, 10)}, "expected size of dimension 1 to be at most 9, found 10");
  write({.input_names = {"tokens"}, .dynamic = {{0, 0, "batch"}}});
  EXPECT_THAT([&] { load_pt2(path).forward({tokens(2, 6)}); },
              throws<InputError>("expected size of dimension 1 to be 5, found 6"));
}

TEST_F(Pt2, KeepsTheDtype) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    Tied fresh;  // a new module, since to() unties weights
    fresh->to(dtype);
    export_pt2(fresh, tokens(2, 5), path, {.dynamic = kBatchAndLength});
    const auto input = tokens(3, 4);
    fresh->eval();
    EXPECT_EQ(load_pt2(path).forward({input})[0].scalar_type(), dtype);
    EXPECT_TRUE(load_pt2(path).forward({input})[0].equal(std::get<0>(fresh(input))));
  }
}

struct StridedImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.matmul(weight) + whole.narrow(0, 1, 2); }
  torch::Tensor weight = register_parameter("weight", torch::randn({2, 3}).t());
  torch::Tensor whole = register_buffer("whole", torch::randn({8}).slice(0, 0, 8, 2));
};
TORCH_MODULE(Strided);

TEST_F(Pt2, KeepsStridesOfWeights) {
  Strided strided;
  const auto x = torch::randn({4, 3});
  export_pt2(strided, x, path, {.dynamic = {{0, 0, "batch"}}});
  const auto program = load_pt2(path);
  EXPECT_EQ(program.state_dict().at("weight").strides(), strided->weight.strides());
  EXPECT_TRUE(program.forward({x})[0].equal(strided(x)));
}

TEST_F(Pt2, AcceptsStridedInputs) {
  Strided strided;
  const auto x = torch::randn({3, 4}).t();
  export_pt2(strided, x, path, {.dynamic = {{0, 0, "batch"}}});
  const auto other = torch::randn({6, 3});
  EXPECT_TRUE(load_pt2(path).forward({other})[0].equal(strided(other)));
  EXPECT_TRUE(load_pt2(path).forward({x})[0].equal(strided(x)));
}

TEST_F(Pt2, IsDeterministic) {
  const auto input = torch::arange(10).remainder(7).view({2, 5});
  export_pt2(model, input, path, {.dynamic = kBatchAndLength});
  const auto first = read_bytes(path);
  export_pt2(model, input, path, {.dynamic = kBatchAndLength});
  EXPECT_EQ(first, read_bytes(path));
}

TEST_F(Pt2, ExportsMixturesOfExpertsWithoutDataDependentSizes) {
  LanguageModel mixture(LanguageModelConfig{.vocab_size = 7,
                                            .max_seq_len = 9,
                                            .stack = {.num_layers = 1,
                                                      .num_heads = 2,
                                                      .embed_dim = 8,
                                                      .num_experts = 3,
                                                      .num_experts_per_tok = 2}});
  export_pt2(plan_export(mixture), path);
  const auto input = tokens(4, 8);
  EXPECT_TRUE(close(load_pt2(path).forward({input})[0], mixture(input), 1e-5));
}

}  // namespace
}  // namespace attend
