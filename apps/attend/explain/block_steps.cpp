#include "explain/block_steps.h"

#include "attend/nn/branch_scale.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/nn/norms.h"
#include "attend/ops/activation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <variant>

namespace attend::app {
namespace {

/// Returns "NAME[TOKEN, NAME1]", the number that a step works out.
std::string first_number(const std::string& name, const TokenSteps& steps) {
  return fmt::format("{0}[{1}, {0}1]", name, steps.token());
}

Projection projection_of(const torch::nn::Linear& linear) {
  return {linear->weight.t(), linear->bias};
}

/// Completes a step that multiplies the vectors `x` by the learned matrix W_SUFFIX: its matrices,
/// and the first number of the followed token worked out.
ExplanationStep linear_step(ExplanationStep step, const TokenMatrix& x,
                            const torch::nn::Linear& linear, const std::string& suffix,
                            const TokenMatrix& result, const TokenSteps& steps) {
  const auto projection = projection_of(linear);
  step.matrices = linear_matrices(x.values, projection, suffix, x.symbol,
                                  steps.by_token(result.symbol, result.values));
  step.calculation =
      fmt::format("{} = {} = {}", first_number(result.symbol, steps),
                  steps.linear(x.values[steps.row()], projection), steps.first(result.values));
  return step;
}

/// Appends the steps of a feed-forward layer.
TokenMatrix add_layer_steps(FeedForwardImpl& layers, const TokenMatrix& x, const std::string& title,
                            TokenSteps& steps) {
  const auto activation = std::get<Activation>(layers.options.activation());
  const auto up = layers.up->forward(x.values);
  const auto hidden = activate(up, activation);
  const auto output = layers.down->forward(hidden);
  const auto name = std::string(to_string(activation));
  const bool gated = is_gated(activation);
  steps.add(linear_step({.title = "Hidden layer",
                         .formula = fmt::format("U = {} W_1{}", x.symbol,
                                                layers.up->bias.defined() ? " + b_1" : ""),
                         .description = "A learned matrix. Each token is processed by itself."},
                        x, layers.up, "1", {"U", up}, steps),
            title);
  const auto width = hidden.size(1);
  const auto function = fmt::format("{}({})", name, steps.first(up));
  steps.add(
      {.title = "Activation",
       .formula = fmt::format("H = {}(U)", name),
       .description =
           gated ? "The numbers of the first half of U, after a function, are multiplied by those "
                   "of the second half."
                 : "A function of each number. Without it, the two matrices of the feed-forward "
                   "layer would be one.",
       .matrices = {steps.by_token("H", hidden,
                                   {.operation = "activation", .operands = {up}, .name = name})},
       .calculation =
           fmt::format("{} = {}{} = {}", first_number("H", steps), function,
                       gated ? " * " + steps.text(up[steps.row()][width].item<double>()) : "",
                       steps.first(hidden))},
      title);
  steps.add(
      linear_step({.title = "Output",
                   .formula = layers.down->bias.defined() ? "F = H W_2 + b_2" : "F = H W_2",
                   .description = "Another learned matrix turns the hidden numbers into a vector "
                                  "of the width of the model."},
                  {"H", hidden}, layers.down, "2", {"F", output}, steps),
      title);
  return {"F", output};
}

/// Appends the steps of a router and its experts.
TokenMatrix add_expert_steps(MixtureOfExpertsImpl& layers, const TokenMatrix& x,
                             const std::string& title, TokenSteps& steps) {
  const auto& options = layers.options.experts();
  const auto num_experts = options.num_experts();
  const auto logits = layers.router->forward(x.values);  // (T, N)
  steps.add(
      linear_step({.title = "Router",
                   .formula = fmt::format("L = {} W_R", x.symbol),
                   .description = "A learned matrix gives each token a score for each expert, "
                                  "which is a feed-forward layer."},
                  x, layers.router, "R", {"L", logits}, steps),
      title);
  const auto chosen = std::get<1>(logits.topk(options.num_experts_per_tok(), -1));
  const auto routed = torch::zeros_like(logits, torch::kBool).scatter(-1, chosen, true);  // (T, N)
  const bool among_chosen = options.norm_topk_prob();
  const auto scores = among_chosen ? logits.masked_fill(routed.logical_not(), -INFINITY) : logits;
  const auto shares = scores.softmax(-1);
  const auto factors = shares.masked_fill(routed.logical_not(), 0.0);
  std::vector<LabelledMatrix> matrices;
  if (among_chosen) {
    matrices = {steps.by_token("L", scores, {"mask", {logits}}),
                steps.by_token("G", factors, {"softmax", {scores}})};
  } else {
    matrices = {steps.by_token("G", shares, {"softmax", {logits}}),
                steps.by_token("G", factors, {"mask", {shares}})};
  }
  steps.add({.title = "Chosen experts",
             .formula = among_chosen ? "G = softmax(L), L = -inf where not chosen"
                                     : "G = softmax(L), then 0 where not chosen",
             .description = fmt::format("Each token chooses the {} of {} experts with the highest "
                                        "scores. G contains their shares in the result.",
                                        options.num_experts_per_tok(), num_experts),
             .matrices = std::move(matrices)},
            title);
  Origin origin{"mixture", {factors}};
  auto output = torch::zeros_like(x.values);
  std::vector<std::string> terms;
  for (int64_t i = 0; i < num_experts; ++i) {
    auto& result = origin.operands.emplace_back();
    if (!routed.select(1, i).any().item<bool>()) continue;  // no token chooses it
    auto& expert = *layers.experts->ptr(static_cast<std::size_t>(i))->as<FeedForward>();
    result = add_layer_steps(expert, x, fmt::format("{}, expert {}", title, i + 1), steps).values;
    const auto factor = factors.select(1, i);  // (T)
    output = output + factor.unsqueeze(1) * result;
    if (routed[steps.row()][i].item<bool>()) {
      terms.push_back(fmt::format("{} * {}", steps.text(factor[steps.row()].item<double>()),
                                  steps.first(result)));
    }
  }
  steps.add({.title = "Experts",
             .formula = "F = sum over the chosen experts e of G[i, e] * F of expert e",
             .description = "The outputs of the experts that a token chooses are added up, each "
                            "multiplied by its share. Those of the other experts are not used.",
             .matrices = {steps.by_token("F", output, std::move(origin))},
             .calculation = fmt::format("{} = {} = {}", first_number("F", steps),
                                        fmt::join(terms, " + "), steps.first(output))},
            title);
  return {"F", output};
}

/// Adds the steps of the branches of a block.
class BlockSteps {
 public:
  BlockSteps(const torch::nn::Module& block, TokenSteps& steps)
      : modules_(block.named_children()), steps_(steps) {}

