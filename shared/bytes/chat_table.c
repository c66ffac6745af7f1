/*
 * chat_table.c: see chat_table.h.
 *
 * Chained. The buckets double when there are as many entries; old ones stay
 * in the arena, so a table takes at most twice their last size. Entries never
 * move, and a failed doubling leaves the table usable.
 */

#include "bytes/chat_table.h"
#include "bytes/chat_mix.h"

#define CHAT_TABLE_FIRST 4 /* buckets */

/* Without chat_table_seed(): a key that everybody knows. */
static chat_digest_t chat_table_key = { "a key of tests, not of a server" };


void
chat_table_seed(const chat_digest_t *seed)
{
    chat_table_key = *seed;
}


uint64_t
chat_table_hash(chat_str_t s)
{
    chat_mix_t mix;

    chat_mix_init(&mix, &chat_table_key);
    return chat_mix_hash(mix, s);
}


void
chat_table_init(chat_table_t *table, chat_arena_t *arena)
{
    *table = (chat_table_t){ .arena = arena };
}


static chat_table_entry_t *
chat_table_lookup(const chat_table_t *table, chat_str_t key, uint64_t hash)
{
    chat_table_entry_t *entry =
        table->size != 0 ? table->buckets[hash & (table->size - 1)] : NULL;

    while (entry != NULL
           && (entry->hash != hash || !chat_str_eq(entry->key, key))) {
        entry = entry->next;
    }

    return entry;
}


chat_table_entry_t *
chat_table_find(const chat_table_t *table, chat_str_t key)
{
    return chat_table_lookup(table, key, chat_table_hash(key));
}


/* Puts an entry that is new in its bucket. */
static void
chat_table_link(chat_table_t *table, chat_table_entry_t *entry)
{
    chat_table_entry_t **bucket;

    bucket = &table->buckets[entry->hash & (table->size - 1)];
    entry->next = *bucket;
    *bucket = entry;
}


/* Doubles the buckets; CHAT_ERROR without memory. */
static chat_rc_e
chat_table_grow(chat_table_t *table)
{
    chat_table_entry_t *entry, **buckets;
    size_t size = table->size ? table->size * 2 : CHAT_TABLE_FIRST;

    buckets = chat_arena_alloc(table->arena, size * sizeof(*buckets));
    if (buckets == NULL) {
        return CHAT_ERROR;
    }

    table->buckets = buckets;
    table->size = size;

    for (entry = table->entries; entry != NULL; entry = entry->older) {
        chat_table_link(table, entry);
    }

    return CHAT_OK;
}


chat_table_entry_t *
chat_table_put(chat_table_t *table, chat_str_t key)
{
    uint64_t            hash = chat_table_hash(key);
    chat_table_entry_t *entry = chat_table_lookup(table, key, hash);

    if (entry != NULL) {
        return entry;
    }

    if (table->count == table->size && chat_table_grow(table) != CHAT_OK) {
        return NULL;
    }

    entry = chat_arena_alloc(table->arena, sizeof(*entry));
    if (entry == NULL) {
        return NULL;
    }

    entry->hash = hash;
    entry->key = key;
    entry->older = table->entries;
    table->entries = entry;
    table->count++;
    chat_table_link(table, entry);

    return entry;
}


chat_rc_e
chat_table_chain(chat_table_t *table, uint32_t *next, chat_str_t key, size_t i)
{
    chat_table_entry_t *entry = chat_table_put(table, key);

    if (entry == NULL) {
        return CHAT_ERROR;
    }

    next[i] = (uint32_t) entry->number;
    entry->number = i + 1;

    return CHAT_OK;
}
