#pragma once

/// \file
/// ATTEND_API marks what the shared libraries export; everything else in them is hidden.

#if defined(__GNUC__)
#define ATTEND_API __attribute__((visibility("default")))
#else
#define ATTEND_API
#endif
