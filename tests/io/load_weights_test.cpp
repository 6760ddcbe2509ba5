#include "attend/io/load_weights.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/live_bytes.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using TensorMap = std::map<std::string, torch::Tensor>;

struct LoadWeights : testing::Test {
  TemporaryDirectory directory;
  fs::path file = directory / "model.safetensors";

  /// Saves the tensors and loads them.
  IncompatibleKeys load(ModuleRef module, const TensorMap& tensors,
                        const LoadWeightsOptions& options = {}) const {
    save_safetensors(file, {.tensors = tensors, .metadata = {}});
    return load_weights(module, file, options);
  }
};

/// Two layers with the same weight.
struct Tied : torch::nn::Module {
  Tied() {
    register_module("embedding", linear);
    register_module("head", linear);
  }
  torch::nn::Linear linear{torch::nn::LinearOptions(2, 3).bias(false)};
};

TEST_F(LoadWeights, ReadsAFileAFolderOrAnIndex) {
  torch::nn::Linear linear(2, 3);
  const TensorMap tensors{{"weight", torch::randn({3, 2})}, {"bias", torch::randn({3})}};
  const auto expect_loaded = [&](const fs::path& path) {
    torch::nn::Linear other(2, 3);
    const auto keys = load_weights(other, path);
    EXPECT_TRUE(other->weight.equal(tensors.at("weight"))) << path;
    EXPECT_TRUE(other->bias.equal(tensors.at("bias"))) << path;
    EXPECT_TRUE(other->weight.requires_grad());
    EXPECT_TRUE(keys.missing_keys.empty() && keys.unexpected_keys.empty());
  };
  load(linear, tensors);
  expect_loaded(file);
  expect_loaded(directory.path());
  fs::remove(file);
  save_safetensors(directory / "a", {.tensors = {{"weight", tensors.at("weight")}}});
  save_safetensors(directory / "b", {.tensors = {{"bias", tensors.at("bias")}}});
  const auto index = directory / "model.safetensors.index.json";
  replace_file(index, R"({"weight_map": {"weight": "a", "bias": "b"}})");
  expect_loaded(index);
  expect_loaded(directory.path());
}

TEST_F(LoadWeights, RenameMapsOrIgnoresNames) {
  torch::nn::Linear linear(2, 2);
  const TensorMap tensors{
      {"w", torch::randn({2, 2})}, {"b", torch::randn({2})}, {"mask", torch::ones({4})}};
  load(linear, tensors, {.rename = [](const std::string& name) -> std::string {
         return name == "w" ? "weight" : name == "b" ? "bias" : "";
       }});
  EXPECT_TRUE(linear->weight.equal(tensors.at("w")));
  EXPECT_TRUE(linear->bias.equal(tensors.at("b")));
}

TEST_F(LoadWeights, KeepsTheDtypesOfTheModuleUnlessOneIsGiven) {
  torch::nn::BatchNorm1d norm(3);
  auto tensors = state_dict(*norm);
  tensors["weight"] = torch::randn({3}, torch::kDouble);
  load(norm, tensors);
  EXPECT_EQ(norm->weight.scalar_type(), torch::kFloat);
  EXPECT_TRUE(norm->weight.equal(tensors["weight"].to(torch::kFloat)));
  load(norm, tensors, {.dtype = torch::kBFloat16});
  for (const auto& [name, tensor] : state_dict(*norm)) {
    EXPECT_EQ(tensor.scalar_type(), name == "num_batches_tracked" ? torch::kLong : torch::kBFloat16)
        << name;
  }
  // Not rounded twice, to the old dtype and to the new one.
  load(norm, tensors, {.dtype = torch::kDouble});
  EXPECT_TRUE(norm->weight.equal(tensors["weight"]));
  EXPECT_THAT([&] { load(norm, tensors, {.dtype = torch::kInt}); },
              throws_naming<c10::ValueError>("dtype", "int32"));
}

TEST_F(LoadWeights, NonStrictReturnsTheNamesAndCastsAllParameters) {
  torch::nn::Linear linear(2, 3);
  const auto bias = linear->bias.clone();
  const auto keys = load(linear, {{"weight", torch::ones({3, 2})}, {"extra", torch::ones({1})}},
                         {.strict = false, .dtype = torch::kDouble});
  EXPECT_THAT(keys.missing_keys, ElementsAre("bias"));
  EXPECT_THAT(keys.unexpected_keys, ElementsAre("extra"));
  EXPECT_TRUE(linear->weight.equal(torch::ones({3, 2}, torch::kDouble)));
  EXPECT_TRUE(linear->bias.equal(bias.to(torch::kDouble)));
}

