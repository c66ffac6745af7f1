/*
 * chat_str.h: strings with a length, and what a function of the core returns.
 *
 * Nothing here allocates memory or needs to be initialised.
 */

#ifndef CHAT_STR_H
#define CHAT_STR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>


/*
 * Bytes that another owns; not NUL-terminated. data may be NULL only
 * where len is 0.
 */
typedef struct {
    const unsigned char *data;
    size_t               len;
} chat_str_t;

#define CHAT_STR(literal)                                      \
    {                                                          \
        (const unsigned char *) (literal), sizeof(literal) - 1 \
    }


/* What a function of the core returns; CHAT_OK is 0, all others are not. */
typedef enum {
    CHAT_OK = 0,
    CHAT_ERROR,    /* no memory, or an arena past its limit */
    CHAT_DECLINED, /* well-formed, but not for us */
    CHAT_BAD,      /* malformed input */
    CHAT_LIMIT     /* past a bound that the caller or the design set */
} chat_rc_e;


static inline chat_str_t
chat_str(const void *data, size_t len)
{
    chat_str_t s = { (const unsigned char *) data, len };

    return s;
}


/* A C string literal or other NUL-terminated text as a chat_str_t. */
static inline chat_str_t
chat_cstr(const char *text)
{
    return chat_str(text, strlen(text));
}


static inline int
chat_str_eq(chat_str_t a, chat_str_t b)
{
    return a.len == b.len
           && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}


/* 1 if a holds exactly the characters of the C string text. */
static inline int
chat_str_is(chat_str_t a, const char *text)
{
    return chat_str_eq(a, chat_cstr(text));
}


/* 1 if a begins with the characters of the C string text. */
static inline int
chat_str_starts(chat_str_t a, const char *text)
{
    size_t len = strlen(text);

    return a.len >= len && memcmp(a.data, text, len) == 0;
}


/* 1 if a ends with the characters of the C string text. */
static inline int
chat_str_ends(chat_str_t a, const char *text)
{
    size_t len = strlen(text);

    return a.len >= len && memcmp(a.data + a.len - len, text, len) == 0;
}


/*
 * As chat_str_starts(), whatever the case of a's letters: 0x20 makes them
 * lower case. text has it in each character, as in "a", "-", "/" and " ".
 */
static inline int
chat_str_starts_any_case(chat_str_t a, const char *text)
{
    size_t i = 0, len = strlen(text);

    while (i < len && a.len >= len && (a.data[i] | 0x20) == text[i]) {
        i++;
    }

    return i == len;
}


/* As chat_str_is(), likewise. */
static inline int
chat_str_is_any_case(chat_str_t a, const char *text)
{
    return a.len == strlen(text) && chat_str_starts_any_case(a, text);
}


/* For sorting, where equal ones must be neighbours: by length, then bytes. */
static inline int
chat_str_compare(chat_str_t a, chat_str_t b)
{
    if (a.len != b.len) {
        return a.len < b.len ? -1 : 1;
    }

    return a.len ? memcmp(a.data, b.data, a.len) : 0;
}


/* Copies s to p; returns the end of the copy. */
static inline unsigned char *
chat_str_copy(unsigned char *p, chat_str_t s)
{
    if (s.len != 0) {
        memcpy(p, s.data, s.len);
    }

    return p + s.len;
}


/* 1 if the characters of text, at least one, stand anywhere in s. */
int chat_str_has(chat_str_t s, const char *text);

/*
 * Cuts off *s what stands before the first such byte, and that byte. Without
 * one all of *s, which is empty then.
 */
chat_str_t chat_str_cut(chat_str_t *s, unsigned char end);

/* 1 and *rest, what stands behind the prefix, if s begins with it. */
static inline int
chat_str_after(chat_str_t s, const char *prefix, chat_str_t *rest)
{
    size_t len = strlen(prefix);

    if (!chat_str_starts(s, prefix)) {
        return 0;
    }

    *rest = chat_str(s.data + len, s.len - len);
    return 1;
}


/*
 * 1 and *out if s is a decimal number of at most 18 digits without a leading
 * zero: two texts are never one number.
 */
int chat_str_number(chat_str_t s, uint64_t *out);

/* 1 and *out as strtod() has it where no locale is set; 0 without memory. */
int chat_str_double(const char *text, double *out);

#define CHAT_DIGITS 20 /* bytes of a number at most */

/* Writes n in decimal, up to end; returns where it begins. */
unsigned char *chat_digits(uint64_t n, unsigned char *end);

#endif /* CHAT_STR_H */
