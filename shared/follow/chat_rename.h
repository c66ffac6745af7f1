/*
 * chat_rename.h: an answer that was made for one client, given to another.
 *
 * A stream may name the message that it goes on with by the id that the
 * asking client gave it; whoever follows that stream may know the message by
 * another id. Promises: nothing but the bytes of that id change, and only
 * where it is the asking client's; what is no whole frame passes as it is.
 * Must not know: wire formats, NGINX.
 */

#ifndef CHAT_RENAME_H
#define CHAT_RENAME_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"
#include "dialect/chat_dialect.h"

#define CHAT_RENAME_MAX (64 * 1024) /* bytes that are looked at in all */

typedef struct {
    const chat_dialect_t *dialect;
    chat_str_t            from;
    chat_str_t            to;
    size_t                seen; /* bytes so far */
    int                   done; /* what follows is to be passed as it is */
} chat_rename_t;

/* The strings must outlive it. Nothing to do is done at once. */
void chat_rename_init(chat_rename_t *rename, const chat_dialect_t *dialect,
                      chat_str_t from, chat_str_t to);

/*
 * Appends the next bytes of the stream to out, the message renamed.
 * CHAT_DECLINED: there is nothing to change in them, out is as it was;
 * CHAT_ERROR: no memory, likewise.
 */
chat_rc_e chat_rename(chat_rename_t *rename, chat_str_t bytes,
                      chat_buf_t *out);

#endif /* CHAT_RENAME_H */
