// Invalid archives: load_pt2 throws InputError with a message of one line and never crashes.
#include "attend/export/pt2.h"
#include "attend/input_error.h"
#include "attend/pt2/pt2_contents.h"
#include "attend/pt2/pt2_program.h"
#include "io/files.h"
#include "support/archive.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/higher_order_nodes.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <nlohmann/json.hpp>
#include <torch/nn/modules/linear.h>

#include <random>

namespace attend {
namespace {

using nlohmann::json;

struct Pt2InvalidArchive : testing::Test {
  Pt2InvalidArchive() {
    const torch::nn::Linear linear(3, 2);
    export_pt2(linear, torch::ones({4, 3}), path,
               {.input_names = {"x"}, .dynamic = {{0, 0, "batch", 1, 50}}});
    entries = archive_entries(path);
    program = json::parse(entries.at("models/model.json"));
    weights = json::parse(entries.at("data/weights/model_weights_config.json"));
  }

  void load(const Pt2LoadOptions& options) {
    entries["models/model.json"] = program.dump();
    entries["data/weights/model_weights_config.json"] = weights.dump();
    write_archive(path, entries);
    load_pt2(path, options);
  }
  void write_and_load() { load({}); }

  void expect_error(const char* message) {
    EXPECT_THAT([&] { write_and_load(); },
                testing::ThrowsMessage<InputError>(
                    testing::AllOf(testing::HasSubstr("linear.pt2: "), testing::HasSubstr(message),
                                   testing::Not(testing::HasSubstr("\n")))));
  }

