# The components of attend, and the packages that each component needs. This file is also installed next
# to attendConfig.cmake, which includes it when a project calls find_package(attend).
set(ATTEND_ALL_COMPONENTS files nn io tokenizers pretrained pt2 export train distributed) # each component follows the components that it requires
set(ATTEND_files_REQUIRES)
set(ATTEND_nn_REQUIRES)
set(ATTEND_io_REQUIRES files)
set(ATTEND_tokenizers_REQUIRES files)
set(ATTEND_pretrained_REQUIRES files nn io tokenizers)
set(ATTEND_pt2_REQUIRES files nn io)
set(ATTEND_export_REQUIRES files nn io pt2)
set(ATTEND_train_REQUIRES files nn io tokenizers pretrained)
set(ATTEND_distributed_REQUIRES files nn io train)

# attend_resolve_components(<variable> <component>...): sets the variable to the given components
# and all components that they require, in the order of ATTEND_ALL_COMPONENTS. Unknown names are last.
function(attend_resolve_components variable)
  set(wanted ${ARGN})
  set(resolved)
  set(reversed ${ATTEND_ALL_COMPONENTS})
  list(REVERSE reversed)
  foreach(component IN LISTS reversed)
    if(component IN_LIST wanted)
      list(PREPEND resolved ${component})
      list(APPEND wanted ${ATTEND_${component}_REQUIRES})
    endif()
  endforeach()
  list(REMOVE_ITEM wanted ${ATTEND_ALL_COMPONENTS})
  set(${variable} ${resolved} ${wanted} PARENT_SCOPE)
endfunction()

# attend_find_component_libraries(<variable> <component>): finds the libraries that a component links.
# find_package(tomlplusplus) adds its own target. For each other library that is found, this function adds
# a target attend::<library>. Sets the variable to the Debian packages of the libraries that are missing. The global
# property ATTEND_DEBIAN_PACKAGES lists those of the libraries that were found.
function(attend_find_component_libraries variable component)
  set(missing)
  if(component MATCHES "^(files|io|tokenizers|pretrained|pt2|export|train|distributed)$")
    _attend_find_library(fmt fmt/core.h libfmt-dev)
  endif()
  if(component STREQUAL "nn")
    _attend_find_library(hwy hwy/highway.h libhwy-dev)
  elseif(component STREQUAL "io")
    _attend_find_library(zip zip.h libzip-dev)
  elseif(component STREQUAL "tokenizers")
    _attend_find_library(onig oniguruma.h libonig-dev)
    _attend_find_library(utf8proc utf8proc.h libutf8proc-dev)
  elseif(component STREQUAL "train")
    find_package(tomlplusplus QUIET GLOBAL)
    if(tomlplusplus_FOUND)
      set_property(GLOBAL APPEND PROPERTY ATTEND_DEBIAN_PACKAGES libtomlplusplus-dev)
    else()
      list(APPEND missing libtomlplusplus-dev)
    endif()
    _attend_find_library(isal isa-l/crc.h libisal-dev)
    _attend_find_library(csv csv.h libcsv-dev)
  endif()
  set(${variable} ${missing} PARENT_SCOPE)
endfunction()

macro(_attend_find_library name header package)
  find_library(ATTEND_${name}_LIBRARY ${name})
  find_path(ATTEND_${name}_INCLUDE_DIR ${header})
  mark_as_advanced(ATTEND_${name}_LIBRARY ATTEND_${name}_INCLUDE_DIR)
  if(NOT ATTEND_${name}_LIBRARY OR NOT ATTEND_${name}_INCLUDE_DIR)
    list(APPEND missing ${package})
  elseif(NOT TARGET attend::${name})
    set_property(GLOBAL APPEND PROPERTY ATTEND_DEBIAN_PACKAGES ${package})
    # The target is GLOBAL, since targets that link attend refer to it by name and may be in a parent folder.
    add_library(attend::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(
      attend::${name} PROPERTIES IMPORTED_LOCATION ${ATTEND_${name}_LIBRARY}
                                 INTERFACE_INCLUDE_DIRECTORIES ${ATTEND_${name}_INCLUDE_DIR})
  endif()
endmacro()
