# attend_require_packages(<component>...): finds the packages needed to build the components. Projects
# that link an installed attend need neither the header-only packages nor the development files of
# SentencePiece, which is loaded at run time.
function(attend_require_packages)
  set(missing)
  foreach(component IN LISTS ARGN)
    attend_find_component_libraries(missing_of_component ${component})
    list(APPEND missing ${missing_of_component})
  endforeach()
  if(io IN_LIST ARGN) # required by all components except nn
    find_package(nlohmann_json QUIET GLOBAL)
    if(NOT nlohmann_json_FOUND)
      list(APPEND missing nlohmann-json3-dev)
    endif()
    find_package(utf8cpp QUIET GLOBAL)
    if(NOT utf8cpp_FOUND)
      list(APPEND missing libutfcpp-dev)
    elseif(NOT TARGET utf8cpp::utf8cpp) # utf8cpp before version 4
      add_library(utf8cpp::utf8cpp INTERFACE IMPORTED GLOBAL)
      set_target_properties(utf8cpp::utf8cpp PROPERTIES INTERFACE_LINK_LIBRARIES utf8cpp)
    endif()
    find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h)
    find_library(SENTENCEPIECE_LIBRARY sentencepiece)
    find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
    mark_as_advanced(SENTENCEPIECE_INCLUDE_DIR SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY)
    if(SENTENCEPIECE_INCLUDE_DIR AND SENTENCEPIECE_LIBRARY AND SENTENCEPIECE_TRAIN_LIBRARY)
      set(ATTEND_HAS_SENTENCEPIECE ON PARENT_SCOPE)
    elseif(PROJECT_IS_TOP_LEVEL)
      list(APPEND missing libsentencepiece-dev)
    else()
      message(STATUS "attend: SentencePiece (libsentencepiece-dev) was not found: SubwordTokenizer will "
                     "throw std::runtime_error")
    endif()
  endif()
  if(export IN_LIST ARGN OR train IN_LIST ARGN)
    find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_builder.hpp)
    mark_as_advanced(PROTOZERO_INCLUDE_DIR)
    if(NOT PROTOZERO_INCLUDE_DIR)
      list(APPEND missing libprotozero-dev)
    endif()
  endif()
  if(distributed IN_LIST ARGN)
    find_path(GLOO_INCLUDE_DIR gloo/transport/device.h)
    mark_as_advanced(GLOO_INCLUDE_DIR)
    if(NOT GLOO_INCLUDE_DIR)
      list(APPEND missing libgloo-dev)
    endif()
  endif()
  if(missing)
    list(REMOVE_DUPLICATES missing)
    list(JOIN missing " " missing)
    list(JOIN ARGN ", " components)
    message(FATAL_ERROR "attend (components ${components}) needs libraries that were not found; the "
                        "packages of Debian and Ubuntu are: ${missing}. scripts/setup installs them; "
                        "-DATTEND_COMPONENTS=nn builds attend::nn alone, which needs none of them")
  endif()
  if(io IN_LIST ARGN)
    _attend_add_fmt()
  endif()
endfunction()

# attend_fmt: fmt for the files of this project. Uses the compiled library, since header-only fmt would
# be compiled with each source. LibTorch ships headers of another fmt version, so this function writes
# wrapper headers. Their folder is passed with -I, so the compiler finds them before LibTorch's headers,
# whose folder is passed with -isystem. The wrappers mark fmt's headers as system headers, which silences
# their warnings.
function(_attend_add_fmt)
  set(folder ${PROJECT_BINARY_DIR}/fmt_headers)
  file(GLOB headers RELATIVE ${ATTEND_fmt_INCLUDE_DIR} ${ATTEND_fmt_INCLUDE_DIR}/fmt/*.h)
  foreach(header IN LISTS headers)
    file(CONFIGURE OUTPUT ${folder}/${header}
         CONTENT "#pragma GCC system_header\n#include \"${ATTEND_fmt_INCLUDE_DIR}/${header}\"\n")
  endforeach()
  add_library(attend_fmt INTERFACE)
  target_include_directories(attend_fmt BEFORE INTERFACE ${folder})
  target_link_libraries(attend_fmt INTERFACE attend::fmt)
endfunction()
