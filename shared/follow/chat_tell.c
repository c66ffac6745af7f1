/*
 * chat_tell.c: see chat_tell.h.
 *
 * Lines end in LF, or in CRLF; a stream of lone CRs has no place.
 * Must not know: wire formats, what is told.
 */

#include "follow/chat_tell.h"


void
chat_tell_init(chat_tell_t *tell, const chat_dialect_t *dialect)
{
    memset(tell, 0, sizeof(*tell));
    tell->behind = dialect->inject_after;
    tell->seeks = tell->behind != NULL;
    tell->blank = 1;
    tell->prefix = 1;
}


#define CHAT_TELL_FIELD "data:"


/* A line is over; 1 if a frame with data ends with it. */
static int
chat_tell_line(chat_tell_t *tell)
{
    int over = tell->blank && tell->data;

    tell->data =
        !tell->blank
        && (tell->data
            || (tell->prefix && tell->column == strlen(CHAT_TELL_FIELD)));
    tell->column = 0;
    tell->blank = 1;
    tell->prefix = 1;

    return over;
}


/* One more character of a line. */
static void
chat_tell_char(chat_tell_t *tell, unsigned char c)
{
    tell->blank = 0;

    if (tell->column < strlen(CHAT_TELL_FIELD)) {
        tell->prefix &= c == (unsigned char) CHAT_TELL_FIELD[tell->column];
        tell->column++;
        return;
    }

    if (c == ' ' || !tell->prefix || tell->behind[tell->found] == '\0') {
        return;
    }

    if (c == (unsigned char) tell->behind[tell->found]) {
        tell->found++;
    } else {
        tell->found = c == (unsigned char) tell->behind[0];
    }
}


chat_rc_e
chat_tell_find(chat_tell_t *tell, chat_str_t bytes, size_t *at)
{
    size_t i;

    for (i = 0; i < bytes.len && tell->seeks; i++) {
        if (bytes.data[i] == '\r') {
            continue;
        }

        if (bytes.data[i] != '\n') {
            chat_tell_char(tell, bytes.data[i]);

        } else if (chat_tell_line(tell)) {
            tell->seeks = 0;
            *at = i + 1;
            return tell->behind[tell->found] == '\0' ? CHAT_OK : CHAT_DECLINED;
        }
    }

    return CHAT_DECLINED;
}
