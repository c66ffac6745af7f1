/*
 * ngx_chat_conf.c: the directives and their defaults.
 *
 * An invalid value is refused with the directive's name and the value; a
 * combination that cannot work causes a warning.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_directives.h"
#include "endpoint/ngx_chat_endpoint.h"
#include "store/redis/ngx_chat_redis_conf.h"
#include "store/shm/ngx_chat_shm.h"

#define NGX_CHAT_SHM_DEFAULT (16 * 1024 * 1024)
#define NGX_CHAT_SHM_LEAST (1024 * 1024)
#define NGX_CHAT_RECORD_LEAST (64 * 1024)
#define NGX_CHAT_TTL (24 * 60 * 60 * 1000)
#define NGX_CHAT_BODY_HINT (64 * 1024)

#define LOC(field) offsetof(ngx_chat_loc_conf_t, field)

/* The settings that a location inherits; all are as wide as ngx_int_t. */
static const struct {
    size_t    offset;
    ngx_int_t preset;
} settings[] = {
    { LOC(chat), 0 },
    { LOC(replay_filter), 1 },
    { LOC(hold), NGX_CHAT_HOLD_AUTO },
    { LOC(grace), 3000 },
    { LOC(heartbeat), 15000 },
    { LOC(repair), NGX_CHAT_REPAIR_SETTLED },
    { LOC(record), NGX_CHAT_RECORD_AUTO },
    { LOC(record_max), 4 * 1024 * 1024 },
    { LOC(record_ttl), 10 * 60 },
    { LOC(failure), NGX_CHAT_FAILURE_PASS },
    { LOC(stall), 0 },
    { LOC(max_body), 8 * 1024 * 1024 },
    { LOC(max_event), 1024 * 1024 },
    { LOC(max_calls), 128 },
    { LOC(max_result), 1024 * 1024 },
    { LOC(max_held), 4096 },
    { LOC(max_held_bytes), 256 * 1024 * 1024 },
    { LOC(dry_run), 0 },
};

#define NGX_CHAT_SETTINGS (sizeof(settings) / sizeof(settings[0]))


static ngx_int_t *
setting(ngx_chat_loc_conf_t *conf, ngx_uint_t i)
{
    return (ngx_int_t *) ((char *) conf + settings[i].offset);
}


void *
ngx_chat_create_main_conf(ngx_conf_t *cf)
{
    ngx_chat_main_conf_t *mcf;

    mcf = ngx_pcalloc(cf->pool, sizeof(ngx_chat_main_conf_t));
    if (mcf != NULL) {
        mcf->ttl = NGX_CONF_UNSET_MSEC;
        mcf->shm_size = NGX_CONF_UNSET_SIZE;
    }

    return mcf;
}


void *
ngx_chat_create_loc_conf(ngx_conf_t *cf)
{
    ngx_uint_t           i;
    ngx_chat_loc_conf_t *conf =
        ngx_pcalloc(cf->pool, sizeof(ngx_chat_loc_conf_t));

    for (i = 0; conf != NULL && i < NGX_CHAT_SETTINGS; i++) {
        *setting(conf, i) = NGX_CONF_UNSET;
    }

    return conf;
}


static ngx_int_t
ngx_chat_merge_tenant(ngx_conf_t *cf, const ngx_chat_loc_conf_t *prev,
                      ngx_chat_loc_conf_t *conf)
{
    ngx_str_t credentials =
        ngx_string("$http_authorization$http_x_api_key"
                   "$http_api_key$http_x_goog_api_key$arg_key");
    ngx_http_core_srv_conf_t *cscf =
        ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    ngx_http_compile_complex_value_t ccv = { .cf = cf, .value = &credentials };

    if (conf->tenant == NULL) {
        conf->tenant = prev->tenant;
        conf->scope = prev->scope;
        conf->default_tenant = prev->default_tenant;
    }

    if (conf->tenant == NULL) {
        conf->tenant = ccv.complex_value = &conf->credentials;
        conf->default_tenant = 1;
    }

    if (conf->scope == NULL) {
        conf->scope = &conf->server;
        conf->server.value = cscf->server_name;
    }

    return ccv.complex_value ? ngx_http_compile_complex_value(&ccv) : NGX_OK;
}


