/*
 * laws_piece.c: the entries of a log are any bytes, many or long, and an
 * answer has a limit.
 *
 * A log is read from its beginning to its end, answer by answer; each entry
 * must be returned byte for byte.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_BIG (1024 * 1024)
#define LAW_MANY 5000
#define LAW_PIECE (16 * 1024)
#define LAW_PIECES 40


/* len bytes that belong to a position; valid until the next call. */
static chat_str_t
law_piece(uint64_t position, size_t len)
{
    static u_char bytes[LAW_BIG];
    size_t        i;

    for (i = 0; i < len; i++) {
        bytes[i] = (u_char) (i * 7 + i / 256 + position * 31);
    }

    return chat_str(bytes, len);
}


/*
 * Checks the answer to op 0: complete entries from position on, of this
 * length, without a gap. Returns their number.
 */
static size_t
law_expect_pieces(ngx_chat_law_t *law, uint64_t position, size_t len)
{
    size_t             i, size = 0;
    char               field[24];
    ngx_chat_law_op_t *slot = &law->ops[0];

    ngx_chat_law_check(law, slot->rc == CHAT_OK, "it is not answered");

    for (i = 0; i < slot->n; i++) {
        (void) snprintf(field, sizeof(field), "%llu",
                        (unsigned long long) position + i);
        ngx_chat_law_check(law, chat_str_is(slot->facts[i].field, field),
                           "a piece is not in its place");
        ngx_chat_law_check(law,
                           slot->facts[i].has_payload
                               && chat_str_eq(slot->facts[i].payload,
                                              law_piece(position + i, len)),
                           "it has other bytes");
        size += slot->facts[i].payload.len;
    }

    ngx_chat_law_check(law, slot->n < 2 || size <= CHAT_STORE_READ_MAX,
                       "an answer is longer than its bound");
    return slot->n;
}


/* Reads all entries; returns the number of answers that it took. */
static void
law_read_all(ngx_chat_law_t *law, ngx_uint_t step, size_t len, size_t many,
             ngx_uint_t answers)
{
    if (step > 1) {
        law->number += law_expect_pieces(law, law->number, len);

        if (law->ops[0].n == 0) {
            ngx_chat_law_check(law, law->number == many, "some are missing");
            ngx_chat_law_check(law, step - 2 <= answers, "answers are short");
            ngx_chat_law_end(law);
            return;
        }
    }

    ngx_chat_law_read_log(law, 0, 0, law->number);
}


static void
law_append_all(ngx_chat_law_t *law, size_t len, size_t many)
{
    size_t i;

    ngx_chat_law_join(law, 1, 0, "a=1");
    for (i = 0; i < many; i++) {
        ngx_chat_law_append(law, 0, i, law_piece(i, len), 0, 0);
    }
}


static void
law_answers_have_a_bound(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        law_append_all(law, LAW_PIECE, LAW_PIECES);
    } else {
        law_read_all(law, step, LAW_PIECE, LAW_PIECES, 3);
    }
}


static void
law_thousands_of_pieces(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        law_append_all(law, 50, LAW_MANY);
    } else {
        law_read_all(law, step, 50, LAW_MANY, 2);
    }
}


static void
law_empty_pieces(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        law_append_all(law, 0, 300);
    } else {
        law_read_all(law, step, 0, 300, 1);
    }
}


/* Lengths around a page's, so that headers are cut everywhere. */
static void
law_awkward_lengths(ngx_chat_law_t *law, ngx_uint_t step)
{
    size_t i;

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 1, 0, "a=1");
        for (i = 0; i < 40; i++) {
            ngx_chat_law_append(law, 0, 2 * i, law_piece(2 * i, 4021 + i), 0,
                                0);
            ngx_chat_law_append(law, 0, 2 * i + 1, law_piece(2 * i + 1, i % 3),
                                0, 0);
        }
        ngx_chat_law_read_log(law, 0, 0, 0);
        break;
    default:
        ngx_chat_law_check(law, law->ops[0].n > 60, "too few are answered");
        for (i = 0; i < law->ops[0].n; i++) {
            ngx_chat_law_check(
                law,
                chat_str_eq(law->ops[0].facts[i].payload,
                            law_piece(i, i % 2 ? i / 2 % 3 : 4021 + i / 2)),
                "it has other bytes");
        }
        ngx_chat_law_end(law);
    }
}


