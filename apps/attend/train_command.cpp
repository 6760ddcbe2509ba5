#include "attend/distributed/init.h"
#include "attend/distributed/launch.h"
#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/device.h"
#include "attend/train/initial_model.h"
#include "attend/train/training_run.h"
#include "commands.h"
#include "error_message.h"
#include "options.h"
#include "recipes/recipe_files.h"
#include "recipes/recipe_flags.h"
#include "runs/processes_options.h"
#include "runs/sweep.h"
#include "runs/task_cache.h"
#include "runs/train_run.h"
#include "serve/server_option.h"
#include "serve/training_server.h"
#include "terminal/activity.h"
#include "terminal/stop_signal.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  std::string recipe;
  std::string out;
  std::string resume;
  double epochs = 0.0;                      ///< 0 if --epochs was not given
  std::vector<std::vector<Setting>> sweep;  ///< as in `Sweep`; empty if --sweep was not given
  bool overwrite = false;
  bool has_begun = false;  ///< the launcher has started the same command before, which has begun
                           ///< the run in `out`
  bool print_config = false;
  std::string init_from;  ///< directory of a run, or folder of a published model
  bool serve = false;
  ServerAddress address = {};  ///< of the page, if `serve` is set
  ProcessesArguments processes = {};
};

/// Creates the first of the directories runs/NAME, runs/NAME-2, runs/NAME-3, ... that does not
/// exist, and that no unfinished run replaces. If the recipe has text files, NAME is the name of
/// the first one without the extension. Otherwise, NAME is the name of the task. Several processes
/// get different directories. The destructor removes the directory if it is empty, because the run
/// failed before it wrote a file.
class ClaimedDirectory {
 public:
  explicit ClaimedDirectory(const train::Recipe& recipe) {
    const auto name =
        recipe.text.empty() ? recipe.task : fs::path(recipe.text.front()).stem().string();
    path_ = fs::path("runs") / name;
    std::error_code error;
    fs::create_directories("runs", error);
    const auto is_taken = [&] {
      return train::RunDirectory::exists(train::RunDirectory::replaced(path_)) ||
             !fs::create_directory(path_, error);
    };
    for (int n = 2; !error && is_taken() && !error; ++n)
      path_ = fs::path("runs") / fmt::format("{}-{}", name, n);
    if (error) {
      throw InputError(fmt::format("{} cannot be created: {}; pass a directory with --out",
                                   path_.string(), error.message()));
    }
  }
  ~ClaimedDirectory() {
    std::error_code not_empty;
    fs::remove(path_, not_empty);
    fs::remove(path_.parent_path(), not_empty);
  }
  ClaimedDirectory(const ClaimedDirectory&) = delete;
  ClaimedDirectory& operator=(const ClaimedDirectory&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Returns the number of steps in which `epochs` epochs of `task` are trained, rounded up.
int64_t steps_of(double epochs, const train::Recipe& recipe, const train::Task& task) {
  const auto sequences = task.num_training_sequences();
  if (!sequences) {
    throw InputError(
        fmt::format("--epochs requires a task with a fixed number of training sequences, found the "
                    "task '{}', which generates its sequences: pass --max-steps instead",
                    recipe.task));
  }
  const auto max_steps = find_field("--epochs", "max_steps").max;
  const auto& training = recipe.training;
  const auto per_step =
      static_cast<double>(training.batch_size * training.gradient_accumulation_steps);
  const double steps = std::ceil(epochs * static_cast<double>(*sequences) / per_step);
  if (steps > max_steps) {
    throw InputError(
        fmt::format("--epochs {} would be {} steps, expected at most {}: pass fewer "
                    "epochs",
                    epochs, steps, max_steps));
  }
  return static_cast<int64_t>(steps);
}

/// Returns the tokenizer of a run or of a published model; null if `path` is empty.
std::shared_ptr<const Tokenizer> tokenizer_of(const fs::path& path) {
  return path.empty() ? nullptr : train::InitialModel(path).tokenizer();
}

/// Makes the recipes of a command line.
class Recipes {
 public:
  /// Reads the recipe of the command line, if there is one. `tasks` makes the tasks for --epochs.
  Recipes(const TrainArguments& arguments, const RecipeFlags& flags, train::TaskMaker tasks,
          bool is_rank_0)
      : arguments_(arguments),
        flags_(flags),
        file_(read_recipe_argument(arguments.recipe)),
        tasks_(std::move(tasks)),
        is_rank_0_(is_rank_0) {}

  /// Returns the recipe with the flags and `settings` applied.
  train::Recipe operator()(std::vector<Setting> settings = {}) const {
    if (arguments_.epochs > 0) settings.push_back(epochs_setting());
    const auto flags = flags_.with(settings);
    if (!arguments_.resume.empty())
      return flags.over(train::RunDirectory::open(arguments_.resume).recipe());
    std::optional<train::Recipe> source;
    if (!arguments_.init_from.empty()) source = train::InitialModel(arguments_.init_from).recipe();
    return flags.resolve(file_, source);
  }

 private:
  /// Returns the setting of max_steps for --epochs. It must be the last setting of a recipe, since
  /// the number of steps depends on the data, max_seq_len and the batch size.
  Setting epochs_setting() const {
    const auto run = arguments_.resume.empty() ? arguments_.init_from : arguments_.resume;
    const auto set = [this, run](train::Recipe& recipe) {
      train::check_recipe(recipe);
      expand_patterns(recipe);
      if (!arguments_.resume.empty()) train::RunDirectory::open(run).check_texts(recipe);
      std::optional<Activity> activity;
      if (is_rank_0_) activity.emplace(kPreparingData);
      const auto task = tasks_(recipe, tokenizer_of(run));
      recipe.training.max_steps = steps_of(arguments_.epochs, recipe, *task);
    };
    return {find_field("--epochs", "max_steps"), "--epochs", set};
  }

  const TrainArguments& arguments_;
  const RecipeFlags& flags_;
  std::optional<train::RecipeText> file_;
  train::TaskMaker tasks_;
  bool is_rank_0_;  // which prints
};

/// Throws InputError for an option that --resume does not allow.
void check_resume(const TrainArguments& arguments) {
  if (arguments.resume.empty()) return;
  for (const auto& [given, name] :
       {std::pair(!arguments.recipe.empty(), "the recipe"),
        std::pair(!arguments.out.empty(), "--out"), std::pair(arguments.overwrite, "--overwrite"),
        std::pair(!arguments.init_from.empty(), "--init-from")}) {
    if (given)
      throw InputError(fmt::format(
          "--resume uses the recipe and the directory of the run: remove {} from the command",
          name));
  }
}

/// Throws InputError for an option without effect, and for a directory that cannot be the directory
/// of a new run.
void check_output(const TrainArguments& arguments) {
  if (arguments.print_config && !arguments.out.empty())
    refuse_without_effect("--out", "beside --print-config");
  if (arguments.print_config && arguments.overwrite)
    refuse_without_effect("--overwrite", "beside --print-config");
  if (arguments.print_config && arguments.serve)
    refuse_without_effect("--serve", "beside --print-config");
  if (arguments.out.empty()) {
    if (arguments.overwrite && arguments.resume.empty())
      refuse_without_effect("--overwrite", "without --out, since a new directory is created");
    return;
  }
  const fs::path out = arguments.out;
  std::error_code missing;
  if (fs::exists(out, missing) && !fs::is_directory(out, missing)) {
    throw InputError(
        fmt::format("--out {} cannot be created: a file with this name exists; pass "
                    "another directory",
                    arguments.out));
  }
  if (train::RunDirectory::exists(out) && !arguments.overwrite && !arguments.has_begun &&
      !train::RunDirectory::exists(train::RunDirectory::replaced(out))) {
    throw InputError(
        fmt::format("{0} exists and contains a run: continue it with --resume {0}, "
                    "overwrite it with --overwrite, or pass another --out",
                    arguments.out));
  }
  if (!arguments.sweep.empty() || arguments.has_begun) return;
  with_source("--out", [&] { train::RunDirectory::check_can_create(out, arguments.overwrite); });
}

/// Throws InputError for an option of a single run beside --sweep, and for a directory that cannot
/// be the directory of a sweep.
void check_sweep(const TrainArguments& arguments) {
  for (const auto& [given, name] :
       {std::pair(!arguments.resume.empty(), "--resume"),
        std::pair(arguments.overwrite, "--overwrite"), std::pair(arguments.serve, "--serve"),
        std::pair(arguments.print_config, "--print-config")}) {
    if (given) {
      throw InputError(fmt::format(
          "--sweep trains several runs, and {0} is for one run: remove {0} from the command",
          name));
    }
  }
  if (arguments.out.empty())
    throw InputError("--sweep requires --out, the directory of its runs: add --out DIR");
  if (train::RunDirectory::exists(arguments.out)) {
    throw InputError(
        fmt::format("--out {} contains a run, expected a directory for the runs of the sweep: pass "
                    "another --out",
                    arguments.out));
  }
  check_output(arguments);
}

/// Returns the server of the page of a run. `directory`: the directory of the run.
std::unique_ptr<TrainingServer> start_server(const TrainArguments& arguments,
                                             const fs::path& directory) {
  if (!arguments.serve) return nullptr;
  auto server = std::make_unique<TrainingServer>(arguments.address, directory);
  fmt::print("{}", report_line("page", server->url()));
  std::fflush(stdout);
  return server;
}

train::RunMode mode_of(const TrainArguments& arguments) {
  if (!arguments.resume.empty()) return train::RunMode::resume;
  if (arguments.has_begun) return train::RunMode::begin_or_resume;
  return arguments.overwrite ? train::RunMode::overwrite : train::RunMode::begin;
}

/// Begins or resumes the run of the command line, and trains it. Of several processes, only rank 0
/// prints.
void start_and_train(const TrainArguments& arguments, train::Recipe recipe,
                     train::TrainingRunOptions options) {
  train::set_num_threads(recipe.training.threads);
  make_paths_absolute(recipe);
  const auto rank = options.processes->rank();
  std::optional<ClaimedDirectory> claimed;  // deleted at the end if nothing was written to it
  train::run_on_rank_0(*options.processes, [&] {
    if (!arguments.resume.empty() || !arguments.out.empty()) return;
    // Reads the data, which the task maker keeps, first: a signal that ends the process in the
    // meantime leaves no directory.
    const Activity activity(kPreparingData);
    options.task_maker(recipe, tokenizer_of(options.init_from));
    claimed.emplace(recipe);
  });
  const auto directory = claimed                    ? claimed->path()
                         : arguments.resume.empty() ? fs::path(arguments.out)
                                                    : fs::path(arguments.resume);
  options.mode = mode_of(arguments);
  try {
    const auto start = [&] {
      std::optional<Activity> activity;
      if (rank == 0) activity.emplace(kPreparingData);
      return train::make_training_run(directory, recipe, options);
    };
    if (const auto size = options.processes->world_size(); rank == 0 && size > 1)
      fmt::print("{}", report_line("processes", fmt::format("{}", size)));
    const auto server = rank == 0 ? start_server(arguments, directory) : nullptr;
    auto run = start();
    bool complete = false;
    train::run_on_rank_0(*options.processes, [&] {
      complete = is_complete(run);
      if (complete) print_complete(run, arguments.epochs);
    });
    if (train::any_process(*options.processes, complete)) return;
    if (rank > 0) return train_beside_rank_0(std::move(run));
    if (server) server->begin();
    train_run_with_results(std::move(run), arguments.epochs);
  } catch (const InputError&) {  // names the replaced run where it matters
    throw;
  } catch (const std::runtime_error& error) {  // such as a full disk
    if (rank > 0) throw;
    throw std::runtime_error(error_text(error) + train::RunDirectory::replaced_clause(directory));
  }
}

/// Returns the id of the run in the directory, or why there is none.
std::string run_id_of(const fs::path& directory) {
  if (!train::RunDirectory::exists(directory)) return "no run";
  try {
    return train::RunDirectory::open(directory).record().run_id;
  } catch (const InputError&) {
    return "damaged";
  }
}

/// True if the launcher has started the same command before, and the command has begun the run in
/// --out. Called in rank 0.
bool has_begun(const TrainArguments& arguments) {
  if (arguments.out.empty()) return false;
  const auto launch = distributed::launch_of_this_process();
  if (!launch) return false;
  const auto path = fs::absolute(arguments.out).lexically_normal().string();
  const auto now = run_id_of(arguments.out);
  const auto first = distributed::value_at_first_start(
      *launch, arguments.processes.connection().timeout, "run/" + path, now);
  return train::RunDirectory::exists(arguments.out) && now != first;
}

/// Connects the processes that a launcher has started. --print-config needs no other process than
/// rank 0, which prints: returns null in the others.
std::shared_ptr<train::Processes> connect(const TrainArguments& arguments) {
  if (!arguments.print_config) return distributed::init(arguments.processes.connection());
  const auto launch = distributed::launch_of_this_process();
  return launch && launch->rank > 0 ? nullptr : train::single_process();
}

/// Throws InputError, with `advice`, for an option that several processes do not support.
void check_single_process(const char* option, const train::Processes& processes,
                          const char* advice) {
  if (processes.world_size() == 1) return;
  throw InputError(fmt::format("{} supports a single process, found {}: {}", option,
                               processes.world_size(), advice));
}

/// Trains as the command line says, together with the other processes.
void train_in(const std::shared_ptr<train::Processes>& processes, const TrainArguments& arguments,
              const RecipeFlags& flags) {
  const bool is_sweep = !arguments.sweep.empty();
  if (is_sweep) {
    check_single_process("--sweep", *processes, "start the command without a launcher");
  }
  if (arguments.serve) {
    check_single_process("--serve", *processes,
                         "remove it, and show the run with attend serve RUN in another terminal");
  }
  if (is_sweep) check_sweep(arguments);
  check_resume(arguments);
  TaskCache cache;
  const train::TaskMaker tasks = std::ref(cache);
  const Recipes recipes(arguments, flags, tasks, processes->rank() == 0);
  const train::TrainingRunOptions options{.init_from = arguments.init_from,
                                          .task_maker = tasks,
                                          .processes = processes,
                                          .shard_optimizer = arguments.processes.shard_optimizer};
  if (is_sweep) {
    return run_sweep({.out = arguments.out,
                      .axes = arguments.sweep,
                      .resolve = recipes,
                      .train = [&](auto run) { train_run(std::move(run), arguments.epochs); },
                      .options = options});
  }
  const auto recipe = recipes();
  train::run_on_rank_0(*processes, [&] { check_output(arguments); });
  if (arguments.print_config) return fmt::print("{}", train::to_toml(recipe));
  start_and_train(arguments, recipe, options);
}

/// Throws `error` again in rank 0 and with a single process. In the other processes, throws an
/// exception with the same exit status and with the rank in its message, which is empty if rank 0
/// prints the same error.
[[noreturn]] void throw_for_rank(const CLI::App& app, const std::exception& error,
                                 train::Processes& processes) {
  const auto message = error_message(app, error);
  const bool is_new = processes.end_with_error(message);
  if (processes.rank() == 0) throw;
  const auto text = is_new ? fmt::format("rank {}: {}", processes.rank(), message) : "";
  if (is_wrong_input(error)) throw InputError(text);
  throw std::runtime_error(text);
}

void run_train(const CLI::App& app, TrainArguments& arguments, const RecipeFlags& flags) {
  ignore_write_signals();  // a closed pipe must not end the run
  const auto processes = connect(arguments);
  if (processes == nullptr) return;
  try {
    arguments.has_begun = any_process(*processes, processes->rank() == 0 && has_begun(arguments));
    train_in(processes, arguments, flags);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    throw_for_rank(app, error, *processes);
  }
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a model (default task: senses)");
  auto arguments = std::make_shared<TrainArguments>();
  const auto not_empty = [](const std::string& text) {
    return text.empty() ? "must not be empty" : "";
  };
  command
      ->add_option("recipe", arguments->recipe,
                   "recipe: TOML file, or a name from the output of `attend models`")
      ->type_name(kRecipeType)
      ->check(not_empty);
  const auto add_directory = [&](const char* flag, std::string& target, const char* help) {
    command->add_option(flag, target, help)->type_name("DIR")->group("Output")->check(not_empty);
  };
  add_directory(
      "--out", arguments->out,
      "run directory to create [runs/NAME, where NAME is the name of the text file or task]");
  add_directory("--resume", arguments->resume,
                "directory of a run; training resumes from the latest checkpoint");
  command
      ->add_option("--init-from", arguments->init_from,
                   "run, or folder of a published model with config.json, whose weights are the "
                   "initial weights (fine-tuning); model and tokenizer are those of the run, and "
                   "task and data too unless they are given")
      ->type_name("DIR")
      ->group("Task")
      ->check(not_empty);
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing run in --out")
      ->group("Output");
  command->add_flag("--print-config", arguments->print_config, "print the complete recipe and exit")
      ->group("Output");
  add_number(*command, "--epochs", arguments->epochs, kPositive,
             "number of passes over the training data, instead of --max-steps; the task must have "
             "a fixed number of training sequences",
             "EPOCHS")
      ->default_str("none")
      ->group("Training, length and batches");
  auto flags = std::make_shared<RecipeFlags>(*command);
  const auto add_axes = [=](const std::vector<std::string>& texts) {
    for (const auto& text : texts) arguments->sweep.push_back(parse_sweep(text));
  };
  command
      ->add_option_function<std::vector<std::string>>(
          "--sweep", add_axes,
          "train a run for each of the values of a key, such as lr=0.001,0.003, in its own "
          "directory below --out; if repeated, for each combination of values. The same command "
          "resumes the sweep [none]")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE,VALUE")
      ->group("Training");
  const auto read_port = [=](const std::string& text) {
    arguments->serve = true;
    if (!text.empty()) arguments->address.port = parse_port("--serve", text);
  };
  command
      ->add_option_function<std::string>(
          "--serve", read_port,
          fmt::format(
              "show the run in a browser while it is trained, as attend serve does, with a single "
              "process; without PORT: {}, 0 = any free port [not served]",
              arguments->address.port))
      ->expected(0, 1)
      ->type_name("[PORT]")
      ->group("Output");
  auto* host = add_host(*command, arguments->address.host)->group("Output");
  add_processes_options(*command, arguments->processes);
  command->footer(
      "A default in brackets is the default of the task senses, or of the first task with this\n"
      "option. attend train --task NAME --print-config prints the defaults of the task NAME.\n\n"
      "Examples:\n"
      "  attend train --num-layers 4 --lr 1e-3 --out runs/deep\n"
      "  attend train --text book.txt --max-seq-len 128 --positions rotary\n"
      "  attend train --resume runs/deep\n"
      "  attend train --init-from runs/deep --lr 1e-4 --dropout 0.1 --out runs/tuned\n"
      "  attend train --init-from bert-base-uncased --text reviews.csv --lr 3e-5\n"
      "  attend train --sweep lr=1e-3,3e-3 --sweep num_layers=2,4 --out runs/sweep\n"
      "  attend train --text book.txt --serve\n"
      "  attend train --print-config > recipe.toml && attend train recipe.toml");
  command->callback([=, &app] {
    if (host->count() > 0 && !arguments->serve) refuse_without_effect("--host", "without --serve");
    run_train(app, *arguments, *flags);
  });
}

}  // namespace attend::app
