# Finds LibTorch and, for the tests, a Python with torch.
include(${CMAKE_CURRENT_LIST_DIR}/LinkLibTorch.cmake)
set(ATTEND_TORCH_MINIMUM 2.11)
set(ATTEND_TORCH_UNTRIED 2.15)

# attend_run_find_torch(<variable> <argument>...): sets the variable to the output of scripts/find-torch,
# or to an empty string if the script fails.
function(attend_run_find_torch variable)
  execute_process(
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/find-torch ${ARGN}
    OUTPUT_VARIABLE found
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# If attend is the top-level project and the user has not set Torch_DIR, scripts/find-torch finds
# LibTorch. A project that adds attend as a subproject sets its own Torch_DIR.
if(PROJECT_IS_TOP_LEVEL AND (NOT Torch_DIR OR Torch_DIR STREQUAL ATTEND_FOUND_TORCH_DIR))
  attend_run_find_torch(found)
  if(found AND NOT found STREQUAL Torch_DIR)
    # LibTorch's package caches the paths of its libraries. They are outdated when Torch_DIR changes.
    unset(TORCH_LIBRARY CACHE)
    unset(c10_LIBRARY CACHE)
    set(Torch_DIR ${found} CACHE PATH "The folder of TorchConfig.cmake" FORCE)
    set(ATTEND_FOUND_TORCH_DIR ${found} CACHE INTERNAL "The Torch_DIR that scripts/find-torch found")
  endif()
endif()

attend_find_torch()
if(NOT Torch_FOUND)
  message(FATAL_ERROR "LibTorch was not found: run scripts/setup, or set Torch_DIR to the folder of "
                      "its TorchConfig.cmake (share/cmake/Torch in an unpacked LibTorch archive)")
endif()
if(Torch_VERSION VERSION_LESS ATTEND_TORCH_MINIMUM)
  message(FATAL_ERROR "LibTorch ${Torch_VERSION} in ${Torch_DIR} is too old: attend needs "
                      "${ATTEND_TORCH_MINIMUM} or newer")
endif()
if(Torch_VERSION VERSION_GREATER_EQUAL ATTEND_TORCH_UNTRIED)
  message(WARNING "attend was tried with LibTorch ${ATTEND_TORCH_MINIMUM} or newer, before ${ATTEND_TORCH_UNTRIED}, "
                  "but not with ${Torch_VERSION} in ${Torch_DIR}, whose internal headers may differ")
endif()
message(STATUS "LibTorch ${Torch_VERSION}: ${Torch_DIR}")
get_filename_component(ATTEND_TORCH_ROOT ${Torch_DIR}/../../.. ABSOLUTE)

if(ATTEND_BUILD_TESTS AND NOT EXISTS "${ATTEND_PYTHON}")
  attend_run_find_torch(found --python)
  set(ATTEND_PYTHON "${found}"
      CACHE FILEPATH "Python with torch; if empty, the tests that need torch are skipped" FORCE)
endif()
