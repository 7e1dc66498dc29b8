// cli/options.c - reads a command line by the table of options, and prints it as help.
#include "cli/options_internal.h"

#include "base/scan.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LONG 256 // getopt's values of long names: this and the line's index

static const char *const FORMATS[] = {"md", "csv", "json"};
static const char *const PHASES[PS_CLI_PHASES_ALL] = {"prompt", "decode", "all"};

const char *ps_cli_phases_name(uint32_t phases)
{
    ps_assert(phases >= 1 && phases <= PS_CLI_PHASES_ALL);
    return PHASES[phases - 1];
}

// ---- values

ps_status ps_cli_parse_integer(const char *what, const char *text, int64_t lowest, int64_t highest,
                               int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool is_number = isdigit((unsigned char)text[text[0] == '-']) && *end == '\0';
    if (!is_number || errno != 0 || value < lowest || value > highest) {
        return ps_fail(PS_INVALID, "%s '%s': a whole number from %lld to %lld would be right", what,
                       text, (long long)lowest, (long long)highest);
    }
    *out = value;
    return PS_OK;
}

static ps_status parse_u64(const char *what, const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0) {
        return ps_fail(PS_INVALID, "%s '%s': a whole number from 0 to %llu would be right", what,
                       text, (unsigned long long)UINT64_MAX);
    }
    *out = value;
    return PS_OK;
}

static ps_status parse_f64(const char *what, const char *text, double lowest, double highest,
                           double *out)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (text[strspn(text, "+-.0123456789eE")] != '\0' || end == text || *end != '\0' ||
        !(value >= lowest && value <= highest)) {
        return ps_fail(PS_INVALID, "%s '%s': a number from %g to %g would be right", what, text,
                       lowest, highest);
    }
    *out = value;
    return PS_OK;
}

static ps_status parse_f32(const char *what, const char *text, double lowest, double highest,
                           float *out)
{
    double value = 0;
    PS_TRY(parse_f64(what, text, lowest, highest, &value));
    *out = (float)value;
    return PS_OK;
}

