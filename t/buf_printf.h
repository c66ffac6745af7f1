/*
 * buf_printf.h: appends to a buffer as printf() does.
 */

#ifndef BUF_PRINTF_H
#define BUF_PRINTF_H

#include "bytes/chat_buf.h"

#include <stdarg.h>
#include <stdio.h>


__attribute__((format(printf, 2, 3))) static inline void
chat_buf_printf(chat_buf_t *buf, const char *format, ...)
{
    int            n;
    va_list        args;
    unsigned char *p;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);

    if (n < 0) {
        buf->failed = 1;
        return;
    }

    /* vsnprintf() also writes a NUL, which is not counted */
    p = chat_buf_reserve(buf, (size_t) n + 1);
    if (p == NULL) {
        return;
    }

    va_start(args, format);
    (void) vsnprintf((char *) p, (size_t) n + 1, format, args);
    va_end(args);

    buf->len += (size_t) n;
}


#endif /* BUF_PRINTF_H */