  /// Returns the term that the branch adds to `x`.
  TokenMatrix term(const ResidualBranch& branch, bool norm_before, const TokenMatrix& x) {
    auto y = branch.function(norm_before ? norm(branch, "", x) : x);
    if (modules_.contains("norm" + branch.name + "_out")) y = norm(branch, "_out", y);
    if (auto* module = modules_.find("scale" + branch.name)) y = scale(branch, **module, y);
    return y;
  }

  TokenMatrix norm(const ResidualBranch& branch, const std::string& suffix, const TokenMatrix& x) {
    return add_norm_step(*modules_["norm" + branch.name + suffix], x, suffix.empty() ? "N" : "N'",
                         branch.title, steps_);
  }

  /// Returns the sum of the input of a branch and its terms.
  TokenMatrix sum(const std::string& title, const std::string& symbol, const TokenMatrix& x,
                  const std::vector<TokenMatrix>& terms) {
    auto result = x.values;
    std::vector<std::string> symbols{x.symbol};
    std::vector<std::string> numbers{steps_.first(x.values)};
    Origin origin{"sum", {x.values}};
    for (const auto& term : terms) {
      result = result + term.values;
      symbols.push_back(term.symbol);
      numbers.push_back(steps_.first(term.values));
      origin.operands.push_back(term.values);
    }
    const auto change = (result - x.values)[steps_.row()].norm() / x.values[steps_.row()].norm();
    steps_.add(
        {.title = "Residual connection",
         .formula = fmt::format("{} = {}", symbol, fmt::join(symbols, " + ")),
         .description = "The result is added to the vector that went in, which is therefore not "
                        "lost.",
         .matrices = {steps_.by_token(symbol, result, std::move(origin))},
         .calculation = fmt::format("{} = {} = {}", first_number(symbol, steps_),
                                    fmt::join(numbers, " + "), steps_.first(result)),
         .conclusion = fmt::format("The vector of '{}' changed by {:.0f}% of its length.",
                                   steps_.token(), change.item<double>() * 100)},
        title);
    return {symbol, result};
  }

