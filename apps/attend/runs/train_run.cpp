#include "runs/train_run.h"

#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/nn/parameter_count.h"
#include "attend/nn/trainable_parameters.h"
#include "attend/train/background.h"
#include "attend/train/checksum.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/loss_curves.h"
#include "attend/train/regression_metrics.h"
#include "error_message.h"
#include "report/write_report.h"
#include "runs/evaluation_text.h"
#include "runs/text_report.h"
#include "terminal/activity.h"
#include "terminal/help_formatter.h"
#include "terminal/loss_chart.h"
#include "terminal/number_text.h"
#include "terminal/progress_line.h"
#include "terminal/stop_signal.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

/// Returns a signal that one of the processes has received, the same in all of them; 0 if none has.
int received_signal(train::Processes& processes) {
  if (processes.world_size() == 1) return StopSignal::received();
  auto signals = torch::zeros({processes.world_size()}, torch::kLong);
  signals[processes.rank()] = StopSignal::received();
  processes.all_reduce(signals);
  return static_cast<int>(signals.max().item<int64_t>());
}

/// Throws Interrupted in all processes if one of them has received a signal.
void check_signals(train::Processes& processes) {
  if (const int signal = received_signal(processes); signal != 0) throw Interrupted(signal);
}

/// True if the file has the checksum that the summary of the run contains.
bool is_intact(const train::RunDirectory& run, const train::RunSummary& summary,
               const std::string& name) {
  const auto expected = summary.files.find(name);
  const auto path = run.path() / name;
  return expected != summary.files.end() && fs::exists(path) &&
         train::checksum_of_file(path) == expected->second;
}

/// Trains a run and prints its progress and results.
class Training {
 public:
  /// `epochs`: as in `train_run`.
  Training(train::TrainingRun run, double epochs) : run_(std::move(run)), epochs_(epochs) {}

  /// Trains and finishes the run, and prints a header, the progress, a report and a summary. Throws
  /// Interrupted if a signal stopped the run before its last step.
  void run() {
    const auto result = train();
    if (const auto text = report_.text(output_has_256_colors()); !text.empty())
      fmt::print("\n{}", text);
    print_summary(result);
  }

  /// Does the same as `run`, but prints neither report nor summary.
  train::TrainResult train() {
    // Unknown if the run is resumed.
    const auto neighbors_before =
        run_.state().step == 0 ? nearest_neighbors(setup().model, *setup().task) : "";
    print_header();
    std::optional<StopSignal> signals(std::in_place);
    auto result = train_steps();
    const auto write_report = [&] {
      signals.reset();  // from here on, a signal ends the process at once
      // The report runs the model with as many threads as training used, or with all available
      // threads if training used more. Training may have used more threads if the run finished on a
      // machine with more cores and was then resumed on this machine.
      train::set_num_threads(std::min<int64_t>(result.state.threads, torch::get_num_threads()));
      report_ = make_text_report(setup().model, *setup().task, neighbors_before,
                                 setup().recipe.training.seed);
      const auto& directory = run_.directory();
      // A report that was written before contains the neighbors before training.
      const auto summary = run_.is_finished() ? directory.summary() : std::nullopt;
      const bool written = summary && is_intact(directory, *summary, train::RunFiles::report_text);
      if (const auto text = report_.text(/*colors=*/false); !text.empty() && !written)
        replace_file(directory.file(train::RunFiles::report_text), text);
    };
    try {
      if (result.stop_reason == train::StopReason::stop_requested) check_signals(run_.processes());
      Activity activity("evaluating the best weights", "batches");
      result = run_.finish(result, write_report, [&](int64_t done, int64_t count) {
        check_signals(run_.processes());
        activity.show(done, count);
      });
    } catch (const Interrupted&) {
      write_error(fmt::format("stopped at step {}; resume with: attend train --resume {}\n",
                              result.state.step, directory()));
      throw;
    }
    write_page();
    return result;
  }

 private:
  train::TrainingSetup& setup() { return run_.setup(); }
  std::string directory() const { return printable(run_.directory().path().string()); }

  /// Prints a line of the header. On a terminal, a long line is wrapped; a log has one line each.
  static void print_line(const std::string& label, const std::string& text) {
    const auto indent = report_line("", "").size() - 1;
    const auto width = static_cast<std::size_t>(terminal_width(STDOUT_FILENO));
    const bool wraps = output_is_terminal() && width > indent;
    fmt::print("{}", report_line(label, wraps ? wrap(text, width - indent, indent) : text));
  }

