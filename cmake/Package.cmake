# Packages for machines with an unpacked LibTorch: `cpack` in the build folder makes a .deb of each component of
# Install.cmake, and a .tar.gz of all of them, but for attend_libtorch.
#
# The libraries of the release build are static: before 1.0, each version has another binary interface, and so has each
# LibTorch. A program that links them needs only its LibTorch and the package libattend, which contains the module for
# SentencePiece. With BUILD_SHARED_LIBS, libattend contains the libraries, too.

# The files contain code of headers and static libraries, whose licenses ask for a notice with each copy.
file(READ ${PROJECT_SOURCE_DIR}/LICENSE notices)
file(GLOB torch_license ${ATTEND_TORCH_ROOT}/../torch-*.dist-info/licenses/LICENSE)
set(contained libcli11-dev libgloo-dev libhwy-dev libprotozero-dev libtomlplusplus-dev libutfcpp-dev nlohmann-json3-dev)
list(TRANSFORM contained REPLACE "(.+)" "/usr/share/doc/\\1/copyright")
foreach(file IN LISTS torch_license contained)
  if(EXISTS ${file})
    file(READ ${file} notice)
    string(APPEND notices "\n----\nContains code with this license:\n\n${notice}")
  endif()
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/copyright "${notices}")

set(packages attend_runtime:libattend attend_dev:libattend-dev attend_command:attend)
foreach(component_and_package IN LISTS packages)
  string(REPLACE ":" ";" component_and_package ${component_and_package})
  list(GET component_and_package 0 component)
  list(GET component_and_package 1 package)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${package})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
          COMPONENT ${component})
  list(APPEND CPACK_COMPONENTS_ALL ${component})
endforeach()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_CONTACT "the attend authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Transformer library for LibTorch")
set(CPACK_PACKAGE_FILE_NAME attend-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS # whatever the umask is
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageOptions.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PackageTimes.cmake)
set(CPACK_THREADS 0)

set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
# Debian has no package of this LibTorch. The launcher of the command names the version that it needs.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${ATTEND_TORCH_ROOT}/lib)
set(CPACK_DEBIAN_ATTEND_RUNTIME_PACKAGE_DEPENDS libonig5) # loaded with dlopen
set(CPACK_DEBIAN_ATTEND_DEV_PACKAGE_SECTION libdevel)
get_property(CPACK_DEBIAN_ATTEND_DEV_PACKAGE_DEPENDS GLOBAL PROPERTY ATTEND_DEBIAN_PACKAGES)
list(JOIN CPACK_DEBIAN_ATTEND_DEV_PACKAGE_DEPENDS ", " CPACK_DEBIAN_ATTEND_DEV_PACKAGE_DEPENDS)

include(CPack)
set(needs "It needs an unpacked LibTorch ${Torch_VERSION}, which is not part of Debian.")
cpack_add_component(attend_runtime DESCRIPTION "Shared libraries of attend. ${needs}")
cpack_add_component(attend_dev DESCRIPTION "Headers, static libraries and the CMake package of attend. ${needs}"
                    DEPENDS attend_runtime)
cpack_add_component(attend_command DESCRIPTION "Command that trains, runs and exports transformers. ${needs}"
                    DEPENDS attend_runtime)
