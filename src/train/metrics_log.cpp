#include "attend/train/metrics_log.h"

#include "attend/train/regression_metrics.h"
#include "train/checksum.h"
#include "train/json_lines.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <protozero/pbf_builder.hpp>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

// The fields of TensorFlow's event.proto and summary.proto that are written here.
enum class Event : protozero::pbf_tag_type {
  double_wall_time = 1,
  int64_step = 2,
  string_file_version = 3,
  message_summary = 5,
  message_session_log = 7,
};
enum class SessionLog : protozero::pbf_tag_type { enum_status = 1 };
enum class Summary : protozero::pbf_tag_type { message_value = 1 };
enum class Value : protozero::pbf_tag_type { string_tag = 1, float_simple_value = 2 };
constexpr int32_t kStart = 1;  // SessionLog.SessionStatus

constexpr const char* kEventFilePrefix = "events.out.tfevents.";

struct Scalar {
  const char* tag;
  double value;
};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return bytes;
}

/// The masked checksum of TFRecord files.
std::string masked_checksum(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u);
}

std::string record(const std::string& data) {
  const auto length = little_endian(static_cast<uint64_t>(data.size()));
  return length + masked_checksum(length) + data + masked_checksum(data);
}

std::string version_event() {
  std::string data;
  protozero::pbf_builder<Event> event(data);
  event.add_double(Event::double_wall_time, seconds_since_1970());
  event.add_string(Event::string_file_version, "brain.Event:2");
  return data;
}

/// Returns an event for a resumed run. Readers of the log that find this event discard all earlier
/// events whose step is at least `step`.
std::string restart_event(int64_t step) {
  std::string data;
  protozero::pbf_builder<Event> event(data);
  event.add_double(Event::double_wall_time, seconds_since_1970());
  event.add_int64(Event::int64_step, step);
  protozero::pbf_builder<SessionLog> session(event, Event::message_session_log);
  session.add_enum(SessionLog::enum_status, kStart);
  return data;
}

std::string scalars_event(int64_t step, const std::vector<Scalar>& scalars) {
  std::string data;
  protozero::pbf_builder<Event> event(data);
  event.add_double(Event::double_wall_time, seconds_since_1970());
  event.add_int64(Event::int64_step, step);
  protozero::pbf_builder<Summary> summary(event, Event::message_summary);
  for (const auto& scalar : scalars) {
    protozero::pbf_builder<Value> value(summary, Summary::message_value);
    value.add_string(Value::string_tag, scalar.tag);
    value.add_float(Value::float_simple_value, static_cast<float>(scalar.value));
  }
  return data;
}

/// Returns the path of a new file. The name contains the current time in seconds, since readers
/// order the files of a directory by name. If a file with this name exists, the time is increased
/// second by second until no file has the name.
fs::path new_event_file(const fs::path& directory) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto name = [&](int64_t time) {
    return directory / fmt::format("{}{}.{}", kEventFilePrefix, time, host.data());
  };
  auto time = static_cast<int64_t>(seconds_since_1970());
  while (fs::exists(name(time))) ++time;
  return name(time);
}

AppendFile open_log(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw std::runtime_error(
        fmt::format("{}: cannot be created: {}", directory.string(), error.message()));
  }
  return {new_event_file(directory), "wx"};
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t resumed_step)
    : file_(std::make_shared<AppendFile>(
          open_json_lines(path, resumed_step == 0 ? -1 : resumed_step))) {}

void MetricsLog::on_progress(const Progress& progress) {
  nlohmann::ordered_json line{{"step", progress.step}, {"train_loss", progress.train_loss}};
  if (progress.accuracy) line["train_accuracy"] = *progress.accuracy;
  line.update({{"lr", progress.lr},
               {"grad_norm", progress.grad_norm},
               {"seconds", progress.seconds},
               {"tokens_per_second", progress.tokens_per_second},
               {"peak_memory", progress.peak_memory},
               {"skipped_steps", progress.skipped_steps}});
  if (progress.loss_scale) line["loss_scale"] = *progress.loss_scale;
  file_->append(line.dump() + "\n");
}

void MetricsLog::on_evaluation(int64_t step, const Evaluation& evaluation) {
  nlohmann::ordered_json line{
      {"step", step}, {"val_loss", evaluation.loss}, {"val_targets", evaluation.num_targets}};
  if (const auto accuracy = evaluation.accuracy()) line["val_accuracy"] = *accuracy;
  if (evaluation.f1) line["val_f1"] = *evaluation.f1;
  if (evaluation.moments.defined()) {
    const auto metrics = regression_metrics(evaluation.moments);
    line["val_mae"] = metrics.mae;
    line["val_r2"] = metrics.r2;
  }
  file_->append(line.dump() + "\n");
}

TensorBoardLog::TensorBoardLog(const fs::path& directory, int64_t resumed_step)
    : file_(std::make_shared<AppendFile>(open_log(directory))) {
  file_->append(record(version_event()));
  if (resumed_step > 0) file_->append(record(restart_event(resumed_step + 1)));
}

void TensorBoardLog::on_progress(const Progress& progress) {
  std::vector<Scalar> scalars{{"train/loss", progress.train_loss},
                              {"train/lr", progress.lr},
                              {"train/grad_norm", progress.grad_norm},
                              {"train/tokens_per_second", progress.tokens_per_second},
                              {"train/peak_memory", static_cast<double>(progress.peak_memory)}};
  if (progress.accuracy) scalars.push_back({"train/accuracy", *progress.accuracy});
  if (progress.loss_scale) scalars.push_back({"train/loss_scale", *progress.loss_scale});
  file_->append(record(scalars_event(progress.step, scalars)));
}

void TensorBoardLog::on_evaluation(int64_t step, const Evaluation& evaluation) {
  std::vector<Scalar> scalars{{"val/loss", evaluation.loss}};
  if (const auto accuracy = evaluation.accuracy()) scalars.push_back({"val/accuracy", *accuracy});
  if (evaluation.f1) scalars.push_back({"val/f1", *evaluation.f1});
  file_->append(record(scalars_event(step, scalars)));
}

}  // namespace attend::train
