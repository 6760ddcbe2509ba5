/// Runs exported archives in C++.
///
///     run_archive program|package ARCHIVE [INPUTS OUTPUTS]... [-- ARCHIVE [INPUTS OUTPUTS]...]...
///     run_archive names ARCHIVE
///
/// With `program`, ARCHIVE is a .pt2 archive of torch.export, which is run with load_pt2;
/// `program:NAME` runs its program NAME. With
/// `package`, ARCHIVE is an AOTInductor package. Each file INPUTS contains a tuple of tensors and
/// was written by torch.save. The outputs are written to the file OUTPUTS, which torch.load can
/// read; None for an undefined tensor. With `names`, prints the names of the inputs and of the
/// outputs. Errors are written to standard error. The exit status is 2 for a wrong number of
/// arguments or an InputError (for example if a .pt2 archive is invalid), and 1 for other errors.

#include "attend/input_error.h"
#include "attend/pt2/pt2_program.h"
#include "export/export_case.h"
#include "io/files.h"

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <iostream>
#include <string_view>
#include <utility>

namespace attend {
namespace {

Tensors read_tensors(const char* path) {
  const auto bytes = read_bytes(path);
  const auto value = torch::jit::pickle_load({bytes.begin(), bytes.end()});
  Tensors tensors;
  for (const auto& item : value.toTupleRef().elements()) tensors.push_back(item.toTensor());
  return tensors;
}

void write_tensors(const char* path, const Tensors& tensors) {
  std::vector<c10::IValue> values;
  for (const auto& tensor : tensors) {
    values.push_back(tensor.defined() ? c10::IValue(tensor) : c10::IValue());
  }
  const auto bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(values)));
  replace_file(path, std::string_view(bytes.data(), bytes.size()));
}

std::function<Tensors(const Tensors&)> load(const std::string& kind, const char* archive) {
  constexpr std::string_view kProgram = "program";
  if (kind.starts_with(kProgram)) {
    const auto name = kind.substr(std::min(kProgram.size() + 1, kind.size()));
    return [program = load_pt2(archive, {.model = name})](const Tensors& inputs) {
      return program.forward(inputs);
    };
  }
  const auto package = std::make_shared<torch::inductor::AOTIModelPackageLoader>(archive);
  return [package](const Tensors& inputs) { return package->run(inputs); };
}

/// Runs ARCHIVE [INPUTS OUTPUTS]...
void run(const std::string& kind, const std::vector<const char*>& arguments) {
  const auto program = load(kind, arguments.at(0));
  for (std::size_t i = 1; i < arguments.size(); i += 2) {
    write_tensors(arguments.at(i + 1), program(read_tensors(arguments[i])));
  }
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr
        << "usage: run_archive program|package ARCHIVE [INPUTS OUTPUTS]... [-- ARCHIVE ...]\n";
    return 2;
  }
  try {
    if (std::string_view(argv[1]) == "names") {
      const auto program = attend::load_pt2(argv[2]);
      for (const auto& names : {program.input_names(), program.output_names()}) {
        for (const auto& name : names) std::cout << name << " ";
        std::cout << "\n";
      }
      return 0;
    }
    const torch::NoGradGuard no_grad;
    std::vector<const char*> arguments;
    for (int i = 2; i < argc; ++i) {
      const bool is_separator = std::string_view(argv[i]) == "--";
      if (!is_separator) arguments.push_back(argv[i]);
      if (!is_separator && i + 1 < argc) continue;
      attend::run(argv[1], std::exchange(arguments, {}));
    }
    return 0;
  } catch (const attend::InputError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "run_archive: " << error.what() << "\n";
    return 1;
  }
}
