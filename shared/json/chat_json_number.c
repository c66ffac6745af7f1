/*
 * chat_json_number.c: a JSON number as ECMAScript's Number::toString has it.
 *
 * The fewest digits that read back as the same double. Numbers with up to 15
 * digits are their own shortest form and never become a double at all; for
 * the others libc converts, and candidates are tried from short to long.
 * Promises: the same in every locale; any length of digits and exponent.
 * Must not know: trees, strings.
 */

#include "json/chat_json_number.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#define CHAT_JSON_DIGITS 17 /* tell any double from all others */
#define CHAT_JSON_EXACT 15  /* of a decimal come back from any double ... */
#define CHAT_JSON_RANGE 300 /* ... that is well within these powers of ten */

/*
 * A number as 0.d1d2d3... * 10^point, without a sign; neither the first nor
 * the last digit is 0. Zero has no digits.
 */
typedef struct {
    char digits[CHAT_JSON_DIGITS + 1];
    int  count;
    int  point;
} chat_json_decimal_t;


static void
chat_json_decimal_trim(chat_json_decimal_t *d)
{
    while (d->count != 0 && d->digits[d->count - 1] == '0') {
        d->count--;
    }
}


/*
 * The exponent after the digits of a JSON number, as far as it matters: no
 * text has enough digits to make up for a larger one.
 */
static int64_t
chat_json_exponent(chat_str_t s)
{
    size_t  i;
    int     negative = 0;
    int64_t exponent = 0;

    for (i = 0; i < s.len; i++) {
        if (s.data[i] == '-') {
            negative = 1;

        } else if (s.data[i] >= '0' && s.data[i] <= '9'
                   && exponent < INT64_C(1) << 40) {
            exponent = exponent * 10 + (s.data[i] - '0');
        }
    }

    return negative ? -exponent : exponent;
}


/*
 * Reads a number with so few digits that a double made of it would give the
 * very same digits, as nearly all have. 0: it has more, or is out of range;
 * d->count digits are then enough for it.
 */
static int
chat_json_decimal_read(chat_str_t s, chat_json_decimal_t *d)
{
    size_t  i;
    int     in_fraction = 0;
    int64_t point = 0;

    d->count = 0;

    for (i = 0; i < s.len && (s.data[i] | 0x20) != 'e'; i++) {
        if (s.data[i] == '.') {
            in_fraction = 1;

        } else if (s.data[i] == '0' && d->count == 0) {
            point -= in_fraction;

        } else if (s.data[i] != '-') {
            point += !in_fraction;

            if (d->count < CHAT_JSON_EXACT) {
                d->digits[d->count++] = (char) s.data[i];

            } else if (s.data[i] != '0') {
                d->count = CHAT_JSON_DIGITS;
                return 0;
            }
        }
    }

    chat_json_decimal_trim(d);

    point += chat_json_exponent(chat_str(s.data + i, s.len - i));

    if (d->count != 0 && (point < -CHAT_JSON_RANGE || point > CHAT_JSON_RANGE))
    {
        return 0;
    }

    d->point = (int) point;

    return 1;
}


/*
 * strtod() of a JSON number. The locale decides what strtod() takes for a
 * decimal point, so it gets none: 12.5e3 is read as 125e2.
 */
static int
chat_json_double(chat_arena_t *arena, chat_str_t s, double *value)
{
    char   *buf;
    size_t  i, n = 0;
    int     in_fraction = 0;
    int64_t exponent = 0;

    buf = chat_arena_alloc(arena, s.len + 32);
    if (buf == NULL) {
        return 0;
    }

    for (i = 0; i < s.len && (s.data[i] | 0x20) != 'e'; i++) {
        if (s.data[i] == '.') {
            in_fraction = 1;
            continue;
        }

        buf[n++] = (char) s.data[i];
        exponent -= in_fraction;
    }

    exponent += chat_json_exponent(chat_str(s.data + i, s.len - i));

    (void) snprintf(buf + n, 32, "e%lld", (long long) exponent);

    *value = strtod(buf, NULL);

    return 1;
}


