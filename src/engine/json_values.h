// engine/json_values.h - jansson, for the files that read or make JSON.
#ifndef PS_ENGINE_JSON_VALUES_H
#define PS_ENGINE_JSON_VALUES_H

#include <jansson.h>

#endif
