/*
 * ngx_chat_redis_codec.c: facts and keys as commands, replies as facts.
 *
 * The facts of a key are a hash: field, and value behind 1 (it has a payload)
 * or 0. Payloads are a second hash, as joins do not read them: field, and the
 * value's length, a line feed, value and payload. A log is a stream: piece n
 * is entry <n + 1>-0 with one field, b, or l for the last one. The server
 * refuses an id that is not above the last one, so that an append may be sent
 * twice.
 *
 * The server runs a Lua script as one step. A join puts absent facts and
 * returns all facts, or nothing if these are its own; what it needs comes
 * behind them, as 2 and what the second hash has. An append adds a piece
 * to a log; both then notify the workers that wait for the key. A read returns
 * pieces up to a number of bytes. Scripts are called by their hashes. They are
 * loaded with each connection; a server that has lost them gets another one.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>

#include "store/redis/ngx_chat_store_redis.h"

#define NGX_CHAT_REDIS_ARGS_MAX 4096 /* of a join that facts are added to */
#define NGX_CHAT_REDIS_HEAD_ARGS 10  /* of a join, before needs and facts */
#define NGX_CHAT_REDIS_TEXT 1000     /* bytes that few commands exceed */
#define NGX_CHAT_REDIS_HEX 64        /* digits of a name */
#define NGX_CHAT_REDIS_TAG 8         /* digits of a tag, enough for a slot */
#define NGX_CHAT_REDIS_ID "%uL-0"    /* of a log's entry: position + 1 */
/* Workers looked up for one reply; more than a trimmed index can name. */
#define NGX_CHAT_REDIS_LOOK_UP 256

