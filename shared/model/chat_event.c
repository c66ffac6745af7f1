/*
 * chat_event.c: see chat_event.h.
 *
 * Arguments that are not JSON are compared as bytes, and never equal any that
 * are.
 */

#include "model/chat_event.h"
#include "json/chat_json.h"


void
chat_events_init(chat_events_t *events, chat_arena_t *arena)
{
    memset(events, 0, offsetof(chat_events_t, spare)); /* zeroed when used */
    events->arena = arena;
}


/* A zeroed item at the end of a list; without memory the spare one. */
static void *
push(chat_events_t *events, void *list, size_t *count, size_t *size,
     size_t bytes, void *spare)
{
    void *item = events->failed ? NULL
                                : chat_arena_push(events->arena, list, count,
                                                  size, bytes);

    events->failed |= item == NULL;

    return item != NULL ? item : memset(spare, 0, bytes);
}


chat_event_t *
chat_events_add(chat_events_t *events, chat_event_e type)
{
    chat_event_t *event = push(events, &events->items, &events->count,
                               &events->size, sizeof(*event), &events->spare);

    event->type = type;
    return event;
}


chat_mark_t *
chat_events_mark(chat_events_t *events, chat_stream_call_t *call)
{
    chat_mark_t *mark =
        push(events, &events->marks, &events->nmarks, &events->marks_size,
             sizeof(*mark), &events->spare_mark);

    mark->call = call;
    return mark;
}


chat_rc_e
chat_fingerprint(const chat_digest_t *tenant, chat_str_t name, chat_str_t args,
                 chat_arena_t *arena, chat_hash_t *out)
{
    chat_rc_e       rc;
    chat_mix_t      mix;
    chat_json_doc_t doc;

    args = args.len != 0 ? args : chat_cstr("{}");
    rc = chat_json_parse(&doc, arena, args);
    chat_mix_init(&mix, tenant);
    chat_mix_add(&mix, name);

    if (rc == CHAT_OK) {
        rc = chat_json_mix(&doc, doc.root, &mix);

    } else if (rc != CHAT_ERROR) {
        chat_mix_add(&mix, chat_cstr("bytes"));
        chat_mix_add(&mix, args);
        rc = CHAT_OK;
    }

    chat_mix_end(&mix, out->bytes);
    chat_arena_reset(arena); /* it may be large, and its next use far away */

    return rc;
}


const char *const chat_outcome_names[] = { "none", "ok", "error", "denied",
                                           "partial" };
const char *const chat_end_names[] = { "none", "finished", "failed", "aborted",
                                       "interrupted" };


chat_end_e
chat_end_find(chat_str_t name)
{
    int end = CHAT_END_INTERRUPTED;

    while (end > CHAT_END_NONE && !chat_str_is(name, chat_end_names[end])) {
        end--;
    }

    return (chat_end_e) end;
}


chat_rc_e
chat_result_hash(const chat_digest_t *tenant, chat_json_doc_t *doc,
                 const chat_json_t *value, chat_str_t absent, chat_hash_t *out)
{
    chat_rc_e  rc = CHAT_OK;
    chat_mix_t mix;

    chat_mix_init(&mix, tenant);

    if (value == NULL) {
        chat_mix_add(&mix, absent);
    } else {
        rc = chat_json_mix(doc, value, &mix);
    }

    chat_mix_end(&mix, out->bytes);
    return rc;
}
