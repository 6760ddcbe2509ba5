# attend_public_headers(<target> INCLUDE|EXCLUDE <regex>): the headers under include/ whose path
# matches (or does not match) are those of the target. It finds them at include/ here and where it is
# installed.
function(attend_public_headers target mode regex)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
  list(FILTER headers ${mode} REGEX ${regex})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include
                                                   FILES ${headers})
endfunction()
