// Archives of any origin: what is wrong with them is said in a line, and none brings the program
// down.
#include "attend/export/pt2.h"
#include "attend/export/pt2_program.h"
#include "attend/input_error.h"
#include "io/files.h"
#include "support/archive.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <nlohmann/json.hpp>
#include <torch/nn/modules/linear.h>

#include <random>

namespace attend {
namespace {

using nlohmann::json;

struct Pt2Damage : testing::Test {
  Pt2Damage() {
    const torch::nn::Linear linear(3, 2);
    export_pt2(linear, torch::ones({4, 3}), path,
               {.input_names = {"x"}, .dynamic = {{0, 0, "batch", 1, 50}}});
    entries = archive_entries(path);
    program = json::parse(entries.at("models/model.json"));
    weights = json::parse(entries.at("data/weights/model_weights_config.json"));
  }

  void write_and_load() {
    entries["models/model.json"] = program.dump();
    entries["data/weights/model_weights_config.json"] = weights.dump();
    write_archive(path, entries);
    load_pt2(path);
  }

  void refuses(const char* why) {
    EXPECT_THAT([&] { write_and_load(); },
                testing::ThrowsMessage<InputError>(
                    testing::AllOf(testing::HasSubstr("linear.pt2: "), testing::HasSubstr(why),
                                   testing::Not(testing::HasSubstr("\n")))));
  }

