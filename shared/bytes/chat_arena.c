/*
 * chat_arena.c: memory that ends all at once, and a growing run of bytes.
 *
 * An arena is a chain of blocks; the first is part of the arena itself and
 * survives a reset, so that a reader of many small frames allocates once.
 * Promises: every size is checked for overflow before it is used; past its
 * limit an arena answers NULL and stays usable; a buffer that failed once
 * keeps what it had and takes nothing more.
 * Must not know: what the bytes mean.
 */

#include "bytes/chat_arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CHAT_ARENA_ALIGN (alignof(max_align_t))
#define CHAT_ARENA_FIRST 512
#define CHAT_ARENA_LARGEST (64 * 1024)
#define CHAT_ARENA_ITEMS 8 /* a list has room for at first */
#define CHAT_BUF_FIRST 256

typedef struct chat_block_s chat_block_t;

struct chat_block_s {
    chat_block_t *next;
    size_t        size;
    size_t        used;
    alignas(max_align_t) char data[];
};

struct chat_arena_s {
    chat_block_t *current; /* the newest; the first one ends the chain */
    chat_block_t *first;
    size_t        limit;
    size_t        used;
};


static chat_block_t *
chat_block_create(chat_block_t *next, size_t size)
{
    chat_block_t *block;

    if (size > SIZE_MAX - sizeof(chat_block_t)) {
        return NULL;
    }

    block = malloc(sizeof(chat_block_t) + size);
    if (block == NULL) {
        return NULL;
    }

    block->next = next;
    block->size = size;
    block->used = 0;

    return block;
}


chat_arena_t *
chat_arena_create(size_t limit)
{
    chat_arena_t *arena;
    chat_block_t *block;

    block = chat_block_create(NULL, CHAT_ARENA_FIRST);
    if (block == NULL) {
        return NULL;
    }

    arena = malloc(sizeof(chat_arena_t));
    if (arena == NULL) {
        free(block);
        return NULL;
    }

    arena->current = block;
    arena->first = block;
    arena->limit = limit;
    arena->used = 0;

    return arena;
}


void
chat_arena_reset(chat_arena_t *arena)
{
    chat_block_t *block;

    while (arena->current != arena->first) {
        block = arena->current;
        arena->current = block->next;
        free(block);
    }

    arena->first->used = 0;
    arena->used = 0;
}


void
chat_arena_destroy(chat_arena_t *arena)
{
    if (arena == NULL) {
        return;
    }

    chat_arena_reset(arena);
    free(arena->first);
    free(arena);
}


void *
chat_arena_alloc(chat_arena_t *arena, size_t size)
{
    void         *p;
    size_t        next;
    chat_block_t *block;

    if (size > SIZE_MAX - CHAT_ARENA_ALIGN) {
        return NULL;
    }

    size = (size + CHAT_ARENA_ALIGN - 1) & ~(CHAT_ARENA_ALIGN - 1);

    if (arena->limit != 0 && size > arena->limit - arena->used) {
        return NULL;
    }

    block = arena->current;

    if (size > block->size - block->used) {
        next = block->size < CHAT_ARENA_LARGEST ? 2 * block->size
                                                : CHAT_ARENA_LARGEST;
        block = chat_block_create(block, size > next ? size : next);
        if (block == NULL) {
            return NULL;
        }

        arena->current = block;
    }

    p = block->data + block->used;
    block->used += size;
    arena->used += size;

    return memset(p, 0, size);
}


void *
chat_arena_grow(chat_arena_t *arena, void *items, size_t count, size_t *size,
                size_t bytes)
{
    void  *grown;
    size_t room = *size == 0 ? CHAT_ARENA_ITEMS : 2 * *size;

    if (count < *size) {
        memset((unsigned char *) items + count * bytes, 0, bytes);
        return items;
    }

    if (*size > SIZE_MAX / 2 / bytes) {
        return NULL;
    }

    grown = chat_arena_alloc(arena, room * bytes);

    if (grown == NULL) {
        return NULL;
    }

    if (count != 0) {
        memcpy(grown, items, count * bytes);
    }

    *size = room;

    return grown;
}


