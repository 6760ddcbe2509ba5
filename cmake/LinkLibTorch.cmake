# attend_find_torch(<folder>...): searches for LibTorch in the places where find_package(Torch) searches,
# then in the given folders. Sets Torch_FOUND, Torch_DIR and Torch_VERSION, and adds attend::torch. This file is
# also installed next to attendConfig.cmake, which includes it when a project calls find_package(attend).
#
# For a CUDA build of LibTorch, find_package(Torch) requires a complete CUDA toolkit. attend compiles no CUDA
# kernels, so if nvcc or another part of the toolkit is missing, LibTorch's libraries are linked without
# find_package(Torch).
macro(attend_find_torch)
  find_path(
    Torch_DIR TorchConfig.cmake
    HINTS ENV Torch_DIR ${Torch_ROOT} ENV Torch_ROOT
    PATHS ${ARGN}
    PATH_SUFFIXES share/cmake/Torch)
  if(NOT TARGET torch AND Torch_DIR)
    get_filename_component(attend_torch_root ${Torch_DIR}/../../.. ABSOLUTE)
    # The targets are GLOBAL, since targets that link attend refer to them by name and may be in a parent
    # folder.
    set(attend_can_find_torch TRUE)
    if(EXISTS ${attend_torch_root}/lib/libtorch_cuda.so)
      _attend_find_cuda_toolkit(attend_can_find_torch)
    endif()
    if(attend_can_find_torch)
      find_package(Torch QUIET GLOBAL PATHS ${Torch_DIR} NO_DEFAULT_PATH)
    else()
      _attend_link_torch_with_cuda(${attend_torch_root})
    endif()
  endif()
  if(TARGET torch)
    set(Torch_FOUND TRUE)
    if(NOT Torch_VERSION AND Torch_DIR)
      _attend_read_torch_version(${Torch_DIR})
    endif()
    _attend_add_torch()
  endif()
endmacro()

# attend::torch: LibTorch, preceded by libstdc++ in a link command. A program uses the first definition of a
# function. Some builds of LibTorch export functions of std::filesystem, and in the CUDA build of 2.11,
# std::filesystem::remove_all crashes.
function(_attend_add_torch)
  if(NOT TARGET attend::torch)
    add_library(attend::torch INTERFACE IMPORTED GLOBAL)
    set_target_properties(attend::torch PROPERTIES IMPORTED_LIBNAME stdc++ INTERFACE_LINK_LIBRARIES torch)
  endif()
endfunction()

# Sets the variable to whether the CUDA toolkit has all that find_package(Torch) needs. A toolkit from pip, for
# example, often has nvcc without the headers or some of the libraries.
function(_attend_find_cuda_toolkit variable)
  set(${variable} FALSE PARENT_SCOPE)
  find_program(ATTEND_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(ATTEND_NVCC)
  if(NOT ATTEND_NVCC)
    return()
  endif()
  find_package(CUDAToolkit QUIET GLOBAL)
  foreach(library IN ITEMS cuda_driver cudart cublas cublasLt cufft curand nvrtc)
    if(NOT TARGET CUDA::${library})
      return()
    endif()
  endforeach()
  set(${variable} TRUE PARENT_SCOPE)
endfunction()

function(_attend_link_torch_with_cuda root)
  find_package(Threads REQUIRED)
  add_library(torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(
    torch SYSTEM INTERFACE ${root}/include ${root}/include/torch/csrc/api/include)
  target_link_libraries(
    torch INTERFACE ${root}/lib/libtorch.so ${root}/lib/libtorch_cpu.so ${root}/lib/libtorch_cuda.so
                    ${root}/lib/libc10_cuda.so ${root}/lib/libc10.so Threads::Threads)
  # CUDA support is registered when libtorch_cuda.so is loaded, so the libraries above must be linked even
  # if none of their symbols is used. The libraries that LibTorch depends on are found at run time.
  target_link_options(torch INTERFACE -Wl,--no-as-needed -Wl,--allow-shlib-undefined)
endfunction()

function(_attend_read_torch_version dir)
  include(${dir}/TorchConfigVersion.cmake)
  set(Torch_VERSION ${PACKAGE_VERSION} PARENT_SCOPE)
endfunction()
