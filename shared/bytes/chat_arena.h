/*
 * chat_arena.h: an arena: blocks of malloc() that are freed together.
 *
 * Every size is checked for overflow. Past its limit an arena returns NULL
 * and stays usable.
 */

#ifndef CHAT_ARENA_H
#define CHAT_ARENA_H

#include "bytes/chat_str.h"

typedef struct chat_arena_s chat_arena_t;

/* No limit, and few bytes at first: for many arenas that live long. */
#define CHAT_ARENA_LONG SIZE_MAX

/*
 * A new arena that hands out at most limit bytes in all (0: no limit).
 * Returns NULL without memory. The caller ends it with chat_arena_destroy().
 */
chat_arena_t *chat_arena_create(size_t limit);

/*
 * An empty arena of the process, never NULL, for what nothing needs when this
 * is called again. ASan builds free it then.
 */
chat_arena_t *chat_arena_scratch(void);

/* Frees the arena and all that came from it. NULL is allowed. */
void chat_arena_destroy(chat_arena_t *arena);

/* Forgets all that came from the arena but keeps its first block. */
void chat_arena_reset(chat_arena_t *arena);

/* size zeroed bytes, aligned for any type; NULL without memory. */
void *chat_arena_alloc(chat_arena_t *arena, size_t size);

/* The same, but with any content: for what is filled at once, or in parts. */
void *chat_arena_take(chat_arena_t *arena, size_t size);

/* A copy of size bytes in the arena; NULL without memory. */
void *chat_arena_copy(chat_arena_t *arena, const void *bytes, size_t size);

/* A copy of s in the arena into *out; CHAT_ERROR without memory. */
chat_rc_e chat_arena_dup(chat_arena_t *arena, chat_str_t s, chat_str_t *out);

/*
 * A new item at the end of a list, zeroed. list: where the pointer to the
 * items is, which a longer list changes; *count: its items; *size, at first 0:
 * items that there is room for; bytes: of an item. NULL without memory: the
 * list is unchanged.
 */
void *chat_arena_push(chat_arena_t *arena, void *list, size_t *count,
                      size_t *size, size_t bytes);

/*
 * Memory of its own, as the blocks of arenas: *size bytes or more, which it
 * becomes; NULL without memory. chat_block_give() frees it; NULL is allowed.
 */
void *chat_block_take(size_t *size);
void  chat_block_give(void *bytes);

/* Bytes handed out so far. */
size_t chat_arena_used(const chat_arena_t *arena);

#endif /* CHAT_ARENA_H */