/*
 * Refuses chat_results and chat_resume without chat_tenant; warns where the
 * bodies of chat requests would go through a file. Each message names the line
 * of its directive, not the location's end.
 */
static char *
ngx_chat_check_location(ngx_conf_t *cf, ngx_chat_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t *clcf =
        ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->needs_tenant && conf->default_tenant) {
        /* it does not prove that a client is its user */
        ngx_conf_log_error(NGX_LOG_EMERG, conf->endpoint_at, 0,
                           "\"%V\" in location \"%V\" requires "
                           "\"chat_tenant\": set it in \"server\" or "
                           "\"http\", so that the chat inherits it, too",
                           conf->endpoint, &clcf->name);
        return NGX_CONF_ERROR;
    }

    if (conf->chat && clcf->handler != NULL
        && clcf->client_body_buffer_size < NGX_CHAT_BODY_HINT)
    {
        ngx_conf_log_error(NGX_LOG_WARN, conf->chat_at, 0,
                           "\"chat\" in location \"%V\": bodies larger than "
                           "\"client_body_buffer_size\" (%uz) go through a "
                           "temporary file, 1m is recommended",
                           &clcf->name, clcf->client_body_buffer_size);
    }

    return NGX_CONF_OK;
}


char *
ngx_chat_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_uint_t            i;
    ngx_chat_loc_conf_t  *prev = parent;
    ngx_chat_loc_conf_t  *conf = child;
    ngx_chat_main_conf_t *mcf;

    if (conf->chat == NGX_CONF_UNSET) {
        conf->dialect = prev->dialect;
        conf->variable = prev->variable;
        conf->chat_at = prev->chat_at;
    }

    for (i = 0; i < NGX_CHAT_SETTINGS; i++) {
        ngx_conf_merge_value(*setting(conf, i), *setting(prev, i),
                             settings[i].preset);
    }

    conf->conversation =
        conf->conversation ? conf->conversation : prev->conversation;
    conf->tools = conf->tools ? conf->tools : prev->tools;

    if (ngx_chat_merge_tenant(cf, prev, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);
    mcf->max_calls = ngx_max(mcf->max_calls, conf->max_calls);
    mcf->used |= conf->chat & 1;
    mcf->recorded |= conf->record == NGX_CHAT_RECORD_ON;

    /* the store counts in 32 bits */
    conf->record_ttl = ngx_min(conf->record_ttl, NGX_MAX_INT32_VALUE);

    return ngx_chat_check_location(cf, conf);
}


