# Writes OUTPUT, a C file with the table of engine/data_files.h: every file of the folder DATA, by name.
# usage: cmake -DDATA=... -DOUTPUT=... -P embed.cmake
file(GLOB_RECURSE names RELATIVE ${DATA} ${DATA}/*)
list(SORT names) # by bytes, so that a folder is one range

set(table "")
set(arrays "")
set(count 0)
foreach(name IN LISTS names)
  file(READ ${DATA}/${name} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR length "${digits} / 2")
  # 16 bytes a line; one NUL more, so that texts are C strings.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" hex "${hex}")
  string(APPEND arrays "static const unsigned char text_${count}[] = {\n${hex}0};\n")
  string(APPEND table "    {\"${name}\", (const char *)text_${count}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "${DATA} holds no file")
endif()

file(WRITE ${OUTPUT} "// The files of data/, made by cmake/embed.cmake.
#include \"engine/data_files.h\"

${arrays}
const ps_data_file ps_data_table[] = {
${table}};
const uint32_t ps_data_table_count = ${count};
")
