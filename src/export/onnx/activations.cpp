#include "export/onnx/functions.h"
#include "export/onnx/rules.h"

#include <cmath>

namespace attend::onnx {
namespace {

void silu(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(call.graph().add("Mul", {self, call.graph().add("Sigmoid", {self})}));
}

void gelu(Call& call) {
  auto& graph = call.graph();
  const auto x = call.tensor("self");
  if (graph.has("Gelu")) {
    const auto approximate = call.has("approximate") ? call.string("approximate") : "none";
    return call.set_output(graph.add("Gelu", {x}, {{"approximate", approximate}}));
  }
  const auto number = [&](double value) { return graph.number(x.type, value); };
  auto inner = x;
  if (call.has("approximate") && call.string("approximate") == "tanh") {
    const auto cube = graph.add("Mul", {graph.add("Mul", {x, x}), x});
    const auto sum = graph.add("Add", {x, graph.add("Mul", {cube, number(0.044715)})});
    inner = graph.add("Tanh", {graph.add("Mul", {sum, number(std::sqrt(2.0 / M_PI))})});
  } else {
    inner = graph.add("Erf", {graph.add("Div", {x, number(M_SQRT2)})});
  }
  const auto half = graph.add("Mul", {x, number(0.5)});
  call.set_output(graph.add("Mul", {half, graph.add("Add", {inner, number(1.0)})}));
}

/// Returns log(1 + exp(x)) as max(0, x) + log(1 + exp(-|x|)), which does not overflow.
Value soft_plus(Call& call, Value x) {
  auto& graph = call.graph();
  const auto small = graph.add("Exp", {graph.add("Neg", {graph.add("Abs", {x})})});
  return graph.add("Add", {graph.add("Relu", {x}), log1p_of_fraction(call, small)});
}

void softplus(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto beta = graph.number(self.type, call.number("beta"));
  const auto times = graph.add("Mul", {self, beta});
  const auto soft = graph.add("Div", {soft_plus(call, times), beta});
  const auto linear = graph.compare("Greater", times, call.operand("threshold", self.type));
  call.set_output(graph.where(linear, self, soft));
}

void log_sigmoid(Call& call) {
  auto& graph = call.graph();
  call.set_output(graph.add("Neg", {soft_plus(call, graph.add("Neg", {call.tensor("self")}))}));
}

void mish(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  call.set_output(graph.add("Mul", {self, graph.add("Tanh", {soft_plus(call, self)})}));
}

void leaky_relu(Call& call) {
  call.set_output(call.graph().add("LeakyRelu", {call.tensor("self")},
                                   {{"alpha", call.real("negative_slope")}}));
}

/// Returns exp(scale * min(x, 0)) - 1.
Value exp_below_zero(Call& call, Value x, const Number& scale) {
  auto& graph = call.graph();
  const auto below = graph.add("Min", {x, graph.number(x.type, 0)});
  const auto scaled = graph.add("Mul", {below, graph.number(x.type, scale)});
  return graph.add("Sub", {graph.add("Exp", {scaled}), graph.number(x.type, 1)});
}

/// Translates elu: scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1)).
void elu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto below = call.times(exp_below_zero(call, self, call.number("input_scale")), "alpha");
  call.set_output(call.times(graph.add("Add", {graph.add("Relu", {self}), below}), "scale"));
}

/// Translates celu: x > 0 ? x : alpha * (exp(x / alpha) - 1).
void celu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto below = call.times(exp_below_zero(call, self, 1.0 / call.real("alpha")), "alpha");
  call.set_output(graph.add("Add", {graph.add("Relu", {self}), below}));
}

void selu(Call& call) {
  call.set_output(call.graph().add("Selu", {call.tensor("self")}));
}

/// Returns clip(x/6 + 1/2, 0, 1).
Value hard_sigmoid(Call& call, Value x) {
  return call.graph().add("HardSigmoid", {x}, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}});
}

void hardsigmoid(Call& call) {
  call.set_output(hard_sigmoid(call, call.tensor("self")));
}

void hardswish(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(call.graph().add("Mul", {self, hard_sigmoid(call, self)}));
}

void relu6(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  call.set_output(graph.add("Min", {graph.add("Relu", {self}), graph.number(self.type, 6)}));
}

void threshold(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto below = graph.compare("LessOrEqual", self, call.operand("threshold", self.type));
  call.set_output(graph.where(below, call.operand("value", self.type), self));
}

/// Translates hardshrink: 0 where -lambd <= x <= lambd, else x.
void hardshrink(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto lambda = call.real("lambd");
  const auto is_small =
      graph.add("And", {graph.compare("GreaterOrEqual", self, graph.number(self.type, -lambda)),
                        graph.compare("LessOrEqual", self, graph.number(self.type, lambda))});
  call.set_output(graph.where(is_small, graph.number(self.type, 0), self));
}

/// Translates softshrink: x + lambd where x < -lambd, x - lambd where x > lambd, else 0 * x, which
/// is NaN for NaN.
void softshrink(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto lambda = graph.number(self.type, call.real("lambd"));
  const auto minus_lambda = graph.number(self.type, -call.real("lambd"));
  auto value = graph.add("Mul", {self, graph.number(self.type, 0)});
  value =
      graph.where(graph.compare("Greater", self, lambda), graph.add("Sub", {self, lambda}), value);
  value = graph.where(graph.compare("Less", self, minus_lambda), graph.add("Add", {self, lambda}),
                      value);
  call.set_output(value);
}

void prelu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  auto weight = call.tensor("weight");
  // The weight has one element, or one element per channel (dimension 1 of `self`).
  const auto& weights = call.sizes("weight").front();
  if (call.rank("self") > 2 && !(is_fixed(weights) && weights.value == 1)) {
    std::vector<int64_t> shape(static_cast<std::size_t>(call.rank("self")) - 1, 1);
    shape.front() = -1;
    weight = graph.add("Reshape", {weight, graph.list(shape)});
  }
  call.set_output(graph.add("PRelu", {self, weight}));
}

/// Translates glu: (first half of `self`) * sigmoid(second half of `self`).
void glu(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto halves =
      graph.add("Split", {self}, {{"axis", call.dimension("dim")}, {"num_outputs", 2}},
                std::vector<Type>{self.type, self.type});
  call.set_output(graph.add("Mul", {halves[0], graph.add("Sigmoid", {halves[1]})}));
}

Rule softmax(const char* kind) {
  return [=](Call& call) {
    const auto self = call.operand("self", call.result_type());
    if (call.rank("self") == 0) call.fail("0-dimensional inputs are not supported");
    call.set_output(call.graph().add(kind, {self}, {{"axis", call.dimension("dim")}}));
  };
}

}  // namespace

void add_activation_rules(Rules& rules) {
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
  rules["hardshrink.default"] = hardshrink;
  rules["softshrink.default"] = softshrink;
  rules["prelu.default"] = prelu;
  rules["glu.default"] = glu;
  rules["softmax.int"] = rules["_softmax.default"] = softmax("Softmax");
  rules["log_softmax.int"] = rules["_log_softmax.default"] = softmax("LogSoftmax");
}

}  // namespace attend::onnx
