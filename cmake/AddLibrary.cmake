# Each library and the command is compiled as one unity file, or each source by itself with a precompiled header.
# - Unity files need the least processor time: LibTorch's headers, which take longer than most sources, are compiled
#   once for each library. A precompiled header would take longer to compile than it saves.
# - With separate files, a change of one source takes the least time. Preset dev.
# A project that adds attend as a subdirectory decides with CMAKE_UNITY_BUILD; by default, it gets unity files.
set(ATTEND_UNITY_BUILD ON)
if(PROJECT_IS_TOP_LEVEL OR DEFINED CMAKE_UNITY_BUILD)
  set(ATTEND_UNITY_BUILD ${CMAKE_UNITY_BUILD})
endif()

# attend_precompiled: compiles the precompiled header of the targets that do not use unity files.
if(NOT ATTEND_UNITY_BUILD)
  file(CONFIGURE OUTPUT precompiled.cpp CONTENT "// precompiled.h is compiled with this file.\n")
  add_library(attend_precompiled OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(attend_precompiled PRIVATE attend::torch attend_build_options)
  target_precompile_headers(attend_precompiled PRIVATE ${PROJECT_SOURCE_DIR}/src/precompiled.h)
endif()

# attend_compile_sources(<target>): compiles the sources of the target in one of the two ways. Messages of LibTorch
# contain names of files. They begin with the folders of this project and of LibTorch, so that the same sources give
# the same bytes on each machine.
function(attend_compile_sources target)
  target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
                                           -fmacro-prefix-map=${ATTEND_TORCH_ROOT}/=libtorch/)
  if(ATTEND_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  else()
    target_precompile_headers(${target} REUSE_FROM attend_precompiled)
  endif()
endfunction()

# attend_add_library(<component> [WITHOUT_TORCH] SOURCES <folder or file>... [WITHOUT_SOURCES <file>...]
#                    HEADERS <folder or file>...): adds attend::<component>.
# WITHOUT_TORCH: the library does not use LibTorch, so that it does not use the precompiled header either.
# Paths of sources are relative to src/, paths of headers to include/attend/. A folder in SOURCES means
# all .cpp files below it, a folder in HEADERS all .h files below it. The files after WITHOUT_SOURCES are
# removed from the sources.
function(attend_add_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WITHOUT_TORCH" "" "SOURCES;WITHOUT_SOURCES;HEADERS")
  set(target attend_${component})
  _attend_files(sources ${PROJECT_SOURCE_DIR}/src *.cpp ${arg_SOURCES})
  _attend_files(headers ${PROJECT_SOURCE_DIR}/include/attend *.h ${arg_HEADERS})
  list(TRANSFORM arg_WITHOUT_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/src/)
  list(REMOVE_ITEM sources ${arg_WITHOUT_SOURCES})
  add_library(${target} ${sources})
  add_library(attend::${component} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src) # private headers
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:attend_build_options>)
  if(ATTEND_UNITY_BUILD OR NOT arg_WITHOUT_TORCH)
    attend_compile_sources(${target})
  endif()
  set_target_properties(
    ${target} PROPERTIES EXPORT_NAME ${component} VERSION ${PROJECT_VERSION}
                         SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

# _attend_files(<variable> <base> <pattern> <folder or file>...): sets the variable to a list of paths.
# For a file, the list contains the file. For a folder, it contains all files below the folder whose names
# match <pattern>. The given folders and files are relative to <base>.
function(_attend_files variable base pattern)
  set(files)
  foreach(name IN LISTS ARGN)
    if(IS_DIRECTORY ${base}/${name})
      file(GLOB_RECURSE found CONFIGURE_DEPENDS ${base}/${name}/${pattern})
      list(APPEND files ${found})
    else()
      list(APPEND files ${base}/${name})
    endif()
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()
