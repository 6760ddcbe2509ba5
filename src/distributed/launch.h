#pragma once

#include "attend/api.h"
#include "attend/distributed/init.h"
#include "attend/distributed/launch.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace attend::distributed {

/// Returns the value of an environment variable.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// Reads the variables of the launcher; std::nullopt without a launcher. Throws InputError if a
/// variable is missing or invalid.
ATTEND_API std::optional<Launch> launch_of(const Environment& environment);

/// Connects the processes of a launch, which has more than one. Throws as `init` does.
ATTEND_API std::shared_ptr<train::Processes> connect(const Launch& launch, const Options& options);

}  // namespace attend::distributed
