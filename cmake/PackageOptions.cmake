# Read by cpack before it makes a package with ${CPACK_GENERATOR}: the archive contains all components in one folder.
if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
