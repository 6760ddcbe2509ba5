#pragma once

/// Includes all headers of the CMake target attend::attend: modules, models, file I/O, export.

#include "attend/enum_names.h"
#include "attend/export.h"
#include "attend/input_error.h"
#include "attend/io.h"
#include "attend/nn.h"
#include "attend/pt2.h"
#include "attend/version.h"
