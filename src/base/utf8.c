/* utf8.c - which bytes are UTF-8, and what a terminal can be trusted with. */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t dsf_utf8_char(const char *s, size_t n)
{
    const unsigned char *c = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte */
    size_t len;

    if (c[0] < 0x80)
        return 1;
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    len = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (n < len)
        return 0;
    if (c[0] == 0xe0)
        low = 0xa0; /* below is overlong */
    else if (c[0] == 0xed)
        high = 0x9f; /* above are surrogates */
    else if (c[0] == 0xf0)
        low = 0x90;
    else if (c[0] == 0xf4)
        high = 0x8f;
    if (c[1] < low || c[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

uint32_t dsf_utf8_code(const char *s, size_t len)
{
    const unsigned char *c = (const unsigned char *)s;
    uint32_t code = len == 1 ? c[0] : c[0] & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++)
        code = code << 6 | (c[i] & 0x3fu);
    return code;
}

size_t dsf_utf8_valid(const char *s, size_t n)
{
    size_t i = 0, len;
    uint64_t eight;

    while (i < n) {
        if (n - i >= 8) {
            memcpy(&eight, s + i, 8);
            if ((eight & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        len = dsf_utf8_char(s + i, n - i);
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

size_t dsf_utf8_invalid(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && dsf_utf8_char(s + i, n - i) == 0)
        i++;
    return i;
}

static void clean(char *s, bool lines)
{
    size_t n = strlen(s), to = 0, len;

    for (size_t i = 0; i < n; i += len) {
        uint32_t code = 0;

        len = dsf_utf8_char(s + i, n - i);
        if (len > 0)
            code = dsf_utf8_code(s + i, len);
        else /* the rest of the sequence goes with its beginning */
            for (len = 1; (s[i + len] & 0xc0) == 0x80 && len < 4;)
                len++;
        if (lines && code == '\n') {
            s[to++] = '\n';
        } else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            s[to++] = '?';
        } else {
            memmove(s + to, s + i, len);
            to += len;
        }
    }
    s[to] = '\0';
}

void dsf_utf8_clean(char *s)
{
    clean(s, false);
}

void dsf_utf8_clean_lines(char *s)
{
    clean(s, true);
}
