#pragma once

#if defined(__GNUC__)
/// Marks names exported by the shared libraries; all others have hidden visibility.
#define ATTEND_API __attribute__((visibility("default")))
#else
#define ATTEND_API
#endif
