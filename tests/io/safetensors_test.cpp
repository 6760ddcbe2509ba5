#include "attend/io/safetensors.h"

#include "attend/input_error.h"
#include "attend/io/safetensors_header.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>
#include <malloc.h>
#include <sys/stat.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <thread>

namespace attend {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

void save(const std::filesystem::path& path, const std::map<std::string, torch::Tensor>& tensors) {
  save_safetensors(path, {.tensors = tensors, .metadata = {}});
}

TEST(Safetensors, RoundTripIsExactForAllDtypes) {
  const TemporaryDirectory directory;
  Safetensors content{.tensors = {}, .metadata = {{"format", "pt"}, {"note", "ü \"quoted\""}}};
  for (const auto dtype :
       {torch::kBool, torch::kByte, torch::kChar, torch::kShort, torch::kHalf, torch::kBFloat16,
        torch::kInt, torch::kFloat, torch::kLong, torch::kDouble, torch::kComplexFloat,
        torch::kUInt16, torch::kUInt32, torch::kUInt64, torch::kFloat8_e4m3fn, torch::kFloat8_e5m2,
        torch::kFloat8_e4m3fnuz, torch::kFloat8_e5m2fnuz, torch::kFloat8_e8m0fnu}) {
    content.tensors[std::string("t.") + torch::toString(dtype)] =
        torch::randn({3, 2}).abs().mul(10).to(dtype);
  }
  content.tensors["float4"] =
      torch::randint(256, {3, 2}, torch::kByte).view(torch::ScalarType::Float4_e2m1fn_x2);
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

/// Returns the bytes of a file with one tensor of the name w.
std::string file_of(const std::string& dtype, const std::string& shape, const std::string& data) {
  const auto header = fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})",
                                  dtype, shape, data.size());
  return std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + data;
}

TEST(Safetensors, DtypesThatLibTorchLacksAreRefused) {
  const TemporaryDirectory directory;
  for (const auto* dtype : {"F6_E2M3", "F6_E3M2"}) {
    replace_file(directory / "f", file_of(dtype, "[4]", "xyz"));
    EXPECT_THAT([&] { load_safetensors(directory / "f"); },
                throws_naming<InputError>((directory / "f").string(), "'w'", dtype));
  }
}

TEST(Safetensors, ReadsUnsignedIntegersAndScales) {
  const TemporaryDirectory directory;
  const auto load = [&](const char* dtype, const std::string& data) {
    replace_file(directory / "f", file_of(dtype, "[1]", data));
    return load_safetensors(directory / "f").tensors.at("w");
  };
  EXPECT_EQ(load("U16", "\xFE\xFF").to(torch::kLong).item<int64_t>(), 0xFFFE);
  EXPECT_EQ(load("U32", "\xFE\xFF\xFF\xFF").to(torch::kLong).item<int64_t>(), 0xFFFFFFFE);
  EXPECT_EQ(load("U64", {"\x02\0\0\0\0\0\0\x10", 8}).to(torch::kLong).item<int64_t>(),
            0x1000000000000002);
  EXPECT_EQ(load("F8_E8M0", "\x81").to(torch::kFloat).item<float>(), 4.0F);  // 2^(0x81 - 127)
}

/// The format counts elements, and LibTorch counts bytes.
TEST(Safetensors, StoresTwoElementsOfFloat4InAByte) {
  const TemporaryDirectory directory;
  const auto bytes = torch::tensor({{0x21, 0x43}, {0x65, 0x87}}, torch::kByte);
  save(directory / "f", {{"w", bytes.view(torch::ScalarType::Float4_e2m1fn_x2)}});
  const auto header = read_safetensors_header(directory / "f");
  EXPECT_EQ(header.entries.at(0).dtype, "F4");
  EXPECT_EQ(header.entries.at(0).shape, (std::vector<int64_t>{2, 4}));
  const auto loaded = load_safetensors(directory / "f").tensors.at("w");
  EXPECT_TRUE(loaded.view(torch::kByte).equal(bytes));
  for (const auto* shape : {"[2,3]", "[6,1]"}) {
    replace_file(directory / "odd", file_of("F4", shape, "abc"));
    EXPECT_THAT([&] { load_safetensors(directory / "odd"); },
                throws_naming<InputError>("'w'", "F4", std::string(shape) == "[2,3]" ? "3" : "1"));
  }
}

TEST(Safetensors, StoresTheValuesOfViews) {
  const TemporaryDirectory directory;
  const auto z = torch::complex(torch::tensor({1.0F}), torch::tensor({10.0F}));
  const auto x = torch::tensor({{1.0F, -2.0F}, {3.0F, 4.0F}});
  save(directory / "f", {{"conj", z.conj()},
                         {"imag", torch::imag(z.conj())},
                         {"both", at::_neg_view(z.conj())},
                         {"neg", at::_neg_view(x)},
                         {"neg_t", at::_neg_view(x).t()},
                         {"zero", at::_efficientzerotensor({2})}});
  const auto loaded = load_safetensors(directory / "f").tensors;
  EXPECT_TRUE(torch::view_as_real(loaded.at("conj")).equal(torch::tensor({{1.0F, -10.0F}})));
  EXPECT_TRUE(loaded.at("imag").equal(torch::tensor({-10.0F})));
  EXPECT_TRUE(torch::view_as_real(loaded.at("both")).equal(torch::tensor({{-1.0F, 10.0F}})));
  EXPECT_TRUE(loaded.at("neg").equal(torch::tensor({{-1.0F, 2.0F}, {-3.0F, -4.0F}})));
  EXPECT_TRUE(loaded.at("neg_t").equal(torch::tensor({{-1.0F, -3.0F}, {2.0F, -4.0F}})));
  EXPECT_TRUE(loaded.at("zero").equal(torch::zeros({2})));
}