static void on_join(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

/* Of the keys of facts, payloads and log. */
static const char *const suffixes[] = { "", ":p", ":l" };

/* see: facts of f; put: fields that were put just now; own: not notified. */
#define NGX_CHAT_REDIS_NOTIFY                                             \
    "local wake,last={},0\n"                                              \
    "for i=1,#see,2 do\n"                                                 \
    " local w=see[i]:match('^wait/(.+)$') if w and not put[see[i]] then " \
    "wake[w]=1 end\n"                                                     \
    " local k=tonumber(see[i]:match('^claim/(%d+)$') or 0)\n"             \
    " if k>last then last,see.w=k,see[i+1]:match('^.(%S+)') end\n"        \
    "end\n"                                                               \
    "if see.w then wake[see.w]=1 end\n"                                   \
    "wake[own]=nil\n"                                                     \
    "for w in pairs(wake) do\n"                                           \
    " redis.call('PUBLISH','" NGX_CHAT_REDIS_CHANNEL "'..w,\n"            \
    "  f:match('}:(................)')) end\n"


static const char *const scripts[] = {
    /* NGX_CHAT_REDIS_JOIN */
    "local f,p,mode,own,was=KEYS[1],KEYS[2],ARGV[3],ARGV[4],false\n"
    "if mode=='clear' then\n"
    " was=redis.call('HGETALL',f) redis.call('DEL',unpack(KEYS)) end\n"
    "local c=ARGV[5]+0\n"
    "local n=(#ARGV-5-c)/4\n"
    "local more=n>0 and ARGV[#ARGV-3]:find('^wait/') and n-1 or n\n"
    "if more>0 and redis.call('HLEN',f)+more>tonumber(ARGV[2]) then\n"
    " return redis.error_reply('FULL') end\n"
    "local new,put,out,with=was,{},{},{}\n"
    "for i=6+c,#ARGV,4 do\n"
    " local k,v=ARGV[i],ARGV[i+1]\n"
    " local h=redis.call('HGET',f,k)\n"
    " if c>0 and i==#ARGV-3 then\n"
    "  for j=1,c do local r=redis.call('HGET',f,ARGV[5+j])\n"
    "   if h or not r or r:sub(1,1)~='1' then c=0 break end end\n"
    "  if c==0 then break end end\n"
    " if h and h:sub(2)~=v then out[#out+1],out[#out+2]=k,h end\n"
    " if not h then h='0'..v redis.call('HSET',f,k,h)\n"
    "  n,new,put[k]=n-1,true,1 end\n"
    " if ARGV[i+2]=='1' and h=='0'..v then new=true\n"
    "  redis.call('HSET',f,k,'1'..v)\n"
    "  redis.call('HSET',p,k,#v..'\\n'..v..ARGV[i+3]) end\n"
    "end\n"
    "local all=(new or mode=='join') and redis.call('HGETALL',f)\n"
    "if mode=='join' then out=n==0 and #all*2==#ARGV-5 and {} or all end\n"
    "for j=1,c do with[j]=redis.call('HGET',p,ARGV[5+j])\n"
    " if not with[j] then c=0 break end end\n"
    "for j=1,c do out[#out+1],out[#out+2]=ARGV[5+j],'2'..with[j] end\n"
    "if not new then return out end\n"
    "redis.call('EXPIRE',f,ARGV[1]) redis.call('EXPIRE',p,ARGV[1])\n"
    "local see=was or all\n" NGX_CHAT_REDIS_NOTIFY "return out\n",

    /* NGX_CHAT_REDIS_APPEND */
    "local f,put,own=KEYS[1],{},''\n"
    "local see=redis.call('HGETALL',f)\n"
    "if #see==0 or redis.call('HGET',f,'cleared') then return {} end\n"
    "local r=redis.pcall('XADD',KEYS[3],'MINID','~',ARGV[2],unpack(ARGV,3))\n"
    "if type(r)=='table' and r.err then\n"
    " if r.err:find('smaller',1,true) then return {} end return r end\n"
    "for _,k in ipairs(KEYS) do\n"
    " if redis.call('PTTL',k)<ARGV[1]*1000-200 then\n"
    "  redis.call('EXPIRE',k,ARGV[1]) end end\n" NGX_CHAT_REDIS_NOTIFY
    "return {}\n",

    /* NGX_CHAT_REDIS_READ */
    "local out,size,from={},0,ARGV[1]\n"
    "while true do\n"
    " local some=redis.call('XRANGE',KEYS[1],from,'+','COUNT',64)\n"
    " for _,e in ipairs(some) do\n"
    "  size=size+#e[2][2]+16\n"
    "  if #out>0 and size>tonumber(ARGV[2]) then return out end\n"
    "  out[#out+1],from=e,'('..e[1]\n"
    " end\n"
    " if #some<64 then return out end\n"
    "end\n",
};


/* Adds chat:{tag}:name once for each suffix, and sets the slot of the tag. */
static void
add_keys(ngx_chat_redis_cmd_t *cmd, const chat_key_t *key,
         const char *const *suffix, ngx_uint_t n)
{
    char  text[6 + NGX_CHAT_REDIS_TAG + 2 + NGX_CHAT_REDIS_HEX + 3] = "chat:{";
    char *tag = text + 6, *name = tag + NGX_CHAT_REDIS_TAG + 2;

    chat_hex(key->tag.bytes, NGX_CHAT_REDIS_TAG / 2, tag);
    chat_hex(key->name.bytes, NGX_CHAT_REDIS_HEX / 2, name);
    name[-2] = '}';
    name[-1] = ':';
    cmd->slot = chat_slot(chat_str(tag, NGX_CHAT_REDIS_TAG));
    cmd->is_keyed = 1;

    for (; n > 0; n--) {
        (void) strcpy(name + NGX_CHAT_REDIS_HEX, *suffix++);
        ngx_chat_redis_cmd_add(cmd, chat_cstr(text));
    }
}


/* A command that runs a script, with these keys. */
static ngx_chat_redis_cmd_t *
call(ngx_chat_store_redis_t *redis, ngx_uint_t script,
     void (*done)(ngx_chat_redis_cmd_t *cmd, redisReply *reply),
     const chat_key_t *key, const char *const *suffix, ngx_uint_t n)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_cmd_create("", done, redis);
    (void) chat_buf_reserve(&cmd->args.text, NGX_CHAT_REDIS_TEXT);
    ngx_chat_redis_cmd_add(cmd, chat_cstr("EVALSHA"));
    ngx_chat_redis_cmd_add(cmd, chat_cstr(redis->sha[script]));
    ngx_chat_redis_cmd_number(cmd, n);
    add_keys(cmd, key, suffix, n);
    return cmd;
}


