/*
 * ngx_chat_redis_codec.c: facts and keys as commands, replies as facts.
 *
 * The facts of a key are a hash: field, and value behind 1 (it has a payload)
 * or 0. Payloads are a second hash, as joins do not read them: field, and the
 * value's length, a line feed, value and payload. A log is a stream: piece n
 * is entry <n + 1>-0 with one field, b, or l for the last one. The server
 * refuses an id that is not above the last one, so that an append may be sent
 * twice.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"

#define NGX_CHAT_REDIS_ARGS_MAX 4096 /* of a join that facts are added to */
#define NGX_CHAT_REDIS_HEX 64        /* of a digest */
#define NGX_CHAT_REDIS_BACK 4        /* commands searched for one to add to */
/* Workers looked up for one reply; more than a trimmed index can name. */
#define NGX_CHAT_REDIS_LOOK_UP 256

/* The arguments of a join: from the first key to the first fact. */
#define NGX_CHAT_REDIS_ARG_KEY 3
#define NGX_CHAT_REDIS_ARG_FACTS 8

static void on_join(ngx_chat_redis_cmd_t *cmd, redisReply *reply);


/* Adds chat:{tag}:name, with :p for the payloads or :l for the log. */
static void
add_key(ngx_chat_redis_cmd_t *cmd, const chat_key_t *key, const char *suffix)
{
    char   tag[NGX_CHAT_REDIS_HEX + 1], name[NGX_CHAT_REDIS_HEX + 1];
    u_char text[2 * NGX_CHAT_REDIS_HEX + 16], *end;

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    chat_digest_hex(&key->name, NGX_CHAT_REDIS_HEX / 2, name);
    end = ngx_slprintf(text, text + sizeof(text), "chat:{%s}:%s%s", tag, name,
                       suffix);
    ngx_chat_redis_cmd_key(cmd, chat_str(text, (size_t) (end - text)));
}


ngx_chat_redis_client_t *
ngx_chat_redis_client_of(ngx_chat_store_redis_t *redis, const chat_key_t *key)
{
    char tag[NGX_CHAT_REDIS_HEX + 1];

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    return ngx_chat_redis_cluster_client(&redis->cluster,
                                         chat_slot(chat_cstr(tag)));
}


/* An empty string may be NULL, which memcpy() must not get. */
static u_char *
copy_str(u_char *p, chat_str_t s)
{
    return s.len != 0 ? ngx_cpymem(p, s.data, s.len) : p;
}


/* Adds a payload and the value of its fact. */
static void
add_payload(ngx_chat_redis_cmd_t *cmd, const chat_fact_t *fact)
{
    u_char *text, *end;

    text = ngx_alloc(NGX_SIZE_T_LEN + 1 + fact->value.len + fact->payload.len,
                     ngx_cycle->log);
    if (text == NULL) {
        cmd->failed = 1;
        return;
    }

    end = ngx_sprintf(text, "%uz\n", fact->value.len);
    end = copy_str(end, fact->value);
    end = copy_str(end, fact->payload);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
    ngx_free(text);
}


static void
add_facts(ngx_chat_redis_cmd_t *cmd, const chat_fact_t *facts, size_t n)
{
    size_t i, argc;

    for (i = 0; i < n && !cmd->failed; i++) {
        argc = cmd->argc;
        ngx_chat_redis_cmd_add(cmd, facts[i].field);
        ngx_chat_redis_cmd_add(cmd, facts[i].value);

        if (facts[i].has_payload) {
            add_payload(cmd, &facts[i]);
        } else {
            ngx_chat_redis_cmd_puts(cmd, "");
        }

        if (cmd->failed) {
            cmd->argc = argc; /* whole facts only */
        }
    }
}


/* A join without facts; clear: of a key that is emptied first. */
static ngx_chat_redis_cmd_t *
create_join(ngx_chat_store_redis_t *redis, const chat_key_t *key, uint32_t ttl,
            size_t most, ngx_uint_t clear)
{
    ngx_chat_redis_cmd_t *cmd =
        ngx_chat_redis_call(redis, NGX_CHAT_REDIS_JOIN);

    if (cmd != NULL) {
        cmd->done = on_join;
        ngx_chat_redis_cmd_puts(cmd, clear ? "3" : "2");
        add_key(cmd, key, "");
        add_key(cmd, key, ":p");
        if (clear) {
            add_key(cmd, key, ":l");
        }
        ngx_chat_redis_cmd_number(cmd, ttl);
        ngx_chat_redis_cmd_number(cmd, most);
        ngx_chat_redis_cmd_number(cmd, clear);
    }

    return cmd;
}


