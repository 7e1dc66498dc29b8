// ctest-labels: model
// ctest-links: ps_format;PkgConfig::JANSSON
// Goal: the chat templates of real models render as the reference implementation renders them.
// Method: the prompts of fixtures/template-models.json (llama.cpp, release 11434) for the models
// found under $PRESTAGE_CACHE/models; without any of them the test is skipped.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"
#include "text/chat_template.h"

static void model_path(const char *file, char *out, size_t size)
{
    const char *cache = getenv("PRESTAGE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache != NULL) {
        (void)snprintf(out, size, "%s/models/%s", cache, file);
    } else if (xdg != NULL) {
        (void)snprintf(out, size, "%s/prestage/models/%s", xdg, file);
    } else {
        (void)snprintf(out, size, "%s/.cache/prestage/models/%s", home == NULL ? "" : home, file);
    }
}

static void check_prompt(const ps_chat_template *parsed, json_t *one)
{
    ps_chat_output output = {0};
    char *context = json_dumps(json_object_get(one, "context"), 0);
    assert_non_null(context);
    if (ps_chat_template_render(parsed, ps_str_of(context), NULL, &output) != PS_OK) {
        fail_msg("%s", ps_error_message());
    }
    assert_string_equal(json_string_value(json_object_get(one, "prompt")), output.text.data);
    ps_chat_output_deinit(&output);
    free(context);
}

// False when the model is not there.
static bool check_model(json_t *model)
{
    char path[1024];
    ps_gguf *file = NULL;
    ps_str source = {0};
    ps_chat_template *parsed = NULL;
    model_path(json_string_value(json_object_get(model, "file")), path, sizeof path);
    if (ps_gguf_open(path, &file) != PS_OK) {
        printf("left out: %s\n", ps_error_message());
        return false;
    }
    assert_int_equal(PS_OK, ps_gguf_get_string(file, "tokenizer.chat_template", &source));
    if (ps_chat_template_create(source, &parsed) != PS_OK) {
        fail_msg("%s: %s", path, ps_error_message());
    }
    json_t *prompts = json_object_get(model, "prompts");
    assert_true(json_array_size(prompts) > 0);
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        check_prompt(parsed, json_array_get(prompts, i));
    }
    ps_chat_template_destroy(parsed);
    ps_gguf_close(file);
    return true;
}

static void test_models(void **state)
{
    (void)state;
    json_error_t error;
    json_t *models = json_load_file(PS_SOURCE_DIR "/test/text/fixtures/template-models.json", 0,
                                    &error);
    if (models == NULL) {
        fail_msg("%s at line %d", error.text, error.line);
    }
    size_t found = 0;
    for (size_t i = 0; i < json_array_size(models); i++) {
        found += check_model(json_array_get(models, i));
    }
    json_decref(models);
    if (found == 0) {
        printf("skipped: no model of fixtures/template-models.json is in the cache\n");
        exit(77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
