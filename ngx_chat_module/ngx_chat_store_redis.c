/*
 * ngx_chat_store_redis.c: chat_store.h over a Redis server.
 *
 * The facts of a key are a hash; the payloads lie in a second one, so that a
 * look at the facts does not carry them. One script joins: it puts what is
 * absent, wakes who waits, and answers all facts. A fact's value begins with
 * 1 where it has a payload, else 0; a payload begins with its fact's value
 * and a line feed. Both keys of a conversation share one hash tag.
 * Must not know: what facts mean, connections.
 */

#include "ngx_chat_redis_live.h"
#include "ngx_chat_redis_wake.h"
#include "ngx_chat_store.h"
#include "ngx_chat_store_redis.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#define NGX_CHAT_REDIS_FACTS 4096 /* of one key, by requests */
#define NGX_CHAT_REDIS_MEET 8     /* workers looked up for one answer */
#define NGX_CHAT_REDIS_HEX 64     /* of a digest */
#define NGX_CHAT_REDIS_BACK 4     /* commands looked at for one to add to */

/* Where a join's arguments are in its command; facts follow, three each. */
#define NGX_CHAT_REDIS_KEY 3
#define NGX_CHAT_REDIS_ARG_FACTS 8


static const char ngx_chat_redis_script[] =
    "local f,p,was=KEYS[1],KEYS[2],false\n"
    "if ARGV[3]=='1' then\n"
    " was=redis.call('HGETALL',f) redis.call('DEL',f,p) end\n"
    "if #ARGV>3 and redis.call('HLEN',f)+(#ARGV-3)/3>tonumber(ARGV[2]) then\n"
    " return redis.error_reply('FULL') end\n"
    "local new=was\n"
    "for i=4,#ARGV,3 do\n"
    " local n,v,l=ARGV[i],ARGV[i+1],ARGV[i+2]\n"
    " local h=redis.call('HGET',f,n)\n"
    " if not h then h='0'..v redis.call('HSET',f,n,h) new=true end\n"
    " if l~='' and h=='0'..v then new=true\n"
    "  redis.call('HSET',f,n,'1'..v) redis.call('HSET',p,n,l) end\n"
    "end\n"
    "local all=redis.call('HGETALL',f)\n"
    "if not new then return all end\n"
    "redis.call('EXPIRE',f,ARGV[1]) redis.call('EXPIRE',p,ARGV[1])\n"
    "local who,last,see={},0,was or all\n"
    "for i=1,#see,2 do\n"
    " local w=see[i]:match('^wait/(.+)$') if w then who[w]=1 end\n"
    " local k=tonumber(see[i]:match('^claim/(%d+)$') or 0)\n"
    " if k>last then last,see.w=k,see[i+1]:match('^.(%S+)') end\n"
    "end\n"
    "if see.w then who[see.w]=1 end\n"
    "for w in pairs(who) do\n"
    " redis.call('PUBLISH','" NGX_CHAT_REDIS_CHANNEL "'..w,\n"
    "  f:match('}:(................)')) end\n"
    "return all\n";


typedef struct {
    chat_store_t            store; /* first: the store is this */
    ngx_chat_store_base_t   base;
    ngx_chat_redis_client_t client;
    ngx_chat_redis_live_t   live;
    ngx_chat_redis_wake_t   wake;
    u_char                  worker[NGX_CHAT_REDIS_NAME];
    char                    sha[41];
} ngx_chat_store_redis_t;

/* What a reply says, pointing into it. */
typedef struct {
    chat_fact_t *facts;
    size_t       count;
} ngx_chat_redis_facts_t;


static void ngx_chat_store_redis_joined(ngx_chat_redis_cmd_t *cmd,
                                        redisReply           *reply);


static chat_str_t
ngx_chat_redis_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING
               ? chat_str(reply->str, (size_t) reply->len)
               : chat_str(NULL, 0);
}


/* Tells whoever waits for the command; then it has no waiter. */
static void
ngx_chat_store_redis_tell(ngx_chat_redis_cmd_t *cmd, chat_rc_e rc,
                          const ngx_chat_redis_facts_t *found)
{
    chat_store_op_t *op = cmd->op;

    cmd->op = NULL;

    if (op != NULL) {
        op->store = NULL;
        op->answer = NULL;
        op->done(op, rc, found ? found->facts : NULL,
                 found ? found->count : 0);
    }
}


