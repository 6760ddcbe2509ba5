# Installs the headers, the libraries, the command with its recipes and its shell completions and man pages, and the
# package that find_package(attend) finds. cmake/Package.cmake makes packages of the components:
# - attend_runtime: shared libraries
# - attend_dev: headers, static libraries and the CMake package
# - attend_command: the command and its files
# - attend_libtorch: a link to the LibTorch of this build. It is the only installed file that contains a path of this
#   machine, so packages do not contain it
include(CMakePackageConfigHelpers)
set(attend_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attend)
set(attend_libtorch ${CMAKE_INSTALL_LIBDIR}/attend/libtorch)

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/link)
file(CREATE_LINK ${ATTEND_TORCH_ROOT} ${PROJECT_BINARY_DIR}/link/libtorch SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/link/libtorch DESTINATION ${CMAKE_INSTALL_LIBDIR}/attend
        COMPONENT attend_libtorch)

# Each component of find_package has its own export set, so that a project gets only the targets that it requests.
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
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/attend/libtorch/lib")
  endif()
  install(
    TARGETS ${target}
    EXPORT attend-${component}
    ARCHIVE COMPONENT attend_dev
    LIBRARY COMPONENT attend_runtime NAMELINK_COMPONENT attend_dev
    FILE_SET HEADERS COMPONENT attend_dev)
  install(
    EXPORT attend-${component}
    NAMESPACE attend::
    FILE attend-${component}.cmake
    DESTINATION ${attend_package_dir}
    COMPONENT attend_dev)
endforeach()
if(TARGET attend_sentencepiece)
  install(TARGETS attend_sentencepiece LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT attend_runtime)
endif()
if(TARGET attend_app)
  if("${CMAKE_INSTALL_BINDIR};${CMAKE_INSTALL_LIBEXECDIR}" MATCHES "/" OR CMAKE_INSTALL_LIBEXECDIR STREQUAL CMAKE_INSTALL_LIBDIR)
    message(FATAL_ERROR "CMAKE_INSTALL_BINDIR is ${CMAKE_INSTALL_BINDIR} and CMAKE_INSTALL_LIBEXECDIR is "
                        "${CMAKE_INSTALL_LIBEXECDIR}, expected names of folders, the second one other than that of the libraries")
  endif()
  # The launcher PREFIX/bin/attend finds LibTorch and starts the command.
  set_target_properties(attend_app PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_minor ${Torch_VERSION})
  configure_file(apps/attend/launcher.in ${PROJECT_BINARY_DIR}/apps/attend/launcher/attend @ONLY)
  install(PROGRAMS ${PROJECT_BINARY_DIR}/apps/attend/launcher/attend DESTINATION ${CMAKE_INSTALL_BINDIR}
          COMPONENT attend_command)
  install(TARGETS attend_app RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR} COMPONENT attend_command)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/attend
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT attend_command)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/_attend
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT attend_command)
  install(FILES ${PROJECT_BINARY_DIR}/apps/attend/completion/attend.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT attend_command)
  # Exist after the target attend_man was built.
  install(
    DIRECTORY ${PROJECT_BINARY_DIR}/apps/attend/man/
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT attend_command
    OPTIONAL)
  install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/attend COMPONENT attend_command)
endif()

configure_package_config_file(cmake/attendConfig.cmake.in attendConfig.cmake
                              INSTALL_DESTINATION ${attend_package_dir} PATH_VARS attend_libtorch)
# Before 1.0, a new minor version may be incompatible with the previous one.
write_basic_package_version_file(attendConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/attendConfig.cmake ${PROJECT_BINARY_DIR}/attendConfigVersion.cmake
        cmake/LinkLibTorch.cmake cmake/Components.cmake
  DESTINATION ${attend_package_dir}
  COMPONENT attend_dev)
