# attend_find_libraries(<variable>), attend_find_train_libraries(<variable>): find the libraries that
# attend::attend and attend::train link and make a target attend::<library> for each that brings none;
# the variable gets the Debian packages of those that are missing.
# For this project and, installed beside attendConfig.cmake, for those that find attend.
function(attend_find_libraries variable)
  set(missing)
  _attend_find_library(fmt fmt/core.h libfmt-dev)
  _attend_find_library(zip zip.h libzip-dev)
  set(${variable} "${missing}" PARENT_SCOPE)
endfunction()

function(attend_find_train_libraries variable)
  set(missing)
  find_package(tomlplusplus QUIET GLOBAL)
  if(NOT tomlplusplus_FOUND)
    list(APPEND missing libtomlplusplus-dev)
  endif()
  _attend_find_library(isal isa-l/crc.h libisal-dev)
  _attend_find_library(csv csv.h libcsv-dev)
  set(${variable} "${missing}" PARENT_SCOPE)
endfunction()

macro(_attend_find_library name header package)
  find_library(ATTEND_${name}_LIBRARY ${name})
  find_path(ATTEND_${name}_INCLUDE_DIR ${header})
  mark_as_advanced(ATTEND_${name}_LIBRARY ATTEND_${name}_INCLUDE_DIR)
  if(NOT ATTEND_${name}_LIBRARY OR NOT ATTEND_${name}_INCLUDE_DIR)
    list(APPEND missing ${package})
  elseif(NOT TARGET attend::${name})
    # GLOBAL: what links attend asks for these by name, and may stand in a folder above.
    add_library(attend::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(
      attend::${name} PROPERTIES IMPORTED_LOCATION ${ATTEND_${name}_LIBRARY}
                                 INTERFACE_INCLUDE_DIRECTORIES ${ATTEND_${name}_INCLUDE_DIR})
  endif()
endmacro()
