/*
 * laws_log.c: a log beside the facts of a key: positions, notifications,
 * lifetime.
 *
 * Entries are shown as facts: position=+bytes, position=last+bytes.
 * ngx_chat_law_expect() returns positions of one digit in order.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_QUIET 100 /* ms without any event */


static void
law_append(ngx_chat_law_t *law, ngx_uint_t k, uint64_t position,
           const char *text)
{
    ngx_chat_law_append(law, k, position, chat_cstr(text), 0, 0);
}


static void
law_pieces_in_order(ngx_chat_law_t *law, ngx_uint_t step)
{
    size_t     i;
    chat_str_t digit;

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        law_append(law, 0, 0, "x");
        law_append(law, 0, 1, "y");
        law_append(law, 0, 2, "z");
        ngx_chat_law_read_log(law, 1, 0, 0);
        ngx_chat_law_read_log(law, 2, 0, 1);
        ngx_chat_law_join(law, 3, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 1, "0=+x 1=+y 2=+z");
        ngx_chat_law_expect(law, 2, "1=+y 2=+z");
        ngx_chat_law_expect(law, 3, "a=1");

        for (i = 0; i < law->ops[1].n; i++) {
            digit = chat_str("012" + i, 1);
            ngx_chat_law_check(law,
                               chat_str_eq(law->ops[1].facts[i].field, digit),
                               "they are not in order");
        }
        ngx_chat_law_end(law);
    }
}


static void
law_piece_is_put_once(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        law_append(law, 0, 0, "x");
        law_append(law, 0, 0, "X");
        law_append(law, 0, 1, "y");
        law_append(law, 0, 2, "z");
        law_append(law, 0, 1, "Y");
        law_append(law, 0, 2, "z");
        ngx_chat_law_read_log(law, 1, 0, 0);
        break;
    default:
        ngx_chat_law_expect(law, 1, "0=+x 1=+y 2=+z");
        ngx_chat_law_end(law);
    }
}


static void
law_last_piece(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_join(law, 1, 1, "a=1");
        law_append(law, 0, 0, "x");
        ngx_chat_law_append(law, 0, 1, chat_cstr("y"), 1, 0);
        ngx_chat_law_append(law, 1, 0, chat_str(NULL, 0), 1, 0);
        ngx_chat_law_read_log(law, 2, 0, 0);
        ngx_chat_law_read_log(law, 3, 1, 0);
        ngx_chat_law_read_log(law, 4, 0, 2);
        break;
    default:
        ngx_chat_law_expect(law, 2, "0=+x 1=last+y");
        ngx_chat_law_expect(law, 3, "0=last+");
        ngx_chat_law_expect(law, 4, "");
        ngx_chat_law_end(law);
    }
}


static void
law_nothing_is_there(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_read_log(law, 0, 2, 0);
        ngx_chat_law_join(law, 1, 0, "a=1");
        ngx_chat_law_read_log(law, 2, 0, 0);
        law_append(law, 0, 0, "x");
        ngx_chat_law_read_log(law, 3, 0, 1);
        ngx_chat_law_read_log(law, 4, 0, 1000000);
        ngx_chat_law_read_log(law, 5, 0, UINT64_MAX);
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_expect(law, 2, "");
        ngx_chat_law_expect(law, 3, "");
        ngx_chat_law_expect(law, 4, "");
        ngx_chat_law_expect(law, 5, "");
        ngx_chat_law_join(law, 0, 2, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_end(law);
    }
}


/* 2 is missing; and the numbers need not be small. */
static void
law_gap_is_seen(ngx_chat_law_t *law, ngx_uint_t step)
{
    const uint64_t far = 9007199254740993; /* not exact as a double */

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        law_append(law, 0, 0, "w");
        law_append(law, 0, 1, "x");
        law_append(law, 0, 3, "y");
        law_append(law, 0, far, "z");
        law_append(law, 0, 2, "late");
        ngx_chat_law_read_log(law, 1, 0, 0);
        ngx_chat_law_read_log(law, 2, 0, 2);
        ngx_chat_law_read_log(law, 3, 0, far);
        ngx_chat_law_read_log(law, 4, 0, far + 1);
        break;
    default:
        ngx_chat_law_expect(law, 1, "0=+w 1=+x 3=+y 9007199254740993=+z");
        ngx_chat_law_expect(law, 2, "3=+y 9007199254740993=+z");
        ngx_chat_law_expect(law, 3, "9007199254740993=+z");
        ngx_chat_law_expect(law, 4, "");
        ngx_chat_law_end(law);
    }
}


static void
law_appends_notify(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "a=1");
        ngx_chat_law_watch(law, 1, 1, 0, "");
        break;
    case 1:
        law_append(law, 0, 0, "x");
        ngx_chat_law_await(law, 0);
        ngx_chat_law_await(law, 1);
        break;
    case 2:
        ngx_chat_law_read_log(law, 0, 0, 0);
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 3:
        ngx_chat_law_expect(law, 0, "0=+x");
        law_append(law, 0, 1, "y");
        law_append(law, 0, 2, "z");
        ngx_chat_law_await(law, 0);
        break;
    case 4:
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 5:
        law->watches[0].notified = 0;
        law->watches[0].awaited = 0;
        law_append(law, 0, 1, "y");
        law_append(law, 0, 2, "z");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    default:
        if (!ngx_chat_law_heard(law, 0, 5)) {
            ngx_chat_law_end(law);
        }
    }
}