/* The end of a command. */
static void
ngx_chat_store_redis_end(ngx_chat_redis_cmd_t *cmd, redisReply *reply,
                         chat_rc_e rc)
{
    ngx_chat_store_redis_tell(cmd, rc, NULL);

    if (reply != NULL) {
        freeReplyObject(reply);
    }

    ngx_chat_redis_cmd_free(cmd);
}


/* Submits it for op; what is not taken fails from the event loop. */
static void
ngx_chat_store_redis_submit(ngx_chat_store_redis_t *redis,
                            ngx_chat_redis_cmd_t *cmd, chat_store_op_t *op)
{
    if (cmd != NULL) {
        cmd->op = op;
        cmd->data = redis;

        if (op != NULL) {
            op->store = &redis->store;
            op->answer = cmd;
        }

        if (ngx_chat_redis_submit(&redis->client, cmd) == NGX_OK) {
            return;
        }

        ngx_chat_redis_cmd_free(cmd);
    }

    if (op != NULL) {
        ngx_chat_store_refuse(&redis->base, &redis->store, op, CHAT_ERROR);
    }
}


/* chat:{tag}:name, and with :p behind it for the payloads. */
static void
ngx_chat_redis_add_key(ngx_chat_redis_cmd_t *cmd, const chat_key_t *key,
                       const char *suffix)
{
    char   tag[NGX_CHAT_REDIS_HEX + 1], name[NGX_CHAT_REDIS_HEX + 1];
    u_char text[2 * NGX_CHAT_REDIS_HEX + 16], *end;

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    chat_digest_hex(&key->name, NGX_CHAT_REDIS_HEX / 2, name);
    end = ngx_slprintf(text, text + sizeof(text), "chat:{%s}:%s%s", tag, name,
                       suffix);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
}


static void
ngx_chat_redis_add_facts(ngx_chat_redis_cmd_t *cmd, const chat_fact_t *facts,
                         size_t n)
{
    size_t     i, argc;
    u_char    *text;
    chat_str_t payload;

    for (i = 0; i < n && !cmd->failed; i++) {
        argc = cmd->argc;
        payload = chat_str(NULL, 0);

        if (facts[i].has_payload) {
            payload.len = facts[i].value.len + 1 + facts[i].payload.len;
            text = ngx_alloc(payload.len, ngx_cycle->log);
            if (text == NULL) {
                cmd->failed = 1;
                return;
            }

            payload.data = text;
            text = ngx_cpymem(text, facts[i].value.data, facts[i].value.len);
            *text++ = '\n';
            ngx_memcpy(text, facts[i].payload.data, facts[i].payload.len);
        }

        ngx_chat_redis_cmd_add(cmd, facts[i].field);
        ngx_chat_redis_cmd_add(cmd, facts[i].value);
        ngx_chat_redis_cmd_add(cmd, payload);
        ngx_free((void *) payload.data);

        if (cmd->failed) {
            cmd->argc = argc; /* whole facts only */
        }
    }
}


static ngx_chat_redis_cmd_t *
ngx_chat_redis_join_create(ngx_chat_store_redis_t *redis,
                           const chat_key_t *key, uint32_t ttl, size_t most,
                           ngx_uint_t clear)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd != NULL) {
        cmd->done = ngx_chat_store_redis_joined;
        ngx_chat_redis_cmd_puts(cmd, "EVALSHA");
        ngx_chat_redis_cmd_puts(cmd, redis->sha);
        ngx_chat_redis_cmd_puts(cmd, "2");
        ngx_chat_redis_add_key(cmd, key, "");
        ngx_chat_redis_add_key(cmd, key, ":p");
        ngx_chat_redis_cmd_number(cmd, ttl);
        ngx_chat_redis_cmd_number(cmd, most);
        ngx_chat_redis_cmd_number(cmd, clear);
    }

    return cmd;
}


/* 1 if what goes into like can as well go into cmd. */
static ngx_uint_t
ngx_chat_redis_join_fits(const ngx_chat_redis_cmd_t *cmd,
                         const ngx_chat_redis_cmd_t *like)
{
    ngx_uint_t i;

    if (cmd->op != NULL || cmd->done != ngx_chat_store_redis_joined
        || cmd->argc > NGX_CHAT_REDIS_FACTS || cmd->failed)
    {
        return 0;
    }

    for (i = NGX_CHAT_REDIS_KEY; i < NGX_CHAT_REDIS_ARG_FACTS; i++) {
        if (!chat_str_eq(chat_str(cmd->argv[i], cmd->len[i]),
                         chat_str(like->argv[i], like->len[i])))
        {
            return 0;
        }
    }

    return 1;
}


