/*
 * ngx_chat_redis_script.c: the Lua scripts, each of which the server runs as
 * one step.
 *
 * A join puts absent facts and returns all facts; an append adds a piece to a
 * log; both then notify the workers that wait for the key. A read returns
 * pieces up to a number of bytes. Scripts are called by their hashes. They are
 * loaded with each connection, and when the server has lost them.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>

#include "store/redis/ngx_chat_redis_codec.h"


/* see: facts of f; put: fields that were put just now. */
#define NGX_CHAT_REDIS_NOTIFY                                             \
    "local who,last={},0\n"                                               \
    "for i=1,#see,2 do\n"                                                 \
    " local w=see[i]:match('^wait/(.+)$') if w and not put[see[i]] then " \
    "who[w]=1 end\n"                                                      \
    " local k=tonumber(see[i]:match('^claim/(%d+)$') or 0)\n"             \
    " if k>last then last,see.w=k,see[i+1]:match('^.(%S+)') end\n"        \
    "end\n"                                                               \
    "if see.w then who[see.w]=1 end\n"                                    \
    "for w in pairs(who) do\n"                                            \
    " redis.call('PUBLISH','" NGX_CHAT_REDIS_CHANNEL "'..w,\n"            \
    "  f:match('}:(................)')) end\n"


static const char *const scripts[] = {
    /* NGX_CHAT_REDIS_JOIN */
    "local f,p,was=KEYS[1],KEYS[2],false\n"
    "if ARGV[3]=='1' then\n"
    " was=redis.call('HGETALL',f) redis.call('DEL',unpack(KEYS)) end\n"
    "local more=(#ARGV-3)/3\n"
    "if more>0 and ARGV[#ARGV-2]:find('^wait/') then more=more-1 end\n"
    "if more>0 and redis.call('HLEN',f)+more>tonumber(ARGV[2]) then\n"
    " return redis.error_reply('FULL') end\n"
    "local new,put=was,{}\n"
    "for i=4,#ARGV,3 do\n"
    " local n,v,l=ARGV[i],ARGV[i+1],ARGV[i+2]\n"
    " local h=redis.call('HGET',f,n)\n"
    " if not h then h='0'..v redis.call('HSET',f,n,h) new,put[n]=true,1 end\n"
    " if l~='' and h=='0'..v then new=true\n"
    "  redis.call('HSET',f,n,'1'..v) redis.call('HSET',p,n,l) end\n"
    "end\n"
    "local all=redis.call('HGETALL',f)\n"
    "if not new then return all end\n"
    "redis.call('EXPIRE',f,ARGV[1]) redis.call('EXPIRE',p,ARGV[1])\n"
    "local see=was or all\n" NGX_CHAT_REDIS_NOTIFY "return all\n",

    /* NGX_CHAT_REDIS_APPEND */
    "local f,put=KEYS[1],{}\n"
    "local see=redis.call('HGETALL',f)\n"
    "if #see==0 or redis.call('HGET',f,'cleared') then return 0 end\n"
    "local r=redis.pcall('XADD',KEYS[3],'MINID','~',ARGV[2],unpack(ARGV,3))\n"
    "if type(r)=='table' and r.err then\n"
    " if r.err:find('smaller',1,true) then return 0 end return r end\n"
    "for _,k in ipairs(KEYS) do\n"
    " if redis.call('PTTL',k)<ARGV[1]*1000-200 then\n"
    "  redis.call('EXPIRE',k,ARGV[1]) end end\n" NGX_CHAT_REDIS_NOTIFY
    "return 1\n",

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


void
ngx_chat_redis_hash_scripts(ngx_chat_store_redis_t *redis)
{
    u_char     digest[NGX_CHAT_REDIS_SHA1];
    ngx_uint_t i;
    ngx_sha1_t sha1;

    for (i = 0; i < NGX_CHAT_REDIS_SCRIPTS; i++) {
        ngx_sha1_init(&sha1);
        ngx_sha1_update(&sha1, scripts[i], ngx_strlen(scripts[i]));
        ngx_sha1_final(digest, &sha1);
        (void) ngx_hex_dump((u_char *) redis->sha[i], digest, sizeof(digest));
    }
}


ngx_chat_redis_cmd_t *
ngx_chat_redis_call(ngx_chat_store_redis_t *redis, ngx_uint_t script)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd != NULL) {
        ngx_chat_redis_cmd_puts(cmd, "EVALSHA");
        ngx_chat_redis_cmd_puts(cmd, redis->sha[script]);
    }

    return cmd;
}


void
ngx_chat_redis_load_scripts(ngx_chat_redis_client_t *client,
                            ngx_uint_t               is_setup)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;

    for (i = 0; i < NGX_CHAT_REDIS_SCRIPTS; i++) {
        cmd = ngx_chat_redis_cmd_create();
        if (cmd == NULL) {
            return;
        }

        ngx_chat_redis_cmd_puts(cmd, "SCRIPT");
        ngx_chat_redis_cmd_puts(cmd, "LOAD");
        ngx_chat_redis_cmd_puts(cmd, scripts[i]);
        cmd->done = ngx_chat_redis_ignore;
        cmd->is_setup = is_setup & 1;

        if (ngx_chat_redis_submit(client, cmd) != NGX_OK) {
            ngx_chat_redis_cmd_free(cmd);
        }
    }
}


ngx_uint_t
ngx_chat_redis_reload(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (!ngx_chat_redis_is_error(reply, "NOSCRIPT") || cmd->is_reloaded) {
        return 0;
    }

    freeReplyObject(reply);
    cmd->is_reloaded = 1;
    ngx_chat_redis_load_scripts(cmd->client, 0);

    if (ngx_chat_redis_submit(cmd->client, cmd) != NGX_OK) {
        cmd->done(cmd, NULL);
    }

    return 1;
}
