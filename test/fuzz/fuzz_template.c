// fuzz-links: ps_text
//
// Goal: no template and no variables whatever make the parser or a rendering read or write
// outside, run for long or fail without a message; spans cover what is rendered, and a second
// rendering gives the same.
// Method: an input is a template, and behind its first NUL byte, if it has one, the variables.
#include "fuzz/fuzz.h"
#include "text/chat_template.h"

#include <string.h>

static const char usual[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\" "
    "<x>\xc3\xa9"
    " "
    "\"},"
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\",\"function\":"
    "{\"name\":\"f\",\"arguments\":{\"a\":[1,2.5,null,true]}}}]}],\"tools\":[{\"type\":"
    "\"function\","
    "\"function\":{\"name\":\"f\",\"parameters\":{}}}],\"bos_token\":\"<s>\",\"eos_token\":\"</"
    "s>\","
    "\"add_generation_prompt\":true,\"n\":3,\"l\":[3,1,2],\"d\":{\"a\":1,\"b\":\"x\"},\"s\":\"ab "
    "c\"}";

static void check_spans(const ps_chat_output *output)
{
    size_t at = 0;
    for (size_t i = 0; i < output->span_count; i++) {
        ps_assert(output->spans[i].begin == at && output->spans[i].end > at);
        ps_assert(i == 0 || output->spans[i].trusted != output->spans[i - 1].trusted);
        at = output->spans[i].end;
    }
    ps_assert(at == output->text.length);
}

static void render(const ps_chat_template *parsed, ps_str context)
{
    const ps_chat_render_options limits = {
        .output_bytes = 1 << 18, .memory_bytes = 16 << 20, .steps = 200000, .depth = 100, .now = 1};
    ps_chat_output first = {0};
    ps_chat_output second = {0};
    const ps_status status = ps_chat_template_render(parsed, context, &limits, &first);
    ps_assert(status != PS_INTERNAL);
    if (status != PS_OK) {
        ps_assert(ps_error_message()[0] != '\0' && first.text.data == NULL);
        return;
    }
    check_spans(&first);
    ps_assert(ps_chat_template_render(parsed, context, &limits, &second) == PS_OK);
    ps_assert(first.text.length == second.text.length && first.span_count == second.span_count);
    ps_assert(first.text.length == 0 ||
              memcmp(first.text.data, second.text.data, first.text.length) == 0);
    ps_chat_output_deinit(&first);
    ps_chat_output_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    const char *text = (const char *)bytes;
    const char *nul = size_bytes == 0 ? NULL : memchr(text, '\0', size_bytes);
    ps_str source = {.data = text, .length = size_bytes};
    ps_str context = ps_str_of(usual);
    if (nul != NULL) {
        source.length = (size_t)(nul - text);
        context = (ps_str){.data = nul + 1, .length = size_bytes - source.length - 1};
    }
    ps_chat_template *parsed = NULL;
    const ps_status status = ps_chat_template_create(source, &parsed);
    ps_assert(status != PS_INTERNAL);
    if (status == PS_OK) {
        render(parsed, context);
        ps_chat_template_destroy(parsed);
    } else {
        ps_assert(strncmp(ps_error_message(), "line ", 5) == 0 ||
                  strncmp(ps_error_message(), "the template", 12) == 0 ||
                  strncmp(ps_error_message(), "a chat template", 15) == 0);
    }
    return 0;
}
