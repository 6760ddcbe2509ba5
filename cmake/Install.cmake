# cmake --install: the headers, the libraries, the command, and a package for find_package(attend).
include(CMakePackageConfigHelpers)
set(attend_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attend)

set(attend_installed attend)
if(TARGET attend_train)
  attend_public_headers(attend_train INCLUDE "/include/attend/train/")
  list(APPEND attend_installed attend_train)
endif()
install(
  TARGETS ${attend_installed}
  EXPORT attendTargets
  FILE_SET HEADERS)
if(TARGET attend_app)
  install(TARGETS attend_app)
  list(APPEND attend_installed attend_app)
endif()
# What was linked is found again after the install: LibTorch where it was, attend (if shared) beside it.
set_target_properties(
  ${attend_installed} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}"
                                 INSTALL_RPATH_USE_LINK_PATH ON)

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
        cmake/LinkLibTorch.cmake
  DESTINATION ${attend_package_dir})
