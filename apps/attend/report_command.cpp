#include "attend/io/utf8.h"
#include "attend/train/run_directory.h"
#include "commands.h"
#include "options.h"
#include "report/write_report.h"
#include "terminal/number_text.h"
#include "terminal/output_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::string directory;
  std::string out;
  bool overwrite = false;
};

void run_report(const ReportArguments& arguments, bool has_out) {
  if (arguments.overwrite && !has_out)
    refuse_without_effect("--overwrite", "without --out: the report in the run is replaced");
  train::RunDirectory::open(arguments.directory);  // throws if the directory is not a run
  if (has_out) check_output_file("--out", arguments.out, arguments.directory, arguments.overwrite);
  const auto file = has_out ? fs::path(arguments.out)
                            : fs::path(arguments.directory) / train::RunFiles::report_page;
  write_report(arguments.directory, file);
  fmt::print("{}: {}\n", printable(file.string()),
             bytes_text(static_cast<double>(fs::file_size(file))));
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto* command = app.add_subcommand("report", "Write a run as a page for a browser");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("run", arguments->directory, "run directory")->required()->type_name("DIR");
  auto* out = command->add_option("-o,--out", arguments->out, "HTML file to write")
                  ->type_name("FILE")
                  ->default_str("report.html in the run directory")
                  ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing file of --out")
      ->group("Output");
  command->footer(
      "The page shows loss and accuracy during training, attention weights, token embeddings,\n"
      "samples, the modules of the model, and the recipe. It is one file that needs no network.\n"
      "attend train writes it at the end of the training.\n\n"
      "Examples:\n"
      "  attend report runs/first\n"
      "  attend report runs/first --out first.html");
  command->callback([=] { run_report(*arguments, out->count() > 0); });
}

}  // namespace attend::app