/* 1 if the facts of like can be added to cmd instead. */
static ngx_uint_t
is_same_join(const ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_cmd_t *like)
{
    ngx_uint_t i;

    if (cmd->op != NULL || cmd->done != on_join
        || cmd->argc > NGX_CHAT_REDIS_ARGS_MAX || cmd->failed)
    {
        return 0;
    }

    for (i = NGX_CHAT_REDIS_ARG_KEY; i < NGX_CHAT_REDIS_ARG_FACTS; i++) {
        if (!chat_str_eq(chat_str(cmd->argv[i], cmd->len[i]),
                         chat_str(like->argv[i], like->len[i])))
        {
            return 0;
        }
    }

    return 1;
}


/*
 * Adds the facts to an unsent join of the same key that nothing awaits: the
 * facts of one wake-up go in one command. 0: there is no such join.
 */
static ngx_uint_t
add_to_unsent(ngx_chat_store_redis_t *redis, const ngx_chat_redis_cmd_t *like,
              const chat_fact_t *facts, size_t n)
{
    size_t                   bytes;
    ngx_uint_t               i;
    ngx_chat_redis_cmd_t    *cmd = NULL;
    ngx_chat_redis_client_t *client =
        ngx_chat_redis_cluster_client(&redis->cluster, like->slot);

    for (i = 0; i < NGX_CHAT_REDIS_BACK; i++) {
        cmd = ngx_chat_redis_unsent(client, cmd);
        if (cmd == NULL) {
            return 0;
        }

        if (is_same_join(cmd, like)) {
            bytes = cmd->bytes;
            add_facts(cmd, facts, n);
            client->bytes += cmd->bytes - bytes;
            return 1;
        }
    }

    return 0;
}


/* Submits cmd for op; a command that is not taken (or NULL) fails op. */
static void
submit(ngx_chat_store_redis_t *redis, ngx_chat_redis_cmd_t *cmd,
       chat_store_op_t *op)
{
    if (cmd != NULL) {
        cmd->op = op;
        cmd->data = redis;

        if (op != NULL) {
            op->store = &redis->base.store;
            op->answer = cmd;
        }

        if (ngx_chat_redis_cluster_submit(&redis->cluster, cmd) == NGX_OK) {
            return;
        }

        ngx_chat_redis_cmd_free(cmd);
    }

    if (op != NULL) {
        ngx_chat_store_refuse(&redis->base, op, CHAT_ERROR);
    }
}


void
ngx_chat_redis_join(ngx_chat_store_redis_t *redis, chat_store_op_t *op,
                    const chat_key_t *key, const chat_fact_t *facts, size_t n,
                    uint32_t ttl, const chat_fact_t *wait)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = create_join(redis, key, ttl,
                      (size_t) redis->base.store.most_facts * (op ? 1 : 2), 0);
    if (cmd != NULL) {
        if (op == NULL && add_to_unsent(redis, cmd, facts, n)) {
            ngx_chat_redis_cmd_free(cmd);
            return;
        }

        cmd->is_replayable = n > 0;
        add_facts(cmd, facts, n);
        add_facts(cmd, wait, wait ? 1 : 0);
    }

    submit(redis, cmd, op);
}


void
ngx_chat_redis_clear(chat_store_t *store, const chat_key_t *key, uint32_t ttl)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = create_join(redis, key, ttl, store->most_facts, 1);
    if (cmd != NULL) {
        add_facts(cmd, &redis->base.cleared, 1);
    }

    submit(redis, cmd, NULL);
}


/* A command with a key and fields. */
static ngx_chat_redis_cmd_t *
create_on_fields(const char *name, const chat_key_t *key, const char *suffix,
                 const chat_str_t *fields, size_t n)
{
    size_t                i;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd != NULL) {
        ngx_chat_redis_cmd_puts(cmd, name);
        add_key(cmd, key, suffix);

        for (i = 0; i < n; i++) {
            ngx_chat_redis_cmd_add(cmd, fields[i]);
        }

        if (n == 0) {
            ngx_chat_redis_cmd_puts(cmd, ""); /* Redis requires one */
        }
    }

    return cmd;
}


