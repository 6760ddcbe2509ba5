#include "export/onnx/rules.h"

#include <cmath>

namespace attend::onnx {
namespace {

/// Of each element, as the type of the result.
Rule of_each(const char* kind, const Attributes& attributes = {}) {
  return [=](Call& call) {
    call.give(call.graph().add(kind, {call.operand("self", call.result_type())}, attributes));
  };
}

/// For what runtimes compute in float32 alone.
Value in_float(Call& call, const char* kind, Value x) {
  auto& graph = call.graph();
  const auto result = graph.add(kind, {graph.cast(x, Type::float32)});
  return graph.cast(result, x.type);
}

Rule of_each_in_float(const char* kind) {
  return [=](Call& call) {
    call.give(in_float(call, kind, call.operand("self", call.result_type())));
  };
}

/// That whole numbers are already.
Rule rounded(const char* kind) {
  return [=](Call& call) {
    const auto self = call.tensor("self");
    call.give(is_real(self.type) ? call.graph().add(kind, {self}) : self);
  };
}

void round(Call& call) {
  const auto self = call.tensor("self");
  if (call.has("decimals") && call.integer("decimals") != 0) call.refuse("it rounds to decimals");
  call.give(is_real(self.type) ? call.graph().add("Round", {self}) : self);
}

void rsqrt(Call& call) {
  auto& graph = call.graph();
  const auto root = graph.add("Sqrt", {call.operand("self", call.result_type())});
  call.give(graph.add("Reciprocal", {root}));
}

void square(Call& call) {
  const auto self = call.operand("self", call.result_type());
  call.give(call.graph().add("Mul", {self, self}));
}

/// The logarithm to the base whose natural one is given.
Rule logarithm(double base) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto natural = graph.add("Log", {call.operand("self", call.result_type())});
    call.give(graph.add("Div", {natural, graph.number(natural.type, base)}));
  };
}

void log1p(Call& call) {
  auto& graph = call.graph();
  const auto self = call.operand("self", call.result_type());
  call.give(graph.add("Log", {graph.add("Add", {self, graph.number(self.type, 1)})}));
}

void exp2(Call& call) {
  auto& graph = call.graph();
  const auto self = call.operand("self", call.result_type());
  call.give(graph.add("Pow", {graph.number(self.type, 2), self}));
}

void expm1(Call& call) {
  auto& graph = call.graph();
  const auto power = graph.add("Exp", {call.operand("self", call.result_type())});
  call.give(graph.add("Sub", {power, graph.number(power.type, 1)}));
}

void erfc(Call& call) {
  auto& graph = call.graph();
  const auto self = call.operand("self", call.result_type());
  call.give(graph.add("Sub", {graph.number(self.type, 1), in_float(call, "Erf", self)}));
}

/// log(x / (1 - x))
void logit(Call& call) {
  auto& graph = call.graph();
  auto x = call.operand("self", call.result_type());
  const auto one = graph.number(x.type, 1.0);
  if (call.has("eps")) {
    x = graph.add("Max", {x, graph.number(x.type, call.real("eps"))});
    x = graph.add("Min", {x, graph.number(x.type, 1.0 - call.real("eps"))});
  }
  call.give(graph.add("Log", {graph.add("Div", {x, graph.add("Sub", {one, x})})}));
}

void silu(Call& call) {
  const auto self = call.tensor("self");
  call.give(call.graph().add("Mul", {self, call.graph().add("Sigmoid", {self})}));
}

void gelu(Call& call) {
  auto& graph = call.graph();
  const auto x = call.tensor("self");
  const auto number = [&](double value) { return graph.number(x.type, value); };
  auto inner = x;
  if (call.has("approximate") && call.text("approximate") == "tanh") {
    const auto cube = graph.add("Mul", {graph.add("Mul", {x, x}), x});
    const auto sum = graph.add("Add", {x, graph.add("Mul", {cube, number(0.044715)})});
    inner = graph.add("Tanh", {graph.add("Mul", {sum, number(std::sqrt(2.0 / M_PI))})});
  } else {
    inner = in_float(call, "Erf", graph.add("Div", {x, number(M_SQRT2)}));
  }
  const auto half = graph.add("Mul", {x, number(0.5)});
  call.give(graph.add("Mul", {half, graph.add("Add", {inner, number(1.0)})}));
}

/// max(0, x) + log(1 + exp(-|x|)), which does not overflow.
Value soft_plus(Call& call, Value x) {
  auto& graph = call.graph();
  const auto small = graph.add("Exp", {graph.add("Neg", {graph.add("Abs", {x})})});
  const auto rest = graph.add("Log", {graph.add("Add", {small, graph.number(x.type, 1)})});
  return graph.add("Add", {graph.add("Relu", {x}), rest});
}

void softplus(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto beta = graph.number(self.type, call.number("beta"));
  const auto times = graph.add("Mul", {self, beta});
  const auto soft = graph.add("Div", {soft_plus(call, times), beta});
  const auto linear =
      graph.add("Greater", {times, call.operand("threshold", self.type)}, {}, Type::boolean);
  call.give(graph.add("Where", {linear, self, soft}, {}, self.type));
}

void log_sigmoid(Call& call) {
  auto& graph = call.graph();
  call.give(graph.add("Neg", {soft_plus(call, graph.add("Neg", {call.tensor("self")}))}));
}

void mish(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  call.give(graph.add("Mul", {self, graph.add("Tanh", {soft_plus(call, self)})}));
}

void leaky_relu(Call& call) {
  call.give(call.graph().add("LeakyRelu", {call.tensor("self")},
                             {{"alpha", call.real("negative_slope")}}));
}