static void
law_big_piece(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 1, 0, "a=1");
        ngx_chat_law_append(law, 0, 0, chat_cstr("before"), 0, 0);
        ngx_chat_law_append(law, 0, 1, law_piece(1, LAW_BIG), 0, 0);
        ngx_chat_law_append(law, 0, 2, chat_cstr("behind"), 1, 0);
        ngx_chat_law_read_log(law, 2, 0, 0);
        ngx_chat_law_read_log(law, 0, 0, 1);
        ngx_chat_law_read_log(law, 3, 0, 2);
        break;
    default:
        ngx_chat_law_expect(law, 2, "0=+before");
        ngx_chat_law_check(law, law_expect_pieces(law, 1, LAW_BIG) == 1,
                           "it is not answered alone");
        ngx_chat_law_expect(law, 3, "2=last+behind");
        ngx_chat_law_end(law);
    }
}


static void
law_any_bytes(ngx_chat_law_t *law, ngx_uint_t step)
{
    static const char awkward[] =
        "\0\0\r\n$-1\r\n*1\r\n:1\r\n+OK\r\n{\"a\":\"\\u0000\"} %s%n\xff";
    const chat_str_t bytes = chat_str(awkward, sizeof(awkward) - 1);

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 1, 0, "a=1");
        ngx_chat_law_append(law, 0, 0, bytes, 0, 0);
        ngx_chat_law_append(law, 0, 1, law_piece(1, 256), 0, 0);
        ngx_chat_law_read_log(law, 2, 0, 0);
        ngx_chat_law_read_log(law, 0, 0, 1);
        break;
    default:
        ngx_chat_law_check(
            law,
            law->ops[2].n == 2
                && chat_str_eq(law->ops[2].facts[0].payload, bytes),
            "they are other bytes");
        ngx_chat_law_check(law, law_expect_pieces(law, 1, 256) == 1,
                           "it is not there");
        ngx_chat_law_end(law);
    }
}


static ngx_uint_t
law_first(ngx_chat_law_t *law, ngx_uint_t i)
{
    chat_str_t field = law->ops[i].facts[0].field;

    return (ngx_uint_t) ngx_atoi((u_char *) field.data, field.len);
}


/* All entries from keep on exist, and not all before it. */
static void
law_front_goes(ngx_chat_law_t *law, ngx_uint_t step)
{
    ngx_uint_t i;

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 1, 0, "a=1");
        for (i = 0; i < LAW_PIECES; i++) {
            ngx_chat_law_append(law, 0, i, law_piece(i, LAW_PIECE), 0,
                                i > 10 ? i - 10 : 0);
        }
        ngx_chat_law_read_log(law, 0, 0, 0);
        ngx_chat_law_read_log(law, 2, 0, LAW_PIECES - 11);
        break;
    case 1:
        if (law->ops[0].n == 0 || law->ops[2].n == 0) {
            ngx_chat_law_fail(law, "nothing is left");
            return;
        }
        i = law_first(law, 0);
        (void) law_expect_pieces(law, i, LAW_PIECE);
        ngx_chat_law_check(law, i > 0, "nothing has gone");
        ngx_chat_law_check(law, i <= LAW_PIECES - 11, "too much has gone");
        ngx_chat_law_check(law, law_first(law, 2) == LAW_PIECES - 11,
                           "keep is not there");
        ngx_chat_law_append(law, 0, LAW_PIECES, chat_cstr("x"), 1, UINT64_MAX);
        ngx_chat_law_read_log(law, 0, 0, LAW_PIECES);
        break;
    default:
        ngx_chat_law_check(
            law,
            law->ops[0].n == 1
                && chat_str_is(law->ops[0].facts[0].value, "last"),
            "an append has dropped its own piece");
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_pieces[] = {
    { "an-answer-has-a-bound", law_answers_have_a_bound, 0 },
    { "thousands-of-pieces", law_thousands_of_pieces, 0 },
    { "pieces-without-bytes", law_empty_pieces, 0 },
    { "pieces-of-awkward-lengths", law_awkward_lengths, 0 },
    { "a-piece-of-1-mb-is-answered-alone", law_big_piece, 0 },
    { "pieces-of-any-bytes", law_any_bytes, 0 },
    { "the-front-goes-and-what-is-kept-stays", law_front_goes, 0 },
    { NULL, NULL, 0 }
};