void
ngx_chat_redis_drop(chat_store_t *store, const chat_key_t *key,
                    const chat_str_t *fields, size_t n)
{
    ngx_chat_redis_cmd_t *cmd = create_on_fields("HDEL", key, "", fields, n);

    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_ignore;
    }

    submit((ngx_chat_store_redis_t *) store, cmd, NULL);
}


static chat_str_t
text_of(const redisReply *reply)
{
    ngx_str_t text = ngx_chat_redis_text(reply);

    return chat_str(text.data, text.len);
}


/* Calls op->done(), if anything awaits the command still. */
static void
give(ngx_chat_redis_cmd_t *cmd, chat_rc_e rc, const chat_fact_t *facts,
     size_t n)
{
    chat_store_op_t *op = cmd->op;

    cmd->op = NULL;

    if (op != NULL) {
        op->store = NULL;
        op->answer = NULL;
        op->done(op, rc, facts, n);
    }
}


/* Fails the command; reply may be NULL. */
static void
fail(ngx_chat_redis_cmd_t *cmd, redisReply *reply, chat_rc_e rc)
{
    give(cmd, rc, NULL, 0);
    ngx_chat_redis_ignore(cmd, reply);
}


/* Logs a reply of another type, or an error (or NULL), and fails cmd. */
static void
fail_unexpected(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL) {
        ngx_chat_redis_log_error(cmd->client, reply);
    }

    fail(cmd, reply,
         reply != NULL && ngx_chat_redis_is_error(reply, "ERR FULL")
             ? CHAT_LIMIT
             : CHAT_ERROR);
}


/* The worker in a fact whose life matters to its readers; or empty. */
static chat_str_t
worker_in_fact(chat_str_t field, chat_str_t value)
{
    char          until = ' ';
    size_t        skip = 1; /* the value's 0 or 1 */
    chat_str_t    text = value;
    const u_char *end;

    if (chat_str_starts(field, "feed/")) {
        text = field;
        skip = 5;
        until = '/';
    } else if (chat_str_is(field, "open")) {
        until = '\n';
    } else if (!chat_str_starts(field, "claim/")
               && !chat_str_starts(field, "stream/")
               && !chat_str_starts(field, "hold/"))
    {
        return chat_str(NULL, 0);
    }

    if (text.len <= skip) {
        return chat_str(NULL, 0);
    }

    text = chat_str(text.data + skip, text.len - skip);
    end = memchr(text.data, until, text.len);
    return end ? chat_str(text.data, (size_t) (end - text.data)) : text;
}


/*
 * The workers in a reply that the shards are to be asked for: unknown ones,
 * and claimants in any case. A client that was told of a claimant's death may
 * be back before all workers know of it, and must not wait for the dead again.
 */
static ngx_uint_t
unknown_workers(ngx_chat_store_redis_t *redis, const redisReply *reply,
                chat_str_t names[NGX_CHAT_REDIS_LOOK_UP])
{
    size_t     i;
    chat_str_t field, name;
    ngx_uint_t k, n = 0;

    for (i = 0; i + 1 < reply->elements && n < NGX_CHAT_REDIS_LOOK_UP; i += 2)
    {
        field = text_of(reply->element[i]);
        name = worker_in_fact(field, text_of(reply->element[i + 1]));

        if (ngx_chat_redis_liveness_knows(&redis->liveness, name,
                                          chat_str_starts(field, "claim/")))
        {
            continue;
        }

        for (k = 0; k < n && !chat_str_eq(names[k], name); k++) { /* void */
        }

        if (k == n) {
            names[n++] = name;
        }
    }

    return n;
}