TEST_F(LoadWeights, TiedParametersNeedOneOfTheirNames) {
  const auto weight = torch::randn({3, 2});
  for (const auto& tensors :
       {TensorMap{{"embedding.weight", weight}}, TensorMap{{"head.weight", weight}},
        TensorMap{{"embedding.weight", weight}, {"head.weight", weight}}}) {
    const auto tied = std::make_shared<Tied>();
    load(tied, tensors, {.dtype = torch::kDouble});
    EXPECT_TRUE(tied->linear->weight.equal(weight.to(torch::kDouble)));
    EXPECT_TRUE(
        state_dict(tied).at("head.weight").is_same(state_dict(tied).at("embedding.weight")));
  }
  const auto tied = std::make_shared<Tied>();
  const auto before = tied->linear->weight.clone();
  EXPECT_THAT([&] { load(tied, {}); },
              throws_naming<InputError>("embedding.weight", "head.weight", "missing"));
  for (const auto& other : {weight + 1, weight.to(torch::kDouble)}) {
    EXPECT_THAT(
        [&] {
          load(tied, {{"embedding.weight", weight}, {"head.weight", other}});
        },
        throws_naming<InputError>(file.string(), "'embedding.weight'", "'head.weight'"));
  }
  EXPECT_TRUE(tied->linear->weight.equal(before));
}

TEST_F(LoadWeights, TensorsRenamedToOneNameMustBeEqual) {
  torch::nn::Linear linear(torch::nn::LinearOptions(2, 2).bias(false));
  const LoadWeightsOptions options{.rename = [](const std::string&) { return "weight"; }};
  const auto nan = torch::full({2, 2}, NAN);
  load(linear, {{"a", nan}, {"b", nan}}, options);
  EXPECT_TRUE(linear->weight.isnan().all().item<bool>());
  EXPECT_THAT(
      [&] {
        load(linear, {{"a", nan}, {"b", torch::ones({2, 2})}}, options);
      },
      throws_naming<InputError>("'a'", "'b'"));
  EXPECT_THAT(
      [&] {
        load(linear, {{"a", nan}, {"b", torch::ones({2})}}, options);
      },
      throws_naming<InputError>("'a'", "'b'"));
}

TEST_F(LoadWeights, MessageListsEachNameOnceAndProposesThePrefix) {
  torch::nn::Sequential modules;
  for (int i = 0; i < 12; ++i) modules->push_back(torch::nn::Linear(2, 2));
  TensorMap tensors;
  for (const auto& [name, tensor] : state_dict(*modules)) tensors["encoder." + name] = tensor;
  EXPECT_THAT([&] { load(modules, tensors); },
              testing::ThrowsMessage<InputError>(testing::StrEq(
                  file.string() +
                  ": the file does not match the model: "
                  "encoder.{0..11}.bias (12 names), encoder.{0..11}.weight (12 names): remove the "
                  "prefix 'encoder.' from these names with the option `rename`")));
  const auto rename = [](const std::string& name) { return name.substr(8); };
  load(modules, tensors, {.rename = rename});
  EXPECT_TRUE(state_dict(*modules).at("11.bias").equal(tensors.at("encoder.11.bias")));

  tensors.erase("encoder.3.bias");
  tensors["encoder.4.weight"] = torch::ones({3, 2});
  tensors["encoder.5.weight"] = torch::ones({3, 2});
  tensors["encoder.extra"] = torch::ones({1});
  const auto before = modules[4]->as<torch::nn::Linear>()->bias.clone();
  EXPECT_THAT([&] { load(modules, tensors, {.rename = rename}); },
              testing::ThrowsMessage<InputError>(testing::StrEq(
                  file.string() +
                  ": the file, after `rename`, does not match the model: "
                  "{4, 5}.weight (2 names): found shape (3, 2), expected (2, 2); 3.bias: missing; "
                  "extra: unexpected")));
  EXPECT_TRUE(modules[4]->as<torch::nn::Linear>()->bias.equal(before));
}

/// Wrong input. The message names these parts, and the module is unchanged.
struct WrongFile {
  const char* name;
  std::function<void(const fs::path& file)> change;
  std::vector<std::string> named;
};

