#include "attend/io/safetensors.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>
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
        torch::kInt, torch::kFloat, torch::kLong, torch::kDouble}) {
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
    EXPECT_TRUE(loaded.tensors.at(name).equal(tensor)) << name;
  }
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
    save_safetensors(directory / "f",
                     {.tensors = {{"z", torch::zeros({2}, torch::kComplexFloat)}}, .metadata = {}});
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
                              HasSubstr("bias: missing"), HasSubstr("extra: unknown"))));
  EXPECT_TRUE(linear->weight.equal(before));
}

TEST(LoadStateDict, WrongDtypeThrows) {
  torch::nn::Linear linear(torch::nn::LinearOptions(2, 3).bias(false));
  EXPECT_THAT(
      [&] {
        load_state_dict(*linear, {{"weight", torch::zeros({3, 2}, torch::kInt)}});
      },
      ThrowsMessage<InputError>(HasSubstr("weight: found dtype int32, expected float32")));
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
