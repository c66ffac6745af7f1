/*
 * chat_facts.c: see chat_facts.h.
 *
 * chat_batch.c reads what is written here; these two alone know what a fact of
 * a batch looks like.
 */

#include "facts/chat_facts.h"

#include <stdio.h>

#define CHAT_STRONG_LENGTH 16
#define CHAT_STRONG_DISTINCT 8
#define CHAT_UUID_LENGTH 36


static int
chat_id_is_separator(unsigned char c)
{
    return c == '_' || c == '-' || c == ':' || c == '.';
}


/* A UUID, or one behind a prefix (call_<UUID>), as gateways make them. */
static int
chat_id_is_uuid(chat_str_t id)
{
    size_t               i;
    const unsigned char *uuid;

    if (id.len < CHAT_UUID_LENGTH) {
        return 0;
    }

    uuid = id.data + id.len - CHAT_UUID_LENGTH;

    if (uuid != id.data && !chat_id_is_separator(uuid[-1])) {
        return 0;
    }

    for (i = 0; i < CHAT_UUID_LENGTH; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23
                ? uuid[i] != '-'
                : memchr("0123456789abcdefABCDEF", uuid[i], 22) == NULL)
        {
            return 0;
        }
    }

    return 1;
}


int
chat_id_is_strong(chat_str_t id)
{
    size_t        i, count = 0, distinct = 0;
    unsigned char c, seen[256] = { 0 };

    if (chat_id_is_uuid(id)) {
        return 1;
    }

    for (i = id.len; i > 0 && !chat_id_is_separator(id.data[i - 1]); i--) {
        c = id.data[i - 1];

        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')
            || (c >= 'A' && c <= 'Z')) {
            count++;
            distinct += !seen[c];
            seen[c] = 1;
        }
    }

    return count >= CHAT_STRONG_LENGTH && distinct >= CHAT_STRONG_DISTINCT;
}


/* The name of a step with a weak call id, unique within a conversation. */
static chat_rc_e
chat_batch_weak(const chat_scope_t *scope, const chat_step_t *step,
                chat_digest_t *name)
{
    char number[16];
    int  by_message = scope->by_message;

    if (scope->conversation.len == 0 || (by_message && step->message.len == 0))
    {
        return CHAT_DECLINED;
    }

    (void) snprintf(number, sizeof(number), "%u",
                    (unsigned) (by_message ? step->ordinal : step->since));

    chat_digest_of(
        name, chat_cstr(by_message ? "message" : "text"),
        chat_digest_str(&scope->tenant), scope->dialect, scope->conversation,
        by_message ? step->message : chat_digest_str(&step->user_text),
        chat_cstr(number), step->first_id);
    return CHAT_OK;
}


uint64_t
chat_scope_tenant(const chat_scope_t *scope)
{
    uint64_t tenant;

    memcpy(&tenant, scope->tenant.bytes, sizeof(tenant));
    return tenant;
}


void
chat_scope_tag(const chat_scope_t *scope, chat_digest_t *tag)
{
    chat_digest_of(tag, chat_cstr("conversation"),
                   chat_digest_str(&scope->tenant), scope->conversation);
}


chat_rc_e
chat_batch_key(const chat_scope_t *scope, const chat_step_t *step,
               chat_key_t *key)
{
    int chained = step->chain.len != 0;

    key->tenant = chat_scope_tenant(scope);

    if (scope->anonymous || step->first_id.len > CHAT_ID_MAX
        || step->chain.len > CHAT_ID_MAX || step->message.len > CHAT_ID_MAX)
    {
        return CHAT_DECLINED;
    }

    if (chained || chat_id_is_strong(step->first_id)) {
        chat_digest_of(&key->name, chat_cstr(chained ? "chain" : "call"),
                       chat_digest_str(&scope->tenant), scope->dialect,
                       scope->conversation,
                       chained ? step->chain : step->first_id);

    } else if (chat_batch_weak(scope, step, &key->name) != CHAT_OK) {
        return CHAT_DECLINED;
    }

    key->tag = key->name;
    if (scope->conversation.len != 0) {
        chat_scope_tag(scope, &key->tag);
    }

    return CHAT_OK;
}


void
chat_facts_init(chat_facts_t *facts, chat_arena_t *arena)
{
    memset(facts, 0, sizeof(*facts));
    facts->arena = arena;
    facts->failed = arena == NULL;
}


chat_str_t
chat_facts_field(chat_arena_t *arena, const char *prefix, chat_str_t id)
{
    chat_str_t field = { NULL, 0 };
    chat_buf_t text = { 0 };

    chat_buf_format(&text, "%s%v", prefix, id);
    (void) chat_buf_move(&text, arena, &field);
    return field;
}


