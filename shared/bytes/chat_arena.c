/*
 * chat_arena.c: see chat_arena.h.
 *
 * An arena is a chain of blocks. It lies in the first one, which a reset
 * keeps, so that a reader of many small frames allocates once. Blocks are 512
 * bytes to 64 KB long, a power of two, and are kept for the arenas to come:
 * malloc() takes longer, and free() would return large ones to the system, so
 * that each page costs a page fault again. A larger block is never kept.
 */

#include "bytes/chat_arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define CHAT_ARENA_ALIGN (alignof(max_align_t))
#define CHAT_ARENA_LEAST 512  /* bytes of a block */
#define CHAT_ARENA_FIRST 2048 /* of the first one: what most arenas take */
#define CHAT_ARENA_SIZES 8    /* of blocks that are kept */
#define CHAT_ARENA_LARGEST (CHAT_ARENA_LEAST << (CHAT_ARENA_SIZES - 1))
#define CHAT_ARENA_ITEMS 8 /* a list has room for at first */

#ifndef CHAT_ARENA_KEPT
#define CHAT_ARENA_KEPT (4 * 1024 * 1024) /* bytes that a process keeps */
#endif

typedef struct chat_block_s chat_block_t;

struct chat_block_s {
    chat_block_t *next;
    size_t        size;
    size_t        used;
    alignas(max_align_t) char data[];
};

/* At the beginning of its first block. */
struct chat_arena_s {
    alignas(max_align_t) chat_block_t *current; /* the newest */
    chat_block_t *first;                        /* ends the chain */
    size_t        limit;
    size_t        used;
};

/* Bytes of the scratch's first block, where ASan sees no reset. */
#define CHAT_ARENA_SCRATCH \
    (CHAT_ARENA_KEPT ? CHAT_ARENA_FIRST : sizeof(chat_arena_t))

static chat_block_t *spares[CHAT_ARENA_SIZES]; /* by size */
static size_t        kept;                     /* bytes of them */
static size_t        small; /* of these, in blocks below the largest */


/* The index in spares of the least blocks that take this many bytes. */
static size_t
index_of(size_t size)
{
    unsigned long long times = (size - (size != 0)) / CHAT_ARENA_LEAST;

    return 63 - (size_t) __builtin_clzll(2 * times + 1);
}


static chat_block_t *
chat_block_create(chat_block_t *next, size_t size)
{
    size_t        i = 0;
    chat_block_t *block = NULL;

    if (size > SIZE_MAX - sizeof(chat_block_t)) {
        return NULL;
    }

    if (size <= CHAT_ARENA_LARGEST) {
        i = index_of(size);
        size = (size_t) CHAT_ARENA_LEAST << i;
        block = spares[i];
    }

    if (block != NULL) {
        spares[i] = block->next;
        kept -= size;
        small -= size < CHAT_ARENA_LARGEST ? size : 0;

    } else {
        block = malloc(sizeof(chat_block_t) + size);
    }

    if (block == NULL) {
        return NULL;
    }

    block->next = next;
    block->size = size;
    block->used = 0;
    return block;
}


/* Small blocks, of which many requests at a time have many, leave room. */
static void
chat_block_free(chat_block_t *block)
{
    size_t i, less = block->size < CHAT_ARENA_LARGEST ? block->size : 0;

    if (block->size > CHAT_ARENA_LARGEST
        || block->size > CHAT_ARENA_KEPT - kept
        || less > CHAT_ARENA_KEPT / 4 - small)
    {
        free(block);
        return;
    }

    i = index_of(block->size);
    block->next = spares[i];
    spares[i] = block;
    kept += block->size;
    small += less;
}


void *
chat_block_take(size_t *size)
{
    chat_block_t *block = chat_block_create(NULL, *size);

    *size = block ? block->size : 0;
    return block ? block->data : NULL;
}


void
chat_block_give(void *bytes)
{
    if (bytes != NULL) {
        chat_block_free((void *) ((char *) bytes - sizeof(chat_block_t)));
    }
}


chat_arena_t *
chat_arena_create(size_t limit)
{
    chat_arena_t *arena;
    chat_block_t *block = chat_block_create(
        NULL, limit == CHAT_ARENA_LONG ? CHAT_ARENA_LEAST : CHAT_ARENA_FIRST);

    if (block == NULL) {
        return NULL;
    }

    block->used = sizeof(*arena);
    arena = (chat_arena_t *) block->data;
    *arena = (chat_arena_t){ block, block, limit % CHAT_ARENA_LONG, 0 };
    return arena;
}


void
chat_arena_reset(chat_arena_t *arena)
{
    chat_block_t *block;

    while (arena->current != arena->first) {
        block = arena->current;
        arena->current = block->next;
        chat_block_free(block);
    }

    arena->first->used = sizeof(*arena);
    arena->used = 0;
}


