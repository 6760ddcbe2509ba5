#include "attend/export/pt2_program.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "export/pt2/codes.h"
#include "export/pt2/read_pt2.h"
#include "export/pt2/run.h"
#include "io/zip_archive.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace attend {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

/// The one program of an archive: archives with several have no name for the one that is meant.
std::string find_model(const ZipArchive& archive) {
  std::vector<std::string> models;
  for (const auto& [entry, size] : archive.entries()) {
    if (entry.starts_with("models/") && entry.ends_with(".json")) models.push_back(entry);
  }
  if (models.size() != 1) {
    throw InputError(fmt::format("expected one program under models/, found {}", models.size()));
  }
  return models.front();
}

/// Of what a message shows of a file.
constexpr uint64_t kLongest = 60;

void expect(const ZipArchive& archive, const std::string& entry, const std::string& content) {
  if (archive.size(entry) > kLongest) {
    throw InputError(
        fmt::format("{}: expected '{}', found {} bytes", entry, content, archive.size(entry)));
  }
  const auto found = archive.read(entry);
  if (found != content)
    throw InputError(
        fmt::format("{}: expected '{}', found '{}'", entry, content, printable(found)));
}

std::vector<int64_t> numbers_of(const std::vector<pt2::Size>& sizes) {
  std::vector<int64_t> numbers;
  for (const auto& size : sizes) {
    if (!size.expression.empty()) {
      throw InputError(fmt::format("a weight has the size {}, expected a number", size.expression));
    }
    numbers.push_back(size.value);
  }
  return numbers;
}

/// A view of the bytes of a weight, after it was checked that they hold all of it.
torch::Tensor view_of(const pt2::TensorMeta& meta, const torch::Tensor& bytes) {
  const auto sizes = numbers_of(meta.sizes);
  const auto strides = numbers_of(meta.strides);
  const auto offset = numbers_of({meta.storage_offset}).front();
  const auto dtype = pt2::dtype_of(meta.dtype);
  pt2::layout_of(meta.layout);
  if (sizes.size() != strides.size() || offset < 0) {
    throw InputError(fmt::format("sizes ({}), strides ({}) and offset {} do not belong together",
                                 fmt::join(sizes, ", "), fmt::join(strides, ", "), offset));
  }
  int64_t elements = offset;  // up to the last one
  bool empty = false;
  bool overflow = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || strides[i] < 0) throw InputError("a size or stride is negative");
    empty = empty || sizes[i] == 0;
    int64_t span = 0;
    overflow = overflow || __builtin_mul_overflow(sizes[i] - 1, strides[i], &span) ||
               __builtin_add_overflow(elements, sizes[i] > 0 ? span : 0, &elements);
  }
  const auto element = static_cast<int64_t>(c10::elementSize(dtype));
  const auto there = bytes.numel() / element;
  if (empty) return torch::empty_strided(sizes, strides, bytes.options().dtype(dtype));
  if (overflow || elements >= there) {
    throw InputError(fmt::format("{} bytes do not hold a tensor ({}) of strides ({}), offset {}",
                                 bytes.numel(), fmt::join(sizes, ", "), fmt::join(strides, ", "),
                                 offset));
  }
  return bytes.narrow(0, 0, there * element).view(dtype).as_strided(sizes, strides, offset);
}

/// Adds the weights that a config lists. Those of the same entry share their bytes.
void read_weights(const ZipArchive& archive, const std::string& folder, const std::string& config,
                  torch::Device device, Tensors& weights) {
  const auto entry = folder + config;
  if (!archive.has(entry)) return;
  const auto listed = naming(entry, [&] { return pt2::parse_weights(archive.read(entry)); });
  std::map<std::string, torch::Tensor> bytes;
  for (const auto& [name, weight] : listed) {
    naming(fmt::format("{}: {}", entry, name), [&, &name = name, &weight = weight] {
      auto& content = bytes[weight.entry];
      if (!content.defined()) {
        const auto file = folder + weight.entry;
        content = torch::empty({static_cast<int64_t>(archive.size(file))}, torch::kByte);
        archive.read(file, content.mutable_data_ptr());
        content = content.to(device);
      }
      if (!weights.emplace(name, view_of(weight.meta, content)).second) {
        throw InputError("is there twice");
      }
    });
  }
}

