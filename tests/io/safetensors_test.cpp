#include "attend/io/safetensors.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Safetensors, RoundTripIsExactForAllDtypes) {
  const TemporaryDirectory directory;
  Safetensors content{.tensors = {}, .metadata = {{"format", "pt"}, {"note", "ü \"quoted\""}}};
  for (const auto dtype :
       {torch::kBool, torch::kByte, torch::kChar, torch::kShort, torch::kHalf, torch::kBFloat16,
        torch::kInt, torch::kFloat, torch::kLong, torch::kDouble, torch::kComplexFloat,
        torch::kUInt16, torch::kFloat8_e4m3fn, torch::kFloat8_e5m2}) {
    content.tensors[std::string("t.") + torch::toString(dtype)] =
        torch::randn({3, 2}).mul(10).to(dtype);
  }
  content.tensors["scalar"] = torch::tensor(3.0);
  content.tensors["empty"] = torch::zeros({0, 4});
  content.tensors["strided"] = torch::randn({4, 3}).t();
  save_safetensors(directory / "f", content);
  const auto loaded = load_safetensors(directory / "f");
  EXPECT_EQ(loaded.metadata, content.metadata);
  ASSERT_EQ(loaded.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    EXPECT_EQ(loaded.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    // `equal` does not support the float8 dtypes.
    const auto bytes = [](const torch::Tensor& t) {
      return t.contiguous().view(-1).view(torch::kByte);
    };
    EXPECT_TRUE(bytes(loaded.tensors.at(name)).equal(bytes(tensor))) << name;
  }
}

TEST(Safetensors, DtypesThatLibTorchLacksAreRefused) {
  const TemporaryDirectory directory;
  const std::string header = R"({"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})";
  replace_file(directory / "f",
               std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + "x");
  EXPECT_THAT([&] { load_safetensors(directory / "f"); },
              testing::ThrowsMessage<InputError>(AllOf(HasSubstr("'w'"), HasSubstr("F4"))));
}

TEST(Safetensors, ErrorsNameTheMalformedFile) {
  const TemporaryDirectory directory;
  replace_file(directory / "broken", "not a safetensors file at all");
  EXPECT_THAT([&] { load_safetensors(directory / "broken"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("broken"), HasSubstr("header length"))));
}

TEST(Safetensors, UnsupportedDtypeThrowsBeforeWriting) {
  const TemporaryDirectory directory;
  const auto save = [&] {
    save_safetensors(directory / "f", {.tensors = {{"z", torch::zeros({2}, torch::kComplexDouble)}},
                                       .metadata = {}});
  };
  EXPECT_THROW(save(), c10::ValueError);
  EXPECT_FALSE(std::filesystem::exists(directory / "f"));
}

TEST(LoadStateDict, ErrorListsAllDifferencesAndLeavesTheModuleUnchanged) {
  torch::nn::Linear linear(2, 3);
  const auto before = linear->weight.clone();
  const auto load = [&] {
    load_state_dict(*linear, {{"weight", torch::zeros({3, 3})}, {"extra", torch::zeros({1})}});
  };
  EXPECT_THAT(load, ThrowsMessage<InputError>(
                        AllOf(HasSubstr("weight: found shape (3, 3), expected (3, 2)"),
                              HasSubstr("bias: missing"), HasSubstr("extra: unexpected"))));
  EXPECT_TRUE(linear->weight.equal(before));
}

TEST(LoadStateDict, CastsToTheDtypeOfTheModule) {
  torch::nn::Linear linear(torch::nn::LinearOptions(2, 3).bias(false));
  for (const auto dtype : {torch::kBFloat16, torch::kDouble, torch::kInt}) {
    const auto weight = torch::randn({3, 2}).mul(10).to(dtype);
    load_state_dict(*linear, {{"weight", weight}});
    EXPECT_EQ(linear->weight.scalar_type(), torch::kFloat);
    EXPECT_TRUE(linear->weight.equal(weight.to(torch::kFloat))) << dtype;
  }
}

TEST(LoadStateDict, DtypesThatCannotBeCastThrow) {
  torch::nn::BatchNorm1d norm(2);  // num_batches_tracked is int64
  auto tensors = state_dict(*norm);
  tensors["num_batches_tracked"] = torch::tensor(2.5);
  tensors["weight"] = torch::zeros({2}, torch::kComplexFloat);
  EXPECT_THAT([&] { load_state_dict(*norm, tensors); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("num_batches_tracked: found dtype float32, expected int64"),
                        HasSubstr("weight: found dtype complex64, expected float32"))));
}

TEST(LoadStateDict, TensorsThatCannotBeCopiedLeaveTheModuleUnchanged) {
  torch::nn::Linear linear(2, 2);
  const auto weight = linear->weight.clone();
  const std::pair<torch::Tensor, const char*> cases[] = {
      {torch::zeros({2}, torch::kMeta), "bias: found a meta tensor"},
      {torch::zeros({2}).to_sparse(), "bias: found a non-strided tensor"},
      {torch::Tensor(), "bias: found an undefined tensor"}};
  for (const auto& [bias, message] : cases) {
    EXPECT_THAT(
        [&] {
          load_state_dict(*linear, {{"weight", torch::zeros({2, 2})}, {"bias", bias}});
        },
        ThrowsMessage<InputError>(HasSubstr(message)));
    EXPECT_TRUE(linear->weight.equal(weight));
  }
}

TEST(LoadStateDict, TensorsOfTheModuleItselfAreReadBeforeTheyChange) {
  torch::nn::Sequential modules(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
  auto tensors = state_dict(*modules);
  const auto first = tensors["0.weight"].clone();
  const auto second = tensors["1.weight"].clone();
  tensors["0.weight"] = state_dict(*modules)["1.weight"];
  tensors["1.weight"] = state_dict(*modules)["0.weight"].t();
  load_state_dict(*modules, tensors);
  EXPECT_TRUE(state_dict(*modules)["0.weight"].equal(second));
  EXPECT_TRUE(state_dict(*modules)["1.weight"].equal(first.t()));
}

TEST(LoadStateDict, NonStrictCopiesTheCommonNamesAndReturnsTheOthers) {
  torch::nn::Linear linear(2, 3);
  const auto bias = linear->bias.clone();
  const auto keys = load_state_dict(
      *linear, {{"weight", torch::ones({3, 2})}, {"extra", torch::zeros({1})}}, {.strict = false});
  EXPECT_THAT(keys.missing_keys, testing::ElementsAre("bias"));
  EXPECT_THAT(keys.unexpected_keys, testing::ElementsAre("extra"));
  EXPECT_TRUE(linear->weight.equal(torch::ones({3, 2})));
  EXPECT_TRUE(linear->bias.equal(bias));
}

TEST(LoadStateDict, NonStrictStillThrowsForWrongShapes) {
  torch::nn::Linear linear(2, 3);
  EXPECT_THAT(
      [&] {
        load_state_dict(*linear, {{"weight", torch::zeros({3, 3})}}, {.strict = false});
      },
      ThrowsMessage<InputError>(testing::StrEq("the state dict does not match the model: weight: "
                                               "found shape (3, 3), expected (3, 2)")));
}

TEST(LoadStateDict, CopiesIntoTheExistingParameters) {
  torch::nn::Linear from(2, 3);
  torch::nn::Linear to(2, 3);
  load_state_dict(*to, state_dict(*from));
  EXPECT_TRUE(to->weight.equal(from->weight));
  EXPECT_TRUE(to->weight.requires_grad());
  EXPECT_FALSE(to->weight.is_same(from->weight));
}

}  // namespace
}  // namespace attend