 private:
  TokenMatrix scale(const ResidualBranch& branch, torch::nn::Module& module, const TokenMatrix& x) {
    auto* constant = module.as<ConstantScale>();
    const auto y = constant != nullptr                  ? constant->forward(x.values)
                   : module.as<LayerScale>() != nullptr ? module.as<LayerScale>()->forward(x.values)
                                                        : module.as<ReZero>()->forward(x.values);
    const auto factors = row_matrix("c",
                                    constant != nullptr ? torch::tensor({constant->factor})
                                                        : module.parameters().front().flatten(),
                                    "c");
    steps_.add(
        {.title = "Scale",
         .formula = fmt::format("Z = c {}", x.symbol),
         .description = constant != nullptr ? "The result is multiplied by a constant c."
                                            : "The result is multiplied by a learned factor c.",
         .matrices = {factors, steps_.by_token("Z", y, {"product", {x.values, factors.values}})},
         .calculation = fmt::format("{} = {} * {} = {}", first_number("Z", steps_),
                                    steps_.text(factors.values[0][0].item<double>()),
                                    steps_.first(x.values), steps_.first(y))},
        branch.title);
    return {"Z", y};
  }

  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> modules_;
  TokenSteps& steps_;
};

}  // namespace

TokenMatrix add_block_steps(const torch::nn::Module& block, NormOrder order,
                            const std::vector<ResidualBranch>& branches, TokenMatrix x,
                            TokenSteps& steps) {
  BlockSteps adder(block, steps);
  const bool parallel = order == NormOrder::parallel;
  if (parallel || order == NormOrder::parallel_separate_norms) {
    const auto shared = parallel ? adder.norm(branches.front(), "", x) : x;
    std::vector<TokenMatrix> terms;
    for (const auto& branch : branches) {
      // With one norm, the scale of the only branch is applied to each of its terms.
      auto term = branch;
      if (parallel) term.name = branches.front().name;
      terms.push_back(adder.term(term, !parallel, shared));
    }
    return adder.sum("block", branches.back().sum, x, terms);
  }
  for (const auto& branch : branches) {
    const bool post = order == NormOrder::post;
    x = adder.sum(branch.title, branch.sum, x, {adder.term(branch, !post, x)});
    if (post) x = adder.norm(branch, "", x);
  }
  return x;
}

TokenMatrix add_joined_heads_steps(const std::vector<torch::Tensor>& heads,
                                   const torch::nn::Linear& out, const std::string& title,
                                   TokenSteps& steps) {
  const auto joined = torch::cat(heads, 1);  // (T, H * D)
  steps.add({.title = "Heads joined",
             .formula = fmt::format(
                 "Y = [{}]", fmt::join(numbered("Y", static_cast<int64_t>(heads.size())), " ")),
             .description = "The outputs of the heads are placed side by side.",
             .matrices = {steps.by_token("Y", joined, {"columns", heads})},
             .conclusion = "Each head has its own weights, so it can attend to other tokens for "
                           "another reason."},
            title);
  const auto output = torch::linear(joined, out->weight, out->bias);
  steps.add(linear_step({.title = "Output projection",
                         .formula = out->bias.defined() ? "O = Y W_O + b_O" : "O = Y W_O",
                         .description = "A learned matrix mixes the heads."},
                        {"Y", joined}, out, "O", {"O", output}, steps),
            title);
  return {"O", output};
}

TokenMatrix add_feed_forward_steps(torch::nn::AnyModule& feed_forward, const TokenMatrix& x,
                                   const std::string& title, TokenSteps& steps) {
  const auto module = feed_forward.ptr();
  if (auto* experts = module->as<MixtureOfExperts>())
    return add_expert_steps(*experts, x, title, steps);
  return add_layer_steps(*module->as<FeedForward>(), x, title, steps);
}

TokenMatrix add_norm_step(torch::nn::Module& norm, const TokenMatrix& x, const std::string& symbol,
                          const std::string& title, TokenSteps& steps, std::string column) {
  if (column.empty()) column = symbol;
  const auto row = x.values[steps.row()];
  const auto first = steps.text(row[0].item<double>());
  ExplanationStep step{.title = "Norm"};
  torch::Tensor result;
  Origin origin{.operands = {x.values}};
  const auto add_weight = [&](const std::string& name, const torch::Tensor& weight) {
    step.matrices.push_back(row_matrix(name, weight, column));
    origin.operands.push_back(step.matrices.back().values);
  };
  if (auto* layer = norm.as<LayerNorm>()) {
    result = layer->forward(x.values);
    const auto bias = layer->bias;
    const auto mean = row.mean().item<double>();
    origin.operation = "layer_norm";
    origin.number = layer->options.eps();
    add_weight("w", layer->weight);
    if (bias.defined()) add_weight("b", bias);
    step.formula = fmt::format("{} = ({} - mean) / sqrt(variance + {}) * w{}", symbol, x.symbol,
                               layer->options.eps(), bias.defined() ? " + b" : "");
    step.description =
        "Each vector is shifted and scaled to mean 0 and variance 1, then multiplied by learned "
        "factors.";
    step.calculation =
        fmt::format("({} - {}) / sqrt({} + {}) * {}{}", first, steps.text(mean),
                    steps.text(row.var(false).item<double>()), layer->options.eps(),
                    steps.text(layer->weight[0].item<double>()),
                    bias.defined() ? " + " + steps.text(bias[0].item<double>()) : "");
  } else if (auto* rms = norm.as<RMSNorm>()) {
    result = rms->forward(x.values);
    origin.operation = "rms_norm";
    origin.number = rms->options.eps();
    add_weight("w", rms->weight);
    step.formula = fmt::format("{0} = {1} / sqrt(mean of {1}^2) * w", symbol, x.symbol);
    step.description =
        "Each vector is scaled, so that the mean of its squares is 1, then multiplied by learned "
        "factors.";
    step.calculation =
        fmt::format("{} / sqrt({}) * {}", first, steps.text(row.square().mean().item<double>()),
                    steps.text(rms->weight[0].item<double>()));
  } else {
    auto* l2 = norm.as<L2Norm>();
    if (l2 == nullptr) throw std::logic_error("expected a LayerNorm, RMSNorm or L2Norm");
    result = l2->forward(x.values);
    origin.operation = "l2_norm";
    add_weight("w", l2->scale.flatten());
    step.formula = fmt::format("{0} = {1} / sqrt(sum of {1}^2) * w", symbol, x.symbol);
    step.description =
        "Each vector is scaled to the length 1, then multiplied by a learned factor.";
    step.calculation =
        fmt::format("{} / sqrt({}) * {}", first, steps.text(row.square().sum().item<double>()),
                    steps.text(l2->scale.item<double>()));
  }
  step.calculation = fmt::format("{}[{}, {}1] = {} = {}", symbol, steps.token(), column,
                                 step.calculation, steps.first(result));
  step.matrices.push_back(steps.by_token(symbol, result, std::move(origin), column));
  steps.add(std::move(step), title);
  return {symbol, result};
}

}  // namespace attend::app
