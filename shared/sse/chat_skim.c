/*
 * chat_skim.c: see chat_skim.h.
 *
 * The learnt frame is kept as the pieces between its texts. A text is read to
 * its closing quote, byte by byte: it is short, and no line may end in it.
 */

#include "sse/chat_skim.h"


/* Behind the text that begins at p; NULL if it does not end as one. */
static const unsigned char *
chat_skim_text(const unsigned char *p, const unsigned char *end)
{
    for (; p < end; p++) {
        if (*p == '"') {
            return p;
        }
        if (*p == '\\') {
            p++;
            if (p == end) {
                return NULL;
            }
        }
        if (*p < 0x20) {
            return NULL;
        }
    }

    return NULL;
}


/* The first place in s where one of the texts begins, or NULL. */
static const unsigned char *
chat_skim_hole(const unsigned char *p, const unsigned char *end,
               const char *const *texts)
{
    size_t               len;
    const unsigned char *at, *first = NULL;

    for (; *texts != NULL; texts++) {
        len = strlen(*texts);
        at = chat_str_find(chat_str(p, (size_t) (end - p)), *texts);
        if (at != NULL && (first == NULL || at + len < first)) {
            first = at + len;
        }
    }

    return first;
}


void
chat_skim_learn(chat_skim_t *skim, chat_str_t raw, const char *const *texts)
{
    size_t               n = 0;
    unsigned char       *out = skim->bytes;
    const unsigned char *hole, *p = raw.data, *end = raw.data + raw.len;

    skim->count = 0;

    if (raw.len > CHAT_SKIM_BYTES || raw.len < 2
        || memcmp(end - 2, "\n\n", 2) != 0
        || memchr(raw.data, '\r', raw.len) != NULL)
    {
        return;
    }

    while (n < CHAT_SKIM_HOLES) {
        hole = chat_skim_hole(p, end, texts);
        if (hole == NULL) {
            break;
        }

        skim->len[n] = (size_t) (hole - p);
        memcpy(out, p, skim->len[n]);
        out += skim->len[n++];

        p = chat_skim_text(hole, end);
        if (p == NULL) {
            return;
        }
    }

    if (n == 0) {
        return;
    }

    skim->len[n] = (size_t) (end - p);
    memcpy(out, p, skim->len[n]);
    skim->count = n + 1;
}


/* Length of the one frame at p; 0: it is another one, or not all there. */
static size_t
chat_skim_frame(const chat_skim_t *skim, const unsigned char *p,
                const unsigned char *end)
{
    size_t               i;
    const unsigned char *start = p, *bytes = skim->bytes;

    for (i = 0; i < skim->count; i++) {
        if ((size_t) (end - p) < skim->len[i]
            || memcmp(p, bytes, skim->len[i]) != 0) {
            return 0;
        }

        p += skim->len[i];
        bytes += skim->len[i];

        if (i + 1 < skim->count) {
            p = chat_skim_text(p, end);
            if (p == NULL) {
                return 0;
            }
        }
    }

    return (size_t) (p - start);
}


size_t
chat_skim_match(const chat_skim_t *skim, chat_str_t input, size_t max,
                uint32_t *frames)
{
    size_t               len;
    const unsigned char *p, *end;

    if (skim->count == 0 || input.len == 0) {
        return 0;
    }

    p = input.data;
    end = p + input.len;

    while ((len = chat_skim_frame(skim, p, end)) != 0 && len <= max) {
        p += len;
        (*frames)++;
    }

    return (size_t) (p - input.data);
}
