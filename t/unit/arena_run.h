/*
 * arena_run.h: one arena for all that the tests of a file make.
 *
 * arena_create() and arena_destroy() are the setup and teardown of a test or
 * of a group. A test that needs more calls them from its own.
 */

#ifndef ARENA_RUN_H
#define ARENA_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bytes/chat_arena.h"

static chat_arena_t *arena;


static inline int
arena_create(void **state)
{
    arena = chat_arena_create(0);
    return arena == NULL;
}


static inline int
arena_destroy(void **state)
{
    chat_arena_destroy(arena);
    return 0;
}


#endif /* ARENA_RUN_H */
