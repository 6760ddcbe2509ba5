#pragma once

/// \def ATTEND_VERSION
/// Version of this library as a string. CMake reads the version of the project from this line.
#define ATTEND_VERSION "0.1.0"