/// exp(scale * x) - 1 of what is below zero, else 0.
Value exp_below_zero(Call& call, Value x, const Number& scale) {
  auto& graph = call.graph();
  const auto below = graph.add("Min", {x, graph.number(x.type, 0)});
  const auto scaled = graph.add("Mul", {below, graph.number(x.type, scale)});
  return graph.add("Sub", {graph.add("Exp", {scaled}), graph.number(x.type, 1)});
}

/// scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))
void elu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto below = call.times(exp_below_zero(call, self, call.number("input_scale")), "alpha");
  call.give(call.times(graph.add("Add", {graph.add("Relu", {self}), below}), "scale"));
}

/// x > 0 ? x : alpha * (exp(x / alpha) - 1)
void celu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto below = call.times(exp_below_zero(call, self, 1.0 / call.real("alpha")), "alpha");
  call.give(graph.add("Add", {graph.add("Relu", {self}), below}));
}

void selu(Call& call) {
  call.give(call.graph().add("Selu", {call.tensor("self")}));
}

/// clip(x/6 + 1/2, 0, 1)
Value hard_sigmoid(Call& call, Value x) {
  return call.graph().add("HardSigmoid", {x}, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}});
}

void hardsigmoid(Call& call) {
  call.give(hard_sigmoid(call, call.tensor("self")));
}

void hardswish(Call& call) {
  const auto self = call.tensor("self");
  call.give(call.graph().add("Mul", {self, hard_sigmoid(call, self)}));
}

void relu6(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  call.give(graph.add("Min", {graph.add("Relu", {self}), graph.number(self.type, 6)}));
}

void threshold(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto above =
      graph.add("Greater", {self, call.operand("threshold", self.type)}, {}, Type::boolean);
  call.give(graph.add("Where", {above, self, call.operand("value", self.type)}, {}, self.type));
}

void prelu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  auto weight = call.tensor("weight");
  // One for each channel, which is dimension 1.
  if (call.rank("self") > 2 && call.sizes("weight").front().value > 1) {
    std::vector<int64_t> shape(static_cast<std::size_t>(call.rank("self")) - 1, 1);
    shape.front() = -1;
    weight = graph.add("Reshape", {weight, graph.list(shape)});
  }
  call.give(graph.add("PRelu", {self, weight}));
}

/// The first half times the sigmoid of the second.
void glu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto halves =
      graph.add("Split", {self}, {{"axis", call.dimension("dim")}, {"num_outputs", 2}},
                std::vector<Type>{self.type, self.type});
  call.give(graph.add("Mul", {halves[0], graph.add("Sigmoid", {halves[1]})}));
}

Rule softmax(const char* kind) {
  return [=](Call& call) {
    const auto self = call.operand("self", call.result_type());
    if (call.rank("self") == 0) call.refuse("its input has no dimension");
    call.give(call.graph().add(kind, {self}, {{"axis", call.dimension("dim")}}));
  };
}

}  // namespace

void add_function_rules(Rules& rules) {
  const std::map<std::string, const char*> plain{
      {"exp", "Exp"}, {"log", "Log"},         {"sqrt", "Sqrt"},
      {"sin", "Sin"}, {"cos", "Cos"},         {"tanh", "Tanh"},
      {"neg", "Neg"}, {"sigmoid", "Sigmoid"}, {"reciprocal", "Reciprocal"},
      {"abs", "Abs"}, {"sign", "Sign"},       {"relu", "Relu"}};
  for (const auto& [name, kind] : plain) rules[name + ".default"] = of_each(kind);
  const std::map<std::string, const char*> in_float32{
      {"erf", "Erf"},     {"tan", "Tan"},    {"asin", "Asin"}, {"acos", "Acos"},
      {"atan", "Atan"},   {"sinh", "Sinh"},  {"cosh", "Cosh"}, {"asinh", "Asinh"},
      {"acosh", "Acosh"}, {"atanh", "Atanh"}};
  for (const auto& [name, kind] : in_float32) rules[name + ".default"] = of_each_in_float(kind);
  rules["floor.default"] = rounded("Floor");
  rules["ceil.default"] = rounded("Ceil");
  rules["round.default"] = rules["round.decimals"] = round;
  rules["rsqrt.default"] = rsqrt;
  rules["square.default"] = square;
  rules["log2.default"] = logarithm(M_LN2);
  rules["log10.default"] = logarithm(M_LN10);
  rules["log1p.default"] = log1p;
  rules["exp2.default"] = exp2;
  rules["expm1.default"] = expm1;
  rules["erfc.default"] = erfc;
  rules["logit.default"] = logit;
  rules["silu.default"] = silu;
  rules["gelu.default"] = gelu;
  rules["softplus.default"] = softplus;
  rules["log_sigmoid.default"] = log_sigmoid;
  rules["mish.default"] = mish;
  rules["leaky_relu.default"] = leaky_relu;
  rules["elu.default"] = elu;
  rules["celu.default"] = celu;
  rules["selu.default"] = selu;
  rules["hardsigmoid.default"] = hardsigmoid;
  rules["hardswish.default"] = hardswish;
  rules["relu6.default"] = relu6;
  rules["threshold.default"] = threshold;
  rules["prelu.default"] = prelu;
  rules["glu.default"] = glu;
  rules["softmax.int"] = rules["_softmax.default"] = softmax("Softmax");
  rules["log_softmax.int"] = rules["_log_softmax.default"] = softmax("LogSoftmax");
}

}  // namespace attend::onnx
