/*
 * chat_batch_record.c: the record of a conversation; see chat_batch.h.
 *
 * One more set of facts, batch/<ms>-<name>, one for each batch of the
 * conversation. Its value is the dialect and the batch's other name, if it
 * has one. Who names the conversation, and no more, finds the batch here.
 * Promises: reading is independent of the order of the facts; what does not
 * parse is as good as absent.
 * Must not know: what the batches themselves say.
 */

#include "facts/chat_batch_read.h"

#include <stdio.h>

#define CHAT_RECORD_NAME (2 * CHAT_DIGEST_SIZE)

static const char chat_record_prefix[] = "batch/";


chat_rc_e
chat_batch_record_key(const chat_scope_t *scope, chat_key_t *key)
{
    chat_str_t parts[3];

    if (scope->anonymous || scope->conversation.len == 0) {
        return CHAT_DECLINED;
    }

    key->tenant = chat_scope_tenant(scope);
    parts[0] = chat_cstr("record");
    parts[1] = chat_str(scope->tenant.bytes, CHAT_DIGEST_SIZE);
    parts[2] = scope->conversation;
    chat_digest_parts(parts, 3, &key->name);

    parts[0] = chat_cstr("conversation");
    chat_digest_parts(parts, 3, &key->tag);
    return CHAT_OK;
}


void
chat_facts_batch(chat_facts_t *facts, uint64_t ms,
                 const chat_recorded_t *recorded)
{
    char          hex[CHAT_RECORD_NAME + 1], field[CHAT_RECORD_NAME + 32];
    chat_buf_t    value = { 0 };
    unsigned char i;

    chat_digest_hex(&recorded->names[0], CHAT_DIGEST_SIZE, hex);
    (void) snprintf(field, sizeof(field), "%s%llu-%s", chat_record_prefix,
                    (unsigned long long) ms, hex);

    chat_buf_add(&value, recorded->dialect);
    for (i = 1; i < recorded->nnames; i++) {
        chat_digest_hex(&recorded->names[i], CHAT_DIGEST_SIZE, hex);
        chat_buf_printf(&value, " %s", hex);
    }

    chat_facts_add(facts, field, chat_buf_str(&value));
    facts->failed |= value.failed;
    chat_buf_free(&value);
}


/* 1 if the field is batch/<ms>-<name>, whose time and name go into *out. */
static int
chat_record_parse(chat_str_t field, chat_recorded_t *out)
{
    chat_str_t rest, ms, name;

    if (!chat_batch_under(field, chat_record_prefix, &rest)
        || rest.len < CHAT_RECORD_NAME + 2)
    {
        return 0;
    }

    ms = chat_str(rest.data, rest.len - CHAT_RECORD_NAME - 1);
    name = chat_str(ms.data + ms.len + 1, CHAT_RECORD_NAME);

    return ms.data[ms.len] == '-' && chat_batch_number(ms, &out->ms)
           && out->ms != 0 && chat_batch_name(name, &out->names[0]);
}


/* 1 if a is newer than b; of one time the greater name is. */
static int
chat_record_newer(const chat_recorded_t *a, const chat_recorded_t *b)
{
    return a->ms != b->ms
               ? a->ms > b->ms
               : memcmp(a->names[0].bytes, b->names[0].bytes, CHAT_DIGEST_SIZE)
                     > 0;
}


chat_rc_e
chat_batch_newest(const chat_fact_t *facts, size_t n, chat_recorded_t *newest)
{
    size_t          i;
    chat_str_t      value = { NULL, 0 };
    chat_recorded_t one;

    memset(&one, 0, sizeof(one));
    newest->nnames = 0;

    for (i = 0; i < n; i++) {
        if (chat_record_parse(facts[i].field, &one)
            && (newest->nnames == 0 || chat_record_newer(&one, newest)))
        {
            *newest = one;
            newest->nnames = 1;
            value = facts[i].value;
        }
    }

    if (newest->nnames == 0) {
        return CHAT_DECLINED;
    }

    newest->dialect = chat_batch_word(&value);

    while (newest->nnames < CHAT_NAMES_MAX
           && chat_batch_name(chat_batch_word(&value),
                              &newest->names[newest->nnames]))
    {
        newest->nnames++;
    }

    return CHAT_OK;
}