static void
law_read_is_answered_later(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ops[3].keep = 1;
        ngx_chat_law_join(law, 0, 0, "a=1");
        law_append(law, 0, 0, "x");
        ngx_chat_law_read_log(law, 1, 0, 0);
        ngx_chat_law_read_log(law, 2, 0, 0);
        ngx_chat_law_cancel(law, 2);
        ngx_chat_law_read_log(law, 3, 0, 0);
        ngx_chat_law_cancel(law, 3);
        ngx_chat_law_cancel(law, 3);
        ngx_chat_law_read_log(law, 3, 0, 1);
        ngx_chat_law_check(law, law->due == 3, "done() inside a call");
        break;
    case 1:
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    default:
        ngx_chat_law_expect(law, 1, "0=+x");
        ngx_chat_law_check(law, law->ops[2].fired == 0,
                           "done() after cancel()");
        ngx_chat_law_expect(law, 3, "");
        ngx_chat_law_check(law, law->ops[3].fired == 1, "the old one is told");
        ngx_chat_law_end(law);
    }
}


static void
law_clear_takes_it_away(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        law_append(law, 0, 0, "x");
        law_append(law, 0, 1, "y");
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_read_log(law, 1, 0, 0);
        break;
    case 1:
        ngx_chat_law_expect(law, 1, "");
        law_append(law, 0, 2, "z");
        ngx_chat_law_read_log(law, 1, 0, 0);
        break;
    case 2:
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_join(law, 0, 0, "b=1");
        law_append(law, 0, 3, "z");
        ngx_chat_law_read_log(law, 1, 0, 0);
        ngx_chat_law_join(law, 2, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_expect(law, 2, "b=1 cleared=1");
        ngx_chat_law_end(law);
    }
}


static void
law_append_needs_facts(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law_append(law, 0, 0, "x");
        ngx_chat_law_read_log(law, 0, 0, 0);
        ngx_chat_law_join(law, 1, 0, "");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_join(law, 0, 0, "a=1");
        law_append(law, 0, 1, "y");
        ngx_chat_law_read_log(law, 1, 0, 0);
        break;
    default:
        ngx_chat_law_expect(law, 1, "1=+y");
        ngx_chat_law_end(law);
    }
}


static void
law_logs_do_not_mix(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1+p");
        ngx_chat_law_join(law, 1, 1, "a=1");
        ngx_chat_law_join(law, 2, 2, "a=1");
        law_append(law, 0, 0, "x");
        law_append(law, 1, 0, "y");
        ngx_chat_law_read_log(law, 3, 0, 0);
        ngx_chat_law_read_log(law, 4, 1, 0);
        ngx_chat_law_read_log(law, 5, 2, 0);
        ngx_chat_law_payloads(law, 6, 0, "a 0");
        break;
    case 1:
        ngx_chat_law_expect(law, 3, "0=+x");
        ngx_chat_law_expect(law, 4, "0=+y");
        ngx_chat_law_expect(law, 5, "");
        ngx_chat_law_expect(law, 6, "a=1+p");
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_read_log(law, 4, 1, 0);
        break;
    default:
        ngx_chat_law_expect(law, 4, "0=+y");
        ngx_chat_law_end(law);
    }
}


/* At 4.4 s the log put at 0 s has expired, the one put at 2 s has not. */
static void
law_appends_lengthen_it(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ttl = 3;
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        ngx_chat_law_join(law, 1, 1, "a=1+x");
        law_append(law, 0, 0, "x");
        law_append(law, 1, 0, "x");
        ngx_chat_law_pause(law, 2000);
        break;
    case 1:
        law_append(law, 0, 1, "y");
        ngx_chat_law_pause(law, 2400);
        break;
    case 2:
        ngx_chat_law_payloads(law, 0, 0, "a");
        ngx_chat_law_read_log(law, 1, 0, 0);
        ngx_chat_law_payloads(law, 2, 1, "a");
        ngx_chat_law_read_log(law, 3, 1, 0);
        ngx_chat_law_pause(law, 2000);
        break;
    case 3:
        ngx_chat_law_expect(law, 0, "a=1+x");
        ngx_chat_law_expect(law, 1, "0=+x 1=+y");
        ngx_chat_law_expect(law, 2, "");
        ngx_chat_law_expect(law, 3, "");
        ngx_chat_law_read_log(law, 1, 0, 0);
        break;
    default:
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_end(law);
    }
}


/* The lifetime of facts does not become shorter. */
static void
law_short_append_shortens_nothing(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        law->ttl = 1;
        law_append(law, 0, 0, "x");
        ngx_chat_law_pause(law, 3100);
        break;
    case 1:
        ngx_chat_law_payloads(law, 0, 0, "a");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1+x");
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_logs[] = {
    { "pieces-come-back-in-order-from-a-position", law_pieces_in_order, 0 },
    { "a-piece-is-put-once-and-never-behind-a-later-one",
      law_piece_is_put_once, 0 },
    { "the-last-piece-says-so", law_last_piece, 0 },
    { "a-read-past-the-end-answers-nothing", law_nothing_is_there, 0 },
    { "a-gap-is-seen", law_gap_is_seen, 0 },
    { "an-append-notifies-and-a-repeat-does-not", law_appends_notify, 0 },
    { "a-read-is-answered-later-or-cancelled", law_read_is_answered_later, 0 },
    { "clear-takes-the-log-away-for-good", law_clear_takes_it_away, 0 },
    { "an-append-without-facts-puts-nothing", law_append_needs_facts, 0 },
    { "logs-of-keys-do-not-mix", law_logs_do_not_mix, 0 },
    { "an-append-lengthens-the-life-of-both", law_appends_lengthen_it, 0 },
    { "an-append-does-not-shorten-the-life-of-facts",
      law_short_append_shortens_nothing, 0 },
    { NULL, NULL, 0 }
};
