// text/jinja_lexer.c - template source to tokens.
#include "text/jinja_lexer.h"

#include "text/jinja_unicode.h"

#include <string.h>

static ps_status fail_at(const ps_jinja_lexer *lexer, const char *what)
{
    return ps_jinja_fail(lexer->budget, PS_INVALID, "%s", what);
}

ps_status ps_jinja_lexer_init(ps_jinja_lexer *lexer, ps_jinja_budget *budget, ps_str source)
{
    *lexer = (ps_jinja_lexer){.budget = budget, .line_starting = true};
    lexer->line = budget->line = 1;
    const size_t valid = ps_jinja_valid_bytes(source);
    if (valid < source.length) {
        return ps_fail(PS_INVALID, "the template is not UTF-8 at byte %zu", valid);
    }
    char *copy = NULL;
    PS_JINJA_NEW(budget, copy, source.length + 1);
    size_t length = 0;
    for (size_t i = 0; i < source.length; i++) {
        const bool carriage_return = source.data[i] == '\r';
        copy[length++] = carriage_return ? '\n' : source.data[i];
        i += carriage_return && i + 1 < source.length && source.data[i + 1] == '\n';
    }
    length -= length > 0 && copy[length - 1] == '\n';
    lexer->source = (ps_str){.data = copy, .length = length};
    return PS_OK;
}

static char peek(const ps_jinja_lexer *lexer, size_t offset)
{
    return offset < lexer->source.length - lexer->at ? lexer->source.data[lexer->at + offset]
                                                     : '\0';
}

static ps_str rest_from(const ps_jinja_lexer *lexer, size_t at)
{
    return (ps_str){.data = lexer->source.data + at, .length = lexer->source.length - at};
}

static bool starts_with(ps_str text, const char *literal)
{
    const size_t length = strlen(literal);
    return text.length >= length && memcmp(text.data, literal, length) == 0;
}

// Moves on and counts lines.
static void advance_to(ps_jinja_lexer *lexer, size_t end)
{
    for (; lexer->at < end; lexer->at++) {
        lexer->line += lexer->source.data[lexer->at] == '\n';
    }
    lexer->budget->line = lexer->line;
}

// Ends a tag whose closing text is source[at..end): what `sign` before it says about white space.
static void end_tag(ps_jinja_lexer *lexer, size_t end, char sign, bool trim_newline)
{
    if (sign == '-') {
        end += ps_jinja_space_prefix(rest_from(lexer, end));
    } else if (sign != '+' && trim_newline && end < lexer->source.length &&
               lexer->source.data[end] == '\n') {
        end++;
    }
    advance_to(lexer, end);
    lexer->line_starting = lexer->source.data[end - 1] == '\n';
}

// How many bytes of data[0..length) stay when a tag with `sign` follows.
static size_t kept_before_tag(const ps_jinja_lexer *lexer, ps_str data, char sign, bool is_variable)
{
    if (sign == '-') {
        return data.length - ps_jinja_space_suffix(data);
    }
    if (sign == '+' || is_variable) {
        return data.length;
    }
    const char *newline = memrchr(data.data, '\n', data.length);
    const size_t line = newline == NULL ? 0 : (size_t)(newline - data.data) + 1;
    if (newline == NULL && !lexer->line_starting) {
        return data.length;
    }
    const ps_str last = {.data = data.data + line, .length = data.length - line};
    return ps_jinja_space_prefix(last) == last.length ? line : data.length;
}

static char sign_at(const ps_jinja_lexer *lexer, size_t at)
{
    const char sign = at < lexer->source.length ? lexer->source.data[at] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
}

// The length of `<space> word <space>` at the beginning of text, or 0.
static size_t word_bytes(ps_str text, const char *word)
{
    size_t at = ps_jinja_space_prefix(text);
    if (!starts_with((ps_str){text.data + at, text.length - at}, word)) {
        return 0;
    }
    at += strlen(word);
    return at + ps_jinja_space_prefix((ps_str){text.data + at, text.length - at});
}

