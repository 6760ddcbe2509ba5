#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/models/prepare_for_inference.h"
#include "attend/ops/fast_kernels.h"
#include "attend/train/device.h"
#include "attend/train/run_directory.h"
#include "attend/train/task_objective.h"
#include "attend/train/trainer.h"
#include "attend/train/training_setup.h"
#include "bench/machine_limits.h"
#include "bench/rows.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "terminal/activity.h"
#include "terminal/number_text.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <torch/utils.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

namespace attend::app {

std::string_view rows_json();  // bench/rows.json

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRounds = 5;  // odd, so that the median is one of them

struct BenchArguments {
  std::string rows;
  double seconds = 1.0;
  int64_t threads = 0;
  std::string device = "cpu";
  bool json = false;
};

/// The work of a row, and the time that it took. A unit is a training step or a generated token.
struct BenchWork {
  std::string row;
  std::string unit;                  // step or token
  int64_t units = 1;                 // in a run
  int64_t tokens = 1;                // in a unit
  std::string limit;                 // memory or matrix products
  double least_seconds = 0.0;        // of a unit, at the limit
  std::function<void(int64_t)> run;  // does this number of runs
  int64_t runs = 1;                  // in a round
  std::vector<double> seconds = {};  // of a unit, in each round; in the end, in ascending order
};

/// Rows that cannot be measured on this machine, and the reasons.
using LeftOut = std::vector<std::pair<std::string, std::string>>;

/// Models by the parameters of their rows.
using BenchModels = std::map<BenchRow, std::shared_ptr<LanguageModelImpl>>;

/// Returns the rows whose names contain `text`.
std::vector<BenchRow> find_rows(const std::string& text) {
  std::vector<BenchRow> rows;
  std::vector<std::string> names;
  for (const auto& row : BenchRow::parse(rows_json())) {
    names.push_back(row.at("row"));
    if (names.back().find(text) != std::string::npos) rows.push_back(row);
  }
  if (rows.empty()) {
    throw InputError(fmt::format("--rows: no row contains '{}', expected a part of one of: {}",
                                 text, fmt::join(names, "; ")));
  }
  return rows;
}

/// Makes the task and the model of a row. The text is a file in memory with 1,000,000 random
/// characters, of which 65 are different.
train::TrainingSetup make_setup(const BenchRow& row) {
  torch::manual_seed(1);
  const auto text = torch::randint('!', '!' + 65, {1'000'000}, torch::kByte);
  const int file = ::memfd_create("text", MFD_CLOEXEC);
  if (::write(file, text.const_data_ptr(), text.nbytes()) != text.numel())
    throw std::runtime_error("cannot create a file in memory");
  auto setup =
      train::make_training_setup(training_recipe(row, fmt::format("/proc/self/fd/{}", file)));
  ::close(file);
  return setup;
}

BenchWork training_work(const BenchRow& row, const MachineLimits& limits) {
  auto setup = make_setup(row);
  const auto config = training_recipe(row, "").training;
  train::Sampler sampler(1);
  const auto batch =
      train::map_batch(setup.task->training_batch(config.batch_size, sampler),
                       [&](const torch::Tensor& tensor) { return tensor.to(setup.device); });
  const auto speed =
      config.precision == train::Precision::bf16 ? limits.bf16_flops : limits.fp32_flops;
  const auto flops = static_cast<double>(flops_of_step(setup.model, batch));
  const auto trainer = std::make_shared<train::Trainer>(
      std::make_shared<train::TaskObjective>(setup.model, setup.task, config), config);
  return {.row = row.at("row"),
          .unit = "step",
          .tokens = batch.tokens.numel(),
          .limit = "matrix products",
          .least_seconds = flops / speed,
          .run = [trainer](int64_t steps) {
            trainer->run({.stop_requested = [&] { return --steps == 0; }});
          }};
}

/// Returns the model of a row with random weights. Models of the same shape share their weights,
/// since those of GPT-2 124M need 0.5 GB, but have copies of their own in other formats.
LanguageModel decoded_model(const BenchRow& row, BenchModels& models) {
  auto shape = row;
  shape.erase("row");
  shape.erase("weights");
  auto& first = models[shape];
  if (first == nullptr) {
    first = std::make_shared<LanguageModelImpl>(decoded_config(row));
    first->eval();
    first->to(torch::Device(row.at("device").get<std::string>()));
    return LanguageModel(first);
  }
  LanguageModel model(std::dynamic_pointer_cast<LanguageModelImpl>(first->clone()));
  auto parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_data(first->parameters()[i].data());
  return model;
}

BenchWork decoding_work(const BenchRow& row, const LanguageModel& model,
                        const MachineLimits& limits) {
  std::vector<int64_t> prompt(row.at("prompt").get<std::size_t>());
  for (auto& token : prompt)
    token = torch::randint(row.at("vocab").get<int64_t>(), {1}).item<int64_t>();
  const auto options = greedy(row);
  return {.row = row.at("row"),
          .unit = "token",
          .units = options.max_new_tokens,
          .limit = "memory",
          .least_seconds = static_cast<double>(decoded_bytes(model, row)) / limits.read_bytes /
                           static_cast<double>(options.max_new_tokens),
          .run = [=](int64_t runs) {
            for (; runs > 0; --runs) generate_batch(model, {prompt}, options);
          }};
}

/// Makes the models of the rows. Adds the rows that cannot be measured to `left_out`.
std::vector<BenchWork> make_work(const std::vector<BenchRow>& rows, const MachineLimits& limits,
                                 LeftOut& left_out) {
  std::vector<BenchWork> work;
  BenchModels models;
  for (const auto& row : rows) {
    if (row.at("kind") == "train") {
      if (row.at("precision") == "bf16" && limits.bf16_flops <= limits.fp32_flops)
        left_out.emplace_back(row.at("row"), "matrix products are not faster in bf16 than in fp32");
      else
        work.push_back(training_work(row, limits));
      continue;
    }
    const auto model = decoded_model(row, models);
    if (prepare_for_inference(model, weight_format(row)) == 0 && row.contains("weights"))
      left_out.emplace_back(row.at("row"), "the format requires a CPU, and not ATTEND_FAST=0");
    else
      work.push_back(decoding_work(row, model, limits));
  }
  return work;
}

/// Returns the seconds of `work.runs` runs.
double seconds_of_runs(const BenchWork& work) {
  const auto start = Clock::now();
  work.run(work.runs);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Measures the rows in turns, so that changes of the machine's speed affect all of them. `seconds`
/// is the time of a row in a round.
void measure(std::vector<BenchWork>& all, double seconds) {
  Activity activity("measuring", "measurements");
  for (auto& work : all) {  // also the warm-up
    auto took = seconds_of_runs(work);
    for (; took < seconds / 4; took = seconds_of_runs(work)) work.runs *= 2;
    work.runs = std::max(std::llround(static_cast<double>(work.runs) * seconds / took), 1LL);
  }
  int64_t done = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (auto& work : all) {
      const auto units = static_cast<double>(work.runs * work.units);
      work.seconds.push_back(seconds_of_runs(work) / units);
      activity.show(++done, std::ssize(all) * static_cast<int64_t>(kRounds));
    }
  }
  for (auto& work : all) std::ranges::sort(work.seconds);
}

double median_of(const BenchWork& work) {
  return work.seconds[kRounds / 2];
}

double tokens_per_second(const BenchWork& work) {
  return static_cast<double>(work.tokens) / median_of(work);
}

double share_of_limit(const BenchWork& work) {
  return work.least_seconds / median_of(work);
}

void print_json(const BenchArguments& arguments, const MachineLimits& limits,
                const std::vector<BenchWork>& all, const LeftOut& left_out) {
  const auto provenance = train::to_json(train::current_provenance());
  nlohmann::ordered_json json{{"provenance", nlohmann::ordered_json::parse(provenance)},
                              {"torch_version", TORCH_VERSION},
                              {"attend_fast", fast_kernels_are_enabled()},
                              {"device", arguments.device},
                              {"threads", torch::get_num_threads()},
                              {"rounds", kRounds},
                              {"seconds_per_round", arguments.seconds},
                              {"limits",
                               {{"fp32_flops_per_second", limits.fp32_flops},
                                {"bf16_flops_per_second", limits.bf16_flops},
                                {"read_bytes_per_second", limits.read_bytes}}},
                              {"rows", nlohmann::ordered_json::array()},
                              {"left_out", nlohmann::ordered_json::array()}};
  for (const auto& work : all) {
    json["rows"].push_back({{"row", work.row},
                            {"unit", work.unit},
                            {"median_seconds", median_of(work)},
                            {"min_seconds", work.seconds.front()},
                            {"max_seconds", work.seconds.back()},
                            {"tokens_per_second", tokens_per_second(work)},
                            {"limit", work.limit},
                            {"share_of_limit", share_of_limit(work)}});
  }
  for (const auto& [row, reason] : left_out)
    json["left_out"].push_back({{"row", row}, {"reason", reason}});
  fmt::print("{}\n", json_text(json));
}

void print_table(const BenchArguments& arguments, const MachineLimits& limits,
                 const std::vector<BenchWork>& all, const LeftOut& left_out) {
  const auto provenance = train::current_provenance();
  const auto cpu = provenance.cpu.empty() ? "" : printable(provenance.cpu) + ", ";
  fmt::print("{}", report_line("version", fmt::format("attend {}, LibTorch {}", provenance.version,
                                                      TORCH_VERSION)));
  fmt::print("{}", report_line("machine", fmt::format("{}{} threads, device {}", cpu,
                                                      torch::get_num_threads(), arguments.device)));
  fmt::print("{}", report_line("date", provenance.created));
  fmt::print("{}",
             report_line("kernels", fast_kernels_are_enabled() ? "on" : "off (ATTEND_FAST is 0)"));
  fmt::print("{}",
             report_line("limits", fmt::format("{:.0f} GFLOP/s in fp32, {:.0f} GFLOP/s in "
                                               "bf16, {:.1f} GB/s from memory",
                                               limits.fp32_flops / 1e9, limits.bf16_flops / 1e9,
                                               limits.read_bytes / 1e9)));
  std::vector<std::vector<std::string>> rows{
      {"row", "median", "min", "max", "tokens/s", "share of limit"}};
  double change = 0.0;
  for (const auto& work : all) {
    rows.push_back({work.row, fmt::format("{} per {}", seconds_text(median_of(work)), work.unit),
                    seconds_text(work.seconds.front()), seconds_text(work.seconds.back()),
                    count_text(tokens_per_second(work)),
                    fmt::format("{:.0f}% ({})", 100 * share_of_limit(work), work.limit)});
    change = std::max(change, work.seconds.back() / work.seconds.front() - 1);
  }
  if (!all.empty()) fmt::print("\n{}", table_text(rows, "<>>>><"));
  for (const auto& [row, reason] : left_out) fmt::print("{} is left out: {}\n", row, reason);
  if (all.empty()) return;
  fmt::print(
      "\nThe times of a row changed by up to {:.0f}% between the {} rounds. A difference between "
      "two\nruns of attend bench that is not larger is noise.\n",
      100 * change, kRounds);
}

void run_bench(BenchArguments& arguments) {
  auto rows = find_rows(arguments.rows);
  const auto device = train::resolve_device(arguments.device);
  train::set_num_threads(arguments.threads);
  arguments.device = device.str();
  for (auto& row : rows) row["device"] = arguments.device;
  const auto limits = [&] {
    const Activity activity("measuring the limits of the machine");
    return measure_limits(device, arguments.seconds);
  }();
  LeftOut left_out;
  auto work = [&] {
    const Activity activity("preparing the models");
    return make_work(rows, limits, left_out);
  }();
  measure(work, arguments.seconds);
  if (arguments.json) return print_json(arguments, limits, work, left_out);
  print_table(arguments, limits, work, left_out);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "bench", "Measure the speed of training and generation, and the limits of the machine");
  auto arguments = std::make_shared<BenchArguments>();
  command
      ->add_option("--rows", arguments->rows,
                   "measure only the rows whose name contains this text [default: all rows]")
      ->type_name("TEXT");
  add_number(*command, "--seconds", arguments->seconds,
             Requirement{"be more than 0 and at most 3600",
                         [](double seconds) { return seconds > 0 && seconds <= 3600; }},
             "seconds of each row in each of the 5 rounds; at least one step or 64 tokens are "
             "measured",
             "SECONDS");
  const auto set_threads = [arguments](const std::string& text) {
    arguments->threads = parse_number<int64_t>("--threads", text, "auto");
    if (!kThreads.holds(static_cast<double>(arguments->threads))) {
      throw CLI::ValidationError("--threads",
                                 fmt::format("must {}, found {}", kThreads.text, text));
    }
  };
  command
      ->add_option_function<std::string>(
          "--threads", set_threads,
          "number of CPU threads; auto = LibTorch's default, usually one per core")
      ->type_name("THREADS")
      ->default_str("auto");
  command
      ->add_option("--device", arguments->device,
                   "device: cpu, cuda, cuda:N, or auto = a GPU if there is one")
      ->type_name("DEVICE")
      ->default_str(arguments->device);
  command
      ->add_flag("--json", arguments->json, "print one JSON object, with all values in basic units")
      ->group("Output");
  command->footer(
      "Measures models with random weights, in 5 rounds of all rows, and writes no files.\n"
      "Ctrl-C ends it at once, without results.\n\n"
      "Examples:\n"
      "  attend bench\n"
      "  attend bench --rows GPT-2 --threads 1\n"
      "  attend bench --json > before.json");
  command->callback([=] { run_bench(*arguments); });
}

}  // namespace attend::app
