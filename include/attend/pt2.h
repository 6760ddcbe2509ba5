#pragma once

/// All of attend::pt2: reads and runs .pt2 archives.

#include "attend/pt2/pt2_contents.h"
#include "attend/pt2/pt2_program.h"