TEST_F(LoadWeights, WrongFilesLeaveTheModuleUnchanged) {
  const auto index = directory / "model.safetensors.index.json";
  const auto save = [](const TensorMap& tensors) {
    return [=](const fs::path& path) { save_safetensors(path, {.tensors = tensors}); };
  };
  const auto bias = torch::zeros({2}, torch::kLong);
  const std::vector<WrongFile> cases{
      {"absent", [](auto& f) { fs::remove(f); }, {"model.safetensors"}},
      {"truncated",
       [](auto& f) { fs::resize_file(f, fs::file_size(f) - 1); },
       {"model.safetensors"}},
      {"no header", [](auto& f) { replace_file(f, "{}"); }, {"model.safetensors"}},
      {"shape",
       save({{"weight", torch::ones({2, 3})}, {"bias", bias}}),
       {"weight", "(2, 3)", "(2, 2)"}},
      {"dtype",
       save({{"weight", torch::ones({2, 2}, torch::kComplexFloat)}, {"bias", bias}}),
       {"weight", "complex64", "float32"}},
      {"dtype that LibTorch lacks",
       [](auto& f) {
         const std::string header =
             R"({"bias":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})";
         replace_file(f, std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} +
                             header + "xyz");
       },
       {"bias", "F6_E2M3", "weight"}},
      {"missing shard",
       [&](auto& f) {
         fs::rename(f, directory / "a");
         replace_file(index, R"({"weight_map": {"weight": "a", "bias": "b"}})");
       },
       {"model.safetensors.index.json", "b"}},
      {"pickle in the folder",
       [&](auto& f) { fs::rename(f, directory / "pytorch_model.bin"); },
       {"pytorch_model.bin", "weights_only=True"}},
      {"pickle with the name of weights",
       [](auto& f) { replace_file(f, std::string("\x80\x02\x8A\nl\xFC\x9C\x46\xF9 ", 10)); },
       {"model.safetensors", "torch.save", "sys.argv[1]"}},
  };
  for (const auto& [name, change, named] : cases) {
    SCOPED_TRACE(name);
    torch::nn::Linear linear(2, 2);
    const auto before = linear->weight.clone();
    fs::remove_all(directory.path());
    fs::create_directory(directory.path());
    save_safetensors(file, {.tensors = state_dict(*linear)});
    change(file);
    const auto path = std::string(name) == "absent" ? file : directory.path();
    std::vector<testing::Matcher<const std::string&>> names;
    for (const auto& each : named) names.emplace_back(Names(each));
    EXPECT_THAT([&] { load_weights(linear, path); },
                testing::ThrowsMessage<InputError>(testing::AllOfArray(names)));
    EXPECT_TRUE(linear->weight.equal(before));
  }
  fs::remove_all(directory.path());
  fs::create_directory(directory.path());
  EXPECT_THAT([&] { load_weights(torch::nn::Linear(2, 2), directory.path()); },
              throws_naming<InputError>(directory.path().string(), "model.safetensors"));
}

TEST_F(LoadWeights, FilesOfTorchSaveAreRefusedWithACommandThatConvertsThem) {
  const torch::nn::Linear linear(2, 2);
  for (const char* start : {"PK\x03\x04 data.pkl", "\x80\x02}q"}) {
    replace_file(directory / "ckpt.pt", start);
    EXPECT_THAT(
        [&] { load_weights(linear, directory / "ckpt.pt"); },
        throws_naming<InputError>((directory / "ckpt.pt").string(),
                                  (directory / "ckpt.safetensors").string(), "weights_only=True"));
  }
}

TEST_F(LoadWeights, ReadsOneTensorAtATime) {
  torch::nn::Module module, cast;
  TensorMap tensors;
  for (const char* name : {"a", "b", "c"}) {
    tensors[name] = torch::ones({1000}, torch::kByte);
    module.register_buffer(name, torch::zeros({1000}, torch::kByte));
    cast.register_buffer(name, torch::zeros({1000}, torch::kShort));
  }
  save_safetensors(file, {.tensors = tensors});
  for (const auto& [destination, bytes] : {std::pair(&module, 0), std::pair(&cast, 1000)}) {
    const LiveBytes live;
    load_weights(*destination, file);
    EXPECT_EQ(live.peak(), bytes);  // without a cast, tensors are read into their places
    EXPECT_TRUE(torch::all(state_dict(*destination).at("c") == 1).item<bool>());
  }
}

TEST(RenamePyTorch, RenamesLayersAndAttentionWhereverTheyAre) {
  EXPECT_EQ(rename_pytorch_encoder("layers.12.self_attn.in_proj_bias"),
            "blocks.12.attention.qkv.bias");
  EXPECT_EQ(rename_pytorch_encoder("layers.0.model.layers.1.norm2.weight"),
            "layers.0.model.blocks.1.norm2.weight");
  EXPECT_EQ(rename_pytorch_encoder("self_attn.out_proj.weight"), "attention.out.weight");
  EXPECT_EQ(rename_pytorch_encoder("text.attn.v_proj_weight"), "text.attn.value.weight");
  EXPECT_EQ(rename_pytorch_decoder("decoder.layers.3.norm2.bias"),
            "decoder.blocks.3.norm_cross.bias");
  EXPECT_EQ(rename_pytorch_decoder("decoder.layers.3.norm3.bias"), "decoder.blocks.3.norm2.bias");
  for (const char* name : {"norm.weight", "layers.0.weight", "mylayers.0.linear1.weight", "layers.",
                           "head.linear1.weight", "layers.x.linear1.weight", ""})
    EXPECT_EQ(rename_pytorch_encoder(name), name);
}

TEST(RenameNanoGpt, IgnoresOnlyTheCausalMask) {
  EXPECT_EQ(rename_nanogpt("transformer.h.3.attn.bias"), "");
  EXPECT_EQ(rename_nanogpt("transformer.h.3.attn.c_attn.bias"),
            "decoder.blocks.3.attention.qkv.bias");
  EXPECT_EQ(rename_nanogpt("_orig_mod.lm_head.weight"), "embedding.token.weight");
  EXPECT_EQ(rename_nanogpt("attn.bias"), "attn.bias");
}

}  // namespace
}  // namespace attend
