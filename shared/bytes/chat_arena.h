/*
 * chat_arena.h: memory that ends all at once, and a growing run of bytes.
 *
 * An arena hands out blocks of malloc() and frees them together; nothing is
 * freed singly. A chat_buf_t is an append-only byte buffer on the heap.
 * Promises: every size is checked for overflow; past its limit an arena
 * answers NULL and stays usable.
 * Must not know: what the bytes mean.
 */

#ifndef CHAT_ARENA_H
#define CHAT_ARENA_H

#include "bytes/chat_base.h"

typedef struct chat_arena_s chat_arena_t;

/*
 * A new arena that hands out at most limit bytes in all (0: no limit).
 * Answers NULL without memory. The caller ends it with chat_arena_destroy().
 */
chat_arena_t *chat_arena_create(size_t limit);

/* Frees the arena and all that came from it. NULL is allowed. */
void chat_arena_destroy(chat_arena_t *arena);

/* Forgets all that came from the arena but keeps its first block. */
void chat_arena_reset(chat_arena_t *arena);

/* size zeroed bytes, aligned for any type; NULL without memory. */
void *chat_arena_alloc(chat_arena_t *arena, size_t size);

/* A copy of s in the arena into *out; CHAT_ERROR without memory. */
chat_rc_e chat_arena_dup(chat_arena_t *arena, chat_str_t s, chat_str_t *out);

/*
 * A list with room for one more behind its count items of so many bytes each:
 * the one given, or a copy that is twice as long; *size, at first 0, is for
 * how many it has room. The one more is zeroed. NULL without memory.
 */
void *chat_arena_grow(chat_arena_t *arena, void *items, size_t count,
                      size_t *size, size_t bytes);

/* Bytes handed out so far. */
size_t chat_arena_used(const chat_arena_t *arena);


/*
 * A growing buffer. All zero is an empty one. A failed append sets failed and
 * makes all later appends do nothing, so that a writer checks once, at the
 * end. The owner ends it with chat_buf_free().
 */
typedef struct {
    unsigned char *data;
    size_t         len;
    size_t         size;
    int            failed;
} chat_buf_t;

void chat_buf_free(chat_buf_t *buf);
void chat_buf_add(chat_buf_t *buf, chat_str_t s);
void chat_buf_puts(chat_buf_t *buf, const char *text);
void chat_buf_printf(chat_buf_t *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* s (UTF-8) as a JSON string with its quotes; only what must be is escaped. */
void chat_buf_json(chat_buf_t *buf, chat_str_t s);

/* JSON text on one line: its line ends can only be white space. */
void chat_buf_one_line(chat_buf_t *buf, chat_str_t json);

/* The content; valid until the next append. */
static inline chat_str_t
chat_buf_str(const chat_buf_t *buf)
{
    return chat_str(buf->data, buf->len);
}


/* A copy of the content in the arena; CHAT_ERROR, too, where it failed. */
chat_rc_e chat_buf_dup(const chat_buf_t *buf, chat_arena_t *arena,
                       chat_str_t *out);


#endif /* CHAT_ARENA_H */
