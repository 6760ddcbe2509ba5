#include "attend/pt2/pt2_contents.h"

#include "attend/input_error.h"
#include "io/zip_archive.h"
#include "program/input_checks.h"
#include "program/target.h"
#include "pt2/archive_layout.h"
#include "pt2/read_archive.h"

namespace attend {
namespace {

/// Counts the calls in a list of nodes and in the graphs of these nodes.
void count_operators(const std::vector<program::Node>& nodes,
                     std::map<std::string, int64_t>& counts) {
  for (const auto& node : nodes) {
    const auto name = program::is_operator(node.target)
                          ? program::parse_target(node.target).qualified_name()
                          : node.target;
    ++counts[name];
    for (const auto& graph : node.graphs) count_operators(graph->nodes, counts);
  }
}

std::vector<TensorInfo> tensors_of(const pt2::Archive& archive) {
  TensorList list;
  for (const auto kind : {program::InputKind::parameter, program::InputKind::buffer}) {
    for (const auto& input : archive.program.inputs) {
      const auto weight = archive.weights.find(input.target);
      if (input.kind != kind || weight == archive.weights.end()) continue;
      // TensorList reads requires_grad from the tensor. requires_grad is set on a detached tensor,
      // so that the weight of the archive is unchanged.
      auto tensor = weight->second.detach();
      const auto meta = archive.program.tensors.find(input.name);
      const bool requires_grad =
          meta != archive.program.tensors.end() && meta->second.requires_grad;
      if (requires_grad && tensor.is_floating_point()) tensor.requires_grad_();
      list.add(input.target, tensor, /*is_buffer=*/kind == program::InputKind::buffer);
    }
  }
  return list.tensors();
}

}  // namespace

Pt2Contents pt2_contents(const std::filesystem::path& path) {
  return with_source(path.string(), [&] {
    const ZipArchive zip(path);
    const auto archive = pt2::read_archive(zip, torch::kCPU);
    std::map<std::string, int64_t> operators;
    count_operators(archive.program.nodes, operators);
    return Pt2Contents{.tensors = tensors_of(archive),
                       .inputs = program::InputChecks(archive.program, torch::kCPU).signatures(),
                       .operators = std::move(operators),
                       .extra_files = zip.sizes_in(pt2::kExtraFiles)};
  });
}

}  // namespace attend
