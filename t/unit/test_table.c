/*
 * test_table.c: the hash table of ids.
 *
 * One test uses ids made to share a bucket under a hash without a key.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bytes/chat_table.h"
#include "colliding_ids.h"

#define MANY 20000

static chat_arena_t *arena;
static chat_table_t  table;


static int
begin(void **state)
{
    arena = chat_arena_create(0);
    chat_table_init(&table, arena);
    return 0;
}


static int
end(void **state)
{
    chat_arena_destroy(arena);
    return 0;
}


static void
test_the_seed_changes_the_hash(void **state)
{
    size_t        i;
    uint64_t      hash;
    chat_digest_t seed = { "bytes that a worker has chosen." };

    chat_table_seed(&seed);
    hash = chat_table_hash(chat_cstr("call_1"));

    for (i = 0; i < sizeof(seed); i++) {
        /* of state and key, the hash uses the first words */
        if (i / 8 % 2 == 1) {
            continue;
        }

        seed.bytes[i] ^= 0x80;
        chat_table_seed(&seed);
        assert_int_not_equal(chat_table_hash(chat_cstr("call_1")), hash);
        seed.bytes[i] ^= 0x80;
    }
}


static void
test_entries_are_found_and_keep_what_was_put(void **state)
{
    size_t              i;
    chat_str_t          key;
    chat_table_entry_t *entry;
    static char         keys[MANY][24];

    assert_null(chat_table_find(&table, chat_cstr("0")));

    for (i = 0; i < MANY; i++) {
        key = chat_str(keys[i], (size_t) sprintf(keys[i], "%zu", i));
        entry = chat_table_put(&table, key);
        assert_int_equal(entry->number, 0);
        entry->number = i + 1;
    }

    for (i = 0; i < MANY; i++) {
        entry = chat_table_find(&table, chat_cstr(keys[i]));
        assert_int_equal(entry->number, i + 1);
        assert_ptr_equal(chat_table_put(&table, entry->key), entry);
    }

    assert_int_equal(table.count, MANY);
    assert_null(chat_table_find(&table, chat_cstr("20000")));
}


static void
test_an_empty_key_is_a_key(void **state)
{
    assert_null(chat_table_find(&table, chat_str(NULL, 0)));
    chat_table_put(&table, chat_str(NULL, 0))->number = 7;
    assert_int_equal(chat_table_find(&table, chat_cstr(""))->number, 7);
}


/* The number of entries in the fullest bucket. */
static size_t
fullest(void)
{
    size_t                    i, n, most = 0;
    const chat_table_entry_t *entry;

    for (i = 0; i < table.size; i++) {
        n = 0;
        for (entry = table.buckets[i]; entry != NULL; entry = entry->next) {
            n++;
        }
        most = n > most ? n : most;
    }

    return most;
}


static void
test_ids_made_to_collide_are_spread(void **state)
{
    size_t      i;
    static char ids[MANY][COLLIDING_ID + 1];

    for (i = 0; i < MANY; i++) {
        colliding_id((unsigned) i, ids[i]);
        chat_table_put(&table, chat_cstr(ids[i]));
    }

    assert_int_equal(table.count, MANY);
    assert_true(fullest() <= 16);
}


static void
test_no_memory_is_reported(void **state)
{
    chat_arena_t *small = chat_arena_create(256);
    char          keys[64][8];
    size_t        i, failed = 0;

    chat_table_init(&table, small);

    for (i = 0; i < 64; i++) {
        (void) sprintf(keys[i], "%zu", i);
        failed += chat_table_put(&table, chat_cstr(keys[i])) == NULL;
    }

    assert_true(failed > 0);
    chat_arena_destroy(small);
}


#define table_test(test) cmocka_unit_test_setup_teardown(test, begin, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        table_test(test_the_seed_changes_the_hash),
        table_test(test_entries_are_found_and_keep_what_was_put),
        table_test(test_an_empty_key_is_a_key),
        table_test(test_ids_made_to_collide_are_spread),
        table_test(test_no_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