/// Whether it is nothing but a symbol; then its name.
std::optional<std::string> symbol_of(const std::string& expression) {
  constexpr std::string_view kBegin = "Symbol('";
  if (!expression.starts_with(kBegin) || !expression.ends_with(")")) return std::nullopt;
  const auto end = expression.find('\'', kBegin.size());
  if (end == std::string::npos || expression.find(')') != expression.size() - 1)
    return std::nullopt;
  return expression.substr(kBegin.size(), end - kBegin.size());
}

}  // namespace

struct Pt2Program::Impl {
  pt2::Program program;
  std::vector<std::string> names;  // of the inputs
  Tensors state;
  std::unique_ptr<pt2::Runner> runner;
  torch::Device device = torch::kCPU;

  void check(const std::vector<torch::Tensor>& inputs) const;
};

void Pt2Program::Impl::check(const std::vector<torch::Tensor>& inputs) const {
  if (inputs.size() != names.size()) {
    throw InputError(fmt::format("expected {} inputs ({}), found {}", names.size(),
                                 fmt::join(names, ", "), inputs.size()));
  }
  std::map<std::string, int64_t> symbols;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& input = inputs[i];
    const auto& meta = program.tensors.at(names[i]);
    const auto fail = [&](const std::string& what, const auto& expected, const auto& found) {
      throw InputError(
          fmt::format("input '{}': expected {}{}, found {}", names[i], what, expected, found));
    };
    const auto dtype = pt2::dtype_of(meta.dtype);
    if (!input.defined()) fail("a tensor", "", "none");
    if (input.scalar_type() != dtype)
      fail("dtype ", c10::toString(dtype), c10::toString(input.scalar_type()));
    if (input.device() != device) fail("device ", device.str(), input.device().str());
    if (input.dim() != static_cast<int64_t>(meta.sizes.size())) {
      fail("a number of dimensions of ", meta.sizes.size(), input.dim());
    }
    for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
      const auto& size = meta.sizes[d];
      const auto found = input.size(static_cast<int64_t>(d));
      const auto what = fmt::format("dimension {} to be ", d);
      if (size.expression.empty()) {
        if (found != size.value) fail(what, size.value, found);
        continue;
      }
      const auto symbol = symbol_of(size.expression);
      if (!symbol) continue;
      const auto [bound, first] = symbols.emplace(*symbol, found);
      if (!first && bound->second != found) fail(what, bound->second, found);
      const auto range = program.ranges.find(*symbol);
      if (range == program.ranges.end()) continue;
      const auto& [least, greatest] = range->second;
      if (least && found < *least) fail(what + "at least ", *least, found);
      if (greatest && found > *greatest) fail(what + "at most ", *greatest, found);
    }
  }
}

std::vector<torch::Tensor> Pt2Program::forward(const std::vector<torch::Tensor>& inputs) const {
  impl_->check(inputs);
  return impl_->runner->run(inputs);
}

const std::vector<std::string>& Pt2Program::input_names() const {
  return impl_->names;
}

std::map<std::string, torch::Tensor> Pt2Program::state_dict() const {
  return impl_->state;
}

Pt2Program read_pt2(const ZipArchive& archive, const Pt2LoadOptions& options) {
  expect(archive, "archive_format", "pt2");
  expect(archive, "archive_version", "0");
  expect(archive, "byteorder", "little");
  auto impl = std::make_shared<Pt2Program::Impl>();
  impl->device = options.device;
  const auto model = find_model(archive);
  impl->program = naming(model, [&] { return pt2::parse_program(archive.read(model)); });
  Tensors weights;
  read_weights(archive, "data/weights/", "model_weights_config.json", options.device, weights);
  read_weights(archive, "data/constants/", "model_constants_config.json", options.device, weights);
  for (const auto& input : impl->program.inputs) {
    if (input.kind == pt2::InputKind::user) {
      if (impl->program.tensors.count(input.name) == 0) {
        throw InputError(fmt::format("{}: nothing is said of the input '{}'", model, input.name));
      }
      impl->names.push_back(input.name);
    } else if (input.kind != pt2::InputKind::constant && input.persistent &&
               weights.count(input.target) > 0) {
      impl->state.emplace(input.target, weights.at(input.target));
    }
  }
  impl->runner = naming(model, [&] {
    return std::make_unique<pt2::Runner>(impl->program, weights, options.device,
                                         options.namespaces);
  });
  return Pt2Program(std::move(impl));
}

Pt2Program load_pt2(const std::filesystem::path& path, const Pt2LoadOptions& options) {
  return naming(path.string(), [&] { return read_pt2(ZipArchive(path), options); });
}

}  // namespace attend