void
ngx_chat_redis_load_scripts(ngx_chat_redis_client_t *client)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;

    for (i = 0; i < NGX_CHAT_REDIS_SCRIPTS; i++) {
        cmd = ngx_chat_redis_cmd_create("SCRIPT LOAD", ngx_chat_redis_ignore,
                                        NULL);
        ngx_chat_redis_cmd_add(cmd, chat_cstr(scripts[i]));
        (void) ngx_chat_redis_submit(client, cmd);
    }
}


static void
add_facts(ngx_chat_redis_cmd_t *cmd, const chat_fact_t *facts, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        ngx_chat_redis_cmd_add(cmd, facts[i].field);
        ngx_chat_redis_cmd_add(cmd, facts[i].value);
        ngx_chat_redis_cmd_add(cmd,
                               chat_cstr(facts[i].has_payload ? "1" : "0"));
        ngx_chat_redis_cmd_add(cmd, facts[i].payload);
    }
}


/*
 * A join without facts, for op or NULL. mode: join, put (it returns only what
 * differs), or clear (the key is emptied first). A server executes the watch
 * of a later command later: without a watch this worker is not notified.
 */
static ngx_chat_redis_cmd_t *
create_join(ngx_chat_store_redis_t *redis, const chat_key_t *key, uint32_t ttl,
            size_t most, const char *mode, const chat_store_op_t *op)
{
    size_t                i, needs = op != NULL ? op->nneeds : 0;
    chat_str_t            own = redis->base.store.worker;
    ngx_chat_redis_cmd_t *cmd = call(redis, NGX_CHAT_REDIS_JOIN, on_join, key,
                                     suffixes, *mode == 'c' ? 3 : 2);

    if (redis->cluster.is_cluster
        || ngx_chat_store_is_watched(&redis->base, key)) {
        own = chat_str(NULL, 0);
    }

    ngx_chat_redis_cmd_number(cmd, ttl);
    ngx_chat_redis_cmd_number(cmd, most);
    ngx_chat_redis_cmd_add(cmd, chat_cstr(mode));
    ngx_chat_redis_cmd_add(cmd, own);
    cmd->needs = needs != 0 ? cmd->args.text.len : 0;
    ngx_chat_redis_cmd_number(cmd, needs);

    for (i = 0; i < needs; i++) {
        ngx_chat_redis_cmd_add(cmd, op->needs[i]);
    }

    cmd->head = cmd->args.text.len;
    return cmd;
}


/*
 * Adds the facts of a join to the last command, if that is an unsent join of
 * the same key that nothing awaits: the facts of one wake-up go in one
 * command. 0: it is not, or there is no room.
 */
static ngx_uint_t
add_to_unsent(ngx_chat_store_redis_t *redis, const ngx_chat_redis_cmd_t *from)
{
    ngx_chat_redis_cmd_t    *cmd;
    ngx_chat_redis_client_t *client =
        ngx_chat_redis_cluster_client(&redis->cluster, from->slot);

    cmd = ngx_queue_data(ngx_queue_last(&client->cmds), ngx_chat_redis_cmd_t,
                         queue);

    if (ngx_queue_empty(&client->cmds) || cmd->is_sent || cmd->op != NULL
        || cmd->done != on_join || cmd->args.argc > NGX_CHAT_REDIS_ARGS_MAX
        || from->args.text.failed || from->failed
        || client->bytes + from->args.text.len > NGX_CHAT_REDIS_PENDING
        || !chat_str_eq(chat_str(cmd->args.text.data, cmd->head),
                        chat_str(from->args.text.data, from->head)))
    {
        return 0;
    }

    chat_buf_add(&cmd->args.text, chat_str(from->args.text.data + from->head,
                                           from->args.text.len - from->head));
    if (cmd->args.text.failed) {
        cmd->args.text.failed = 0; /* it has all of the facts or none */
        return 0;
    }

    cmd->args.argc += from->args.argc - NGX_CHAT_REDIS_HEAD_ARGS;
    cmd->bytes += from->args.text.len;
    cmd->is_resendable |= from->is_resendable;
    client->bytes += from->args.text.len;
    return 1;
}