void
chat_facts_append(chat_facts_t *facts, const chat_fact_t *items, size_t n)
{
    size_t       i;
    chat_fact_t *fact;

    for (i = 0; i < n && !facts->failed; i++) {
        fact = chat_arena_push(facts->arena, &facts->items, &facts->count,
                               &facts->size, sizeof(*fact));
        if (fact != NULL) {
            *fact = items[i];
        } else {
            facts->failed = 1;
        }
    }
}


void
chat_facts_put(chat_facts_t *facts, const char *field, const char *value, ...)
{
    size_t      len;
    va_list     args;
    chat_str_t  text;
    chat_buf_t *buf = chat_buf_scratch();
    chat_fact_t fact = { 0 };

    va_start(args, value);
    chat_buf_arguments(buf, field, &args);
    len = buf->len;
    chat_buf_arguments(buf, value, &args);
    va_end(args);

    if (facts->failed || buf->failed
        || chat_arena_dup(facts->arena, chat_buf_str(buf), &text) != CHAT_OK)
    {
        facts->failed = 1;
        return;
    }

    fact.field = chat_str(text.data, len);
    fact.value = chat_str(text.data + len, text.len - len);
    chat_facts_append(facts, &fact, 1);
}


void
chat_facts_payload(chat_facts_t *facts, chat_str_t payload)
{
    if (!facts->failed) {
        facts->items[facts->count - 1].payload = payload;
        facts->items[facts->count - 1].has_payload = 1;
    }
}


void
chat_facts_call(chat_facts_t *facts, chat_str_t id, chat_kind_e kind,
                uint32_t position, const chat_hash_t *fingerprint)
{
    chat_facts_put(facts, "call/%v", "%u %s %h", id, position,
                   kind == CHAT_KIND_APPROVAL   ? "a"
                   : kind == CHAT_KIND_PROVIDER ? "p"
                                                : "c",
                   fingerprint->bytes);

    if (kind == CHAT_KIND_APPROVAL) {
        chat_facts_put(facts, "ask/%v", "1", id);
    }
}


void
chat_facts_result(chat_facts_t *facts, chat_str_t id, chat_outcome_e outcome,
                  const chat_hash_t *digest, const chat_hash_t *fingerprint,
                  const chat_str_t *payload)
{
    if (digest == NULL || fingerprint == NULL) {
        facts->failed = 1;
        return;
    }

    chat_facts_put(facts, "result/%v", "%s %h %h", id,
                   outcome == CHAT_OUTCOME_OK      ? "o"
                   : outcome == CHAT_OUTCOME_ERROR ? "e"
                                                   : "d",
                   digest->bytes, fingerprint->bytes);

    if (payload != NULL) {
        chat_facts_payload(facts, *payload);
    }
}


void
chat_facts_approval(chat_facts_t *facts, chat_str_t id,
                    chat_approval_e approval, chat_str_t reason)
{
    chat_facts_put(facts, "approval/%v", "%s", id,
                   approval == CHAT_APPROVAL_GRANTED ? "g" : "r");
    chat_facts_payload(facts, reason);
}


void
chat_facts_claim(chat_facts_t *facts, const chat_attempt_t *attempt)
{
    chat_facts_put(facts, "claim/%u", "%v %v %h %h %d %v", attempt->k,
                   attempt->worker, attempt->request, attempt->signature,
                   attempt->retry_key, attempt->ms, attempt->results);
}


void
chat_facts_attempt(chat_facts_t *facts, const chat_attempt_t *attempt)
{
    int    impossible = attempt->recording == CHAT_RECORDING_IMPOSSIBLE;
    size_t i;

    const struct {
        const char *event;
        unsigned    value;
    } numbers[] = { { impossible ? "unrecorded" : "record",
                      attempt->recording },
                    { "answer", attempt->whole ? 0 : attempt->answer },
                    { "after", attempt->after },
                    { "void", attempt->is_void != 0 } };

    for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].value != 0) {
            chat_facts_put(facts, "%s/%u/%v/%v", "%u", numbers[i].event,
                           attempt->k, attempt->worker, attempt->request,
                           numbers[i].value);
        }
    }

    if (attempt->end != CHAT_END_NONE) {
        chat_facts_put(facts, "end/%u/%v/%v", attempt->whole ? "%s %u" : "%s",
                       attempt->k, attempt->worker, attempt->request,
                       chat_end_names[attempt->end], attempt->answer);
    }
}
