// text/pretokenize.h - cuts text into the words that byte-level BPE merges within.
//
// A GGUF file names the cut in `tokenizer.ggml.pre`. A behaviour is a list of regular expressions,
// applied in order: each cuts every piece that the ones before left into its matches and the gaps
// between them, and sees nothing beyond its piece. Several names share a behaviour; the table is in
// pretokenize.c, one row a behaviour.
#ifndef PS_TEXT_PRETOKENIZE_H
#define PS_TEXT_PRETOKENIZE_H

#include "base/memory.h"

typedef struct ps_pretokenizer ps_pretokenizer;

// name: as in the file; length 0 (the key is missing) means "default" and logs a warning, because
//       files without the key were made before the cut was recorded.
//
// PS_UNSUPPORTED  a name that no row knows; the message lists the known ones
// PS_NO_MEMORY
//
// The result is immutable and may be used by many threads at once.
PS_MUST_USE ps_status ps_pretokenizer_create(ps_str name, ps_pretokenizer **out);
void ps_pretokenizer_destroy(ps_pretokenizer *pretokenizer); // NULL is fine

// A word that is a token by itself is taken whole, whatever the merges would make of it.
bool ps_pretokenizer_takes_whole_words(const ps_pretokenizer *pretokenizer);

// Models of this kind start with BOS when their file does not say.
bool ps_pretokenizer_adds_bos(const ps_pretokenizer *pretokenizer);

// Called with each word in order; words are not empty and cover the text without gaps.
typedef ps_status (*ps_pretokenizer_word)(void *context, size_t offset, size_t length);

// Any bytes are accepted: a byte that is not part of valid UTF-8 is cut like a control character.
// Time is linear in length: every pattern gives up or accepts a run of characters after at most two
// looks at it. Copies the text only when it is not valid UTF-8.
//
// PS_EXHAUSTED  the regex engine hit its limits (bounds are linear in length; not known to happen)
// PS_NO_MEMORY, or what `word` returned
PS_MUST_USE ps_status ps_pretokenizer_split(const ps_pretokenizer *pretokenizer, const char *text,
                                            size_t length, ps_pretokenizer_word word,
                                            void *context);

#endif
