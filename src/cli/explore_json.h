// cli/explore_json.h - strict reading of a spec's members: every message has the member's path.
#ifndef PS_CLI_EXPLORE_JSON_H
#define PS_CLI_EXPLORE_JSON_H

#include "base/memory.h"
#include "cli/json_reader.h"

#define PS_SPEC_PATH_BYTES 200u
#define PS_SPEC_TEXT_BYTES_MAX ((size_t)4096)

// "path.key"; "key" where the path is "". Cut where it does not fit.
void ps_spec_path(char out[PS_SPEC_PATH_BYTES], const char *path, const char *key);
void ps_spec_path_index(char out[PS_SPEC_PATH_BYTES], const char *path, size_t index); // "path[7]"

// All of these answer PS_INVALID with path and what would be right.

// `object` is one, and has no other keys than these.
PS_MUST_USE ps_status ps_spec_keys(const char *path, const json_t *object, const char *const *keys,
                                   uint32_t count);
PS_MUST_USE ps_status ps_spec_is_object(const char *path, const json_t *value);

// A list of 1 to `most` values.
PS_MUST_USE ps_status ps_spec_list(const char *path, const json_t *value, size_t most);

// A member that is a text: borrowed from it. Where there is none, *out stays.
PS_MUST_USE ps_status ps_spec_text(const char *path, const json_t *object, const char *key,
                                   const char **out);
PS_MUST_USE ps_status ps_spec_text_required(const char *path, const json_t *object, const char *key,
                                            const char **out);

// A finite number of a range. Where there is none, *out stays.
PS_MUST_USE ps_status ps_spec_number(const char *path, const json_t *object, const char *key,
                                     double lowest, double highest, double *out);
PS_MUST_USE ps_status ps_spec_whole(const char *path, const json_t *object, const char *key,
                                    uint64_t lowest, uint64_t highest, uint64_t *out);

// The index of one of these words. Where there is none, *out stays.
PS_MUST_USE ps_status ps_spec_choice(const char *path, const json_t *object, const char *key,
                                     const char *const *words, uint32_t count, uint32_t *out);

#endif
