# cmake --install: the headers, the libraries, the command, and a package for find_package(attend).
include(CMakePackageConfigHelpers)
set(attend_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attend)

set(attend_installed attend)
if(TARGET attend_train)
  list(APPEND attend_installed attend_train)
  install(TARGETS attend_sentencepiece LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(
  TARGETS ${attend_installed}
  EXPORT attendTargets
  FILE_SET HEADERS)
if(TARGET attend_app)
  install(TARGETS attend_app)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/attend
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/attend)
  list(APPEND attend_installed attend_app)
endif()
# LibTorch is found again where it is now. Not by INSTALL_RPATH_USE_LINK_PATH, which leaves out what is
# in the project's own folder, as .venv is.
get_filename_component(torch_lib_dir ${Torch_DIR}/../../../lib ABSOLUTE)
set_target_properties(${attend_installed} PROPERTIES INSTALL_RPATH
                                                     "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${torch_lib_dir}")

install(
  EXPORT attendTargets
  NAMESPACE attend::
  DESTINATION ${attend_package_dir})
configure_package_config_file(cmake/attendConfig.cmake.in attendConfig.cmake
                              INSTALL_DESTINATION ${attend_package_dir})
# Before 1.0 a new minor version may break what uses the old one.
write_basic_package_version_file(attendConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/attendConfig.cmake ${PROJECT_BINARY_DIR}/attendConfigVersion.cmake
        cmake/LinkLibTorch.cmake cmake/Libraries.cmake
  DESTINATION ${attend_package_dir})
