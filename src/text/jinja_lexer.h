// text/jinja_lexer.h - template source to tokens, with Jinja's rules for white space.
//
// As Hugging Face sets the environment: trim_blocks (the newline behind a block or comment goes),
// lstrip_blocks (blanks before a block or comment that begins a line go), and one newline at the
// end of the source goes. `-` at a tag strips all white space on its side, `+` switches the two
// rules off. Line breaks \r\n and \r become \n.
#ifndef PS_TEXT_JINJA_LEXER_H
#define PS_TEXT_JINJA_LEXER_H

#include "text/jinja_value.h"

typedef enum ps_jinja_token_kind {
    PS_JINJA_TOKEN_END,
    PS_JINJA_TOKEN_DATA, // text outside of tags
    PS_JINJA_TOKEN_VARIABLE_BEGIN,
    PS_JINJA_TOKEN_VARIABLE_END,
    PS_JINJA_TOKEN_BLOCK_BEGIN,
    PS_JINJA_TOKEN_BLOCK_END,
    PS_JINJA_TOKEN_NAME,
    PS_JINJA_TOKEN_STRING, // text is what stands between the quotes, escapes included
    PS_JINJA_TOKEN_INTEGER,
    PS_JINJA_TOKEN_REAL,
    PS_JINJA_TOKEN_OPERATOR, // text is the operator
} ps_jinja_token_kind;

typedef struct ps_jinja_token {
    ps_jinja_token_kind kind;
    uint32_t line;
    ps_str text; // borrows the lexer's source
} ps_jinja_token;

#define PS_JINJA_BRACKETS_MAX 256

typedef struct ps_jinja_lexer {
    ps_jinja_budget *budget; // its line is set to what is being read
    ps_str source;           // normalised copy
    size_t at;
    uint32_t line; // of `at`
    enum {
        PS_JINJA_LEX_DATA,
        PS_JINJA_LEX_TAG, // a tag begins at `at`, the data before it has been given out
        PS_JINJA_LEX_VARIABLE,
        PS_JINJA_LEX_BLOCK,
    } state;
    bool line_starting;                   // the tag before ended with a newline
    char brackets[PS_JINJA_BRACKETS_MAX]; // the closing ones that are awaited
    uint32_t bracket_count;
} ps_jinja_lexer;

// PS_INVALID when source is not UTF-8.
PS_MUST_USE ps_status ps_jinja_lexer_init(ps_jinja_lexer *lexer, ps_jinja_budget *budget,
                                          ps_str source);
PS_MUST_USE ps_status ps_jinja_lexer_next(ps_jinja_lexer *lexer, ps_jinja_token *out);

#endif
