// text/utf8.c
#include "text/utf8.h"

#include "base/status.h"

// The length that a lead byte announces; 0 for a byte that cannot lead.
static size_t announced_length(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

size_t ps_utf8_decode(const char *bytes, size_t length, uint32_t *out_code_point)
{
    if (length == 0) {
        return 0;
    }
    const unsigned char lead = (unsigned char)bytes[0];
    const size_t count = announced_length(lead);
    if (count == 0 || count > length) {
        return 0;
    }
    uint32_t code_point = count == 1 ? lead : lead & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        if ((byte & 0xc0) != 0x80) {
            return 0;
        }
        code_point = code_point << 6 | (byte & 0x3f);
    }
    static const uint32_t lowest[PS_UTF8_MAX_BYTES + 1] = {0, 0, 0x80, 0x800, 0x10000};
    if (code_point < lowest[count] || code_point > 0x10ffff ||
        (code_point >= 0xd800 && code_point <= 0xdfff)) {
        return 0;
    }
    *out_code_point = code_point;
    return count;
}

size_t ps_utf8_encode(uint32_t code_point, char out_bytes[PS_UTF8_MAX_BYTES])
{
    ps_assert(code_point <= 0x10ffff);
    const size_t count = code_point < 0x80      ? 1
                         : code_point < 0x800   ? 2
                         : code_point < 0x10000 ? 3
                                                : 4;
    static const uint32_t lead[PS_UTF8_MAX_BYTES + 1] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = count - 1; i > 0; i--) {
        out_bytes[i] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    out_bytes[0] = (char)(lead[count] | code_point);
    return count;
}