  void print_header() {
    for (const auto& damage : run_.damaged()) {
      write_error(
          fmt::format("attend: skipped a damaged checkpoint: {}\n", without_control_codes(damage)));
    }
    const auto& recipe = setup().recipe;
    const auto step = run_.state().step;
    const auto& stack = recipe.stack();
    const auto parameters = parameter_count(module_of(setup().model));
    print_line("task", recipe.task);
    print_line(
        "model",
        fmt::format("{}: {} parameters, num_layers {}, num_heads {}, embed_dim {}, vocab_size {}",
                    model_kind(recipe.model), parameters, stack.num_layers, stack.num_heads,
                    stack.embed_dim, setup().task->tokenizer().size()));
    if (recipe.lora.rank > 0) {
      int64_t trained = 0;
      for (const auto& each : trainable_parameters(module_of(setup().model)))
        trained += each.tensor.numel();
      print_line("adapters", fmt::format("rank {}, {} of the parameters are trained: {}",
                                         recipe.lora.rank, trained, recipe.lora.targets));
    }
    print_line("device", run_.device().str());
    fmt::print("{}", report_line("run", directory()));
    const auto& training = recipe.training;
    if (epochs_ > 0)
      print_line("epochs", fmt::format("{} = {} steps", epochs_, training.max_steps));
    if (training.warmup_steps > training.max_steps) {
      print_line("warm-up", fmt::format("{} steps, more than the {} of the training: the learning "
                                        "rate does not reach lr; see --warmup-steps",
                                        training.warmup_steps, training.max_steps));
    }
    for (const auto& note : setup().task->data_notes()) print_line(note.name, note.text);
    if (setup().initial_weights) print_initial_weights(*setup().initial_weights);
    if (run_.is_resumed()) {
      const bool saved = !run_.directory().checkpoints().latest().empty();
      const auto before = run_.checkpoint_world_size();
      const auto now = run_.processes().world_size();
      const auto note =
          !saved ? ": no checkpoint was saved"
          : before != now && step > 0
              ? fmt::format(" with {} processes, before with {}: dropout has other random numbers",
                            now, before)
              : "";
      print_line("resumed", fmt::format("from step {}{}", step, note));
    }
    std::fflush(stdout);
  }

  static void print_initial_weights(const train::InitialWeights& initial) {
    const auto names = [](const std::vector<std::string>& all) {
      return all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "));
    };
    print_line("init from",
               fmt::format("{}: {} tensors; new: {}; not used: {}",
                           printable(initial.directory.string()), initial.num_tensors,
                           names(initial.keys.missing_keys), names(initial.keys.unexpected_keys)));
    if (const auto& changed = initial.changed_options; !changed.empty())
      print_line("changed", fmt::format("{}", fmt::join(changed, "; ")));
    for (const auto& warning : initial.warnings) print_line("warning", warning);
  }

  /// Trains until the last step or a signal.
  train::TrainResult train_steps() {
    // A background thread prints the progress, so that a paused terminal does not block training.
    train::BackgroundObserver terminal(
        {std::make_shared<ProgressLine>(setup().recipe.training.max_steps)});
    auto stop = [said = false]() mutable {
      if (StopSignal::received() == 0) return false;
      if (!said) write_error("\nstopping: saving a checkpoint\n");
      said = true;
      return true;
    };
    return run_.train({.observers = {&terminal},
                       .stop_requested = std::ref(stop),
                       .stop_evaluation = std::ref(stop)});
  }

