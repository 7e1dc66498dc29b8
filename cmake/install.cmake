# What `cmake --install` puts where. The library is one archive made of every folder below cli/ and serve/.
set(ps_archive_objects "")
foreach(folder IN LISTS PS_LAYERS)
  if(NOT folder MATCHES "^(cli|serve)$")
    list(APPEND ps_archive_objects $<TARGET_OBJECTS:ps_${folder}>)
  endif()
endforeach()
add_library(prestage_static STATIC ${ps_archive_objects})
set_target_properties(prestage_static PROPERTIES OUTPUT_NAME prestage LINKER_LANGUAGE C)
install(TARGETS prestage_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

install(DIRECTORY include/prestage DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# The file finds its prefix from where it stands, so that --prefix and a moved folder work.
file(RELATIVE_PATH ps_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ps_pc_prefix ${ps_pc_prefix})
configure_file(cmake/prestage.pc.in prestage.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/prestage.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(EXISTS ${CMAKE_SOURCE_DIR}/man/prestage.1)
  install(FILES man/prestage.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
