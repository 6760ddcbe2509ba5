# attend_build_options: compile options for the files of this project. Projects that link attend do not
# get these options.
add_library(attend_build_options INTERFACE)
target_compile_features(attend_build_options INTERFACE cxx_std_20)
# Libraries and programs have the same flags, so that they can share one precompiled header. Visibility
# is hidden, so shared libraries export only symbols marked ATTEND_API.
target_compile_options(attend_build_options INTERFACE -fPIC -fvisibility=hidden
                                                      -fvisibility-inlines-hidden)
# Release builds of LibTorch are compiled with NDEBUG. Without it, at::RecordFunction has an additional
# member, so code of attend would read beyond the end of objects that LibTorch creates. The three
# configurations in the condition define NDEBUG themselves.
target_compile_definitions(attend_build_options INTERFACE
                           $<$<NOT:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:NDEBUG>)
# GCC 13 and newer use a precompiled header only if the two options below are set as they were when the
# header was compiled. On x86, -O2 sets them, but -O1, which the tests are compiled with, does not.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops ATTEND_COMPILER_HAS_UNROLL_ONLY_SMALL_LOOPS)
if(ATTEND_COMPILER_HAS_UNROLL_ONLY_SMALL_LOOPS)
  target_compile_options(attend_build_options INTERFACE -munroll-only-small-loops -mvzeroupper)
endif()
# A project that calls add_subdirectory(attend) may have no build type and no -O flag. GCC and clang then do
# not optimize, which makes attend about half as fast.
get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT is_multi_config AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
  message(STATUS "attend: CMAKE_BUILD_TYPE is not set, so attend is compiled with -O2")
  target_compile_options(attend_build_options INTERFACE -O2)
endif()
if(PROJECT_IS_TOP_LEVEL)
  # clang's -Wconversion includes -Wsign-conversion, GCC's does not: sizes of LibTorch are signed, those of std are not.
  target_compile_options(attend_build_options INTERFACE -Wall -Wextra -Wconversion
                                                        $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>)
endif()
if(ATTEND_WERROR)
  target_compile_options(attend_build_options INTERFACE -Werror)
endif()
if(ATTEND_SANITIZE)
  # The vptr check is disabled: it needs the typeinfo of LibTorch's classes, which LibTorch hides.
  # Without -fno-sanitize-recover, a program with undefined behaviour prints a message and succeeds.
  target_compile_options(
    attend_build_options INTERFACE -fsanitize=${ATTEND_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=undefined
                                   -fno-omit-frame-pointer)
  target_link_options(attend_build_options INTERFACE -fsanitize=${ATTEND_SANITIZE})
endif()

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # These settings let ccache cache files that include a precompiled header. ccache requires pch_defines and
  # time_macros. With include_file_mtime and include_file_ctime, it also caches such files right after the
  # header was compiled. With -fpch-preprocess, GCC's preprocessor does not expand the include.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(attend_build_options INTERFACE -fpch-preprocess)
  endif()
endif()