static ps_status skip_comment(ps_jinja_lexer *lexer)
{
    const size_t begin = lexer->at + 2 + (sign_at(lexer, lexer->at + 2) != '\0');
    const ps_str rest = rest_from(lexer, begin);
    const char *close = memmem(rest.data, rest.length, "#}", 2);
    if (close == NULL) {
        return fail_at(lexer, "the comment that begins here has no end '#}'");
    }
    const size_t end = (size_t)(close - lexer->source.data);
    end_tag(lexer, end + 2, end > begin ? sign_at(lexer, end - 1) : '\0', true);
    return PS_OK;
}

// If a `{% raw %}` stands at `at`: its length up to the raw text, else 0.
static size_t raw_begin_bytes(const ps_jinja_lexer *lexer, char *out_sign)
{
    size_t at = lexer->at + 2;
    at += sign_at(lexer, at) != '\0';
    const size_t word = word_bytes(rest_from(lexer, at), "raw");
    at += word;
    if (word == 0) {
        return 0;
    }
    const ps_str rest = rest_from(lexer, at);
    const bool strip = starts_with(rest, "-%}");
    if (!strip && !starts_with(rest, "%}")) {
        return 0;
    }
    *out_sign = strip ? '-' : '\0';
    return at + (strip ? 3 : 2) - lexer->at;
}

// Finds `{% endraw %}` at or behind `from`; false when there is none. out_end is behind its '%}'.
static bool find_end_raw(const ps_jinja_lexer *lexer, size_t from, size_t *out_begin,
                         size_t *out_end, char *out_close_sign)
{
    for (size_t at = from; at + 2 <= lexer->source.length; at++) {
        if (!starts_with(rest_from(lexer, at), "{%")) {
            continue;
        }
        size_t end = at + 2 + (sign_at(lexer, at + 2) != '\0');
        const size_t word = word_bytes(rest_from(lexer, end), "endraw");
        end += word;
        const char sign = sign_at(lexer, end);
        end += sign != '\0';
        if (word > 0 && starts_with(rest_from(lexer, end), "%}")) {
            *out_begin = at;
            *out_end = end + 2;
            *out_close_sign = sign;
            return true;
        }
    }
    return false;
}

static ps_status read_raw(ps_jinja_lexer *lexer, size_t begin_bytes, char begin_sign,
                          ps_jinja_token *out)
{
    end_tag(lexer, lexer->at + begin_bytes, begin_sign, false);
    size_t begin = 0;
    size_t end = 0;
    char close_sign = '\0';
    if (!find_end_raw(lexer, lexer->at, &begin, &end, &close_sign)) {
        return fail_at(lexer, "'raw' has no 'endraw'");
    }
    const ps_str data = {.data = lexer->source.data + lexer->at, .length = begin - lexer->at};
    *out = (ps_jinja_token){.kind = PS_JINJA_TOKEN_DATA, .line = lexer->line, .text = data};
    out->text.length = kept_before_tag(lexer, data, sign_at(lexer, begin + 2), false);
    end_tag(lexer, end, close_sign, true);
    lexer->state = PS_JINJA_LEX_DATA;
    return PS_OK;
}

// A tag stands at `at`. Sets *out_given when that gave a token; a comment gives none.
static ps_status read_tag_begin(ps_jinja_lexer *lexer, ps_jinja_token *out, bool *out_given)
{
    const char kind = peek(lexer, 1);
    char raw_sign = '\0';
    const size_t raw_bytes = kind == '%' ? raw_begin_bytes(lexer, &raw_sign) : 0;
    lexer->state = PS_JINJA_LEX_DATA;
    *out_given = kind != '#';
    if (kind == '#') {
        return skip_comment(lexer);
    }
    if (raw_bytes > 0) {
        return read_raw(lexer, raw_bytes, raw_sign, out);
    }
    const size_t begin = lexer->at;
    advance_to(lexer, begin + 2 + (sign_at(lexer, begin + 2) != '\0'));
    lexer->state = kind == '%' ? PS_JINJA_LEX_BLOCK : PS_JINJA_LEX_VARIABLE;
    *out = (ps_jinja_token){.kind = kind == '%' ? PS_JINJA_TOKEN_BLOCK_BEGIN
                                                : PS_JINJA_TOKEN_VARIABLE_BEGIN,
                            .line = lexer->line,
                            .text = {.data = lexer->source.data + begin, .length = 2}};
    return PS_OK;
}

