/*
 * chat_outside_show.c: a batch as JSON, for those who are to settle it; see
 * chat_outside.h.
 *
 * Promises: ids are whole, no payload and no credential is told.
 * Must not know: whom it is shown to.
 */

#include "facts/chat_conversation.h"
#include "policy/chat_outside.h"


int
chat_outside_is_open(const chat_batch_t *batch)
{
    return batch->nmembers != 0 && !batch->superseded && !batch->cleared
           && batch->last.end != CHAT_END_FINISHED;
}


static int
chat_outside_is_settled(const chat_member_t *member)
{
    return member->outcome != CHAT_OUTCOME_NONE
           || (member->kind == CHAT_KIND_APPROVAL
               && member->approval != CHAT_APPROVAL_NONE);
}


static const char *
chat_outside_bool(int value)
{
    return value ? "true" : "false";
}


static void
chat_outside_call(const chat_member_t *member, chat_buf_t *out)
{
    chat_buf_puts(out, "{\"toolCallId\":");
    chat_buf_json(out, member->id);
    chat_buf_printf(out, ",\"kind\":\"%s\",\"settled\":%s",
                    member->kind == CHAT_KIND_APPROVAL ? "approval" : "client",
                    chat_outside_bool(chat_outside_is_settled(member)));

    if (member->outcome != CHAT_OUTCOME_NONE) {
        chat_buf_printf(out, ",\"outcome\":\"%s\"",
                        chat_outcome_name(member->outcome));
    }

    if (member->approval != CHAT_APPROVAL_NONE) {
        chat_buf_printf(
            out, ",\"approved\":%s",
            chat_outside_bool(member->approval == CHAT_APPROVAL_GRANTED));
    }

    chat_buf_puts(out, "}");
}


/* The calls of the batch that the client is to answer, all or the missing. */
static void
chat_outside_calls(const chat_batch_t *batch, int missing, chat_buf_t *out)
{
    size_t               i;
    const char          *comma = "";
    const chat_member_t *member;

    for (i = 0; i < batch->nmembers; i++) {
        member = &batch->members[i];

        if (!member->is_call || member->kind == CHAT_KIND_PROVIDER
            || (missing && chat_outside_is_settled(member)))
        {
            continue;
        }

        chat_buf_puts(out, comma);
        comma = ",";

        if (missing) {
            chat_buf_json(out, member->id);
        } else {
            chat_outside_call(member, out);
        }
    }
}


static void
chat_outside_attempt(const chat_attempt_t *attempt, chat_buf_t *out)
{
    if (attempt->k == 0) {
        chat_buf_puts(out, "null");
        return;
    }

    chat_buf_printf(out, "{\"number\":%u", (unsigned) attempt->k);

    if (attempt->answer != 0) {
        chat_buf_printf(out, ",\"status\":%u", (unsigned) attempt->answer);
    }

    chat_buf_printf(out, ",\"state\":\"%s\"}",
                    attempt->is_void ? "void"
                    : attempt->end == CHAT_END_NONE
                        ? "running"
                        : chat_end_name(attempt->end));
}


void
chat_outside_show(const chat_batch_t *batch, const chat_recorded_t *recorded,
                  chat_str_t conversation, chat_buf_t *out)
{
    char name[17];

    chat_digest_hex(&recorded->names[0], 8, name);

    chat_buf_puts(out, "{\"conversation\":");
    chat_buf_json(out, conversation);
    chat_buf_puts(out, ",\"dialect\":");
    chat_buf_json(out, recorded->dialect);
    chat_buf_printf(out,
                    ",\"batch\":\"%s\",\"since\":%llu,\"open\":%s,"
                    "\"sealed\":%s,\"broken\":%s,\"superseded\":%s,"
                    "\"cleared\":%s,\"calls\":[",
                    name, (unsigned long long) batch->since,
                    chat_outside_bool(chat_outside_is_open(batch)),
                    chat_outside_bool(batch->sealed),
                    chat_outside_bool(batch->broken),
                    chat_outside_bool(batch->superseded),
                    chat_outside_bool(batch->cleared));
    chat_outside_calls(batch, 0, out);
    chat_buf_puts(out, "],\"missing\":[");
    chat_outside_calls(batch, 1, out);
    chat_buf_puts(out, "],\"attempt\":");
    chat_outside_attempt(&batch->last, out);
    chat_buf_puts(out, "}\n");
}


void
chat_outside_cleared(const chat_batch_t *batch, chat_buf_t *out)
{
    size_t               i;
    const char          *comma = "";
    const chat_member_t *member;

    chat_buf_puts(out, "{\"cleared\":[");

    for (i = 0; batch != NULL && i < batch->nmembers; i++) {
        member = &batch->members[i];

        if (member->is_call && member->kind != CHAT_KIND_PROVIDER) {
            chat_buf_puts(out, comma);
            comma = ",";
            chat_buf_json(out, member->id);
        }
    }

    chat_buf_puts(out, "]}\n");
}