chat_rc_e
chat_arena_dup(chat_arena_t *arena, chat_str_t s, chat_str_t *out)
{
    unsigned char *p;

    p = chat_arena_alloc(arena, s.len);
    if (p == NULL) {
        return CHAT_ERROR;
    }

    if (s.len != 0) {
        memcpy(p, s.data, s.len);
    }

    *out = chat_str(p, s.len);

    return CHAT_OK;
}


size_t
chat_arena_used(const chat_arena_t *arena)
{
    return arena->used;
}


void
chat_buf_free(chat_buf_t *buf)
{
    free(buf->data);
    memset(buf, 0, sizeof(chat_buf_t));
}


/* Room for len more bytes, or NULL; failed is set then. */
static unsigned char *
chat_buf_reserve(chat_buf_t *buf, size_t len)
{
    size_t         size;
    unsigned char *data;

    if (buf->failed) {
        return NULL;
    }

    if (len <= buf->size - buf->len && buf->data != NULL) {
        return buf->data + buf->len;
    }

    size = buf->size < CHAT_BUF_FIRST ? CHAT_BUF_FIRST : buf->size;

    while (len > size - buf->len) {
        if (size > SIZE_MAX / 2) {
            buf->failed = 1;
            return NULL;
        }

        size *= 2;
    }

    data = realloc(buf->data, size);
    if (data == NULL) {
        buf->failed = 1;
        return NULL;
    }

    buf->data = data;
    buf->size = size;

    return data + buf->len;
}


void
chat_buf_add(chat_buf_t *buf, chat_str_t s)
{
    unsigned char *p;

    if (s.len == 0) {
        return;
    }

    p = chat_buf_reserve(buf, s.len);
    if (p != NULL) {
        memcpy(p, s.data, s.len);
        buf->len += s.len;
    }
}


void
chat_buf_puts(chat_buf_t *buf, const char *text)
{
    chat_buf_add(buf, chat_cstr(text));
}


void
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


chat_rc_e
chat_buf_dup(const chat_buf_t *buf, chat_arena_t *arena, chat_str_t *out)
{
    return buf->failed ? CHAT_ERROR
                       : chat_arena_dup(arena, chat_buf_str(buf), out);
}


/* The escape of a character that a JSON string cannot hold, or NULL. */
static const char *
chat_buf_escape(unsigned char ch, char hex[7])
{
    switch (ch) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\t':
        return "\\t";
    case '\n':
        return "\\n";
    case '\f':
        return "\\f";
    case '\r':
        return "\\r";
    }

    if (ch >= 0x20) {
        return NULL;
    }

    (void) snprintf(hex, 7, "\\u%04x", ch);

    return hex;
}


void
chat_buf_json(chat_buf_t *buf, chat_str_t s)
{
    char        hex[7];
    size_t      i, done;
    const char *escape;

    chat_buf_puts(buf, "\"");

    done = 0;

    for (i = 0; i < s.len; i++) {
        escape = chat_buf_escape(s.data[i], hex);
        if (escape == NULL) {
            continue;
        }

        chat_buf_add(buf, chat_str(s.data + done, i - done));
        chat_buf_puts(buf, escape);
        done = i + 1;
    }

    if (done < s.len) {
        chat_buf_add(buf, chat_str(s.data + done, s.len - done));
    }

    chat_buf_puts(buf, "\"");
}


void
chat_buf_one_line(chat_buf_t *buf, chat_str_t json)
{
    size_t i, start = 0;

    for (i = 0; i < json.len; i++) {
        if (json.data[i] == '\n' || json.data[i] == '\r') {
            chat_buf_add(buf, chat_str(json.data + start, i - start));
            chat_buf_puts(buf, " ");
            start = i + 1;
        }
    }

    chat_buf_add(buf, chat_str(json.data + start, json.len - start));
}
