/*
 * chat_str.c: see chat_str.h.
 *
 * Apart from the header, as memmem() and strtod_l() are declared only for a
 * file that asks for more than C11.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bytes/chat_str.h"

#include <locale.h>
#include <stdlib.h>


int
chat_str_has(chat_str_t s, const char *text)
{
    return s.len && memmem(s.data, s.len, text, strlen(text)) != NULL;
}


/* Without memchr(): a call takes longer than a look at a few bytes. */
chat_str_t
chat_str_cut(chat_str_t *s, unsigned char end)
{
    size_t     len = 0;
    chat_str_t part = *s;

    while (len < part.len && part.data[len] != end) {
        len++;
    }

    *s = len < part.len ? chat_str(part.data + len + 1, part.len - len - 1)
                        : chat_str(part.data, 0);
    part.len = len;
    return part;
}


int
chat_str_number(chat_str_t s, uint64_t *out)
{
    size_t   i;
    uint64_t n = 0;

    if (s.len == 0 || s.len > 18 || (s.data[0] == '0' && s.len > 1)) {
        return 0;
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return 0;
        }
        n = n * 10 + (s.data[i] - '0');
    }

    *out = n;
    return 1;
}


int
chat_str_double(const char *text, double *out)
{
    static locale_t locale;

    locale = locale != NULL ? locale : newlocale(LC_ALL_MASK, "C", NULL);
    *out = locale != NULL ? strtod_l(text, NULL, locale) : 0;
    return locale != NULL;
}


unsigned char *
chat_digits(uint64_t n, unsigned char *end)
{
    do {
        *--end = (unsigned char) ('0' + n % 10);
        n /= 10;
    } while (n != 0);

    return end;
}