/* The facts of a join's reply; ends cmd and reply. */
static void
give_join(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t       i, n = 0;
    chat_str_t   value;
    chat_fact_t *facts;

    facts = chat_arena_alloc(cmd->arena,
                             (reply->elements / 2 + 1) * sizeof(chat_fact_t));
    if (facts == NULL) {
        fail(cmd, reply, CHAT_ERROR);
        return;
    }

    for (i = 0; i + 1 < reply->elements; i += 2) {
        value = text_of(reply->element[i + 1]);
        if (value.len == 0) {
            continue; /* another program's */
        }

        facts[n].field = text_of(reply->element[i]);
        facts[n].value = chat_str(value.data + 1, value.len - 1);
        facts[n].has_payload = value.data[0] == '1';
        n++;
    }

    give(cmd, CHAT_OK, facts, n);
    ngx_chat_redis_ignore(cmd, reply);
}


/* A join's reply that waits for the shards. */
typedef struct {
    ngx_chat_redis_cmd_t *cmd;
    redisReply           *reply;
} looked_up_t;


static void
on_looked_up(void *data, ngx_uint_t known)
{
    looked_up_t *up = data;

    if (known) {
        give_join(up->cmd, up->reply);
    } else {
        fail(up->cmd, up->reply, CHAT_ERROR);
    }
}


static void
on_join(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_uint_t              n;
    chat_str_t              names[NGX_CHAT_REDIS_LOOK_UP];
    looked_up_t            *up;
    ngx_chat_store_redis_t *redis = cmd->data;

    if (reply != NULL && ngx_chat_redis_reload(cmd, reply)) {
        return;
    }

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY
        || reply->elements % 2 != 0)
    {
        fail_unexpected(cmd, reply);
        return;
    }

    n = cmd->op ? unknown_workers(redis, reply, names) : 0;
    if (n == 0) {
        give_join(cmd, reply);
        return;
    }

    up = chat_arena_alloc(cmd->arena, sizeof(looked_up_t));
    if (up == NULL) {
        fail(cmd, reply, CHAT_ERROR);
        return;
    }

    up->cmd = cmd;
    up->reply = reply;
    ngx_chat_redis_liveness_query(&redis->liveness, names, n, cmd->op,
                                  on_looked_up, up);
}


/* Reads value and payload from what add_payload() has written; 0: neither. */
static ngx_uint_t
read_payload(chat_str_t text, chat_fact_t *fact)
{
    size_t        left;
    ngx_int_t     len;
    const u_char *line;

    line = text.len ? memchr(text.data, '\n', text.len) : NULL;
    if (line == NULL) {
        return 0;
    }

    left = text.len - (size_t) (line + 1 - text.data);
    len = ngx_atoi((u_char *) text.data, (size_t) (line - text.data));
    if (len < 0 || (size_t) len > left) {
        return 0;
    }

    fact->value = chat_str(line + 1, (size_t) len);
    fact->payload = chat_str(line + 1 + len, left - (size_t) len);
    fact->has_payload = 1;
    return 1;
}


static void
on_payloads(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t       i, n = 0;
    chat_fact_t *facts;

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY
        || reply->elements + 2 != cmd->argc)
    {
        fail_unexpected(cmd, reply);
        return;
    }

    facts = chat_arena_alloc(cmd->arena, cmd->argc * sizeof(chat_fact_t));
    if (facts == NULL) {
        fail(cmd, reply, CHAT_ERROR);
        return;
    }

    for (i = 0; i < reply->elements; i++) {
        facts[n].field = chat_str(cmd->argv[i + 2], cmd->len[i + 2]);
        n += read_payload(text_of(reply->element[i]), &facts[n]);
    }

    give(cmd, CHAT_OK, facts, n);
    ngx_chat_redis_ignore(cmd, reply);
}


void
ngx_chat_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                        const chat_key_t *key, const chat_str_t *fields,
                        size_t n)
{
    ngx_chat_redis_cmd_t *cmd =
        create_on_fields("HMGET", key, ":p", fields, n);

    if (cmd != NULL) {
        cmd->done = on_payloads;
    }

    submit((ngx_chat_store_redis_t *) store, cmd, op);
}


/* Adds the id of a piece. */
static void
add_id(ngx_chat_redis_cmd_t *cmd, uint64_t position)
{
    u_char text[NGX_INT64_LEN + 3], *end;

    end = ngx_sprintf(text, "%uL-0", position + 1);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
}


static void
on_append(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL) {
        if (ngx_chat_redis_reload(cmd, reply)) {
            return;
        }

        if (reply->type != REDIS_REPLY_INTEGER) {
            ngx_chat_redis_log_error(cmd->client, reply);
        }
    }

    ngx_chat_redis_ignore(cmd, reply);
}


