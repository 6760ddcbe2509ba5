#include "export/program/clamped_slices.h"

#include <gmock/gmock.h>

#include <limits>

namespace attend::program {
namespace {

using testing::ElementsAre;

const Size kLength{3, Expression::symbol("s0")};

/// Returns a program that slices a 1-D tensor x. The size of x is the symbol s0, which has the
/// range 2 to 100 and the size hint 3. `sliced`: size of the result y.
ExportedProgram slice_program(int64_t start, int64_t end, const Size& sliced) {
  ExportedProgram program;
  program.inputs = {{.kind = InputKind::user, .name = "x", .target = {}}};
  program.nodes = {{.target = "torch.ops.aten.slice.Tensor",
                    .inputs = {{"self", TensorName{"x"}},
                               {"dim", int64_t{-1}},
                               {"start", start},
                               {"end", end},
                               {"step", int64_t{1}}},
                    .outputs = {TensorName{"y"}}}};
  program.tensors["x"].sizes = {kLength};
  program.tensors["y"].sizes = {sliced};
  program.ranges["s0"] = {.min = 2, .max = 100};
  return program;
}

std::vector<std::string> targets_of(const ExportedProgram& program) {
  std::vector<std::string> targets;
  for (const auto& node : program.nodes) targets.push_back(node.target);
  return targets;
}

constexpr auto kEnd = std::numeric_limits<int64_t>::max();

TEST(ClampSlices, ReplacesAnEndBeyondTheSize) {
  auto program = slice_program(0, 12, min(kLength, Size{12}));
  clamp_slices(program);
  EXPECT_THAT(targets_of(program), ElementsAre("torch.ops.aten.sym_size.int", "torch.sym_min",
                                               "torch.ops.aten.slice.Tensor"));
  const auto& end = std::get<SymbolName>(program.nodes.back().inputs[3].value);
  EXPECT_EQ(program.sym_ints.at(end.name).expression, program.tensors["y"].sizes[0].expression);
}

TEST(ClampSlices, ReplacesABeginBeforeTheFirstElement) {
  auto program = slice_program(-12, kEnd, min(kLength, Size{12}));
  clamp_slices(program);
  EXPECT_THAT(targets_of(program), ElementsAre("torch.ops.aten.sym_size.int", "_operator.add",
                                               "torch.sym_max", "torch.ops.aten.slice.Tensor"));
  const auto& start = std::get<SymbolName>(program.nodes.back().inputs[2].value);
  EXPECT_EQ(text_of(program.sym_ints.at(start.name)), "max(-12 + s0, 0)");
}

TEST(ClampSlices, OrdersAStartAndAnEndThatMayCross) {
  for (const auto& [start, end] : std::vector<std::pair<int64_t, int64_t>>{{2, -1}, {-2, 2}}) {
    auto program = slice_program(start, end, kLength);  // the size is 2 to 100
    clamp_slices(program);
    const auto& last = std::get<SymbolName>(program.nodes.back().inputs[3].value);
    EXPECT_TRUE(program.sym_ints.at(last.name).expression.is(Expression::Kind::max)) << start;
  }
}

TEST(ClampSlices, KeepsNumbersThatAreAlwaysWithinTheSize) {
  for (const auto& [start, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, kEnd}, {2, kEnd}, {-2, kEnd}, {0, -1}}) {
    auto program = slice_program(start, end, kLength);
    clamp_slices(program);
    EXPECT_EQ(program.nodes.size(), 1) << start << " " << end;
  }
}

TEST(SetHints, ChoosesSizesAtWhichASliceIsNotTheWholeDimension) {
  auto program = slice_program(0, 12, min(kLength, Size{12}));
  clamp_slices(program);
  set_hints(program);
  EXPECT_EQ(program.tensors["x"].sizes[0].value, 24);  // with size 3, 6 or 12, y is all of x
  EXPECT_EQ(program.tensors["y"].sizes[0].value, 12);
}

TEST(SetHints, DoublesOneDimensionIfAllTogetherBecomeTooLarge) {
  const Size batch{3, Expression::symbol("s1")};
  auto program = slice_program(0, 12, min(kLength, Size{12}));
  program.tensors["w"].sizes = {kLength, batch, {int64_t{1} << 24}};
  program.inputs.push_back({.kind = InputKind::user, .name = "w", .target = {}});
  program.ranges["s1"] = {.min = 2, .max = 100};
  clamp_slices(program);
  set_hints(program);
  EXPECT_EQ(program.tensors["w"].sizes[1].value, 3);
  EXPECT_EQ(program.tensors["x"].sizes[0].value, 24);
}

TEST(SetHints, HalvesSizesIfASliceIsEmptyAtLargeSizes) {
  auto program = slice_program(-20, 20, max(Size{40} - kLength, Size{0}));
  program.tensors["x"].sizes[0].value = 80;
  set_hints(program);
  EXPECT_EQ(program.tensors["x"].sizes[0].value, 20);
}

TEST(SetHints, KeepsTheExampleWhereNoSizesAreBetter) {
  auto program = slice_program(2, 3, min(max(kLength + Size{-2}, Size{0}), Size{1}));
  set_hints(program);
  EXPECT_EQ(program.tensors["x"].sizes[0].value, 3);
}

}  // namespace
}  // namespace attend::program
