# Installs the headers, the libraries, the command with its recipes and its shell completions, and the
# package that find_package(attend) finds.
include(CMakePackageConfigHelpers)
set(attend_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attend)

# The installed libraries and the installed command find LibTorch by their RPATH. It is set explicitly,
# since INSTALL_RPATH_USE_LINK_PATH omits folders inside the project, such as .venv, which may contain
# LibTorch.
get_filename_component(torch_lib_dir ${Torch_DIR}/../../../lib ABSOLUTE)
# Each component has its own export set, so that a project gets only the targets that it requests.
# `attend` is the interface library attend::attend.
set(attend_installed ${ATTEND_COMPONENTS})
if(TARGET attend)
  list(APPEND attend_installed attend)
endif()
foreach(component IN LISTS attend_installed)
  if(component STREQUAL "attend")
    set(target attend)
  else()
    set(target attend_${component})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN;${torch_lib_dir}")
  endif()
  install(
    TARGETS ${target}
    EXPORT attend-${component}
    FILE_SET HEADERS)
  install(
    EXPORT attend-${component}
    NAMESPACE attend::
    FILE attend-${component}.cmake
    DESTINATION ${attend_package_dir})
endforeach()
if(TARGET attend_sentencepiece)
  install(TARGETS attend_sentencepiece LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET attend_app)
  set_target_properties(attend_app PROPERTIES INSTALL_RPATH
                                              "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${torch_lib_dir}")
  install(TARGETS attend_app)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/attend
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/_attend
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/attend.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/attend)
endif()

configure_package_config_file(cmake/attendConfig.cmake.in attendConfig.cmake
                              INSTALL_DESTINATION ${attend_package_dir})
# Before 1.0, a new minor version may be incompatible with the previous one.
write_basic_package_version_file(attendConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/attendConfig.cmake ${PROJECT_BINARY_DIR}/attendConfigVersion.cmake
        cmake/LinkLibTorch.cmake cmake/Components.cmake
  DESTINATION ${attend_package_dir})