void
ngx_chat_redis_append(chat_store_t *store, const chat_key_t *key,
                      uint64_t position, chat_str_t bytes, int last,
                      uint64_t keep, uint32_t ttl)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    /* half of the room is for facts alone; a lost piece shows as a gap */
    if (position == UINT64_MAX
        || redis->cluster.retry_bytes
                   + ngx_chat_redis_client_of(redis, key)->bytes + bytes.len
               > NGX_CHAT_REDIS_PENDING / 2)
    {
        return;
    }

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_APPEND);
    if (cmd != NULL) {
        cmd->done = on_append;
        cmd->is_replayable = 1;
        cmd->is_log = 1;
        ngx_chat_redis_cmd_puts(cmd, "3");
        add_key(cmd, key, "");
        add_key(cmd, key, ":p");
        add_key(cmd, key, ":l");
        ngx_chat_redis_cmd_number(cmd, ttl);
        add_id(cmd, ngx_min(keep, position));
        add_id(cmd, position);
        ngx_chat_redis_cmd_puts(cmd, last ? "l" : "b");
        ngx_chat_redis_cmd_add(cmd, bytes);
    }

    submit(redis, cmd, NULL);
}


/* The position in an entry's id. NGX_ERROR: another program's entry. */
static ngx_int_t
read_id(const redisReply *id, uint64_t *position)
{
    char *end;

    if (id->type != REDIS_REPLY_STRING || id->str[0] < '1' || id->str[0] > '9')
    {
        return NGX_ERROR;
    }

    *position = strtoull(id->str, &end, 10) - 1;
    return ngx_strcmp(end, "-0") == 0 ? NGX_OK : NGX_ERROR;
}


/* An entry as a fact, its field at p; 0: another program's entry. */
static ngx_uint_t
read_piece(const redisReply *entry, chat_fact_t *fact, u_char *p)
{
    uint64_t          position;
    chat_str_t        name;
    const redisReply *pair;

    if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2
        || read_id(entry->element[0], &position) != NGX_OK)
    {
        return 0;
    }

    pair = entry->element[1];
    if (pair->type != REDIS_REPLY_ARRAY || pair->elements != 2
        || pair->element[1]->type != REDIS_REPLY_STRING)
    {
        return 0;
    }

    name = text_of(pair->element[0]);
    if (!chat_str_is(name, "b") && !chat_str_is(name, "l")) {
        return 0;
    }

    fact->field = chat_str(p, (size_t) (ngx_sprintf(p, "%uL", position) - p));
    fact->value =
        chat_str_is(name, "l") ? chat_cstr("last") : chat_str(NULL, 0);
    fact->payload = text_of(pair->element[1]);
    fact->has_payload = 1;
    return 1;
}


static void
on_read(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t       i, n = 0;
    u_char      *p;
    chat_fact_t *facts;

    if (reply != NULL && ngx_chat_redis_reload(cmd, reply)) {
        return;
    }

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        fail_unexpected(cmd, reply);
        return;
    }

    facts = chat_arena_alloc(
        cmd->arena,
        reply->elements * (sizeof(chat_fact_t) + NGX_INT64_LEN) + 1);
    if (facts == NULL) {
        fail(cmd, reply, CHAT_ERROR);
        return;
    }

    p = (u_char *) (facts + reply->elements);

    for (i = 0; i < reply->elements; i++, p += NGX_INT64_LEN) {
        n += read_piece(reply->element[i], &facts[n], p);
    }

    give(cmd, CHAT_OK, facts, n);
    ngx_chat_redis_ignore(cmd, reply);
}


void
ngx_chat_redis_read(chat_store_t *store, chat_store_op_t *op,
                    const chat_key_t *key, uint64_t position)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_READ);
    if (cmd != NULL) {
        cmd->done = on_read;
        ngx_chat_redis_cmd_puts(cmd, "1");
        add_key(cmd, key, ":l");
        add_id(cmd, ngx_min(position, UINT64_MAX - 1));
        ngx_chat_redis_cmd_number(cmd, CHAT_STORE_READ_MAX);
    }

    submit(redis, cmd, op);
}
