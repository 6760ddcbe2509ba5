#include "attend/train/entities.h"

#include "attend/train/batch.h"

#include <algorithm>
#include <string_view>

namespace attend::train {
namespace {

/// A tag in two parts: O has no type.
struct Tag {
  char prefix = 'O';
  std::string_view type = {};
};

Tag parse_tag(std::string_view tag) {
  return tag.size() > 2 && tag[1] == '-' ? Tag{tag[0], tag.substr(2)} : Tag{};
}

bool is_entity_tag(std::string_view tag) {
  return tag == "O" || (tag.size() > 2 && tag[1] == '-' &&
                        std::string_view("BIES").find(tag[0]) != std::string_view::npos);
}

/// True if an entity of `before` does not continue with the next word, of the tag `tag`.
bool ends(const Tag& before, const Tag& tag) {
  return before.prefix == 'E' || before.prefix == 'S' || tag.prefix == 'B' || tag.prefix == 'S' ||
         tag.type != before.type;
}

/// Tags of the words of a row that have a target.
std::vector<std::string> tags_of(const torch::Tensor& ids, const std::vector<std::string>& tags) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < ids.numel(); ++i)
    names.push_back(tags.at(static_cast<std::size_t>(ids[i].item<int64_t>())));
  return names;
}

}  // namespace

std::vector<std::string> entity_types(const std::vector<std::string>& tags) {
  if (!std::ranges::all_of(tags, is_entity_tag)) return {};
  std::vector<std::string> types;
  for (const auto& tag : tags) {
    if (tag != "O") types.emplace_back(parse_tag(tag).type);
  }
  std::ranges::sort(types);
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

std::vector<Entity> entities_of(const std::vector<std::string>& tags) {
  std::vector<Entity> entities;
  Tag before;
  for (int64_t i = 0; i < std::ssize(tags); ++i) {
    const auto tag = parse_tag(tags[static_cast<std::size_t>(i)]);
    const bool is_new = ends(before, tag);
    before = tag;
    if (tag.prefix == 'O') continue;
    if (is_new)
      entities.push_back({std::string(tag.type), i, i + 1});
    else
      entities.back().end = i + 1;
  }
  return entities;
}

torch::Tensor entity_confusion_matrix(const torch::Tensor& predicted, const torch::Tensor& targets,
                                      const std::vector<std::string>& tags) {
  const auto types = entity_types(tags);
  auto matrix = torch::zeros({std::ssize(types), 2, 2}, torch::kLong);
  auto cells = matrix.accessor<int64_t, 3>();
  const auto index_of = [&](const Entity& entity) {
    return std::ranges::lower_bound(types, entity.type) - types.begin();
  };
  const auto ids = predicted.cpu();
  const auto expected_ids = targets.cpu();
  for (int64_t row = 0; row < expected_ids.size(0); ++row) {
    const auto mask = expected_ids[row].ne(kIgnoreIndex);
    const auto expected = entities_of(tags_of(expected_ids[row].masked_select(mask), tags));
    const auto found = entities_of(tags_of(ids[row].masked_select(mask), tags));
    for (const auto& entity : expected)
      ++cells[index_of(entity)][1][std::ranges::count(found, entity)];
    for (const auto& entity : found) {
      if (std::ranges::count(expected, entity) == 0) ++cells[index_of(entity)][0][1];
    }
  }
  return matrix;  // (N, 2, 2)
}

}  // namespace attend::train