  void print_summary(const train::TrainResult& result) {
    const auto& state = result.state;
    const auto& best = state.best.value();
    const auto metric = setup().recipe.training.best_metric;
    const bool by_loss = metric == train::BestMetric::loss;
    fmt::print("\n{:<13}  {:.4f} (step {}{}, {})\n", by_loss ? "best val loss" : "val loss",
               best.loss, state.best_step,
               by_loss ? "" : fmt::format(" with the best {}", to_string(metric)),
               targets_text(best, setup().model));
    if (best.accuracy())
      fmt::print("accuracy       {}\n", accuracy_text(best.exact_match, setup().model));
    if (best.moments.defined())
      fmt::print("r2             {:.4f}\n", train::regression_metrics(best.moments).r2);
    const auto& task = *setup().task;
    if (best.f1)
      fmt::print("{:<14} {:.4f}\n", f1_name(task.classes(), task.problem().type), *best.f1);
    print_losses();
    if (result.stop_reason == train::StopReason::patience) {
      fmt::print("early stop     step {}, after {} evaluations without improvement (patience)\n",
                 state.step, setup().recipe.training.patience);
    }
    if (state.skipped_steps > 0) {
      fmt::print("skipped steps  {} (non-finite loss or gradient)\n", state.skipped_steps);
    }
    fmt::print("time           {:.1f} s, {} tok/s with {} CPU thread{}\n", state.seconds(),
               count_text(std::round(result.tokens_per_second)), state.threads,
               state.threads == 1 ? "" : "s");
    fmt::print("run            {}\n", directory());
    if (const auto page = run_.directory().file(train::RunFiles::report_page); fs::exists(page))
      fmt::print("report         {}\n", printable(page.string()));
    fmt::print("\nNext:\n");
    fmt::print("  attend eval {}\n", directory());
    if (std::holds_alternative<SequenceClassifier>(setup().model)) {
      fmt::print("  attend predict {} TEXT\n", directory());
    } else {
      fmt::print("  attend generate {} --prompt TEXT\n", directory());
    }
    fmt::print("  attend export {} -o model.pt\n", directory());
  }

  void print_losses() {
    constexpr std::string_view kLabel = "losses         ";
    const auto curves = train::read_loss_curves(run_.directory().file(train::RunFiles::metrics));
    const auto width = static_cast<std::size_t>(terminal_width(STDOUT_FILENO));
    const auto line = loss_line(curves, width - std::min(width, kLabel.size()), locale_is_utf8());
    if (!line.empty()) fmt::print("{}{}\n", kLabel, line);
  }

  /// Writes the report for a browser. The run is finished without it, so a failure is only a
  /// warning.
  void write_page() {
    const auto page = run_.directory().file(train::RunFiles::report_page);
    try {
      app::write_report(run_.directory().path(), page);
    } catch (const std::exception& error) {
      write_error(fmt::format("attend: {} was not written: {}\n", printable(page.string()),
                              without_control_codes(error_text(error))));
    }
  }

  train::TrainingRun run_;
  double epochs_;
  TextReport report_;
};

}  // namespace

bool is_complete(const train::TrainingRun& run) {
  if (!run.is_finished()) return false;
  if (!run.state().best) return true;
  const auto& directory = run.directory();
  const auto summary = directory.summary();
  if (!summary || train::RunDirectory::exists(train::RunDirectory::replaced(directory.path())))
    return false;
  const std::array names{train::EmbeddingFiles::table, train::EmbeddingFiles::tokens,
                         train::EmbeddingFiles::config, train::RunFiles::report_page};
  return fs::exists(directory.weights_file()) &&
         std::ranges::all_of(names, [&](auto* name) { return fs::exists(directory.file(name)); }) &&
         std::ranges::all_of(summary->files, [&](const auto& each) {
           return is_intact(directory, *summary, each.first);
         });
}

void print_complete(const train::TrainingRun& run, double epochs) {
  const auto& state = run.state();
  const auto max_steps = run.setup().recipe.training.max_steps;
  const auto reason =
      state.step == max_steps
          ? fmt::format("already trained for {}/{} steps; pass a larger {} to continue", state.step,
                        max_steps, epochs > 0 ? "--epochs" : "--max-steps")
          : fmt::format(
                "stopped early at step {} after {} evaluations without improvement; pass a "
                "larger --patience to continue",
                state.step, state.evaluations_without_improvement);
  fmt::print("{}{}", report_line("run", printable(run.directory().path().string())),
             report_line("finished", reason));
}

void train_run(train::TrainingRun run, double epochs) {
  Training(std::move(run), epochs).train();
}

void train_beside_rank_0(train::TrainingRun run) {
  const StopSignal signals;
  const auto stop = [] { return StopSignal::received() != 0; };
  const auto result = run.train({.stop_requested = stop, .stop_evaluation = stop});
  auto& processes = run.processes();
  if (result.stop_reason == train::StopReason::stop_requested) check_signals(processes);
  run.finish(result, {}, [&](int64_t, int64_t) { check_signals(processes); });
}

void train_run_with_results(train::TrainingRun run, double epochs) {
  Training(std::move(run), epochs).run();
}

}  // namespace attend::app
