#include "flag_synonyms.h"

#include "help_formatter.h"
#include "nearest_name.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace attend::app {
namespace {

/// Names of options in nanoGPT, litgpt, Hugging Face transformers and Keras, and the flags with the
/// same meaning. A name with several flags is listed once for each subcommand that has one.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[]{
    {"adam-beta1", "--beta1"},
    {"adam-beta2", "--beta2"},
    {"batch", "--batch-size"},
    {"beam-size", "--num-beams"},
    {"beams", "--num-beams"},
    {"bf16", "--precision"},
    {"block-size", "--max-seq-len"},
    {"bsz", "--batch-size"},
    {"checkpoint-dir", "--init-from"},
    {"context", "--max-seq-len"},
    {"context-length", "--max-seq-len"},
    {"context-size", "--max-seq-len"},
    {"ctx", "--max-seq-len"},
    {"d-ff", "--dim-feedforward"},
    {"d-model", "--embed-dim"},
    {"data", "--text"},
    {"dataset", "--text"},
    {"decay-steps", "--max-steps"},
    {"depth", "--num-layers"},
    {"dim", "--embed-dim"},
    {"dtype", "--precision"},
    {"epoch", "--epochs"},
    {"eval-interval", "--eval-every"},
    {"eval-iters", "--eval-batches"},
    {"eval-steps", "--eval-every"},
    {"ffn-dim", "--dim-feedforward"},
    {"fp16", "--precision"},
    {"grad-accum", "--gradient-accumulation-steps"},
    {"grad-clip", "--max-grad-norm"},
    {"gpu", "--device"},
    {"heads", "--num-heads"},
    {"hidden-dim", "--embed-dim"},
    {"hidden-size", "--embed-dim"},
    {"input", "--text"},
    {"intermediate-size", "--dim-feedforward"},
    {"iterations", "--max-steps"},
    {"iters", "--max-steps"},
    {"label-smoothing-factor", "--label-smoothing"},
    {"layers", "--num-layers"},
    {"learning-rate", "--lr"},
    {"log-interval", "--log-every"},
    {"logging-steps", "--log-every"},
    {"lr-decay-iters", "--max-steps"},
    {"lr-scheduler-type", "--schedule"},
    {"lr-warmup-steps", "--warmup-steps"},
    {"max-epochs", "--epochs"},
    {"max-iters", "--max-steps"},
    {"max-length", "--max-new-tokens"},
    {"max-length", "--max-seq-len"},
    {"max-position-embeddings", "--max-seq-len"},
    {"max-seq-length", "--max-seq-len"},
    {"max-tokens", "--max-new-tokens"},
    {"micro-batch-size", "--batch-size"},
    {"model-name-or-path", "--init-from"},
    {"n-ctx", "--max-seq-len"},
    {"n-embd", "--embed-dim"},
    {"n-epochs", "--epochs"},
    {"n-head", "--num-heads"},
    {"n-kv-heads", "--num-kv-heads"},
    {"n-layer", "--num-layers"},
    {"n-layers", "--num-layers"},
    {"n-query-groups", "--num-kv-heads"},
    {"n-samples", "--num-samples"},
    {"num-attention-heads", "--num-heads"},
    {"num-epochs", "--epochs"},
    {"num-hidden-layers", "--num-layers"},
    {"num-key-value-heads", "--num-kv-heads"},
    {"num-return-sequences", "--num-samples"},
    {"num-threads", "--threads"},
    {"num-train-epochs", "--epochs"},
    {"optim", "--optimizer"},
    {"out-dir", "--out"},
    {"output", "--out"},
    {"output-dir", "--out"},
    {"overwrite-output-dir", "--overwrite"},
    {"per-device-train-batch-size", "--batch-size"},
    {"random-seed", "--seed"},
    {"resume-from-checkpoint", "--resume"},
    {"save-steps", "--checkpoint-every"},
    {"save-interval", "--checkpoint-every"},
    {"sequence-length", "--max-seq-len"},
    {"start", "--prompt"},
    {"steps", "--max-steps"},
    {"temp", "--temperature"},
    {"train-file", "--text"},
    {"tie-word-embeddings", "--tie-embeddings"},
    {"validation-split", "--val-fraction"},
    {"warmup", "--warmup-steps"},
    {"warmup-iters", "--warmup-steps"},
    {"workers", "--threads"},
};

/// Returns the name of a flag without its dashes and without a prefix such as "train." of litgpt,
/// in lower case and with hyphens: "n-layer" for --model.n_layer.
std::string plain_name(std::string flag) {
  flag.erase(0, flag.find_first_not_of('-'));
  flag.erase(0, flag.find_last_of('.') + 1);
  for (auto& c : flag) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return flag;
}

}  // namespace

std::string suggest_flag(const std::string& unknown, const CLI::App& command) {
  std::vector<std::string> flags;
  for (const auto* option : command.get_options()) {
    for (const auto& flag : flags_of(*option)) {
      if (flag.starts_with("--")) flags.push_back(flag);
    }
  }
  const auto suggest = [&](std::string_view flag) {
    return std::find(flags.begin(), flags.end(), flag) == flags.end()
               ? std::string()
               : "; did you mean '" + std::string(flag) + "'?";
  };
  if (unknown.starts_with("-")) {
    const auto name = plain_name(unknown);
    if (auto same = suggest("--" + name); !same.empty()) return same;
    for (const auto& [synonym, flag] : kSynonyms) {
      if (synonym != name) continue;
      if (auto found = suggest(flag); !found.empty()) return found;
    }
  }
  return did_you_mean(unknown, flags);
}

}  // namespace attend::app
