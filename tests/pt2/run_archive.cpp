/// Runs an exported archive in C++.
///
///     run_archive program|package ARCHIVE [INPUTS OUTPUTS]...
///
/// With `program`, ARCHIVE is a .pt2 archive of torch.export, which is run with load_pt2. With
/// `package`, ARCHIVE is an AOTInductor package. Each file INPUTS contains a tuple of tensors and
/// was written by torch.save. The outputs are written to the file OUTPUTS, which torch.load can
/// read. Errors are written to standard error. The exit status is 2 for a wrong number of arguments
/// or an InputError (for example if a .pt2 archive is invalid), and 1 for other errors.

#include "attend/input_error.h"
#include "attend/pt2/pt2_program.h"
#include "export/export_case.h"
#include "io/files.h"

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <iostream>

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
  const auto bytes = torch::jit::pickle_save(
      c10::ivalue::Tuple::create(std::vector<c10::IValue>(tensors.begin(), tensors.end())));
  replace_file(path, std::string_view(bytes.data(), bytes.size()));
}

std::function<Tensors(const Tensors&)> load(const std::string& kind, const char* archive) {
  if (kind == "program") {
    return [program = load_pt2(archive)](const Tensors& inputs) { return program.forward(inputs); };
  }
  const auto package = std::make_shared<torch::inductor::AOTIModelPackageLoader>(archive);
  return [package](const Tensors& inputs) { return package->run(inputs); };
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::cerr << "usage: run_archive program|package ARCHIVE [INPUTS OUTPUTS]...\n";
    return 2;
  }
  try {
    const torch::NoGradGuard no_grad;
    const auto run = attend::load(argv[1], argv[2]);
    for (int i = 3; i < argc; i += 2) {
      attend::write_tensors(argv[i + 1], run(attend::read_tensors(argv[i])));
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