/* Submits cmd for op, which fails if the command is not taken. */
static void
submit(ngx_chat_store_redis_t *redis, ngx_chat_redis_cmd_t *cmd,
       chat_store_op_t *op)
{
    cmd->op = op;

    if (op != NULL) {
        op->store = &redis->base.store;
        op->answer = cmd;
    }

    if (ngx_chat_redis_cluster_submit(&redis->cluster, cmd) != NGX_OK
        && op != NULL)
    {
        ngx_chat_store_answer(&redis->base, op, CHAT_ERROR, NULL);
    }
}


static void
redis_join(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
           const chat_fact_t *facts, size_t n, uint32_t ttl,
           chat_store_watch_t *watch)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    if (watch != NULL) {
        ngx_chat_store_unwatch(watch);
        ngx_chat_store_watch_add(&redis->base, watch, key);
    }

    cmd =
        create_join(redis, key, ttl, (size_t) store->most_facts * (op ? 1 : 2),
                    op && !op->brief ? "join" : "put", op);
    cmd->is_resendable = n > 0;
    add_facts(cmd, facts, n);
    add_facts(cmd, &redis->base.wait, watch != NULL);

    if (op == NULL && watch == NULL && add_to_unsent(redis, cmd)) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    submit(redis, cmd, op);
}


static void
redis_clear(chat_store_t *store, const chat_key_t *key, uint32_t ttl)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = create_join(redis, key, ttl, store->most_facts, "clear", NULL);
    add_facts(cmd, &redis->base.cleared, 1);
    submit(redis, cmd, NULL);
}


/* Adds a key and fields to cmd, and submits it for op. */
static void
submit_fields(chat_store_t *store, ngx_chat_redis_cmd_t *cmd,
              chat_store_op_t *op, const chat_key_t *key,
              const char *const *suffix, const chat_str_t *fields, size_t n)
{
    size_t i;

    add_keys(cmd, key, suffix, 1);
    cmd->head = cmd->args.text.len;

    for (i = 0; i < n; i++) {
        ngx_chat_redis_cmd_add(cmd, fields[i]);
    }

    if (n == 0) {
        ngx_chat_redis_cmd_add(cmd, chat_cstr("")); /* Redis requires one */
    }

    submit((ngx_chat_store_redis_t *) store, cmd, op);
}


static void
redis_drop(chat_store_t *store, const chat_key_t *key,
           const chat_str_t *fields, size_t n)
{
    submit_fields(
        store, ngx_chat_redis_cmd_create("HDEL", ngx_chat_redis_ignore, NULL),
        NULL, key, suffixes, fields, n);
}


