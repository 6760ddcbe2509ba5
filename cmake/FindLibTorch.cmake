# Finds LibTorch. Where this project is built by itself and nobody set Torch_DIR, scripts/find-torch
# looks for one (LIBTORCH, then the Python packages); an embedding project brings its own.
set(ATTEND_TORCH_MINIMUM 2.11)
if(PROJECT_IS_TOP_LEVEL AND NOT Torch_DIR AND NOT DEFINED ENV{Torch_DIR})
  execute_process(
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/find-torch
    OUTPUT_VARIABLE found_torch_dir
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
  if(found_torch_dir)
    set(Torch_DIR ${found_torch_dir} CACHE PATH "The folder of TorchConfig.cmake")
  endif()
endif()

find_package(Torch QUIET)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "LibTorch was not found: run scripts/setup, or set Torch_DIR to the folder of "
                      "its TorchConfig.cmake (share/cmake/Torch in an unpacked LibTorch archive)")
endif()
if(Torch_VERSION VERSION_LESS ATTEND_TORCH_MINIMUM)
  message(FATAL_ERROR "LibTorch ${Torch_VERSION} in ${Torch_DIR} is too old: attend needs "
                      "${ATTEND_TORCH_MINIMUM} or newer")
endif()
