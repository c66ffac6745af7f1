/*
 * chat_dialect_ag_ui.c: AG-UI, the protocol between agents and their users.
 *
 * Here: the table. A request is the input of a run: a whole transcript with
 * the thread that it is of. The answer is a run: events that are each a JSON
 * object with a type. Nothing is numbered; the client takes neither CRLF nor
 * [DONE], so nothing of the kind is ever written.
 * Must not know: other dialects, policy, the time.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


/* Not "state" and "context", in which two tabs of one page differ. */
static const char *const chat_ag_ui_signature[] = { "tools", "forwardedProps",
                                                    NULL };

static const char *const chat_ag_ui_texts[] = { "\"delta\":\"", NULL };


const chat_dialect_t chat_dialect_ag_ui = {
    .name = "ag_ui",
    .messages = "messages",
    .says = chat_ag_ui_says,
    .signature = chat_ag_ui_signature,
    .candidate = 1,
    .resends = 1,
    .transcript = 1,
    .inject_after = "\"type\":\"RUN_STARTED\"",
    .request = chat_ag_ui_request,
    .splice = chat_ag_ui_splice,
    .own = chat_ag_ui_own,
    .open = chat_ag_ui_open,
    .boring = chat_ag_ui_boring,
    .texts = chat_ag_ui_texts,
    .read = chat_ag_ui_read,
    .interrupted = chat_ag_ui_interrupted,
    .empty = chat_ag_ui_empty,
    .bounce = chat_ag_ui_bounce,
    .inject = chat_ag_ui_tell,
    .refuse = chat_refusal_json,
    .refuse_in_band = chat_ag_ui_refuse_in_band,
};