  json& graph() { return program["graph_module"]["graph"]; }
  json& node() { return graph()["nodes"][0]; }
  json& out_spec() {
    return program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"];
  }
  static json leaf() {
    return {{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};
  }
  static json node_spec(const char* type, const json& context, const json& children) {
    return {{"type", type}, {"context", context}, {"children_spec", children}};
  }
  /// Returns a treespec in JSON, as in an archive.
  static std::string spec(const char* type, const json& context, const json& children) {
    return json::array({1, node_spec(type, context, children)}).dump();
  }
  json& weight() { return weights["config"]["weight"]; }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "linear.pt2";
  std::map<std::string, std::string> entries;
  json program;
  json weights;
};

TEST_F(Pt2InvalidArchive, AcceptsAnUnchangedArchive) {
  write_and_load();
}

TEST_F(Pt2InvalidArchive, RejectsOtherFormatsAndVersions) {
  entries["archive_format"] = "pt3";
  expect_error("archive_format: expected 'pt2', found 'pt3'");
  entries["archive_format"] = "pt2";
  entries["byteorder"] = "big";
  expect_error("byteorder: expected 'little', found 'big'");
  entries["byteorder"] = "little";
  program["schema_version"]["major"] = 9;
  expect_error("schema_version.major: expected 8, found 9");
}

TEST_F(Pt2InvalidArchive, RejectsMissingEntries) {
  for (const char* entry : {"archive_format", "data/weights/weight_0"}) {
    const auto content = entries.at(entry);
    entries.erase(entry);
    expect_error(entry);
    entries[entry] = content;
  }
}

TEST_F(Pt2InvalidArchive, RejectsOtherPrograms) {
  const auto load_entries = [&] {
    write_archive(path, entries);
    load_pt2(path);
  };
  const auto model = entries.extract("models/model.json").mapped();
  EXPECT_THAT(load_entries, throws_naming<InputError>("model", "none"));
  entries["models/one.json"] = entries["models/other.json"] = model;
  EXPECT_THAT(load_entries, throws_naming<InputError>("model", "one", "other"));
}

TEST_F(Pt2InvalidArchive, RejectsUnknownAndForbiddenOperators) {
  const auto target = [&](const char* name, const char* message) {
    node()["target"] = name;
    expect_error(message);
  };
  target("torch.ops.quantized.linear.default",
         "operators of namespace 'quantized' are not allowed; to allow them, add 'quantized' to "
         "Pt2LoadOptions::namespaces");
  target("torch.ops.aten.linear.other", "the operator does not exist");
  target("torch.ops.aten.linear", "expected torch.ops.NAMESPACE.NAME.OVERLOAD");
  target("torch.ops.aten.from_file.default", "operators that access files are not allowed");
  target("torch.ops.higher_order.cond",
         "higher_order.cond: expected more than 1 inputs besides the graphs");
  target("torch.ops.higher_order.flex_attention",
         "flex_attention: the higher-order operator is not supported");
  target("os.system", "os.system: not supported as a function on SymInts with 1 argument");
}

// The operator of a node is checked before its arguments, so only the operator is replaced here.
TEST_F(Pt2InvalidArchive, RejectsOperatorsThatAreNotInTheList) {
  // Operators that can access memory outside of their tensors, operators that replace or resize the
  // memory of a tensor, operators of one backend, and internal operators of LibTorch.
  for (const char* name :
       {"set_.source_Storage_storage_offset", "resize_.default", "resize_as_.default",
        "_reshape_alias.default", "_resize_output_.default", "set_data.default", "ctc_loss.Tensor",
        "lu_unpack.default", "_cudnn_rnn.default", "_sparse_coo_tensor_unsafe.default",
        "_test_warn_in_autograd.default", "segment_reduce.default", "add.out", "linear.out"}) {
    node()["target"] = std::string("torch.ops.aten.") + name;
    expect_error(
        "is not one of the operators that are allowed by default; to allow it, add 'aten::");
  }
  node()["target"] = "torch.ops.aten.ctc_loss.Tensor";
  expect_error("torch.ops.aten.ctc_loss.Tensor: the operator 'aten::ctc_loss' is not one");
}

TEST_F(Pt2InvalidArchive, AllowsCoreAndPointwiseOperatorsAndTheListedOnes) {
  for (const char* name : {"add.Tensor", "add_.Tensor", "as_strided.default", "special_i1.default",
                           "gelu.default", "lstm.input", "scaled_dot_product_attention.default",
                           "__and__.Tensor", "_assert_scalar.default", "linear.default"}) {
    node()["target"] = std::string("torch.ops.aten.") + name;
    node()["inputs"][0]["name"] = "no_such_argument";
    expect_error("argument '");
  }
}

TEST_F(Pt2InvalidArchive, CallersCanAllowMoreOperators) {
  node()["target"] = "torch.ops.aten.ctc_loss.Tensor";
  const auto loads_with = [&](const Pt2LoadOptions& options, const char* message) {
    EXPECT_THAT([&] { load(options); }, throws<InputError>(message));
  };
  // The errors about missing arguments show that the operator is allowed: the operator is checked
  // before its arguments.
  loads_with({.operators = {"aten::ctc_loss"}}, "argument 'log_probs' is missing");
  loads_with({.namespaces = {"aten"}}, "argument 'log_probs' is missing");
  loads_with({.operators = {"aten::lu_unpack"}}, "the operator 'aten::ctc_loss' is not one");
  node()["target"] = "torch.ops.aten.from_file.default";
  loads_with({.namespaces = {"aten"}, .operators = {"aten::from_file"}},
             "operators that access files are not allowed");
  node()["target"] = "torch.ops.quantized.linear.default";
  loads_with({.namespaces = {"quantized"}}, "argument 'X' is missing");
}

TEST_F(Pt2InvalidArchive, RejectsInvalidArguments) {
  auto& inputs = node()["inputs"];
  const auto whole = inputs;
  inputs[0]["name"] = "nothing";
  expect_error("argument 'self' is missing");
  inputs = whole;
  inputs.push_back(whole[0]);
  expect_error("argument 'self' is passed more than once");
  inputs = whole;
  inputs[0]["arg"]["as_tensor"]["name"] = "later";
  expect_error("'later' is undefined or used before its definition");
  inputs = whole;
  inputs[0]["arg"] = {{"as_custom_obj", {{"name", "x"}, {"class_fqn", "y"}}}};
  expect_error("arguments of kind 'as_custom_obj' are not supported");
  inputs = whole;
  node()["outputs"].push_back(node()["outputs"][0]);
  expect_error("expected 1 outputs, found 2");
}

TEST_F(Pt2InvalidArchive, RunsHigherOrderOperators) {
  for (const auto& node : pt2_json::higher_order_nodes("x")) graph()["nodes"].push_back(node);
  auto& outputs = program["graph_module"]["signature"]["output_specs"];
  outputs = json::array();
  auto leaves = json::array();
  for (const char* name : {"cond", "while_loop", "map", "scan", "no_grad", "with_effects"}) {
    outputs.push_back({{"user_output", {{"arg", pt2_json::tensor(name)}}}});
    leaves.push_back(leaf());
  }
  out_spec() = spec("builtins.tuple", "null", leaves);
  write_and_load();
  const auto program = load_pt2(path);
  for (const float sign : {1.F, 0.F}) {
    const auto x = torch::tensor({{1.F, 2.F, 3.F}, {4.F, 5.F, 6.F}}).mul(sign).requires_grad_();
    const auto found = program.forward({x});
    const auto twice = x * 2;
    EXPECT_TRUE(found[0].equal(sign > 0 ? twice : -x)) << found[0];
    EXPECT_TRUE(found[1].equal(torch::zeros_like(x))) << found[1];
    EXPECT_TRUE(found[2].equal(twice)) << found[2];
    EXPECT_TRUE(found[3].equal(-x)) << found[3];
    EXPECT_TRUE(found[4].equal(twice)) << found[4];
    EXPECT_FALSE(found[4].requires_grad());
    EXPECT_TRUE(found[5].equal(-x)) << found[5];
  }
  EXPECT_EQ(pt2_contents(path).operators.at("torch.ops.higher_order.cond"), 1);
  EXPECT_EQ(pt2_contents(path).operators.at("aten::mul"), 4);
}

TEST_F(Pt2InvalidArchive, EnablesGradientsInsideOfNoGrad) {
  auto node = pt2_json::higher_order_nodes("x")[5];
  node["inputs"][0]["arg"]["as_bool"] = true;
  graph()["nodes"].push_back(node);
  auto& output = program["graph_module"]["signature"]["output_specs"][0];
  output["user_output"]["arg"] = node["outputs"][0];
  write_and_load();
  const torch::NoGradGuard no_grad;
  const auto x = torch::ones({2, 3}, torch::requires_grad());
  EXPECT_TRUE(load_pt2(path).forward({x}).front().requires_grad());
}

TEST_F(Pt2InvalidArchive, ComputesTangentsWithoutGradients) {
  write_and_load();
  const auto program = load_pt2(path);
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({2, 3});
  const auto tangent = torch::randn({2, 3});
  const auto found = forward_derivative(
      [&](const auto& input) { return program.forward({input}).front(); }, x, tangent);
  EXPECT_TRUE(close(found, tangent.matmul(program.state_dict().at("weight").t()), 1e-5));
}

TEST_F(Pt2InvalidArchive, RejectsInvalidHigherOrderOperators) {
  const auto nodes = pt2_json::higher_order_nodes("x");
  graph()["nodes"].push_back(nodes[0]);
  auto& node = graph()["nodes"].emplace_back();
  node = nodes[1];
  const auto inputs = [&]() -> json& { return node["inputs"]; };
  inputs().erase(2);
  expect_error("higher_order.cond: expected 2 graphs, found 1");
  node = nodes[1];
  inputs().erase(3);
  expect_error("expected more than 1 inputs besides the graphs");
  inputs().push_back(pt2_json::input("", pt2_json::tensors({"x", "x"})));
  expect_error("graph 0: expected 2 inputs, found 1");
  node = nodes[1];
  inputs().push_back(pt2_json::input("", pt2_json::tensor("x")));
  expect_error("expected 2 inputs besides the graphs, found 3");
  node = nodes[1];
  node["outputs"].push_back(pt2_json::tensor("more"));
  expect_error("graph 0: expected 2 outputs, found 1");
  node["outputs"] = {{{"as_sym_int", {{"as_name", "number"}}}}};
  expect_error("graph 0: outputs: expected a number at index 0, found a tensor");
  node = nodes[1];
  auto& branch = inputs()[1]["arg"]["as_graph"]["graph"];
  branch["nodes"][0]["inputs"][0]["arg"] = pt2_json::tensor("x");
  expect_error(
      "graph 0: torch.ops.aten.mul.Scalar: 'x' is undefined or used before its definition");
  branch["nodes"][0] = nodes[2];
  expect_error("graph 0: torch.ops.higher_order.while_loop: 'cond' is undefined");
  branch["inputs"][0] = {{"as_int", 3}};
  expect_error("graph 0: inputs: expected a tensor at index 0, found a number");

  node = nodes[2];
  inputs()[2]["arg"] = pt2_json::tensors({"x", "x"});
  expect_error("while_loop: expected 2 outputs, one per carried value, found 1");
  node = nodes[2];
  inputs()[0]["arg"]["as_graph"]["graph"]["outputs"].push_back(pt2_json::tensor("z"));
  expect_error("graph 0: expected 1 outputs, found 2");
  node = nodes[4];
  inputs()[1]["arg"] = pt2_json::tensors({"x", "x"});
  expect_error("scan: expected at least 2 outputs, one per carried value, found 1");
  node = nodes[5];
  inputs()[0]["arg"] = {{"as_int", 1}};
  expect_error("wrap_with_set_grad_enabled: expected true or false as input 0");
  node = nodes[6];
  inputs()[0]["arg"] = {{"as_string", "tpu"}};
  expect_error("wrap_with_autocast: expected autocast for cpu or cuda, found 'tpu'");
  node = nodes[7];
  node["outputs"] = json::array();
  expect_error("expected 2 or more inputs and 1 or more outputs, found 3 and 0");
  node = nodes[1];
  node["target"] = "torch.ops.aten.any.default";
  expect_error("any.default: expected an operator without graphs as arguments");
}

TEST_F(Pt2InvalidArchive, AScanNeedsAnElement) {
  graph()["nodes"].push_back(pt2_json::higher_order_nodes("x")[4]);
  auto& sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"];
  sizes[0] = {{"as_int", 0}};
  write_and_load();
  EXPECT_THAT(
      [&] {
        load_pt2(path).forward({torch::zeros({0, 3})});
      },
      throws<InputError>("expected a sequence of at least 1 element, found 0"));
}

TEST_F(Pt2InvalidArchive, NamesOutputsByTheirPathInPython) {
  EXPECT_THAT(load_pt2(path).output_names(), testing::ElementsAre("output"));
  auto& outputs = program["graph_module"]["signature"]["output_specs"];
  const auto children = json::array(
      {leaf(), node_spec("builtins.list", "null", json::array({leaf(), leaf()})),
       node_spec("collections.namedtuple", "tests.Pair", json::array({leaf(), leaf()})),
       node_spec("tests.Dataclass", R"([["field"], ["none"]])", json::array({leaf()})),
       node_spec("collections.defaultdict", {{"dict_context", {"key"}}}, json::array({leaf()})),
       node_spec("tests.Other", "no JSON", json::array({leaf()}))});
  program["graph_module"]["treespec_namedtuple_fields"] = {
      {"tests.Pair", {{"field_names", {"first", "second"}}}}};
  out_spec() =
      spec("builtins.dict", R"(["logits", 3, "pair", "data", "default", "other"])", children);
  const auto output = outputs[0];
  expect_error("graph_module: out_spec: expected 1 outputs, found 8");
  outputs = json(std::vector<json>(8, output));
  write_and_load();
  EXPECT_THAT(load_pt2(path).output_names(),
              testing::ElementsAre("logits", "3.0", "3.1", "pair.first", "pair.second",
                                   "data.field", "default.key", "other.0"));
}

TEST_F(Pt2InvalidArchive, RejectsInvalidSpecsOfOutputs) {
  out_spec() = "[1]";
  expect_error("out_spec: expected a version and a treespec, found 1 values");
  out_spec() = "[1, 2]";
  expect_error("out_spec: [1]: expected an object, found 2");
  out_spec() = "[1, {";
  expect_error("out_spec: ");
  program["graph_module"]["module_call_graph"] = json::array();
  expect_error("graph_module: expected a call of the module in module_call_graph");
}

TEST_F(Pt2InvalidArchive, RunsWithInputsByName) {
  const auto program = load_pt2(path);
  const auto x = torch::ones({2, 3});
  EXPECT_TRUE(program.forward_named({{"x", x}}).at("output").equal(program.forward({x}).front()));
  EXPECT_THAT(
      [&] {
        program.forward_named({{"y", x}});
      },
      throws<InputError>("expected the inputs x, found y"));
  EXPECT_THAT(
      [&] {
        program.forward_named({{"x", x}, {"y", x}});
      },
      throws<InputError>("expected the inputs x, found x, y"));
}

TEST_F(Pt2InvalidArchive, RejectsNamesDefinedTwice) {
  graph()["nodes"].push_back(node());
  expect_error("is defined more than once");
}

TEST_F(Pt2InvalidArchive, RejectsWeightsThatExceedTheirBytes) {
  const auto whole = weight();
  auto& meta = weight()["tensor_meta"];
  meta["sizes"][0]["as_int"] = 3;
  expect_error("elements cannot contain a tensor of shape (3, 3)");
  meta = whole["tensor_meta"];
  meta["strides"][0]["as_int"] = int64_t{1} << 62;
  expect_error("elements cannot contain a tensor");
  meta = whole["tensor_meta"];
  meta["storage_offset"]["as_int"] = 1;
  expect_error("elements cannot contain a tensor");
  meta = whole["tensor_meta"];
  meta["sizes"] = {{{"as_int", int64_t{1} << 40}}, {{"as_int", int64_t{1} << 40}}};
  meta["strides"] = {{{"as_int", 0}}, {{"as_int", 0}}};
  expect_error("overflow");
  meta = whole["tensor_meta"];
  meta = whole["tensor_meta"];
  meta["sizes"] = json::array();
  meta["strides"] = json::array();
  for (const int64_t size : {int64_t{1} << 62, int64_t{1} << 62, int64_t{0}}) {
    meta["sizes"].push_back({{"as_int", size}});
    meta["strides"].push_back({{"as_int", 1}});
  }
  expect_error("overflow");
  meta = whole["tensor_meta"];
  meta["sizes"][0]["as_int"] = -2;
  expect_error("sizes and strides must be 0 or more");
  meta = whole["tensor_meta"];
  meta["dtype"] = 99;
  expect_error("dtype");
  meta = whole["tensor_meta"];
  weight()["use_pickle"] = true;
  expect_error("found a Python pickle, which is not supported");
  weights["config"].erase("weight");
  expect_error("the archive has no weight 'weight'");
}

TEST_F(Pt2InvalidArchive, RejectsWeightsOutsideTheirFolder) {
  for (const char* name : {"../../../etc/passwd", "/etc/passwd", "no_such"}) {
    weight()["path_name"] = name;
    expect_error("entry 'data/weights/");
  }
}

TEST_F(Pt2InvalidArchive, RejectsInvalidJsonAndDuplicateKeys) {
  const auto whole = entries.at("models/model.json");
  const auto writes = [&](const std::string& text, const char* message) {
    entries["models/model.json"] = text;
    write_archive(path, entries);
    EXPECT_THAT([&] { load_pt2(path); }, throws<InputError>(message));
  };
  writes(whole.substr(0, whole.size() / 2), "models/model.json: ");
  writes("{\"graph_module\": {}, \"graph_module\": {}}", "graph_module");
  writes("[]", "models/model.json: ");
  writes(std::string(100000, '['), "models/model.json: ");
}

TEST_F(Pt2InvalidArchive, SurvivesRandomChangesOfBytes) {
  const auto whole = read_bytes(path);
  std::mt19937_64 random(seed_afresh());
  int rejected = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    auto damaged = whole;
    if (round % 4 == 0) {
      damaged.resize(random() % whole.size());
    } else {
      for (uint64_t i = 0; i <= random() % 3; ++i) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
    }
    replace_file(path, damaged);
    try {
      load_pt2(path);
    } catch (const InputError&) {
      ++rejected;
    }
  }
  // Not all changes are rejected: some bytes are padding or belong to entries that are not read.
  EXPECT_GT(rejected, kRounds / 2);
}

/// Each round replaces a random value in the JSON of the program, or in the config file of the
/// weights, by another value of any type.
TEST_F(Pt2InvalidArchive, SurvivesRandomChangesOfValues) {
  for (const auto& node : pt2_json::higher_order_nodes("x")) graph()["nodes"].push_back(node);
  std::mt19937_64 random(seed_afresh());
  const auto pick = [&](const json& values) {  // a random element of an object
    auto at = values.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random() % values.size()));
    return at;
  };
  const auto whole_program = program;
  const auto whole_weights = weights;
  const json others{nullptr,
                    0,
                    -1,
                    7,
                    int64_t{1} << 62,
                    0.5,
                    true,
                    "",
                    "x",
                    "weight",
                    json::array(),
                    json::object(),
                    "p_weight",
                    "torch.ops.aten.add.Tensor"};
  int rejected = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    program = whole_program;
    weights = whole_weights;
    auto& changed = round % 2 == 0 ? program : weights;
    const auto leaves = changed.flatten();
    const json::json_pointer pointer(pick(leaves).key());
    changed[pointer] = random() % 2 == 0 ? *pick(leaves) : *pick(others);
    try {
      write_and_load();
    } catch (const InputError&) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, kRounds / 10);
}

}  // namespace
}  // namespace attend