/*
 * Adds the facts to a join of the same key that nobody waits for and that is
 * yet to be sent: what a wake-up has to say of a batch goes in one command.
 */
static ngx_uint_t
ngx_chat_redis_join_append(ngx_chat_store_redis_t     *redis,
                           const ngx_chat_redis_cmd_t *like,
                           const chat_fact_t *facts, size_t n)
{
    size_t                bytes;
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd = NULL;

    for (i = 0; i < NGX_CHAT_REDIS_BACK; i++) {
        cmd = ngx_chat_redis_unsent(&redis->client, cmd);
        if (cmd == NULL) {
            return 0;
        }

        if (ngx_chat_redis_join_fits(cmd, like)) {
            bytes = cmd->bytes;
            ngx_chat_redis_add_facts(cmd, facts, n);
            ngx_chat_redis_grown(&redis->client, cmd->bytes - bytes);
            return 1;
        }
    }

    return 0;
}


/* wait: this worker's wait/ fact too. */
static void
ngx_chat_store_redis_do_join(ngx_chat_store_redis_t *redis,
                             chat_store_op_t *op, const chat_key_t *key,
                             const chat_fact_t *facts, size_t n, uint32_t ttl,
                             const chat_fact_t *wait)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_join_create(redis, key, ttl,
                                     NGX_CHAT_REDIS_FACTS * (op ? 1 : 2), 0);
    if (cmd == NULL) {
        ngx_chat_store_redis_submit(redis, NULL, op);
        return;
    }

    if (op == NULL && ngx_chat_redis_join_append(redis, cmd, facts, n)) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    ngx_chat_redis_add_facts(cmd, facts, n);
    ngx_chat_redis_add_facts(cmd, wait, wait ? 1 : 0);
    ngx_chat_store_redis_submit(redis, cmd, op);
}


static void
ngx_chat_store_redis_join(chat_store_t *store, chat_store_op_t *op,
                          const chat_key_t *key, const chat_fact_t *facts,
                          size_t n, uint32_t ttl)
{
    ngx_chat_store_redis_do_join((ngx_chat_store_redis_t *) store, op, key,
                                 facts, n, ttl, NULL);
}


static void
ngx_chat_store_redis_watch(chat_store_t *store, chat_store_watch_t *watch,
                           chat_store_op_t *op, const chat_key_t *key,
                           const chat_fact_t *facts, size_t n, uint32_t ttl)
{
    u_char                  field[5 + NGX_CHAT_REDIS_NAME];
    chat_fact_t             wait;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_memzero(&wait, sizeof(wait));
    ngx_memcpy(field, "wait/", 5);
    ngx_memcpy(field + 5, store->worker.data, store->worker.len);
    wait.field = chat_str(field, 5 + store->worker.len);
    wait.value = chat_cstr("1");

    if (watch->store == NULL) {
        ngx_chat_store_watch_add(&redis->base, store, watch, key);
    }

    ngx_chat_store_redis_do_join(redis, op, key, facts, n, ttl, &wait);
}


static void
ngx_chat_store_redis_unwatch(chat_store_watch_t *watch)
{
    if (watch->store != NULL) {
        ngx_chat_store_watch_remove(
            &((ngx_chat_store_redis_t *) watch->store)->base, watch);
    }
}


static void
ngx_chat_store_redis_clear(chat_store_t *store, const chat_key_t *key,
                           uint32_t ttl)
{
    chat_fact_t             cleared;
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_memzero(&cleared, sizeof(cleared));
    cleared.field = chat_cstr("cleared");
    cleared.value = chat_cstr("1");

    cmd = ngx_chat_redis_join_create(redis, key, ttl, NGX_CHAT_REDIS_FACTS, 1);
    if (cmd != NULL) {
        ngx_chat_redis_add_facts(cmd, &cleared, 1);
        ngx_chat_store_redis_submit(redis, cmd, NULL);
    }
}


