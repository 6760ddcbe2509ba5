# Projects that add attend as a subdirectory compile each library as two unity files, one per core of a small
# machine, without a precompiled header: the header takes longer to compile than it saves, and nothing else is
# compiled meanwhile. With a value of CMAKE_UNITY_BUILD, the project decides.
set(ATTEND_TWO_UNITY_FILES OFF)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_UNITY_BUILD)
  set(ATTEND_TWO_UNITY_FILES ON)
endif()

# attend_precompiled: compiles the precompiled header that most targets of this project reuse.
if(NOT ATTEND_TWO_UNITY_FILES)
  file(CONFIGURE OUTPUT precompiled.cpp CONTENT "// precompiled.h is compiled with this file.\n")
  add_library(attend_precompiled OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(attend_precompiled PRIVATE attend::torch attend_build_options)
  target_precompile_headers(attend_precompiled PRIVATE precompiled.h)
endif()

# attend_add_library(<component> SOURCES <folder or file>... [WITHOUT_SOURCES <file>...]
#                    HEADERS <folder or file>...): adds attend::<component>.
# Paths of sources are relative to src/, paths of headers to include/attend/. A folder in SOURCES means
# all .cpp files below it, a folder in HEADERS all .h files below it. The files after WITHOUT_SOURCES are
# removed from the sources.
function(attend_add_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;WITHOUT_SOURCES;HEADERS")
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
  if(ATTEND_TWO_UNITY_FILES)
    list(LENGTH sources count)
    math(EXPR half "(${count} + 1) / 2")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${half})
  else()
    target_precompile_headers(${target} REUSE_FROM attend_precompiled)
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
