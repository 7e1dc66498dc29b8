// cli/json_reader.h - jansson, for the commands that read JSON.
#ifndef PS_CLI_JSON_READER_H
#define PS_CLI_JSON_READER_H

#include <jansson.h>

#endif
