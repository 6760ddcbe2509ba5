#pragma once

#include "attend/api.h"
#include "attend/distributed/init.h"
#include "distributed/launch.h"

#include <memory>

namespace attend::distributed {

/// Connects the processes of a launch, which has more than one. Throws as `init` does.
ATTEND_API std::shared_ptr<train::Processes> connect(const Launch& launch, const Options& options);

}  // namespace attend::distributed