static size_t find_tag(const ps_jinja_lexer *lexer)
{
    for (size_t at = lexer->at; at + 1 < lexer->source.length; at++) {
        const char next = lexer->source.data[at + 1];
        if (lexer->source.data[at] == '{' && (next == '{' || next == '%' || next == '#')) {
            return at;
        }
    }
    return lexer->source.length;
}

// The text up to the next tag, less what that tag strips. May be empty.
static ps_jinja_token read_data(ps_jinja_lexer *lexer)
{
    const size_t tag = find_tag(lexer);
    ps_jinja_token token = {
        .kind = PS_JINJA_TOKEN_DATA,
        .line = lexer->line,
        .text = {.data = lexer->source.data + lexer->at, .length = tag - lexer->at}};
    if (tag < lexer->source.length) {
        const bool is_variable = lexer->source.data[tag + 1] == '{';
        token.text.length = kept_before_tag(lexer, token.text, sign_at(lexer, tag + 2),
                                            is_variable);
    }
    advance_to(lexer, tag);
    lexer->state = PS_JINJA_LEX_TAG;
    return token;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

// The end of digits that single underscores may group.
static size_t digits_end(const ps_jinja_lexer *lexer, size_t offset)
{
    while (is_digit(peek(lexer, offset)) ||
           (peek(lexer, offset) == '_' && is_digit(peek(lexer, offset + 1)))) {
        offset++;
    }
    return offset;
}

static size_t number_bytes(const ps_jinja_lexer *lexer, bool *out_real)
{
    size_t end = digits_end(lexer, 0);
    *out_real = false;
    if (lexer->at > 0 && lexer->source.data[lexer->at - 1] == '.') {
        return end; // the subscripts of `a.0.1`
    }
    if (peek(lexer, end) == '.' && is_digit(peek(lexer, end + 1))) {
        end = digits_end(lexer, end + 1);
        *out_real = true;
    }
    if (peek(lexer, end) == 'e' || peek(lexer, end) == 'E') {
        const char sign = peek(lexer, end + 1);
        const size_t digits = end + 1 + (sign == '+' || sign == '-');
        if (is_digit(peek(lexer, digits))) {
            end = digits_end(lexer, digits);
            *out_real = true;
        }
    }
    return end;
}

static ps_status read_string(ps_jinja_lexer *lexer, ps_jinja_token *out)
{
    const char quote = peek(lexer, 0);
    const size_t begin = lexer->at + 1;
    for (size_t at = begin; at < lexer->source.length; at++) {
        if (lexer->source.data[at] == '\\') {
            at++;
        } else if (lexer->source.data[at] == quote) {
            out->kind = PS_JINJA_TOKEN_STRING;
            out->text = (ps_str){.data = lexer->source.data + begin, .length = at - begin};
            advance_to(lexer, at + 1);
            return PS_OK;
        }
    }
    return fail_at(lexer, "the string that begins here has no end");
}

static ps_status track_bracket(ps_jinja_lexer *lexer, char c)
{
    const char *open = c == '\0' ? NULL : strchr("([{", c);
    if (open != NULL) {
        if (lexer->bracket_count == PS_JINJA_BRACKETS_MAX) {
            return ps_jinja_fail(lexer->budget, PS_EXHAUSTED,
                                 "the template's limit of %d open brackets is reached",
                                 PS_JINJA_BRACKETS_MAX);
        }
        lexer->brackets[lexer->bracket_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (lexer->bracket_count == 0 || lexer->brackets[lexer->bracket_count - 1] != c) {
            return ps_jinja_fail(lexer->budget, PS_INVALID, "'%c' closes nothing", c);
        }
        lexer->bracket_count--;
    }
    return PS_OK;
}

static ps_status read_operator(ps_jinja_lexer *lexer, ps_jinja_token *out)
{
    static const char *const operators[] = {"//", "**", "==", "!=", "<=", ">=", "+", "-", "*",
                                            "/",  "%",  "~",  "<",  ">",  "=",  ".", ",", ":",
                                            "|",  "(",  ")",  "[",  "]",  "{",  "}", ";"};
    const ps_str rest = rest_from(lexer, lexer->at);
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (starts_with(rest, operators[i])) {
            out->kind = PS_JINJA_TOKEN_OPERATOR;
            out->text = (ps_str){.data = rest.data, .length = strlen(operators[i])};
            PS_TRY(track_bracket(lexer, rest.data[0]));
            advance_to(lexer, lexer->at + out->text.length);
            return PS_OK;
        }
    }
    size_t bytes = 0;
    const uint32_t code = ps_jinja_decode(rest.data, rest.length, &bytes);
    if (code >= 0x80) {
        return ps_jinja_fail(lexer->budget, PS_UNSUPPORTED,
                             "U+%04X outside of a string is not supported", code);
    }
    return ps_jinja_fail(lexer->budget, PS_INVALID, "unexpected character '%c'", (int)code);
}

// The end of the tag stands here: sets *out_given. Inside brackets "}}" and "%}" are no end.
static void read_tag_end(ps_jinja_lexer *lexer, ps_jinja_token *out, bool *out_given)
{
    const bool is_block = lexer->state == PS_JINJA_LEX_BLOCK;
    const char sign = sign_at(lexer, lexer->at);
    const size_t close = lexer->at + (sign != '\0');
    *out_given = lexer->bracket_count == 0 && (sign != '+' || is_block) &&
                 starts_with(rest_from(lexer, close), is_block ? "%}" : "}}");
    if (*out_given) {
        out->kind = is_block ? PS_JINJA_TOKEN_BLOCK_END : PS_JINJA_TOKEN_VARIABLE_END;
        out->text = (ps_str){.data = lexer->source.data + close, .length = 2};
        end_tag(lexer, close + 2, sign, is_block);
        lexer->state = PS_JINJA_LEX_DATA;
    }
}

static ps_status read_inside_tag(ps_jinja_lexer *lexer, ps_jinja_token *out)
{
    advance_to(lexer, lexer->at + ps_jinja_space_prefix(rest_from(lexer, lexer->at)));
    *out = (ps_jinja_token){.line = lexer->line};
    if (lexer->at == lexer->source.length) {
        return fail_at(lexer, "the template ends inside a tag");
    }
    bool ended = false;
    read_tag_end(lexer, out, &ended);
    if (ended) {
        return PS_OK;
    }
    const char c = peek(lexer, 0);
    if (c == '"' || c == '\'') {
        return read_string(lexer, out);
    }
    if (!is_name(c)) {
        return read_operator(lexer, out);
    }
    bool real = false;
    size_t end = 0;
    if (is_digit(c)) {
        end = number_bytes(lexer, &real);
        out->kind = real ? PS_JINJA_TOKEN_REAL : PS_JINJA_TOKEN_INTEGER;
    } else {
        while (is_name(peek(lexer, end))) {
            end++;
        }
        out->kind = PS_JINJA_TOKEN_NAME;
    }
    out->text = (ps_str){.data = lexer->source.data + lexer->at, .length = end};
    advance_to(lexer, lexer->at + end);
    return PS_OK;
}

ps_status ps_jinja_lexer_next(ps_jinja_lexer *lexer, ps_jinja_token *out)
{
    lexer->budget->line = lexer->line;
    if (lexer->state == PS_JINJA_LEX_VARIABLE || lexer->state == PS_JINJA_LEX_BLOCK) {
        return read_inside_tag(lexer, out);
    }
    for (;;) {
        if (lexer->state == PS_JINJA_LEX_DATA) {
            *out = read_data(lexer);
            if (out->text.length > 0) {
                return PS_OK;
            }
        }
        if (lexer->at == lexer->source.length) {
            *out = (ps_jinja_token){.kind = PS_JINJA_TOKEN_END, .line = lexer->line};
            return PS_OK;
        }
        bool given = false;
        PS_TRY(read_tag_begin(lexer, out, &given));
        if (given) {
            return PS_OK;
        }
    }
}
