#pragma once

#include "attend/pretrained/pretrained.h"  // IWYU pragma: export
