#pragma once

/// Includes all headers of the CMake target attend::distributed: training with several processes.

#include "attend/distributed/init.h"
#include "attend/distributed/launch.h"
