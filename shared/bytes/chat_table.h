/*
 * chat_table.h: a hash table of strings that clients and providers choose.
 *
 * The hash (chat_mix.h) has a secret key of the process, so that a peer cannot
 * find ids that share a bucket. Every look-up by such a string that no small
 * constant bounds goes through this table. An insertion and a look-up cost the
 * length of the key. Memory is the arena's; keys are not copied.
 */

#ifndef CHAT_TABLE_H
#define CHAT_TABLE_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_digest.h"

typedef struct chat_table_entry_s chat_table_entry_t;

struct chat_table_entry_s {
    chat_table_entry_t *next;  /* in its bucket */
    chat_table_entry_t *older; /* of all */
    uint64_t            hash;
    chat_str_t          key;
    size_t              number; /* of the caller, at first 0 */
    size_t              last;   /* likewise */
    void               *item;   /* of the caller, at first NULL */
};

typedef struct {
    chat_arena_t        *arena;
    chat_table_entry_t **buckets; /* NULL: none were needed yet */
    size_t               size;    /* of buckets, a power of two */
    size_t               count;   /* of entries */
    chat_table_entry_t  *entries; /* the newest */
} chat_table_t;

/*
 * Sets the key of the hash. The owner of the process calls it once with
 * random bytes before it makes a table: tables of another key are lost.
 */
void chat_table_seed(const chat_digest_t *seed);

/* The hash of s under that key. */
uint64_t chat_table_hash(chat_str_t s);

/* An empty table; its memory comes from the arena. */
void chat_table_init(chat_table_t *table, chat_arena_t *arena);

/* The entry of this key, or NULL. */
chat_table_entry_t *chat_table_find(const chat_table_t *table, chat_str_t key);

/* The item of this key, or NULL. */
static inline void *
chat_table_item(const chat_table_t *table, chat_str_t key)
{
    const chat_table_entry_t *entry = chat_table_find(table, key);

    return entry != NULL ? entry->item : NULL;
}


/*
 * The entry of this key, made if it is new. The key's bytes must outlive the
 * table. NULL without memory.
 */
chat_table_entry_t *chat_table_put(chat_table_t *table, chat_str_t key);


/*
 * Puts item i in front of the others of its key: the entry's number is that of
 * the first from 1 on, next[i] that of the one behind item i; 0: there is
 * none. CHAT_ERROR: no memory.
 */
chat_rc_e chat_table_chain(chat_table_t *table, uint32_t *next, chat_str_t key,
                           size_t i);

#endif /* CHAT_TABLE_H */