/* Calls op->done(), if it awaits cmd, with what was read; ends both. */
static void
finish(ngx_chat_redis_cmd_t *cmd, redisReply *reply, chat_rc_e rc)
{
    chat_store_op_t *op = cmd->op;

    cmd->op = NULL;

    if (op != NULL) {
        op->store = NULL;
        op->answer = NULL;
        op->arena = cmd->arena;
        op->done(op, rc, cmd->facts, rc == CHAT_OK ? cmd->nfacts : 0);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


/*
 * 1 if the error says that the key or the server is full. Redis 7 begins it
 * with a code, older ones do not, and put a script's error into a longer text.
 */
static ngx_uint_t
is_full(const redisReply *reply)
{
    return ngx_chat_redis_is_error(reply, "ERR FULL")
           || ngx_chat_redis_is_error(reply, "FULL")
           || (reply->type == REDIS_REPLY_ERROR
               && strstr(reply->str, "OOM command not allowed") != NULL);
}


/* Fails cmd: its reply is NULL (no server), an error, or of another type. */
static void
fail(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL) {
        ngx_chat_redis_log_error(cmd->client, reply);
    }

    finish(cmd, reply,
           reply != NULL && is_full(reply) ? CHAT_LIMIT : CHAT_ERROR);
}


/* What a join has written: length, line feed, value and payload. */
static ngx_uint_t
read_stored(chat_str_t text, chat_fact_t *fact)
{
    uint64_t len;

    if (!chat_str_number(chat_str_cut(&text, '\n'), &len) || len > text.len) {
        return 0;
    }

    fact->value = chat_str(text.data, (size_t) len);
    fact->payload = chat_str(text.data + len, text.len - (size_t) len);
    fact->has_payload = 1;
    return 1;
}


/* A field and its value, behind 0 to 2, in the reply to a join. */
static ngx_uint_t
read_pair(ngx_chat_redis_cmd_t *cmd, const redisReply *reply, size_t i,
          chat_fact_t *fact)
{
    chat_str_t value = ngx_chat_redis_text(reply->element[i + 1]);

    if (value.len == 0) {
        return 0;
    }

    fact->field = ngx_chat_redis_text(reply->element[i]);
    fact->value = chat_str(value.data + 1, value.len - 1);
    fact->has_payload = value.data[0] == '1';
    return value.data[0] != '2' || read_stored(fact->value, fact);
}


/* 1 if the reply ends with what the join needs. */
static ngx_uint_t
has_needs(const ngx_chat_redis_cmd_t *cmd)
{
    return cmd->op->nneeds <= cmd->nfacts
           && cmd->facts[cmd->nfacts - 1].payload.data != NULL;
}


/* A fact of the join itself. */
static ngx_uint_t
read_own(ngx_chat_redis_cmd_t *cmd, const redisReply *reply, size_t i,
         chat_fact_t *fact)
{
    fact->field = ngx_chat_redis_cmd_arg(cmd, &cmd->head);
    fact->value = ngx_chat_redis_cmd_arg(cmd, &cmd->head);
    fact->has_payload =
        chat_str_is(ngx_chat_redis_cmd_arg(cmd, &cmd->head), "1");
    (void) ngx_chat_redis_cmd_arg(cmd, &cmd->head);
    return 1;
}


/* Returns the worker that a fact depends on; empty: none. */
static chat_str_t
worker_in_fact(const chat_fact_t *fact)
{
    chat_str_t text = fact->value;

    if (chat_str_after(fact->field, "feed/", &text)) {
        return chat_str_cut(&text, '/');
    }

    if (chat_str_is(fact->field, "open")) {
        return chat_str_cut(&text, '\n');
    }

    return chat_str_starts(fact->field, "claim/")
                   || chat_str_starts(fact->field, "stream/")
                   || chat_str_starts(fact->field, "hold/")
               ? chat_str_cut(&text, ' ')
               : chat_str(NULL, 0);
}


/*
 * The workers in a reply that must be looked up: unknown ones, and every
 * claimant. A client that has learned of a claimant's death may retry before
 * all workers know of it, and must not wait for that claimant again.
 */
static ngx_uint_t
unknown_workers(ngx_chat_redis_cmd_t *cmd,
                chat_str_t            names[NGX_CHAT_REDIS_LOOK_UP])
{
    size_t                  i;
    chat_str_t              name;
    ngx_uint_t              k, n = 0;
    const chat_fact_t      *fact = cmd->facts;
    ngx_chat_store_redis_t *redis = cmd->data;

    for (i = 0; i < cmd->nfacts && n < NGX_CHAT_REDIS_LOOK_UP; i++, fact++) {
        name = worker_in_fact(fact);

        for (k = 0; k < n && !chat_str_eq(names[k], name); k++) { /* void */
        }

        if (k == n
            && !ngx_chat_redis_liveness_knows(
                &redis->liveness, name,
                chat_str_starts(fact->field, "claim/")))
        {
            names[n++] = name;
        }
    }

    return n;
}


static void
on_looked_up(ngx_chat_redis_cmd_t *cmd, ngx_uint_t known)
{
    finish(cmd, cmd->reply, known ? CHAT_OK : CHAT_ERROR);
}


/*
 * Reads the facts of an array that has so many elements for each, n in all; 0:
 * as many as the reply. read() makes one of the elements from i on; it returns
 * 0 where they are another program's. Without memory it sets cmd->failed.
 * Returns 0 if cmd has ended with an error.
 */
static ngx_uint_t
read_array(ngx_chat_redis_cmd_t *cmd, redisReply *reply, size_t n, size_t step,
           ngx_uint_t (*read)(ngx_chat_redis_cmd_t *cmd,
                              const redisReply *reply, size_t i,
                              chat_fact_t *fact))
{
    size_t i;

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY
        || reply->elements % step != 0)
    {
        fail(cmd, reply);
        return 0;
    }

    n = n != 0 ? n : reply->elements;
    cmd->facts = chat_arena_alloc(cmd->arena, (n + 1) * sizeof(chat_fact_t));
    cmd->failed = cmd->facts == NULL;

    for (i = 0; i < n && !cmd->failed; i += step) {
        cmd->nfacts += read(cmd, reply, i, &cmd->facts[cmd->nfacts]);
    }

    if (cmd->failed) {
        finish(cmd, reply, CHAT_ERROR);
        return 0;
    }

    return 1;
}


