#include "terminal/output_file.h"

#include "attend/input_error.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/run_directory.h"

#include <fmt/format.h>

#include <string>

namespace attend::app {

namespace fs = std::filesystem;

namespace {

/// Returns true if `file` is in `folder` or in a folder inside of it.
bool is_inside(const fs::path& file, const fs::path& folder) {
  const auto relative = fs::weakly_canonical(fs::absolute(file))
                            .lexically_relative(fs::weakly_canonical(fs::absolute(folder)));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

void check_output_file(const char* flag, const fs::path& out, const fs::path& run, bool overwrite) {
  const auto fail = [&](const std::string& why) { throw InputError(out.string() + ": " + why); };
  if (out.empty()) throw InputError(fmt::format("{}: expected a file name, found ''", flag));
  const auto folder = fs::absolute(out).parent_path();
  if (!fs::is_directory(folder)) fail("no such directory: " + folder.string());
  // A new file may have a name that `load_pretrained` reads.
  if (is_pretrained(run) && is_inside(out, run))
    fail(fmt::format("is in the folder of the model {}; pass another {} FILE", run.string(), flag));
  if (train::RunDirectory::owns(run, out))
    fail(fmt::format("is a file of the run {}; pass another {} FILE", run.string(), flag));
  const auto status = fs::symlink_status(out);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) fail("exists and is not a regular file");
  if (!overwrite) fail(fmt::format("already exists; pass another {} FILE, or --overwrite", flag));
}

void check_output_folder(const fs::path& out, const fs::path& run) {
  if (out.empty() || !is_inside(out, run)) return;
  throw InputError(
      fmt::format("{}: is in the folder {}; pass another -o DIR", out.string(), run.string()));
}

}  // namespace attend::app
