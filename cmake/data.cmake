# Every file of data/ becomes a part of the library: machines, models and specs that are shipped with it.
file(GLOB_RECURSE ps_data CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/*)
string(MD5 ps_data_names "${ps_data}") # in the command, so that a removed file makes a new table
set(ps_data_table ${CMAKE_BINARY_DIR}/data_table.c)
add_custom_command(OUTPUT ${ps_data_table}
  COMMAND ${CMAKE_COMMAND} -DDATA=${CMAKE_SOURCE_DIR}/data -DOUTPUT=${ps_data_table} -DNAMES=${ps_data_names}
    -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${ps_data} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding data/" VERBATIM)
target_sources(ps_engine PRIVATE ${ps_data_table})