static char *
ngx_chat_conf_chat(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                         must[256];
    u_char                      *p, *last = (u_char *) must + sizeof(must);
    ngx_int_t                    rc = NGX_OK;
    ngx_str_t                   *value = cf->args->elts;
    ngx_command_t                variable = { .offset = LOC(variable) };
    ngx_chat_loc_conf_t         *lcf = conf;
    const chat_dialect_t *const *dialect;

    if (lcf->chat != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    if (ngx_http_script_variables_count(&value[1]) != 0) {
        if (ngx_http_set_complex_value_slot(cf, &variable, conf)
            != NGX_CONF_OK) {
            return NGX_CONF_ERROR;
        }

    } else {
        rc = ngx_chat_conf_dialect(&value[1], &lcf->dialect);
    }

    if (rc == NGX_ERROR) {
        p = ngx_slprintf((u_char *) must, last,
                         "off, auto, a variable or one of");

        for (dialect = chat_dialects; *dialect != NULL; dialect++) {
            p = ngx_slprintf(p, last - 1, " %s", (*dialect)->name);
        }

        *p = '\0';
        return ngx_chat_conf_invalid(cf, &value[1], must);
    }

    lcf->chat = rc == NGX_OK;
    lcf->chat_at = ngx_chat_conf_here(cf);
    return lcf->chat_at ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_chat_conf_store(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t             *value = cf->args->elts;
    ngx_chat_main_conf_t  *mcf = conf;
    ngx_chat_redis_conf_t *redis;

    static const ngx_chat_parameter_t shm[] = {
        { "shm:SIZE of at least 1m", ngx_conf_set_size_slot,
          NGX_CHAT_SHM_LEAST, offsetof(ngx_chat_main_conf_t, shm_size), NULL },
        { "ttl=TIME above 0", ngx_conf_set_msec_slot, 1,
          offsetof(ngx_chat_main_conf_t, ttl), NULL },
        { NULL, NULL, 0, 0, NULL }
    };

    if (mcf->store_at != NULL) {
        return "is duplicate";
    }

    mcf->store_at = ngx_chat_conf_here(cf);
    if (mcf->store_at == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[1].data, "shm") == 0
        || ngx_strncmp(value[1].data, "shm:", 4) == 0)
    {
        return ngx_chat_conf_parameters(cf, value[1].len == 3 ? 2 : 1, shm,
                                        mcf);
    }

    redis = ngx_chat_redis_conf_read(cf);
    if (redis == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf->redis = redis;
    mcf->ttl = redis->ttl;
    return NGX_CONF_OK;
}


ngx_int_t
ngx_chat_conf_store_init(ngx_conf_t *cf)
{
    ngx_chat_main_conf_t *mcf =
        ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);

    ngx_conf_init_msec_value(mcf->ttl, NGX_CHAT_TTL);
    ngx_conf_init_size_value(mcf->shm_size, NGX_CHAT_SHM_DEFAULT);

    if (mcf->redis != NULL) {
        return ngx_chat_redis_conf_init(mcf->store_at, mcf->redis);
    }

    mcf->zone = ngx_chat_store_shm_add(cf, mcf->shm_size, &ngx_chat_module);
    return mcf->zone ? NGX_OK : NGX_ERROR;
}


/*
 * As NGINX's own, but the refusal names the directive and the choice. A choice
 * that begins with a capital stands for a time of at least its value.
 */
static char *
ngx_chat_conf_enum(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char             choice[128] = "one of: ";
    u_char          *p = (u_char *) choice + 8, *first = p;
    ngx_uint_t      *field = (ngx_uint_t *) ((char *) conf + cmd->offset);
    ngx_int_t        time;
    ngx_str_t       *value = cf->args->elts;
    ngx_conf_enum_t *e;

    if (*field != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    for (e = cmd->post; e->name.len != 0; e++) {
        if (e->name.len == value[1].len
            && ngx_strncmp(e->name.data, value[1].data, e->name.len) == 0)
        {
            *field = e->value;
            return NGX_CONF_OK;
        }

        if (e->name.data[0] < 'a') {
            time = ngx_parse_time(&value[1], 0);

            if (time != NGX_ERROR && time >= (ngx_int_t) e->value) {
                *field = time;
                return NGX_CONF_OK;
            }
        }

        p = ngx_slprintf(p, (u_char *) choice + sizeof(choice) - 1, "%s%V",
                         p == first ? "" : ", ", &e->name);
    }

    return ngx_chat_conf_invalid(cf, &value[1], choice);
}


/* The expression of "chat_tool". An NGINX without PCRE refuses it. */
static char *
ngx_chat_conf_tool_regex(ngx_conf_t *cf, ngx_command_t *cmd,
                         ngx_chat_tool_t *tool)
{
#if (NGX_PCRE)
    u_char              errstr[NGX_MAX_CONF_ERRSTR];
    ngx_str_t          *value = cf->args->elts;
    ngx_regex_compile_t rc;

    ngx_memzero(&rc, sizeof(rc));
    rc.pattern = value[1];
    rc.pool = cf->pool;
    rc.err.len = NGX_MAX_CONF_ERRSTR;
    rc.err.data = errstr;

    if (ngx_regex_compile(&rc) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V in \"%V\"", &rc.err,
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    tool->regex = rc.regex;
    return NGX_CONF_OK;
#else
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" requires an NGINX built with PCRE", &cmd->name);
    return NGX_CONF_ERROR;
#endif
}


static char *
ngx_chat_conf_tool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t           *value = cf->args->elts;
    ngx_chat_tool_t     *tool;
    ngx_chat_loc_conf_t *lcf = conf;

    if (lcf->tools == NULL) {
        lcf->tools = ngx_array_create(cf->pool, 4, sizeof(ngx_chat_tool_t));
    }

    tool = lcf->tools ? ngx_array_push(lcf->tools) : NULL;
    if (tool == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[2].data, "client") == 0) {
        tool->kind = CHAT_KIND_CLIENT;

    } else if (ngx_strcmp(value[2].data, "provider") == 0) {
        tool->kind = CHAT_KIND_PROVIDER;

    } else {
        return ngx_chat_conf_invalid(cf, &value[2], "client or provider");
    }

    return ngx_chat_conf_tool_regex(cf, cmd, tool);
}


