/*
 * chat_str.c: what of strings the language itself does not have.
 *
 * Apart from the header, since the function that it stands on is declared for
 * those alone who ask for more than C11.
 * Promises: no allocation, no I/O, nothing to initialise.
 * Must not know: NGINX, JSON, SSE, any dialect.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem() */
#endif

#include "bytes/chat_str.h"


const unsigned char *
chat_str_find(chat_str_t s, const char *text)
{
    return s.len ? memmem(s.data, s.len, text, strlen(text)) : NULL;
}


int
chat_str_has(chat_str_t s, const char *text)
{
    return chat_str_find(s, text) != NULL;
}
