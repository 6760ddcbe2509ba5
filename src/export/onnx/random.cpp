#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

namespace attend::onnx {
namespace {

/// Returns a tensor of random numbers with the shape of the output. `op_type` is RandomUniformLike
/// or RandomNormalLike. `type` must be float32 or float64, since onnxruntime generates only these
/// types.
Value random_numbers(Call& call, const char* op_type, Type type) {
  auto& graph = call.graph();
  auto like = graph.number(Type::float32, 0);
  if (call.result_rank() > 0) {
    const auto shape = call.has("self")    ? graph.shape_of(call.tensor("self"))
                       : call.has("input") ? graph.shape_of(call.tensor("input"))
                                           : call.shape(call.result_sizes());
    like = graph.add("Expand", {like, shape});
  }
  return graph.add(op_type, {like}, {{"dtype", static_cast<int64_t>(type)}}, type);
}

Type wide_type(Type type) {
  return type == Type::float64 ? type : Type::float32;
}

/// Returns uniformly distributed numbers in [0, 1) that `type` represents exactly.
Value uniform(Call& call, Type type) {
  auto& graph = call.graph();
  const auto numbers = random_numbers(call, "RandomUniformLike", wide_type(type));
  if (type != Type::float16 && type != Type::bfloat16) return numbers;
  // A cast from float32 to `type` could round a number up to 1. Therefore, as in LibTorch, the
  // numbers have only as many random bits as the type can represent.
  const auto steps = graph.number(Type::float32, type == Type::float16 ? 2048 : 256);
  return graph.add("Div", {graph.add("Floor", {graph.add("Mul", {numbers, steps})}), steps});
}

/// Returns low + (high - low) * numbers.
Value scaled(Call& call, Value numbers, const Number& low, const Number& high) {
  auto& graph = call.graph();
  const auto range = graph.number(numbers.type, high.real - low.real);
  const auto product = graph.add("Mul", {numbers, range});
  return graph.add("Add", {product, graph.number(numbers.type, low.real)});
}

void rand(Call& call) {
  call.set_output(uniform(call, call.result_type()));
}

void randn(Call& call) {
  call.set_output(random_numbers(call, "RandomNormalLike", wide_type(call.result_type())));
}

void uniform_between(Call& call) {
  const auto numbers = uniform(call, call.result_type());
  call.set_output(scaled(call, numbers, call.number("from"), call.number("to")));
}

/// Translates normal and normal_, which return normally distributed numbers. The arguments `mean`
/// and `std` are numbers or tensors.
void normal(Call& call) {
  auto& graph = call.graph();
  const auto type = wide_type(call.result_type());
  const auto numbers = random_numbers(call, "RandomNormalLike", type);
  const auto product = graph.add("Mul", {numbers, call.operand("std", type)});
  call.set_output(graph.add("Add", {product, call.operand("mean", type)}));
}

/// Translates operators that return random integers in [low, high). If the call has no argument
/// `low`, the lower bound is 0.
void randint(Call& call) {
  const auto low = call.has("low") ? call.number("low") : Number(0);
  const auto numbers = random_numbers(call, "RandomUniformLike", Type::float64);
  const auto range = scaled(call, numbers, low, call.number("high"));
  call.set_output(call.graph().add("Floor", {range}));
}

/// Returns the translation rule of bernoulli. `probability` is the name of the argument that
/// contains the probabilities: a tensor, or one number for all elements. Each element of the result
/// is 1 with its probability, and 0 otherwise.
Rule bernoulli(const char* probability) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto numbers = random_numbers(call, "RandomUniformLike", Type::float32);
    call.set_output(graph.compare("Less", numbers, call.operand(probability, Type::float32)));
  };
}

/// Translates multinomial with LibTorch's method: the indices of the largest quotients of
/// probabilities and exponentially distributed numbers. With replacement, each sample has its own
/// random numbers.
void multinomial(Call& call) {
  auto& graph = call.graph();
  const auto count = call.integer("num_samples");
  const bool separates = call.boolean("replacement") && count > 1;
  auto weights = call.operand("self", Type::float32);  // (..., C)
  const auto rank = call.rank("self");
  if (separates) {
    weights = unsqueeze(call, weights, {rank - 1});  // (..., 1, C)
    auto repeats = std::vector<int64_t>(static_cast<std::size_t>(rank) + 1, 1);
    repeats.at(static_cast<std::size_t>(rank) - 1) = count;
    weights = graph.add("Expand", {weights, graph.list(repeats)});  // (..., S, C)
  }
  const auto uniform = graph.add("RandomUniformLike", {weights}, {{"dtype", 1}}, Type::float32);
  const auto exponential = graph.add("Neg", {graph.add("Log", {uniform})});
  // A random number of 1 has the logarithm 0, by which a weight of 0 must not be divided.
  const auto smallest = graph.number(Type::float32, 1e-30);
  const auto scores = graph.add("Div", {weights, graph.add("Max", {exponential, smallest})});
  const auto top = graph.add("TopK", {scores, graph.list({separates ? 1 : count})}, {{"axis", -1}},
                             std::vector<Type>{Type::float32, Type::int64});
  call.set_output(separates ? squeeze(call, top[1], {rank}) : top[1]);
}

/// Translates dropout in training mode. Calls of dropout in eval mode do not occur, since
/// `add_traced_method` removes them from the traced graph.
void dropout(Call& call) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto p = call.real("p");
  const auto input = call.operand(call.has("input") ? "input" : "self", type);
  const auto numbers = random_numbers(call, "RandomUniformLike", Type::float32);
  const auto kept = graph.compare("Less", numbers, graph.number(Type::float32, 1.0 - p));
  const auto scale = graph.number(type, p == 1.0 ? 0.0 : 1.0 / (1.0 - p));
  call.set_output(graph.add("Mul", {input, graph.where(kept, scale, graph.number(type, 0))}));
}

}  // namespace

void add_random_rules(Rules& rules) {
  rules["rand.default"] = rules["rand_like.default"] = rand;
  rules["randn.default"] = rules["randn_like.default"] = randn;
  rules["uniform_.default"] = uniform_between;
  rules["normal_.default"] = rules["normal.float_float"] = normal;
  rules["normal.Tensor_float"] = rules["normal.float_Tensor"] = normal;
  rules["normal.Tensor_Tensor"] = normal;
  rules["randint.default"] = rules["randint.low"] = randint;
  rules["randint_like.default"] = rules["randint_like.low_dtype"] = randint;
  rules["bernoulli.default"] = bernoulli("self");
  rules["bernoulli.p"] = rules["bernoulli_.float"] = bernoulli("p");
  rules["bernoulli.Tensor"] = bernoulli("p");
  rules["multinomial.default"] = multinomial;
  rules["dropout.default"] = dropout;
}

}  // namespace attend::onnx
