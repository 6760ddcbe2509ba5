#pragma once

/// \def ATTEND_API
/// Marks names exported by the shared libraries; all others have hidden visibility.
#if defined(__GNUC__)
#define ATTEND_API __attribute__((visibility("default")))
#else
#define ATTEND_API
#endif
