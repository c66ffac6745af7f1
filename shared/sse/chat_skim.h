/*
 * chat_skim.h: the fast path for text-only frames.
 *
 * A provider writes every piece of a text in the same words: from frame to
 * frame only the text changes. Of a text-only frame the bytes around the text
 * are kept. A frame that has the same bytes, and any text, is text-only too,
 * and ends where they end. No byte is read more than once.
 */

#ifndef CHAT_SKIM_H
#define CHAT_SKIM_H

#include "bytes/chat_str.h"

#define CHAT_SKIM_HOLES 3
#define CHAT_SKIM_BYTES 1024

typedef struct {
    size_t        count; /* pieces; 0: nothing is known */
    size_t        len[CHAT_SKIM_HOLES + 1];
    unsigned char bytes[CHAT_SKIM_BYTES]; /* the pieces, without the texts */
} chat_skim_t;

/*
 * Learns from a text-only frame. texts: words such as "content":" that stand
 * before a text which may be any; NULL ends them.
 */
void chat_skim_learn(chat_skim_t *skim, chat_str_t raw,
                     const char *const *texts);

/* Length of the frames, each of at most max bytes, that input begins with. */
size_t chat_skim_match(const chat_skim_t *skim, chat_str_t input, size_t max,
                       uint32_t *frames);

#endif /* CHAT_SKIM_H */
