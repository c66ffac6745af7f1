/*
 * chat_dialect_openai_responses_edit.c: frames of the Responses API as bytes:
 * which of them need no reading, what becomes of one when calls were dropped,
 * and the one that the module adds when a stream breaks off.
 *
 * Promises: a frame that no dropped call is about changes by the digits of
 * its output_index or by items of response.output, in nothing else;
 * sequence_number is never touched.
 * Must not know: which calls are dropped, and why.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#include <stdio.h>

#define CHAT_RESPONSES_HEAD 256 /* bytes that hold the type of a delta */

/* Frames that carry nothing but text for people. */
static const char *const chat_responses_text[] = {
    "response.output_text.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.refusal.delta",
    NULL,
};


int
chat_responses_is_text(chat_str_t type)
{
    size_t i;

    for (i = 0; chat_responses_text[i] != NULL; i++) {
        if (chat_str_is(type, chat_responses_text[i])) {
            return 1;
        }
    }

    return 0;
}


/* What stands behind "key": in the object's text; empty: not found. */
static chat_str_t
chat_responses_behind(chat_str_t data, const char *key)
{
    size_t               len = strlen(key);
    const unsigned char *at, *end = data.data + data.len;

    at = chat_str_find(data, key);
    if (at == NULL) {
        return chat_str(NULL, 0);
    }

    for (at += len; at < end && *at == ' '; at++) { /* void */
    }

    return chat_str(at, (size_t) (end - at));
}


int
chat_responses_idle(const chat_frame_t *frame)
{
    chat_str_t head = frame->data;

    if (head.len > CHAT_RESPONSES_HEAD) {
        head.len = CHAT_RESPONSES_HEAD;
    }

    return chat_str_starts(chat_responses_behind(head, "\"type\":"),
                           "\"keepalive\"");
}


/*
 * In a JSON text the bytes "type": with their quotes cannot be the content of
 * a string, and with no second brace before them they are the root's member.
 */
int
chat_responses_boring(void *state, const chat_frame_t *frame)
{
    size_t                   i;
    uint32_t                 n = 0;
    chat_str_t               head, at;
    const unsigned char     *end;
    chat_responses_reader_t *reader = state;

    head = frame->data;
    if (head.len > CHAT_RESPONSES_HEAD) {
        head.len = CHAT_RESPONSES_HEAD;
    }

    if (!reader->confirmed || head.len < 2 || head.data[0] != '{') {
        return 0;
    }

    at = chat_responses_behind(head, "\"type\":");
    if (at.len == 0 || at.data[0] != '"'
        || memchr(head.data + 1, '{', (size_t) (at.data - head.data) - 1)
               != NULL)
    {
        return 0;
    }

    end = memchr(at.data + 1, '"', at.len - 1);
    if (end == NULL
        || !chat_responses_is_text(
            chat_str(at.data + 1, (size_t) (end - at.data) - 1)))
    {
        return 0;
    }

    at = chat_responses_behind(frame->data, "\"sequence_number\":");

    for (i = 0; i < at.len && i < 9; i++) {
        if (at.data[i] < '0' || at.data[i] > '9') {
            break;
        }
        n = n * 10 + (uint32_t) (at.data[i] - '0');
    }

    if (i != 0) {
        reader->number = n;
    }

    return 1;
}


/* Later items close the gap. */
static chat_edit_rc_e
chat_responses_edit_index(chat_json_doc_t *doc, const chat_json_t *node,
                          uint32_t slot, const chat_slots_t *slots,
                          chat_edits_t *edits)
{
    char     digits[16];
    int32_t  index;
    uint32_t below;

    index = chat_json_index(doc, node);

    if (index < 0) {
        return CHAT_EDIT_KEEP;
    }

    if (chat_slots_dropped(slots, slot)) {
        return CHAT_EDIT_DROP;
    }

    below = chat_slots_below(slots, slot - (uint32_t) index, slot);
    if (below == 0) {
        return CHAT_EDIT_KEEP;
    }

    snprintf(digits, sizeof(digits), "%u", (uint32_t) index - below);

    return chat_edits_add(edits, node->start, node->end - node->start,
                          chat_cstr(digits))
                   == CHAT_OK
               ? CHAT_EDIT_CHANGED
               : CHAT_EDIT_ERROR;
}


/* The slots of the items of response.output, one after the other. */
static uint32_t
chat_responses_edit_slot(const chat_events_t *events, size_t *next)
{
    const chat_event_t *event;

    while (*next < events->count) {
        event = &events->items[(*next)++];

        if (event->type == CHAT_EVENT_OPAQUE && event->implied) {
            return event->slot;
        }
    }

    return CHAT_RESPONSES_NONE;
}


static chat_edit_rc_e
chat_responses_edit_output(const chat_json_t   *output,
                           const chat_events_t *events,
                           const chat_slots_t *slots, chat_edits_t *edits)
{
    size_t             begin, end, next = 0;
    const chat_json_t *item, *before = NULL;
    chat_edit_rc_e     rc = CHAT_EDIT_KEEP;
    int                kept = 0;

    if (output == NULL || output->type != CHAT_JSON_ARRAY) {
        return rc;
    }

    for (item = output->child; item != NULL; item = item->next) {
        if (!chat_slots_dropped(slots,
                                chat_responses_edit_slot(events, &next))) {
            kept = 1;
            before = item;
            continue;
        }

        /* its comma goes too: the one before it, if there is a kept item */
        begin = kept ? before->end : item->start;
        end = !kept && item->next ? item->next->start : item->end;

        if (chat_edits_add(edits, begin, end - begin, chat_str(NULL, 0))
            != CHAT_OK) {
            return CHAT_EDIT_ERROR;
        }

        before = item;
        rc = CHAT_EDIT_CHANGED;
    }

    return rc;
}


chat_edit_rc_e
chat_responses_edit(chat_json_doc_t *doc, const chat_events_t *events,
                    const chat_slots_t *slots, chat_edits_t *edits)
{
    const chat_json_t *index;

    if (doc == NULL || events->count == 0) {
        return CHAT_EDIT_KEEP;
    }

    index = chat_json_get(doc, doc->root, "output_index");
    if (index != NULL) {
        return chat_responses_edit_index(doc, index, events->items[0].slot,
                                         slots, edits);
    }

    return chat_responses_edit_output(
        chat_json_get(doc, chat_json_get(doc, doc->root, "response"),
                      "output"),
        events, slots, edits);
}


static void
chat_responses_broken(const chat_interruption_t *in, chat_buf_t *out)
{
    chat_buf_puts(out, "\"code\":\"stream_interrupted\",\"message\":\"");
    chat_interruption_text(in, out);
    chat_buf_puts(out, "\",\"param\":null");
}


/*
 * Told twice: documented is the flat form, but there are clients that know
 * only the one with "error", and those that throw only for that. A client may
 * save sequence_number and resume after it, so it repeats the last real one.
 */
void
chat_responses_interrupted(void *state, const chat_interruption_t *in,
                           chat_buf_t *out)
{
    chat_responses_reader_t *reader = state;

    chat_buf_puts(out, "event: error\ndata: {\"type\":\"error\",");
    chat_responses_broken(in, out);
    chat_buf_printf(out, ",\"sequence_number\":%u,", reader->number);
    chat_buf_puts(out, "\"error\":{\"type\":\"server_error\",");
    chat_responses_broken(in, out);
    chat_buf_puts(out, "}}\n\n");
}
