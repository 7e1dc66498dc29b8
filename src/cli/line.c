// cli/line.c - libedit, and where the history lies. The one file that knows histedit.h.
#include "cli/line.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#define FLAG_POLL_MS 100

struct ps_cli_line_editor {
    EditLine *edit;
    History *history;
    const char *prompt;
    char history_path[PATH_MAX]; // "": none
};

// ---- the history file

// Makes the folders that lead to a path; those that are there are left as they are.
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

static void find_history(char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length = PATH_MAX;
    if (state != NULL && state[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/prestage/history", state);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/.local/state/prestage/history", home);
    }
    if (length >= PATH_MAX) {
        path[0] = '\0';
        return;
    }
    make_folders(path);
}

// ---- libedit

static char *prompt_of(EditLine *edit)
{
    static char empty[] = "";
    static char text[8];
    ps_cli_line_editor *editor = NULL;
    if (el_get(edit, EL_CLIENTDATA, &editor) != 0 || editor == NULL) {
        return empty;
    }
    (void)snprintf(text, sizeof text, "%s", editor->prompt);
    return text;
}

// Waits for input. False: the flag was raised. Polled, because the signal may come between a look
// at the flag and a read that then waits, or to another thread.
static bool wait_for_input(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!*ps_cli_interrupt_flag()) {
        if (poll(&input, 1, FLAG_POLL_MS) > 0) {
            return true;
        }
    }
    return false;
}

// One character. libedit's own reader starts over after a signal, and Ctrl-C would be lost.
static int read_character(EditLine *edit, wchar_t *out)
{
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte;
        if (!wait_for_input()) {
            return -1;
        }
        const ssize_t count = read(STDIN_FILENO, &byte, 1);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return (int)count;
        }
        const size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) { // not of this locale: dropped
            memset(&state, 0, sizeof state);
        } else if (used != (size_t)-2) {
            return 1;
        }
    }
}

ps_status ps_cli_line_open(ps_cli_line_editor **out)
{
    ps_cli_line_editor *editor = calloc(1, sizeof *editor);
    if (editor == NULL) {
        return ps_fail(PS_NO_MEMORY, "no memory for a line editor");
    }
    // Only how bytes become characters: numbers stay as they are in C.
    const char *locale = setlocale(LC_CTYPE, "");
    if (locale == NULL || MB_CUR_MAX == 1) {
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
    editor->edit = el_init("prestage", stdin, stdout, stderr);
    editor->history = history_init();
    if (editor->edit == NULL || editor->history == NULL) {
        ps_cli_line_close(editor);
        return ps_fail(PS_NO_MEMORY, "no memory for a line editor");
    }
    HistEvent event;
    (void)history(editor->history, &event, H_SETSIZE, PS_CLI_HISTORY_LINES);
    (void)history(editor->history, &event, H_SETUNIQUE, 1);
    find_history(editor->history_path);
    if (editor->history_path[0] != '\0') {
        (void)history(editor->history, &event, H_LOAD, editor->history_path);
    }
    (void)el_set(editor->edit, EL_CLIENTDATA, editor);
    (void)el_set(editor->edit, EL_PROMPT, prompt_of);
    (void)el_set(editor->edit, EL_EDITOR, "emacs");
    (void)el_set(editor->edit, EL_HIST, history, editor->history);
    (void)el_set(editor->edit, EL_GETCFN, read_character);
    *out = editor;
    return PS_OK;
}

void ps_cli_line_close(ps_cli_line_editor *editor)
{
    if (editor == NULL) {
        return;
    }
    HistEvent event;
    if (editor->history != NULL && editor->history_path[0] != '\0') {
        (void)history(editor->history, &event, H_SAVE, editor->history_path);
    }
    if (editor->edit != NULL) {
        el_end(editor->edit);
    }
    if (editor->history != NULL) {
        history_end(editor->history);
    }
    free(editor);
}

ps_status ps_cli_line_read(ps_cli_line_editor *editor, ps_buffer *out,
                           ps_cli_line_result *out_result)
{
    out->length = 0;
    editor->prompt = "> ";
    for (;;) {
        int count = 0;
        const char *line = el_gets(editor->edit, &count);
        if (ps_cli_interrupt_take()) {
            el_reset(editor->edit);
            (void)printf("\n");
            *out_result = PS_CLI_LINE_INTERRUPTED;
            return PS_OK;
        }
        if (line == NULL || count <= 0) {
            (void)printf("\n");
            *out_result = PS_CLI_LINE_END;
            return PS_OK;
        }
        HistEvent event;
        if (line[0] != '\n') {
            (void)history(editor->history, &event, H_ENTER, line);
        }
        const size_t length = strcspn(line, "\n");
        const bool goes_on = length > 0 && line[length - 1] == '\\';
        PS_TRY(ps_buffer_append(out, line, goes_on ? length - 1 : length));
        if (!goes_on) {
            *out_result = PS_CLI_LINE_TEXT;
            return PS_OK;
        }
        PS_TRY(ps_buffer_append(out, "\n", 1));
        editor->prompt = ". ";
    }
}