static ngx_conf_enum_t ngx_chat_hold_values[] = {
    { ngx_string("off"), NGX_CHAT_HOLD_OFF },
    { ngx_string("auto"), NGX_CHAT_HOLD_AUTO },
    { ngx_string("TIME"), 0 },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_stall_values[] = {
    { ngx_string("off"), 0 },
    { ngx_string("TIME above 0"), 1 },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_repair_values[] = {
    { ngx_string("off"), NGX_CHAT_REPAIR_OFF },
    { ngx_string("settled"), NGX_CHAT_REPAIR_SETTLED },
    { ngx_string("all"), NGX_CHAT_REPAIR_ALL },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_record_values[] = {
    { ngx_string("off"), NGX_CHAT_RECORD_OFF },
    { ngx_string("auto"), NGX_CHAT_RECORD_AUTO },
    { ngx_string("on"), NGX_CHAT_RECORD_ON },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_failure_values[] = {
    { ngx_string("pass"), NGX_CHAT_FAILURE_PASS },
    { ngx_string("deny"), NGX_CHAT_FAILURE_DENY },
    { ngx_null_string, 0 }
};


/* The words of a directive, if it has more than one. */

static const ngx_chat_parameter_t ngx_chat_tenant_words[] = {
    { "", ngx_http_set_complex_value_slot, 0, LOC(tenant), NULL },
    { "scope=VALUE", ngx_http_set_complex_value_slot, 0, LOC(scope), NULL },
    { NULL, NULL, 0, 0, NULL }
};

static const ngx_chat_parameter_t ngx_chat_hold_words[] = {
    { "", ngx_chat_conf_enum, 0, LOC(hold), ngx_chat_hold_values },
    { "grace=TIME", ngx_conf_set_msec_slot, 0, LOC(grace), NULL },
    { "heartbeat=TIME above 0", ngx_conf_set_msec_slot, 1, LOC(heartbeat),
      NULL },
    { NULL, NULL, 0, 0, NULL }
};

static const ngx_chat_parameter_t ngx_chat_record_words[] = {
    { "", ngx_chat_conf_enum, 0, LOC(record), ngx_chat_record_values },
    { "max=SIZE of at least 64k", ngx_conf_set_size_slot,
      NGX_CHAT_RECORD_LEAST, LOC(record_max), NULL },
    { "ttl=TIME of at least 1s", ngx_conf_set_sec_slot, 1, LOC(record_ttl),
      NULL },
    { NULL, NULL, 0, 0, NULL }
};

static const ngx_chat_parameter_t ngx_chat_limits_words[] = {
    { "body=SIZE above 0", ngx_conf_set_size_slot, 1, LOC(max_body), NULL },
    { "event=SIZE above 0", ngx_conf_set_size_slot, 1, LOC(max_event), NULL },
    { "calls=N above 0", ngx_conf_set_num_slot, 1, LOC(max_calls), NULL },
    { "result=SIZE above 0", ngx_conf_set_size_slot, 1, LOC(max_result),
      NULL },
    { "held=N above 0", ngx_conf_set_num_slot, 1, LOC(max_held), NULL },
    { "held_bytes=SIZE above 0", ngx_conf_set_size_slot, 1,
      LOC(max_held_bytes), NULL },
    { NULL, NULL, 0, 0, NULL }
};


static char *
ngx_chat_conf_words(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    return ngx_chat_conf_parameters(cf, 1, cmd->post, conf);
}


/* clang-format off */

#define NGX_CHAT_ANYWHERE                                                     \
    NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF

#define NGX_CHAT_LOC(name, args, set, field, post)                            \
    { ngx_string(name), NGX_CHAT_ANYWHERE | args, set,                        \
      NGX_HTTP_LOC_CONF_OFFSET, offsetof(ngx_chat_loc_conf_t, field), post }

ngx_command_t ngx_chat_commands[] = {

    { ngx_string("chat_store"), NGX_HTTP_MAIN_CONF | NGX_CONF_1MORE,
      ngx_chat_conf_store, NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL },

    NGX_CHAT_LOC("chat", NGX_CONF_TAKE1, ngx_chat_conf_chat, chat, NULL),
    NGX_CHAT_LOC("chat_conversation", NGX_CONF_TAKE1,
                 ngx_http_set_complex_value_slot, conversation, NULL),
    NGX_CHAT_LOC("chat_tenant", NGX_CONF_TAKE12, ngx_chat_conf_words, tenant,
                 (void *) ngx_chat_tenant_words),
    NGX_CHAT_LOC("chat_replay_filter", NGX_CONF_FLAG, ngx_conf_set_flag_slot,
                 replay_filter, NULL),
    NGX_CHAT_LOC("chat_hold", NGX_CONF_TAKE123, ngx_chat_conf_words, hold,
                 (void *) ngx_chat_hold_words),
    NGX_CHAT_LOC("chat_repair", NGX_CONF_TAKE1, ngx_chat_conf_enum,
                 repair, ngx_chat_repair_values),
    NGX_CHAT_LOC("chat_record", NGX_CONF_TAKE123, ngx_chat_conf_words, record,
                 (void *) ngx_chat_record_words),
    NGX_CHAT_LOC("chat_store_failure", NGX_CONF_TAKE1, ngx_chat_conf_enum,
                 failure, ngx_chat_failure_values),
    NGX_CHAT_LOC("chat_stall", NGX_CONF_TAKE1, ngx_chat_conf_enum, stall,
                 ngx_chat_stall_values),
    NGX_CHAT_LOC("chat_tool", NGX_CONF_TAKE2, ngx_chat_conf_tool, tools,
                 NULL),
    { ngx_string("chat_limits"), NGX_CHAT_ANYWHERE | NGX_CONF_1MORE,
      ngx_chat_conf_words, NGX_HTTP_LOC_CONF_OFFSET, 0,
      (void *) ngx_chat_limits_words },

    { ngx_string("chat_results"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS,
      ngx_chat_conf_results, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    { ngx_string("chat_resume"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE12,
      ngx_chat_conf_resume, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    NGX_CHAT_LOC("chat_dry_run", NGX_CONF_FLAG, ngx_conf_set_flag_slot,
                 dry_run, NULL),

    { ngx_string("chat_status"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS,
      ngx_chat_conf_status, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    ngx_null_command
};

/* clang-format on */
