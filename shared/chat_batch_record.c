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

#include "chat_batch_read.h"

#include <stdio.h>

#define CHAT_RECORD_DIGITS 18 /* of a time */
#define CHAT_RECORD_NAME (2 * CHAT_DIGEST_SIZE)

static const char chat_record_prefix[] = "batch/";


chat_rc_e
chat_batch_record_key(const chat_scope_t *scope, chat_key_t *key)
{
    chat_str_t parts[3];

    if (scope->conversation.len == 0) {
        return CHAT_DECLINED;
    }

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


static int
chat_record_digit(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}


/* 1 and *name if hex is one. */
static int
chat_record_name(chat_str_t hex, chat_digest_t *name)
{
    int    high, low;
    size_t i;

    if (hex.len != CHAT_RECORD_NAME) {
        return 0;
    }

    for (i = 0; i < CHAT_DIGEST_SIZE; i++) {
        high = chat_record_digit(hex.data[2 * i]);
        low = chat_record_digit(hex.data[2 * i + 1]);

        if (high < 0 || low < 0) {
            return 0;
        }

        name->bytes[i] = (unsigned char) (high << 4 | low);
    }

    return 1;
}


/* Cuts <ms>-<name> into its time and the name's hex digits; 0: it is none. */
static int
chat_record_parse(chat_str_t field, chat_str_t *ms, chat_str_t *hex)
{
    size_t        i, n = sizeof(chat_record_prefix) - 1;
    chat_digest_t name;

    if (!chat_str_starts(field, chat_record_prefix)
        || field.len < n + 2 + CHAT_RECORD_NAME)
    {
        return 0;
    }

    *ms = chat_str(field.data + n, field.len - n - 1 - CHAT_RECORD_NAME);
    *hex = chat_str(ms->data + ms->len + 1, CHAT_RECORD_NAME);

    if (ms->len > CHAT_RECORD_DIGITS || ms->data[0] == '0'
        || ms->data[ms->len] != '-')
    {
        return 0;
    }

    for (i = 0; i < ms->len; i++) {
        if (ms->data[i] < '0' || ms->data[i] > '9') {
            return 0;
        }
    }

    return chat_record_name(*hex, &name);
}


/* 1 if the entry is newer; of one time the greater name is. */
static int
chat_record_newer(chat_str_t ms, chat_str_t hex, chat_str_t than_ms,
                  chat_str_t than_hex)
{
    int rc;

    if (ms.len != than_ms.len) {
        return ms.len > than_ms.len;
    }

    rc = memcmp(ms.data, than_ms.data, ms.len);
    return rc != 0 ? rc > 0 : memcmp(hex.data, than_hex.data, hex.len) > 0;
}


chat_rc_e
chat_batch_newest(const chat_fact_t *facts, size_t n, chat_recorded_t *newest)
{
    size_t     i;
    chat_str_t ms, hex, when = { NULL, 0 }, name = { NULL, 0 };
    chat_str_t value = { NULL, 0 };

    for (i = 0; i < n; i++) {
        if (chat_record_parse(facts[i].field, &ms, &hex)
            && (name.len == 0 || chat_record_newer(ms, hex, when, name)))
        {
            when = ms;
            name = hex;
            value = facts[i].value;
        }
    }

    if (!chat_record_name(name, &newest->names[0])) {
        return CHAT_DECLINED;
    }

    newest->dialect = chat_batch_word(&value);
    newest->nnames = 1;
    newest->ms = 0;
    (void) chat_batch_number(when, &newest->ms);

    while (newest->nnames < CHAT_NAMES_MAX
           && chat_record_name(chat_batch_word(&value),
                               &newest->names[newest->nnames]))
    {
        newest->nnames++;
    }

    return CHAT_OK;
}