  json& graph() { return program["graph_module"]["graph"]; }
  json& node() { return graph()["nodes"][0]; }
  json& weight() { return weights["config"]["weight"]; }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "linear.pt2";
  std::map<std::string, std::string> entries;
  json program;
  json weights;
};

TEST_F(Pt2Damage, OfNothingIsNone) {
  write_and_load();
}

TEST_F(Pt2Damage, AnotherFormatOrVersion) {
  entries["archive_format"] = "pt3";
  refuses("archive_format: expected 'pt2', found 'pt3'");
  entries["archive_format"] = "pt2";
  entries["byteorder"] = "big";
  refuses("byteorder: expected 'little', found 'big'");
  entries["byteorder"] = "little";
  program["schema_version"]["major"] = 9;
  refuses("schema_version.major: expected 8, found 9");
}

TEST_F(Pt2Damage, EntriesThatAreMissing) {
  for (const char* entry : {"archive_format", "data/weights/weight_0"}) {
    const auto content = entries.at(entry);
    entries.erase(entry);
    refuses(entry);
    entries[entry] = content;
  }
  entries["models/other.json"] = "{}";
  refuses("expected one program under models/, found 2");
}

TEST_F(Pt2Damage, OperatorsThatAreNotAllowedOrNotThere) {
  const auto target = [&](const char* name, const char* why) {
    node()["target"] = name;
    refuses(why);
  };
  target("torch.ops.quantized.linear.default", "operators of 'quantized' are not allowed");
  target("torch.ops.aten.linear.other", "there is no such operator");
  target("torch.ops.aten.linear", "expected NAMESPACE.NAME.OVERLOAD");
  target("torch.ops.aten.from_file.default", "operators that touch files are not allowed");
  target("torch.ops.higher_order.cond", "higher_order.cond: expected NAMESPACE.NAME.OVERLOAD");
  target("os.system", "os.system: there is no such operator");
}

TEST_F(Pt2Damage, ArgumentsThatDoNotFitTheOperator) {
  auto& inputs = node()["inputs"];
  const auto whole = inputs;
  inputs[0]["name"] = "nothing";
  refuses("argument 'self' is missing");
  inputs = whole;
  inputs.push_back(whole[0]);
  refuses("the argument 'self' is there twice");
  inputs = whole;
  inputs[0]["arg"]["as_tensor"]["name"] = "later";
  refuses("'later' is not given before");
  inputs = whole;
  inputs[0]["arg"] = {{"as_custom_obj", {{"name", "x"}, {"class_fqn", "y"}}}};
  refuses("an argument 'as_custom_obj' is not supported");
  inputs = whole;
  node()["outputs"].push_back(node()["outputs"][0]);
  refuses("2 results, expected 1");
}

/// The call in a graph of its own, under torch.set_grad_enabled.
json in_region(const json& call, const json& values, bool has_gradients) {
  json arguments = json::array();
  for (const auto& input : call["inputs"]) {
    if (input["arg"].contains("as_tensor")) arguments.push_back(input["arg"]);
  }
  const json graph{{"inputs", arguments},
                   {"outputs", call["outputs"]},
                   {"nodes", json::array({call})},
                   {"tensor_values", values},
                   {"sym_int_values", json::object()}};
  const json part{{"as_graph", json{{"name", "part"}, {"graph", graph}}}};
  json inputs = json::array();
  const auto add = [&](const json& argument) {
    inputs.push_back(json{{"name", ""}, {"arg", argument}});
  };
  add(json{{"as_bool", has_gradients}});
  add(part);
  for (const auto& argument : arguments) add(argument);
  return json{{"target", "torch.ops.higher_order.wrap_with_set_grad_enabled"},
              {"inputs", inputs},
              {"outputs", call["outputs"]},
              {"metadata", json::object()}};
}

TEST_F(Pt2Damage, PartsUnderNoGradHaveNone) {
  auto& last = graph()["nodes"].back();
  const auto call = last;
  for (const bool has_gradients : {true, false}) {
    last = in_region(call, graph()["tensor_values"], has_gradients);
    write_and_load();
    const auto x = torch::ones({2, 3}, torch::requires_grad());
    EXPECT_EQ(load_pt2(path).forward({x}).at(0).requires_grad(), has_gradients);
  }
}

TEST_F(Pt2Damage, PartsThatDoNotFitTheirGraph) {
  auto& part = graph()["nodes"].back();
  const auto whole = in_region(part, graph()["tensor_values"], false);
  part = whole;
  part["inputs"].erase(4);
  refuses("wrap_with_set_grad_enabled: the arguments do not fit the graph");
  part = whole;
  part["inputs"][2]["arg"] = {{"as_int", 3}};
  refuses("the arguments do not fit the graph");
  part = whole;
  part["outputs"] = json::array();
  refuses("the results do not fit the graph");
  part = whole;
  part["inputs"].erase(1);
  refuses("has no 'as_graph'");
  part = whole;
  auto& inner = part["inputs"][1]["arg"]["as_graph"]["graph"]["nodes"];
  inner[0]["inputs"][0]["arg"]["as_tensor"]["name"] = "later";
  refuses("/later' is not given before");
}

TEST_F(Pt2Damage, ValuesThatAreGivenTwice) {
  graph()["nodes"].push_back(node());
  refuses("is given twice");
}

TEST_F(Pt2Damage, WeightsThatTheirBytesDoNotHold) {
  const auto whole = weight();
  auto& meta = weight()["tensor_meta"];
  meta["sizes"][0]["as_int"] = 3;
  refuses("do not hold a tensor (3, 3)");
  meta = whole["tensor_meta"];
  meta["strides"][0]["as_int"] = int64_t{1} << 62;
  refuses("do not hold a tensor");
  meta = whole["tensor_meta"];
  meta["storage_offset"]["as_int"] = 1;
  refuses("do not hold a tensor");
  meta = whole["tensor_meta"];
  meta["sizes"] = {{{"as_int", int64_t{1} << 40}}, {{"as_int", int64_t{1} << 40}}};
  meta["strides"] = {{{"as_int", 0}}, {{"as_int", 0}}};
  refuses("overflow");
  meta = whole["tensor_meta"];
  meta["sizes"][0]["as_int"] = -2;
  refuses("a size or stride is negative");
  meta = whole["tensor_meta"];
  meta["dtype"] = 99;
  refuses("dtype");
  meta = whole["tensor_meta"];
  weight()["use_pickle"] = true;
  refuses("is a Python pickle, which could run code");
  weights["config"].erase("weight");
  refuses("the weight 'weight' is not in the archive");
}

TEST_F(Pt2Damage, WeightsFromElsewhereInTheArchiveOrOutsideOfIt) {
  for (const char* name : {"../../../etc/passwd", "/etc/passwd", "no_such"}) {
    weight()["path_name"] = name;
    refuses("entry 'data/weights/");
  }
}

TEST_F(Pt2Damage, JsonThatIsNoneOrSaysAThingTwice) {
  const auto whole = entries.at("models/model.json");
  const auto writes = [&](const std::string& text, const char* why) {
    entries["models/model.json"] = text;
    write_archive(path, entries);
    EXPECT_THAT([&] { load_pt2(path); }, throws<InputError>(why));
  };
  writes(whole.substr(0, whole.size() / 2), "models/model.json: ");
  writes("{\"graph_module\": {}, \"graph_module\": {}}", "graph_module");
  writes("[]", "models/model.json: ");
  writes(std::string(100000, '['), "models/model.json: ");
}

TEST_F(Pt2Damage, BytesOfTheFile) {
  const auto whole = read_bytes(path);
  std::mt19937_64 random(seed_afresh());
  int refused = 0;
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
      ++refused;
    }
  }
  // Not all: there are bytes between the entries, and entries that are not read.
  EXPECT_GT(refused, kRounds / 2);
}

/// Any value of the program replaced by another, of the same kind or not.
TEST_F(Pt2Damage, ValuesOfTheProgramAndOfTheWeights) {
  std::mt19937_64 random(seed_afresh());
  const auto pick = [&](const json& values) {  // one of an object's
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
  int refused = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    program = whole_program;
    weights = whole_weights;
    auto& changed = round % 2 == 0 ? program : weights;
    const auto leaves = changed.flatten();
    const json::json_pointer place(pick(leaves).key());
    changed[place] = random() % 2 == 0 ? *pick(leaves) : *pick(others);
    try {
      write_and_load();
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kRounds / 10);
}

}  // namespace
}  // namespace attend