TEST(Safetensors, TensorsWithoutDenseDataAreNamed) {
  const TemporaryDirectory directory;
  const auto save_one = [&](const torch::Tensor& tensor) {
    save(directory / "f", {{"w", tensor}});
  };
  EXPECT_THAT([&] { save_one(torch::eye(2).to_sparse()); },
              throws_naming<c10::ValueError>("'w'", "Sparse"));
  EXPECT_THAT([&] { save_one(torch::eye(2).to_sparse_csr()); },
              throws_naming<c10::ValueError>("'w'", "SparseCsr"));
  EXPECT_THAT([&] { save_one(torch::eye(2, torch::kMeta)); },
              throws_naming<c10::ValueError>("'w'", "meta"));
  EXPECT_THAT([&] { save_one({}); }, throws_naming<c10::ValueError>("'w'", "undefined"));
  EXPECT_FALSE(std::filesystem::exists(directory / "f"));
}

TEST(Safetensors, ReadsAPipe) {
  const TemporaryDirectory directory;
  save(directory / "f", {{"w", torch::arange(5)}});
  const auto pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << read_bytes(directory / "f"); });
  const auto loaded = load_safetensors(pipe).tensors;
  writer.join();
  EXPECT_TRUE(loaded.at("w").equal(torch::arange(5)));
}

/// Returns the peak resident memory since the last write of 5 to /proc/self/clear_refs.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    if (int64_t kilobytes = 0; key == "VmHWM:" && status >> kilobytes) return 1024 * kilobytes;
  }
  return -1;
}

/// Reading needs no second copy of the tensors.
TEST(Safetensors, ReadsIntoTheTensors) {
  const TemporaryDirectory directory;
  constexpr int64_t kBytes = 64 << 20;
  save(directory / "f", {{"a", torch::ones({kBytes / 2}, torch::kByte)},
                         {"b", torch::ones({kBytes / 2}, torch::kByte)}});
  malloc_trim(0);  // freed memory would be used again
  ASSERT_TRUE(std::ofstream("/proc/self/clear_refs") << 5 << std::flush);
  const auto before = peak_bytes();
  ASSERT_GT(before, 0);
  const auto loaded = load_safetensors(directory / "f");
  const auto added = peak_bytes() - before;
  EXPECT_GT(added, kBytes * 3 / 4);
  EXPECT_LT(added, kBytes * 5 / 4);
}

TEST(Safetensors, ErrorsNameTheMalformedFile) {
  const TemporaryDirectory directory;
  replace_file(directory / "broken", "not a safetensors file at all");
  EXPECT_THAT([&] { load_safetensors(directory / "broken"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("broken"), HasSubstr("header length"))));
}

TEST(Safetensors, UnsupportedDtypeThrowsBeforeWriting) {
  const TemporaryDirectory directory;
  EXPECT_THAT(
      [&] {
        save(directory / "f", {{"z", torch::zeros({2}, torch::kComplexDouble)}});
      },
      throws_naming<c10::ValueError>("'z'", "complex128"));
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
      {torch::zeros({2}).to_sparse(), "bias: found a Sparse tensor"},
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

/// Counts how often `part` is in the message of `load`, as a whole name.
int times_named(const std::function<void()>& load, const std::string& part) {
  try {
    load();
  } catch (const InputError& error) {
    const std::regex name("(^|[^.\\w])" + std::regex_replace(part, std::regex("\\."), "\\.") +
                          "($|[^.\\w])");
    const std::string message = error.what();
    return static_cast<int>(
        std::distance(std::sregex_iterator(message.begin(), message.end(), name), {}));
  }
  return -1;
}

TEST(LoadStateDict, NamesWithAPrefixAreListedOnceAndThePrefixIsProposed) {
  torch::nn::Sequential modules(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
  for (const std::string prefix : {"module.", "_orig_mod.", "module._orig_mod."}) {
    std::map<std::string, torch::Tensor> tensors{{"extra", torch::zeros({1})}};
    for (const auto& [name, tensor] : state_dict(*modules)) tensors.emplace(prefix + name, tensor);
    const auto load = [&] { load_state_dict(*modules, tensors); };
    EXPECT_THAT(load, throws_naming<InputError>("'" + prefix + "'", "extra"));
    for (const char* name : {"{0, 1}.weight (2 names)", "{0, 1}.bias (2 names)"})
      EXPECT_THAT(load, throws<InputError>((prefix + name).c_str()));
    EXPECT_THAT(load, ThrowsMessage<InputError>(Not(HasSubstr("missing"))));
  }
}

TEST(LoadStateDict, APrefixThatTheNamesLackIsProposed) {
  torch::nn::Sequential modules(torch::nn::Linear(2, 2));
  const torch::nn::Linear linear(2, 2);
  const auto load = [&] { load_state_dict(*modules, state_dict(*linear)); };
  EXPECT_THAT(load, throws_naming<InputError>("'0.'"));
  EXPECT_EQ(times_named(load, "weight"), 1);
  EXPECT_EQ(times_named(load, "0.weight"), 0);
}

TEST(LoadStateDict, DtypesWithoutAKernelLeaveTheModuleUnchanged) {
  torch::nn::Linear linear(2, 2);
  const auto bias = linear->bias.clone();
  const auto float4 = torch::zeros({2, 2}, torch::kByte).view(torch::ScalarType::Float4_e2m1fn_x2);
  EXPECT_THAT(
      [&] {
        load_state_dict(*linear, {{"bias", torch::zeros({2})}, {"weight", float4}});
      },
      throws_naming<InputError>("weight", "float4_e2m1fn_x2", "float32"));
  EXPECT_TRUE(linear->bias.equal(bias));
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
