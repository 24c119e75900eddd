# find_package(trunkline) defines trunkline::trunkline, the shared library with its headers.

get_filename_component(_trunkline_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET trunkline::trunkline)
  add_library(trunkline::trunkline SHARED IMPORTED)
  set_target_properties(trunkline::trunkline PROPERTIES
    IMPORTED_LOCATION "${_trunkline_prefix}/lib/libtrunkline.so"
    IMPORTED_SONAME "libtrunkline.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_trunkline_prefix}/include")
endif()

unset(_trunkline_prefix)