/* Puts the script where the server had forgotten it, and asks once more. */
static void
ngx_chat_store_redis_load(ngx_chat_store_redis_t *redis, ngx_uint_t greets)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "SCRIPT");
    ngx_chat_redis_cmd_puts(cmd, "LOAD");
    ngx_chat_redis_cmd_puts(cmd, ngx_chat_redis_script);
    cmd->done = ngx_chat_redis_ignore;
    cmd->greets = greets & 1;

    if (ngx_chat_redis_submit(&redis->client, cmd) != NGX_OK) {
        ngx_chat_redis_cmd_free(cmd);
    }
}


/* The worker that a fact names whose life matters; or none. */
static chat_str_t
ngx_chat_redis_named(chat_str_t field, chat_str_t value)
{
    char          until;
    const u_char *end;

    if (chat_str_starts(field, "claim/")) {
        until = ' ';
    } else if (chat_str_is(field, "open")) {
        until = '\n';
    } else {
        return chat_str(NULL, 0);
    }

    if (value.len < 2) {
        return chat_str(NULL, 0);
    }

    value = chat_str(value.data + 1, value.len - 1);
    end = memchr(value.data, until, value.len);
    return end ? chat_str(value.data, (size_t) (end - value.data)) : value;
}


/* The workers in a reply that nothing is known of; at most so many. */
static ngx_uint_t
ngx_chat_store_redis_strangers(ngx_chat_store_redis_t *redis,
                               const redisReply *reply, chat_str_t *names)
{
    size_t     i;
    chat_str_t name;
    ngx_uint_t k, n = 0;

    for (i = 0; i + 1 < reply->elements && n < NGX_CHAT_REDIS_MEET; i += 2) {
        name =
            ngx_chat_redis_named(ngx_chat_redis_text(reply->element[i]),
                                 ngx_chat_redis_text(reply->element[i + 1]));

        if (ngx_chat_redis_live_knows(&redis->live, name)) {
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


/* The facts of a reply go to whoever waits for them. */
static void
ngx_chat_store_redis_answer(ngx_chat_redis_cmd_t *cmd, const redisReply *reply)
{
    size_t                 i;
    chat_str_t             value;
    chat_fact_t           *fact;
    ngx_chat_redis_facts_t found;

    found.count = 0;
    found.facts = ngx_calloc((reply->elements / 2 + 1) * sizeof(chat_fact_t),
                             ngx_cycle->log);
    if (found.facts == NULL) {
        ngx_chat_store_redis_tell(cmd, CHAT_ERROR, NULL);
        return;
    }

    for (i = 0; i + 1 < reply->elements; i += 2) {
        value = ngx_chat_redis_text(reply->element[i + 1]);
        if (value.len == 0) {
            continue; /* none of ours */
        }

        fact = &found.facts[found.count++];
        fact->field = ngx_chat_redis_text(reply->element[i]);
        fact->value = chat_str(value.data + 1, value.len - 1);
        fact->has_payload = value.data[0] == '1';
    }

    ngx_chat_store_redis_tell(cmd, CHAT_OK, &found);
    ngx_free(found.facts);
}


/* It is known who is alive of those that the kept reply names. */
static void
ngx_chat_store_redis_met(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_store_redis_t *redis = cmd->data;

    if (reply == NULL) {
        ngx_chat_store_redis_end(cmd, NULL, CHAT_ERROR);
        return;
    }

    ngx_chat_redis_live_answer(&redis->live, cmd, reply);
    ngx_chat_store_redis_answer(cmd, cmd->kept);
    ngx_chat_redis_ignore(cmd, reply);
}


/* Takes the reply, and asks for the life of workers that it names. */
static void
ngx_chat_store_redis_meet(ngx_chat_redis_cmd_t *joined, redisReply *reply,
                          const chat_str_t *names, ngx_uint_t n)
{
    ngx_chat_redis_cmd_t   *cmd;
    chat_store_op_t        *op = joined->op;
    ngx_chat_store_redis_t *redis = joined->data;

    joined->op = NULL;
    cmd = ngx_chat_redis_live_question(&redis->live, names, n);

    if (cmd != NULL) {
        cmd->done = ngx_chat_store_redis_met;
        cmd->kept = reply;
        reply = NULL;
    }

    ngx_chat_store_redis_submit(redis, cmd, op);
    ngx_chat_store_redis_end(joined, reply, CHAT_OK);
}


static void
ngx_chat_store_redis_joined(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_uint_t              n;
    chat_str_t              names[NGX_CHAT_REDIS_MEET];
    ngx_chat_store_redis_t *redis = cmd->data;

    if (reply == NULL) {
        ngx_chat_store_redis_end(cmd, NULL, CHAT_ERROR);
        return;
    }

    if (ngx_chat_redis_is_error(reply, "NOSCRIPT") && !cmd->again) {
        freeReplyObject(reply);
        cmd->again = 1;
        ngx_chat_store_redis_load(redis, 0);
        if (ngx_chat_redis_submit(&redis->client, cmd) != NGX_OK) {
            ngx_chat_store_redis_end(cmd, NULL, CHAT_ERROR);
        }
        return;
    }

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0) {
        ngx_chat_redis_complain(&redis->client, reply);
        ngx_chat_store_redis_end(cmd, reply,
                                 ngx_chat_redis_is_error(reply, "ERR FULL")
                                     ? CHAT_LIMIT
                                     : CHAT_ERROR);
        return;
    }

    n = cmd->op ? ngx_chat_store_redis_strangers(redis, reply, names) : 0;
    if (n != 0) {
        ngx_chat_store_redis_meet(cmd, reply, names, n);
        return;
    }

    ngx_chat_store_redis_answer(cmd, reply);
    ngx_chat_redis_ignore(cmd, reply);
}


static void
ngx_chat_store_redis_fetched(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                  i;
    chat_str_t              text;
    const u_char           *line;
    chat_fact_t            *fact;
    ngx_chat_redis_facts_t  found;
    ngx_chat_store_redis_t *redis = cmd->data;

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY
        || reply->elements + 2 != cmd->argc)
    {
        if (reply != NULL) {
            ngx_chat_redis_complain(&redis->client, reply);
        }
        ngx_chat_store_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    found.count = 0;
    found.facts =
        chat_arena_alloc(cmd->arena, cmd->argc * sizeof(chat_fact_t));
    if (found.facts == NULL) {
        ngx_chat_store_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    for (i = 0; i < reply->elements; i++) {
        text = ngx_chat_redis_text(reply->element[i]);
        line = text.len ? memchr(text.data, '\n', text.len) : NULL;
        if (line == NULL) {
            continue;
        }

        fact = &found.facts[found.count++];
        fact->field = chat_str(cmd->argv[i + 2], cmd->len[i + 2]);
        fact->value = chat_str(text.data, (size_t) (line - text.data));
        fact->payload = chat_str(line + 1, text.len - fact->value.len - 1);
        fact->has_payload = 1;
    }

    ngx_chat_store_redis_tell(cmd, CHAT_OK, &found);
    ngx_chat_redis_ignore(cmd, reply);
}


static void
ngx_chat_store_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                              const chat_key_t *key, const chat_str_t *fields,
                              size_t n)
{
    size_t                  i;
    ngx_chat_redis_cmd_t   *cmd = ngx_chat_redis_cmd_create();
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    if (cmd != NULL) {
        cmd->done = ngx_chat_store_redis_fetched;
        ngx_chat_redis_cmd_puts(cmd, "HMGET");
        ngx_chat_redis_add_key(cmd, key, ":p");

        for (i = 0; i < n; i++) {
            ngx_chat_redis_cmd_add(cmd, fields[i]);
        }
    }

    ngx_chat_store_redis_submit(redis, cmd, op);
}


static void
ngx_chat_store_redis_cancel(chat_store_op_t *op)
{
    ngx_chat_redis_cmd_t *cmd = op->answer;

    if (op->store == NULL) {
        return;
    }

    if (cmd == NULL) {
        ngx_chat_store_forget(&((ngx_chat_store_redis_t *) op->store)->base,
                              op);
        return;
    }

    /* the command goes on: what it puts is to stand */
    cmd->op = NULL;
    op->answer = NULL;
    op->store = NULL;
}


static int
ngx_chat_store_redis_alive(chat_store_t *store, chat_str_t worker)
{
    return ngx_chat_redis_live_alive(&((ngx_chat_store_redis_t *) store)->live,
                                     worker);
}


static void
ngx_chat_store_redis_greet(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_store_redis_load(redis, 1);
    ngx_chat_redis_live_greet(&redis->live);
}


static void
ngx_chat_store_redis_changed(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    redis->store.state = client->state;
    if (client->state != CHAT_STORE_WAVERING) {
        ngx_chat_store_changed(&redis->base, 0, 1);
    }
}


static void
ngx_chat_store_redis_died(ngx_chat_redis_live_t *live)
{
    ngx_chat_store_redis_t *redis = live->data;

    ngx_chat_store_changed(&redis->base, 0, 1);
}


static void
ngx_chat_store_redis_lost(ngx_chat_redis_live_t *live)
{
    ngx_chat_store_redis_t *redis = live->data;

    ngx_log_error(NGX_LOG_WARN, redis->client.conn.log, 0,
                  "chat: the store %V has lost its data",
                  &redis->client.conn.conf->name);

    if (redis->store.lost != NULL) {
        redis->store.lost(&redis->store);
    }

    ngx_chat_store_changed(&redis->base, 0, 1);
}


static void
ngx_chat_store_redis_news(ngx_chat_redis_wake_t *wake, const char *hex)
{
    ngx_int_t               byte;
    ngx_uint_t              i;
    chat_key_t              key;
    ngx_chat_store_redis_t *redis = wake->data;

    if (hex == NULL) {
        ngx_chat_store_changed(&redis->base, 0, 1);
        return;
    }

    ngx_memzero(&key, sizeof(key));

    for (i = 0; i < sizeof(uint64_t); i++) {
        byte = ngx_hextoi((u_char *) hex + 2 * i, 2);
        if (byte == NGX_ERROR) {
            return;
        }
        key.name.bytes[i] = (u_char) byte;
    }

    ngx_chat_store_changed(&redis->base, ngx_chat_store_prefix(&key), 0);
}


/* A name that no other worker has or had, and the hash of the script. */
static ngx_int_t
ngx_chat_store_redis_name(ngx_chat_store_redis_t *redis)
{
    u_char         digest[EVP_MAX_MD_SIZE], *end;
    uint64_t       random;
    unsigned int   len;
    ngx_uint_t     i;
    chat_digest_t *unused;

    (void) unused;

    if (RAND_bytes((u_char *) &random, sizeof(random)) != 1
        || EVP_Digest(ngx_chat_redis_script, sizeof(ngx_chat_redis_script) - 1,
                      digest, &len, EVP_sha1(), NULL)
               != 1)
    {
        return NGX_ERROR;
    }

    end = ngx_slprintf(redis->worker, redis->worker + sizeof(redis->worker),
                       "%P-%016xL", ngx_pid, random);
    redis->store.worker =
        chat_str(redis->worker, (size_t) (end - redis->worker));

    for (i = 0; i < len && i < 20; i++) {
        (void) ngx_sprintf((u_char *) redis->sha + 2 * i, "%02xd", digest[i]);
    }

    return NGX_OK;
}


chat_store_t *
ngx_chat_store_redis_open(const ngx_chat_redis_conf_t *conf,
                          ngx_cycle_t                 *cycle)
{
    ngx_chat_store_redis_t *redis;

    redis = ngx_pcalloc(cycle->pool, sizeof(ngx_chat_store_redis_t));
    if (redis == NULL || ngx_chat_store_redis_name(redis) != NGX_OK) {
        return NULL;
    }

    redis->store.name = "redis";
    redis->store.state = CHAT_STORE_WAVERING;
    redis->store.join = ngx_chat_store_redis_join;
    redis->store.watch = ngx_chat_store_redis_watch;
    redis->store.unwatch = ngx_chat_store_redis_unwatch;
    redis->store.payloads = ngx_chat_store_redis_payloads;
    redis->store.clear = ngx_chat_store_redis_clear;
    redis->store.cancel = ngx_chat_store_redis_cancel;
    redis->store.alive = ngx_chat_store_redis_alive;
    ngx_chat_store_base_init(&redis->base, cycle->log);

    redis->client.data = redis;
    redis->client.greet = ngx_chat_store_redis_greet;
    redis->client.changed = ngx_chat_store_redis_changed;
    redis->live.data = redis;
    redis->live.died = ngx_chat_store_redis_died;
    redis->live.lost = ngx_chat_store_redis_lost;
    redis->wake.data = redis;
    redis->wake.news = ngx_chat_store_redis_news;

    ngx_chat_redis_client_open(&redis->client, conf, cycle->log);
    ngx_chat_redis_live_init(&redis->live, &redis->client,
                             redis->store.worker);
    ngx_chat_redis_wake_open(&redis->wake, &redis->client,
                             redis->store.worker);
    return &redis->store;
}


void
ngx_chat_store_redis_close(chat_store_t *store)
{
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_chat_redis_live_leave(&redis->live);
    ngx_chat_redis_wake_close(&redis->wake);
    ngx_chat_redis_client_close(&redis->client);
}