static double
chat_json_decimal_value(const chat_json_decimal_t *d)
{
    char buf[64];

    (void) snprintf(buf, sizeof(buf), "%.*se%d", d->count, d->digits,
                    d->point - d->count);

    return strtod(buf, NULL);
}


/* value > 0, rounded to count digits. */
static void
chat_json_decimal_round(double value, int count, chat_json_decimal_t *d)
{
    char buf[64], *p;
    int  n = 0;

    (void) snprintf(buf, sizeof(buf), "%.*e", count - 1, value);

    for (p = buf; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') {
            d->digits[n++] = *p;
        }
    }

    d->count = n;
    d->point = atoi(p + 1) + 1;
}


/* The next larger number of as many digits. */
static void
chat_json_decimal_next(chat_json_decimal_t *d)
{
    int i = d->count - 1;

    while (i >= 0 && d->digits[i] == '9') {
        d->digits[i--] = '0';
    }

    if (i >= 0) {
        d->digits[i]++;
        return;
    }

    d->digits[0] = '1';
    d->point++;
}


/*
 * The fewest digits, at most d->count, that read back as a denormal. These
 * lie evenly, so that with more digits the nearest decimal is never worse.
 */
static void
chat_json_decimal_denormal(double value, chat_json_decimal_t *d)
{
    int low = 1, high = d->count, count;

    while (low < high) {
        count = (low + high) / 2;
        chat_json_decimal_round(value, count, d);

        if (chat_json_decimal_value(d) == value) {
            high = count;

        } else {
            low = count + 1;
        }
    }

    chat_json_decimal_round(value, high, d);
}


/*
 * The fewest digits that read back as value > 0; d is what
 * chat_json_decimal_read() left. With 16 the decimal above
 * the nearest may do where that does not: below a power of two doubles lie
 * twice as close.
 */
static void
chat_json_decimal(double value, chat_json_decimal_t *d)
{
    if (value < DBL_MIN) {
        chat_json_decimal_denormal(value, d);
        chat_json_decimal_trim(d);
        return;
    }

    chat_json_decimal_round(value, CHAT_JSON_EXACT, d);

    if (chat_json_decimal_value(d) != value) {
        chat_json_decimal_round(value, 16, d);

        if (chat_json_decimal_value(d) != value) {
            chat_json_decimal_next(d);

            if (chat_json_decimal_value(d) != value) {
                chat_json_decimal_round(value, CHAT_JSON_DIGITS, d);
            }
        }
    }

    chat_json_decimal_trim(d);
}


/* Number::toString of ECMAScript, but for zero and the sign. */
static void
chat_json_decimal_write(const chat_json_decimal_t *d, chat_buf_t *out)
{
    int n = d->point, k = d->count;

    if (k <= n && n <= 21) {
        chat_buf_printf(out, "%.*s%.*s", k, d->digits, n - k,
                        "00000000000000000000");

    } else if (0 < n && n <= 21) {
        chat_buf_printf(out, "%.*s.%.*s", n, d->digits, k - n, d->digits + n);

    } else if (-6 < n && n <= 0) {
        chat_buf_printf(out, "0.%.*s%.*s", -n, "000000", k, d->digits);

    } else {
        chat_buf_printf(out, "%c%s%.*se%+d", d->digits[0], k > 1 ? "." : "",
                        k - 1, d->digits + 1, n - 1);
    }
}


void
chat_json_number(chat_arena_t *arena, chat_str_t s, chat_buf_t *out)
{
    double              value;
    chat_json_decimal_t decimal;

    if (!chat_json_decimal_read(s, &decimal)) {
        if (!chat_json_double(arena, s, &value)) {
            out->failed = 1;
            return;
        }

        value = value < 0 ? -value : value;

        if (value > DBL_MAX) {
            chat_buf_add(out, s); /* no double is that large */
            return;
        }

        if (value > 0) {
            chat_json_decimal(value, &decimal);

        } else {
            decimal.count = 0;
        }
    }

    if (decimal.count == 0) {
        chat_buf_puts(out, "0"); /* also of -0 */
        return;
    }

    if (s.data[0] == '-') {
        chat_buf_puts(out, "-");
    }

    chat_json_decimal_write(&decimal, out);
}