// Always with its unit.
static ps_status parse_time(const char *what, const char *text, double *out_ns)
{
    static const struct {
        const char *name;
        double ns;
    } UNITS[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *end = NULL;
    const double number = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;
    for (size_t i = 0; end != NULL && i < sizeof UNITS / sizeof UNITS[0]; i++) {
        const double ns = number * UNITS[i].ns;
        if (strcmp(end, UNITS[i].name) == 0 && ns > 0 && ns <= 1e15) {
            *out_ns = ns;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': a time such as 100ms or 800us would be right", what, text);
}

// Numbers with commas between them.
static ps_status parse_list(const char *what, const char *text, const ps_option_line *line,
                            ps_cli_list *out)
{
    ps_cli_list list = {0};
    const char *rest = text;
    for (;;) {
        char word[24];
        const size_t length = strcspn(rest, ",");
        int64_t value = 0;
        (void)snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 23, rest);
        if (ps_cli_parse_integer(what, word, (int64_t)line->lowest, (int64_t)line->highest,
                                 &value) != PS_OK) {
            return ps_fail(PS_INVALID,
                           "%s '%s': whole numbers from %.0f to %.0f with commas between them "
                           "would be right",
                           what, text, line->lowest, line->highest);
        }
        if (list.count == PS_CLI_LIST_MAX) {
            return ps_fail(PS_INVALID, "%s '%s': more than %u numbers", what, text,
                           PS_CLI_LIST_MAX);
        }
        list.values[list.count++] = (uint32_t)value;
        if (rest[length] == '\0') {
            break;
        }
        rest += length + 1;
    }
    *out = list;
    return PS_OK;
}

static ps_status parse_pair(const char *what, const char *text, const ps_option_line *line,
                            ps_cli_options *options)
{
    ps_cli_list pair;
    PS_TRY(parse_list(what, text, line, &pair));
    if (pair.count != 2 || options->pair_prompts.count == PS_CLI_LIST_MAX) {
        return ps_fail(PS_INVALID,
                       "%s '%s': two numbers as in 512,128, at most %u times, would be "
                       "right",
                       what, text, PS_CLI_LIST_MAX);
    }
    options->pair_prompts.values[options->pair_prompts.count++] = pair.values[0];
    options->pair_generations.values[options->pair_generations.count++] = pair.values[1];
    return PS_OK;
}

static ps_status parse_bias(const char *what, const char *text, ps_cli_options *options)
{
    const size_t digits = strspn(text, "0123456789");
    const char *bias_text = text + digits;
    const bool is_ban = strcmp(bias_text, "-inf") == 0;
    char id_text[16];
    int64_t id = 0;
    float bias = -INFINITY;
    (void)snprintf(id_text, sizeof id_text, "%.*s", digits < 15 ? (int)digits : 15, text);
    if (digits == 0 || (*bias_text != '+' && *bias_text != '-')) {
        return ps_fail(PS_INVALID,
                       "%s '%s': a token id and a signed number as in 15043+1, or "
                       "15043-inf, would be right",
                       what, text);
    }
    PS_TRY(ps_cli_parse_integer(what, id_text, 0, INT32_MAX, &id));
    if (!is_ban) {
        PS_TRY(parse_f32(what, bias_text, -1e6, 1e6, &bias));
    }
    const size_t count = options->sampler.bias_count;
    if (count == PS_CLI_BIASES_MAX) {
        return ps_fail(PS_INVALID, "%s: at most %u of them would be right", what,
                       PS_CLI_BIASES_MAX);
    }
    ps_logit_bias *grown = realloc(options->biases, (count + 1) * sizeof *grown);
    if (grown == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for %s", what);
    }
    grown[count] = (ps_logit_bias){(int32_t)id, bias};
    options->biases = grown;
    options->sampler.bias_count = count + 1;
    return PS_OK;
}

static ps_status parse_format(const char *what, const char *text, uint32_t *out)
{
    for (uint32_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
        if (strcmp(text, FORMATS[i]) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': md, csv or json would be right", what, text);
}

static ps_status parse_objective(const char *what, const char *text, uint32_t *out)
{
    if (strcmp(text, "latency") != 0 && strcmp(text, "throughput") != 0) {
        return ps_fail(PS_INVALID, "%s '%s': latency or throughput would be right", what, text);
    }
    *out = text[0] == 'l' ? PS_CLI_LATENCY : PS_CLI_THROUGHPUT;
    return PS_OK;
}

static ps_status parse_phases(const char *what, const char *text, uint32_t *out)
{
    for (uint32_t i = 0; i < PS_CLI_PHASES_ALL; i++) {
        if (strcmp(text, ps_cli_phases_name(i + 1)) == 0) {
            *out = i + 1;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': prompt, decode or all would be right", what, text);
}

static ps_status parse_kv_type(const char *what, const char *text, uint32_t *out)
{
    const char *name;
    for (uint32_t i = 0; (name = ps_kv_type_name((ps_kv_type)i)) != NULL; i++) {
        if (strcmp(text, name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': %s or %s would be right", what, text,
                   ps_kv_type_name(PS_KV_F16), ps_kv_type_name(PS_KV_Q8_0));
}

static ps_status parse_policy(const char *what, const char *text, uint32_t *out)
{
    const char *name;
    // The default is for those who say nothing.
    for (uint32_t i = PS_PREFETCH_DEFAULT + 1;
         (name = ps_prefetch_policy_name((ps_prefetch_policy)i)) != NULL; i++) {
        if (strcmp(text, name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': off, preserve, auto or ratio would be right", what, text);
}

static ps_status parse_expert_policy(const char *what, const char *text, uint32_t *out)
{
    const char *name;
    for (uint32_t i = 0; (name = ps_expert_policy_name((ps_expert_policy_kind)i)) != NULL; i++) {
        if (strcmp(text, name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': auto, lru, lfu, hotset or heat would be right", what,
                   text);
}

ps_status ps_cli_parse_bytes(const char *what, const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        double bytes;
    } UNITS[] = {{"", 1},     {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1000},
                 {"MB", 1e6}, {"GB", 1e9},   {"K", 1024},      {"M", 1 << 20},   {"G", 1 << 30}};
    char *end = NULL;
    errno = 0;
    const double number = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : -1;
    for (size_t i = 0; end != NULL && errno == 0 && i < sizeof UNITS / sizeof UNITS[0]; i++) {
        const double bytes = number * UNITS[i].bytes;
        if (strcmp(end, UNITS[i].name) == 0 && bytes >= 1 && bytes < 0x1p60) {
            *out = (uint64_t)bytes;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': a size such as 8GiB or 900MiB would be right", what, text);
}

static ps_status parse_schedule(const char *what, const char *text, uint32_t *out)
{
    const char *name;
    for (uint32_t i = 0; (name = ps_comm_schedule_name((ps_comm_schedule)i)) != NULL; i++) {
        if (strcmp(text, name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    return ps_fail(PS_INVALID, "%s '%s': serial, fused or auto would be right", what, text);
}

static ps_status parse_side(const char *word, ps_cli_side *out)
{
    char policy[sizeof out->name];
    uint32_t prefetch;
    (void)snprintf(out->name, sizeof out->name, "%s", word);
    (void)snprintf(policy, sizeof policy, "%.*s", (int)strcspn(word, "+"), word);
    if (strcmp(word, "serial") == 0 || strcmp(word, "fused") == 0) {
        out->prefetch = PS_PREFETCH_OFF;
        out->comm_schedule = word[0] == 's' ? PS_COMM_SERIAL : PS_COMM_FUSED;
        return PS_OK;
    }
    if (parse_policy("--compare", policy, &prefetch) != PS_OK) {
        return ps_fail(PS_INVALID,
                       "--compare '%s': serial, fused, off, preserve, auto or ratio would be right",
                       policy);
    }
    const char *suffix = strchr(word, '+');
    uint32_t schedule = PS_COMM_SERIAL;
    if (suffix != NULL) {
        PS_TRY(parse_schedule("--compare: behind the +", suffix + 1, &schedule));
    }
    out->prefetch = (ps_prefetch_policy)prefetch;
    out->comm_schedule = (ps_comm_schedule)schedule;
    return PS_OK;
}

ps_status ps_cli_sides_parse(const char *text, ps_cli_side *out, uint32_t most, uint32_t *out_count)
{
    *out_count = 0;
    for (const char *rest = text;; rest++) {
        char word[sizeof out->name];
        const size_t length = strcspn(rest, ",");
        (void)snprintf(word, sizeof word, "%.*s",
                       length < sizeof word ? (int)length : (int)sizeof word - 1, rest);
        if (*out_count == most) {
            return ps_fail(PS_INVALID, "--compare '%s': at most %u sides would be right", text,
                           most);
        }
        PS_TRY(parse_side(word, &out[(*out_count)++]));
        rest += length;
        if (*rest == '\0') {
            return PS_OK;
        }
    }
}

static ps_status parse_value(const ps_option_line *line, const char *text, ps_cli_options *options)
{
    char what[40];
    void *at = (char *)options + line->offset;
    int64_t number = 0;
    (void)snprintf(what, sizeof what, "--%s", line->names[0]);
    switch (line->kind) {
    case PS_OPTION_FLAG:
        *(bool *)at = true;
        return PS_OK;
    case PS_OPTION_U32:
    case PS_OPTION_I64:
        PS_TRY(ps_cli_parse_integer(what, text, (int64_t)line->lowest, (int64_t)line->highest,
                                    &number));
        if (line->kind == PS_OPTION_U32) {
            *(uint32_t *)at = (uint32_t)number;
        } else {
            *(int64_t *)at = number;
        }
        return PS_OK;
    case PS_OPTION_U64:
        return parse_u64(what, text, at);
    case PS_OPTION_F32:
        return parse_f32(what, text, line->lowest, line->highest, at);
    case PS_OPTION_F64:
        return parse_f64(what, text, line->lowest, line->highest, at);
    case PS_OPTION_TIME:
        return parse_time(what, text, at);
    case PS_OPTION_TEXT:
        *(const char **)at = text;
        return PS_OK;
    case PS_OPTION_LIST:
        return parse_list(what, text, line, at);
    case PS_OPTION_PAIRS:
        return parse_pair(what, text, line, options);
    case PS_OPTION_BIAS:
        return parse_bias(what, text, options);
    case PS_OPTION_FORMAT:
        return parse_format(what, text, at);
    case PS_OPTION_COMM:
        return parse_schedule(what, text, at);
    case PS_OPTION_POLICY:
        return parse_policy(what, text, at);
    case PS_OPTION_KV:
        return parse_kv_type(what, text, at);
    case PS_OPTION_OBJECTIVE:
        return parse_objective(what, text, at);
    case PS_OPTION_BYTES:
        return ps_cli_parse_bytes(what, text, at);
    case PS_OPTION_EXPERTS:
        return parse_expert_policy(what, text, at);
    case PS_OPTION_PHASE:
        return parse_phases(what, text, at);
    }
    return ps_fail(PS_INTERNAL, "no such kind of option");
}

// ---- parsing

#define GETOPT_LONG_MAX (PS_OPTION_LINES_MAX * PS_OPTION_NAMES_MAX + 1)

typedef struct getopt_tables {
    struct option longs[GETOPT_LONG_MAX];
    char shorts[2 * PS_OPTION_LINES_MAX + 2];
} getopt_tables;

static getopt_tables make_tables(uint32_t command)
{
    getopt_tables tables = {.shorts = ":"}; // a missing argument is told from an unknown option
    size_t long_count = 0;
    size_t length = 1;
    for (size_t i = 0; i < ps_option_line_count; i++) {
        const ps_option_line *line = &ps_option_lines[i];
        if ((line->commands & command) == 0) {
            continue;
        }
        const int has_argument = line->kind == PS_OPTION_FLAG ? no_argument : required_argument;
        for (size_t j = 0; j < PS_OPTION_NAMES_MAX && line->names[j] != NULL; j++) {
            tables.longs[long_count++] = (struct option){line->names[j], has_argument, NULL,
                                                         FIRST_LONG + (int)i};
        }
        if (line->letter != 0) {
            tables.shorts[length++] = line->letter;
            if (has_argument == required_argument) {
                tables.shorts[length++] = ':';
            }
        }
    }
    return tables;
}

static const ps_option_line *find_line(uint32_t command, int value)
{
    for (size_t i = 0; i < ps_option_line_count; i++) {
        const ps_option_line *line = &ps_option_lines[i];
        if ((line->commands & command) != 0 &&
            (value == FIRST_LONG + (int)i || (value != 0 && value == line->letter))) {
            return line;
        }
    }
    return NULL;
}

static ps_status refuse_option(uint32_t command, const char *word)
{
    const char *names[GETOPT_LONG_MAX];
    const getopt_tables tables = make_tables(command);
    uint32_t count = 0;
    while (tables.longs[count].name != NULL) {
        names[count] = tables.longs[count].name;
        count++;
    }
    const char *name = word + strspn(word, "-");
    const ps_str typed = {name, strcspn(name, "=")};
    return ps_fail(PS_INVALID, "unknown option '%.*s'; the nearest is --%s",
                   (int)strcspn(word, "="), word, ps_nearest(typed, names, count));
}

static ps_status take_option(uint32_t command, int value, char **argv, ps_cli_options *options)
{
    const char *word = argv[optind - 1];
    if (value == ':') {
        const ps_option_line *line = find_line(command, optopt);
        return ps_fail(PS_INVALID, "%s: %s is missing", word,
                       line == NULL ? "a value" : line->argument);
    }
    if (value == '?') {
        const ps_option_line *line = find_line(command, optopt);
        if (line != NULL) {
            return ps_fail(PS_INVALID, "--%s takes no value", line->names[0]);
        }
        char letter[3] = {'-', (char)optopt, '\0'};
        return refuse_option(command, optopt == 0 ? word : letter);
    }
    const ps_option_line *line = find_line(command, value);
    ps_assert(line != NULL);
    return parse_value(line, optarg, options);
}

static ps_status take_argument(uint32_t command, const char *word, ps_cli_options *options)
{
    if (command == PS_CLI_EXPLORE) {
        ps_cli_explore_options *explore = &options->explore;
        if (explore->spec_count == PS_CLI_SPECS_MAX) {
            return ps_fail(PS_INVALID, "at most %u specs would be right", PS_CLI_SPECS_MAX);
        }
        explore->specs[explore->spec_count++] = word;
    } else if (options->model == NULL) {
        options->model = word;
    } else if (command == PS_CLI_PERPLEXITY && options->file == NULL) {
        options->file = word;
    } else {
        return ps_fail(PS_INVALID, "unexpected argument '%s'%s", word,
                       (command & (PS_CLI_RUN | PS_CLI_TOKENIZE | PS_CLI_EXPERTS_RECORD)) != 0
                           ? "; -p TEXT gives the input"
                           : "");
    }
    return PS_OK;
}

static void fill_list(ps_cli_list *list, ps_cli_list values)
{
    *list = list->count == 0 ? values : *list;
}

// Lists of bench that were not given. --predict is of decoding alone.
static void fill_lists(ps_cli_options *options)
{
    if (options->predicts) {
        fill_list(&options->generations, (ps_cli_list){1, {16}});
        fill_list(&options->depths, (ps_cli_list){2, {256, 4096}});
        fill_list(&options->parallel, (ps_cli_list){3, {1, 4, 16}});
        return;
    }
    fill_list(&options->prompts, (ps_cli_list){1, {512}});
    fill_list(&options->generations, (ps_cli_list){1, {128}});
    fill_list(&options->depths, (ps_cli_list){1, {0}});
    fill_list(&options->parallel, (ps_cli_list){1, {1}});
}

ps_status ps_cli_options_parse(ps_cli_command_bit command, int argc, char **argv,
                               ps_cli_options *out)
{
    *out = (ps_cli_options){
        .predict = -1,
        .repetitions = 5,
        .sampler = ps_sampler_defaults(),
        .thread_counts = {.count = 1},
        .phases = PS_CLI_PHASES_ALL,
        .routes = {.policies = "all,belady",
                   .sizes = "6.25%,16.3%,34%",
                   .sharing = "apart",
                   .learn = -1},
    };
    out->context = command == PS_CLI_PERPLEXITY || command == PS_CLI_EXPERTS_RECORD ? 512 : 0;
    if (command == PS_CLI_EXPERTS_RECORD) {
        out->predict = 64;
    }
    const getopt_tables tables = make_tables(command);
    optind = 0; // glibc: start anew
    opterr = 0;
    for (;;) {
        // _only: llama.cpp's -sys and -pg have one dash.
        const int value = getopt_long_only(argc, argv, tables.shorts, tables.longs, NULL);
        if (value < 0) {
            break;
        }
        PS_TRY(take_option(command, value, argv, out));
    }
    for (int i = optind; i < argc; i++) {
        PS_TRY(take_argument(command, argv[i], out));
    }
    fill_lists(out);
    out->sampler.biases = out->biases;
    if (out->json) {
        out->format = PS_CLI_JSON;
    }
    return PS_OK;
}

void ps_cli_options_deinit(ps_cli_options *options)
{
    free(options->biases);
    options->biases = NULL;
}

// ---- help

#define HELP_COLUMN 30
#define HELP_WIDTH 66

// Wraps at blanks; the first line starts at HELP_COLUMN.
static void print_wrapped(const char *text, FILE *out)
{
    while (*text != '\0') {
        size_t length = strlen(text);
        if (length > HELP_WIDTH) {
            length = HELP_WIDTH;
            while (length > 1 && text[length] != ' ') {
                length--;
            }
        }
        (void)fprintf(out, "%.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
        if (*text != '\0') {
            (void)fprintf(out, "%*s", HELP_COLUMN, "");
        }
    }
}

// llama.cpp's names that people type with one dash; getopt takes any name with one or two.
static const char *dashes_of(const char *name)
{
    static const char *const NAMES[] = {"sys", "pg", "ctk", "ctv", "npl"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            return "-";
        }
    }
    return "--";
}

void ps_cli_options_help(ps_cli_command_bit command, FILE *out)
{
    for (size_t i = 0; i < ps_option_line_count; i++) {
        const ps_option_line *line = &ps_option_lines[i];
        if ((line->commands & command) == 0) {
            continue;
        }
        char left[96];
        int length = line->letter != 0 ? snprintf(left, sizeof left, "  -%c", line->letter)
                                       : snprintf(left, sizeof left, "    ");
        for (size_t j = 0; j < PS_OPTION_NAMES_MAX && line->names[j] != NULL; j++) {
            length += snprintf(left + length, sizeof left - (size_t)length, "%s%s%s",
                               j == 0 && line->letter == 0 ? "  " : ", ", dashes_of(line->names[j]),
                               line->names[j]);
        }
        if (line->argument != NULL) {
            length += snprintf(left + length, sizeof left - (size_t)length, " %s", line->argument);
        }
        (void)fprintf(out, "%s%*s", left, length < HELP_COLUMN - 1 ? HELP_COLUMN - length : 0, "");
        if (length >= HELP_COLUMN - 1) {
            (void)fprintf(out, "\n%*s", HELP_COLUMN, "");
        }
        print_wrapped(line->help, out);
    }
}

const char *ps_cli_options_name(ps_cli_command_bit command, uint32_t index)
{
    for (size_t i = 0; i < ps_option_line_count; i++) {
        if ((ps_option_lines[i].commands & command) != 0 && index-- == 0) {
            return ps_option_lines[i].names[0];
        }
    }
    return NULL;
}