static void
on_join(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                  n;
    chat_str_t              names[NGX_CHAT_REDIS_LOOK_UP];
    ngx_chat_store_redis_t *redis = cmd->data;

    /* a reply of another type has no elements, either */
    n = reply != NULL && reply->elements == 0 && cmd->op && !cmd->op->brief
            ? cmd->args.argc - NGX_CHAT_REDIS_HEAD_ARGS
            : 0;

    if (!read_array(cmd, reply, n, n != 0 ? 4 : 2,
                    n != 0 ? read_own : read_pair)) {
        return;
    }

    if (cmd->op != NULL && cmd->op->nneeds != 0 && !has_needs(cmd)) {
        cmd->op->nneeds = 0;
    }

    cmd->reply = reply;
    n = cmd->op != NULL ? unknown_workers(cmd, names) : 0;

    if (n == 0) {
        on_looked_up(cmd, 1);
    } else {
        ngx_chat_redis_liveness_query(&redis->liveness, names, n, cmd,
                                      on_looked_up);
    }
}


static ngx_uint_t
read_payload(ngx_chat_redis_cmd_t *cmd, const redisReply *reply, size_t i,
             chat_fact_t *fact)
{
    fact->field = ngx_chat_redis_cmd_arg(cmd, &cmd->head);
    return read_stored(ngx_chat_redis_text(reply->element[i]), fact);
}


static void
on_payloads(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL && reply->elements + 2 != cmd->args.argc) {
        fail(cmd, reply);
    } else if (read_array(cmd, reply, 0, 1, read_payload)) {
        finish(cmd, reply, CHAT_OK);
    }
}


static void
redis_payloads(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
               const chat_str_t *fields, size_t n)
{
    submit_fields(store, ngx_chat_redis_cmd_create("HMGET", on_payloads, NULL),
                  op, key, &suffixes[1], fields, n);
}


/* An entry of a log: its id, and an array of the name b or l and the bytes. */
static ngx_uint_t
read_entry(ngx_chat_redis_cmd_t *cmd, const redisReply *reply, size_t i,
           chat_fact_t *fact)
{
    u_char           *p;
    uint64_t          id;
    chat_str_t        text, name;
    const redisReply *pair, *entry = reply->element[i];

    if (entry->elements != 2 || entry->element[1]->elements != 2) {
        return 0;
    }

    pair = entry->element[1];
    text = ngx_chat_redis_text(entry->element[0]);
    name = ngx_chat_redis_text(pair->element[0]);

    if (!chat_str_number(chat_str_cut(&text, '-'), &id) || id == 0
        || !chat_str_is(text, "0")
        || !(chat_str_is(name, "b") || chat_str_is(name, "l")))
    {
        return 0;
    }

    p = chat_arena_alloc(cmd->arena, NGX_INT64_LEN);
    if (p == NULL) {
        cmd->failed = 1;
        return 0;
    }

    fact->field = chat_str(p, (size_t) (ngx_sprintf(p, "%uL", id - 1) - p));
    fact->value = chat_cstr(chat_str_is(name, "l") ? "last" : "");
    fact->payload = ngx_chat_redis_text(pair->element[1]);
    fact->has_payload = 1;
    return 1;
}