chat_arena_t *
chat_arena_scratch(void)
{
    static union {
        chat_block_t block;
        char         room[sizeof(chat_block_t) + CHAT_ARENA_SCRATCH];
    } first = { { .size = CHAT_ARENA_SCRATCH } };
    static chat_arena_t scratch = { &first.block, &first.block, 0, 0 };

    chat_arena_reset(&scratch);
    return &scratch;
}


void
chat_arena_destroy(chat_arena_t *arena)
{
    if (arena != NULL) {
        chat_arena_reset(arena);
        chat_block_free(arena->first);
    }
}


/* The same as chat_arena_take() where the block has no room. */
static __attribute__((noinline)) void *
chat_arena_extend(chat_arena_t *arena, size_t size)
{
    size_t next =
        arena->used < CHAT_ARENA_LARGEST ? arena->used : CHAT_ARENA_LARGEST;
    chat_block_t *block =
        chat_block_create(arena->current, size > next ? size : next);

    if (block == NULL) {
        return NULL;
    }

    arena->current = block;
    return chat_arena_take(arena, size);
}


void *
chat_arena_take(chat_arena_t *arena, size_t size)
{
    chat_block_t *block = arena->current;

    if (size > SIZE_MAX - CHAT_ARENA_ALIGN) {
        return NULL;
    }

    size = (size + CHAT_ARENA_ALIGN - 1) & ~(CHAT_ARENA_ALIGN - 1);

    if (arena->limit != 0 && size > arena->limit - arena->used) {
        return NULL;
    }

    if (size > block->size - block->used) {
        return chat_arena_extend(arena, size);
    }

    block->used += size;
    arena->used += size;
    return block->data + block->used - size;
}


void *
chat_arena_alloc(chat_arena_t *arena, size_t size)
{
    void *p = chat_arena_take(arena, size);

    return p != NULL ? memset(p, 0, size) : NULL;
}


/*
 * Gives a list that has a block of its own a block twice as long, mostly
 * without a copy. NULL: it has none, or there is no memory.
 */
static void *
chat_block_grow(chat_arena_t *arena, void *items, size_t size)
{
    chat_block_t *block, **link = &arena->current;

    while (*link != arena->first && (*link)->data != items) {
        link = &(*link)->next;
    }

    /* a longer block has room for others behind the list */
    if (*link == arena->first || (*link)->size != size || arena->limit != 0) {
        return NULL;
    }

    block = realloc(*link, sizeof(chat_block_t) + 2 * size);
    if (block == NULL) {
        return NULL;
    }

    *link = block;
    arena->used += 2 * size - block->size;
    block->size = 2 * size;
    block->used = 2 * size;
    return block->data;
}


/* The same as chat_arena_push() of a list that is full. */
static __attribute__((noinline)) void *
chat_arena_grow(chat_arena_t *arena, void *list, size_t *count, size_t *size,
                size_t bytes)
{
    void  *items, *grown;
    size_t room = *size == 0 ? CHAT_ARENA_ITEMS : 2 * *size;

    if (*size > SIZE_MAX / 2 / bytes) {
        return NULL;
    }

    memcpy(&items, list, sizeof(items)); /* a pointer to any type */
    grown = *size * bytes > CHAT_ARENA_LARGEST
                ? chat_block_grow(arena, items, *size * bytes)
                : NULL;
    if (grown == NULL) {
        grown = chat_arena_take(arena, room * bytes);
        if (grown == NULL) {
            return NULL;
        }

        if (*size != 0) {
            memcpy(grown, items, *size * bytes);
        }
    }

    memcpy(list, &grown, sizeof(grown));
    *size = room;
    return chat_arena_push(arena, list, count, size, bytes);
}


void *
chat_arena_push(chat_arena_t *arena, void *list, size_t *count, size_t *size,
                size_t bytes)
{
    char *items;

    if (*count >= *size) {
        return chat_arena_grow(arena, list, count, size, bytes);
    }

    memcpy(&items, list, sizeof(items));
    return memset(items + (*count)++ * bytes, 0, bytes);
}


void *
chat_arena_copy(chat_arena_t *arena, const void *bytes, size_t size)
{
    void *copy = chat_arena_take(arena, size);

    return copy != NULL && size != 0 ? memcpy(copy, bytes, size) : copy;
}


chat_rc_e
chat_arena_dup(chat_arena_t *arena, chat_str_t s, chat_str_t *out)
{
    unsigned char *copy = chat_arena_copy(arena, s.data, s.len);

    if (copy == NULL) {
        return CHAT_ERROR;
    }

    *out = chat_str(copy, s.len);
    return CHAT_OK;
}


size_t
chat_arena_used(const chat_arena_t *arena)
{
    return arena->used;
}
