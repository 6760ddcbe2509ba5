#pragma once

/// Includes all headers of the CMake target attend::pt2: functions that read and run .pt2 archives.

#include "attend/pt2/pt2_contents.h"
#include "attend/pt2/pt2_program.h"