/* The reply to a read, or to an append, which has no entries. */
static void
on_entries(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (read_array(cmd, reply, 0, 1, read_entry)) {
        finish(cmd, reply, CHAT_OK);
    }
}


static void
redis_append(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
             uint64_t position, chat_str_t bytes, int last, uint64_t keep,
             uint32_t ttl)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = call(redis, NGX_CHAT_REDIS_APPEND, on_entries, key, suffixes, 3);
    cmd->is_resendable = 1;
    cmd->is_log = 1;
    ngx_chat_redis_cmd_printf(
        cmd, "%uD " NGX_CHAT_REDIS_ID " " NGX_CHAT_REDIS_ID " %s", ttl,
        ngx_min(keep, position) + 1, position + 1, last ? "l" : "b");
    ngx_chat_redis_cmd_add(cmd, bytes);
    cmd->head = cmd->args.text.len;
    /* one server executes commands in the order of the connection */
    submit(redis, cmd, redis->cluster.is_cluster ? op : NULL);
}


static void
redis_read(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
           uint64_t position)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = call(redis, NGX_CHAT_REDIS_READ, on_entries, key, &suffixes[2], 1);
    ngx_chat_redis_cmd_printf(cmd, NGX_CHAT_REDIS_ID " %uz",
                              ngx_min(position, UINT64_MAX - 1) + 1,
                              (size_t) CHAT_STORE_READ_MAX);
    submit(redis, cmd, op);
}


static void
redis_cancel(chat_store_op_t *op)
{
    ngx_chat_redis_cmd_t *cmd = op->answer;

    if (op->store == NULL) {
        return;
    }

    if (cmd == NULL) {
        ngx_chat_store_forget(op);
        return;
    }

    /* the command stays, because its facts must be put */
    cmd->op = NULL;
    op->answer = NULL;
    op->store = NULL;
}


static void
redis_flush(chat_store_t *store)
{
    ngx_chat_redis_cluster_flush(&((ngx_chat_store_redis_t *) store)->cluster);
}


static int
redis_alive(chat_store_t *store, chat_str_t worker)
{
    return ngx_chat_redis_liveness_alive(
        &((ngx_chat_store_redis_t *) store)->liveness, worker);
}


/* The node of the key's slot may be unavailable while others are not. */
static int
redis_key_unavailable(chat_store_t *store, const chat_key_t *key)
{
    char                    tag[NGX_CHAT_REDIS_TAG + 1];
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    chat_hex(key->tag.bytes, NGX_CHAT_REDIS_TAG / 2, tag);
    return ngx_chat_redis_cluster_client(&redis->cluster,
                                         chat_slot(chat_cstr(tag)))
               ->state
           == CHAT_STORE_UNAVAILABLE;
}


void
ngx_chat_redis_init_store(ngx_chat_store_redis_t *redis)
{
    u_char        digest[NGX_CHAT_REDIS_SHA1];
    ngx_uint_t    i;
    ngx_sha1_t    sha1;
    chat_store_t *store = &redis->base.store;

    for (i = 0; i < NGX_CHAT_REDIS_SCRIPTS; i++) {
        ngx_sha1_init(&sha1);
        ngx_sha1_update(&sha1, scripts[i], ngx_strlen(scripts[i]));
        ngx_sha1_final(digest, &sha1);
        (void) ngx_hex_dump((u_char *) redis->sha[i], digest, sizeof(digest));
    }

    store->state = CHAT_STORE_RECONNECTING;
    store->most_facts = CHAT_STORE_FACTS;
    store->join = redis_join;
    store->unwatch = ngx_chat_store_unwatch;
    store->payloads = redis_payloads;
    store->append = redis_append;
    store->read = redis_read;
    store->drop = redis_drop;
    store->clear = redis_clear;
    store->flush = redis_flush;
    store->cancel = redis_cancel;
    store->alive = redis_alive;
    store->lacks = redis_key_unavailable;
}
