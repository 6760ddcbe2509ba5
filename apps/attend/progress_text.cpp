#include "progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace attend::app {
namespace {

constexpr std::size_t kFrame = 3;  // of the bar: a space and two brackets
constexpr std::size_t kLeastBar = 10;
constexpr std::size_t kLongestBar = 30;
constexpr const char* kGap = "  ";

// What is left out sooner stands lower.
enum Rank { kSteps, kLoss, kTimeLeft, kBar, kSkipped, kSpeed, kLearningRate };

struct Field {
  Rank rank;
  std::string text;
};

double share_done(const train::Progress& progress, int64_t steps) {
  return std::clamp(static_cast<double>(progress.step) / static_cast<double>(steps), 0.0, 1.0);
}

double seconds_left(const train::Progress& progress, int64_t steps) {
  const auto left = static_cast<double>(std::max<int64_t>(steps - progress.step, 0));
  return progress.seconds / static_cast<double>(progress.step) * left;
}

/// What stands behind the bar, in the order of the line.
std::vector<Field> fields_of(const train::Progress& progress, int64_t steps) {
  std::vector<Field> fields{{kSteps, fmt::format("{}/{}", progress.step, steps)},
                            {kLoss, fmt::format("loss {:.3f}", progress.train_loss)},
                            {kSpeed, fmt::format("{:.0f} tokens/s", progress.tokens_per_second)},
                            {kLearningRate, fmt::format("lr {:.2e}", progress.lr)}};
  if (progress.skipped_steps > 0)
    fields.push_back({kSkipped, fmt::format("{} skipped", progress.skipped_steps)});
  if (progress.step > 0) {
    fields.push_back(
        {kTimeLeft, fmt::format("{} left", duration_text(seconds_left(progress, steps)))});
  }
  return fields;
}

std::string joined(const std::vector<Field>& fields) {
  std::string text;
  for (const auto& field : fields) text += (text.empty() ? " " : kGap) + field.text;
  return text;
}

/// The fields without those that have no room in `columns`, or would take that of the bar.
std::vector<Field> fitting(std::vector<Field> fields, std::size_t columns) {
  const auto by_rank = [](const Field& a, const Field& b) { return a.rank < b.rank; };
  while (!fields.empty()) {
    const auto last = std::max_element(fields.begin(), fields.end(), by_rank);
    const auto bar = last->rank > kBar ? kFrame + kLeastBar : 0;
    if (joined(fields).size() + bar <= columns) break;
    fields.erase(last);
  }
  return fields;
}

/// " [====>    ]" of at most `room` columns, or nothing if that is too few.
std::string bar(double share, std::size_t room) {
  if (room < kLeastBar + kFrame) return {};
  const auto length = std::min(room - kFrame, kLongestBar);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(length));
  auto inside = std::string(filled, '=') + std::string(length - filled, ' ');
  if (filled < length) inside[filled] = '>';
  return fmt::format(" [{}]", inside);
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string progress_text(const train::Progress& progress, int64_t steps, int width) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const double share = share_done(progress, steps);
  const auto percent = fmt::format("{:3.0f}%", std::floor(share * 100));
  const auto fields =
      fitting(fields_of(progress, steps), columns - std::min(percent.size(), columns));
  const auto rest = joined(fields);
  const auto taken = percent.size() + rest.size();
  const auto room = columns > taken ? columns - taken : 0;
  return (percent + bar(share, room) + rest).substr(0, columns);
}

std::string progress_log_text(const train::Progress& progress, int64_t steps) {
  return "step" + joined(fields_of(progress, steps));
}

}  // namespace attend::app
