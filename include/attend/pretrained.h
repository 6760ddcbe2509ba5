#pragma once

#include "attend/pretrained/peft_adapter.h"  // IWYU pragma: export
#include "attend/pretrained/pretrained.h"    // IWYU pragma: export
