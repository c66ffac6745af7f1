/*
 * laws_bytes.c: fields, values and payloads may be any bytes, of any length.
 *
 * Each case is one fact: a join and payloads() must return it byte for byte.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_LONG 65536
#define LAW_PAYLOAD (1024 * 1024)


/* size bytes in which every byte and no short period occurs. */
static u_char *
law_bytes(size_t size, ngx_uint_t seed)
{
    size_t  i;
    u_char *bytes = ngx_alloc(size, ngx_cycle->log);

    if (bytes == NULL) {
        abort();
    }

    for (i = 0; i < size; i++) {
        bytes[i] = (u_char) (i * 7 + i / 256 + i / 65536 + seed);
    }

    return bytes;
}


static void
law_expect_back(ngx_chat_law_t *law, const chat_fact_t *fact,
                ngx_uint_t payload)
{
    const chat_fact_t *back = ngx_chat_law_find(law, 0, fact->field);

    ngx_chat_law_check(law, law->ops[0].rc == CHAT_OK, "it is not answered");

    if (back == NULL) {
        ngx_chat_law_fail(law, "there is no fact of this field");
        return;
    }

    ngx_chat_law_check(law, chat_str_eq(back->value, fact->value),
                       "it has another value");
    ngx_chat_law_check(law, !back->has_payload == !fact->has_payload,
                       "has_payload is not as it was put");
    ngx_chat_law_check(law,
                       !payload || chat_str_eq(back->payload, fact->payload),
                       "it has another payload");
}


/* Puts the fact, reads it, asks for its payload. */
static void
law_there_and_back(ngx_chat_law_t *law, ngx_uint_t step,
                   const chat_fact_t *fact)
{
    chat_fact_t copy = *fact;

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 1, 0, "a=1");
        ngx_chat_law_join_facts(law, 0, 0, fact, 1);
        break;
    case 1:
        law_expect_back(law, fact, 0);
        copy.value = chat_cstr("another");
        ngx_chat_law_join_facts(law, 0, 0, &copy, 1);
        break;
    case 2:
        law_expect_back(law, fact, 0);
        ngx_chat_law_check(law, law->ops[0].n == 2, "there are other facts");
        ngx_chat_law_payloads_of(law, 0, 0, fact, 1);
        break;
    default:
        if (fact->has_payload) {
            law_expect_back(law, fact, 1);
        }
        ngx_chat_law_check(law,
                           law->ops[0].n == (size_t) (fact->has_payload != 0),
                           "payloads() does not answer just those");
        ngx_chat_law_end(law);
    }
}


static void
law_any_bytes(ngx_chat_law_t *law, ngx_uint_t step)
{
    u_char     *bytes = law_bytes(3 * 256, 0);
    chat_fact_t fact;

    fact.field = chat_str(bytes, 256);
    fact.value = chat_str(bytes + 256, 256);
    fact.payload = chat_str(bytes + 512, 256);
    fact.has_payload = 1;
    law_there_and_back(law, step, &fact);
    ngx_free(bytes);
}


/* Bytes with a meaning in some protocol. */
static void
law_awkward_bytes(ngx_chat_law_t *law, ngx_uint_t step)
{
    static const char field[] = "result/a\0b\r\n$3\r\n*1 {x}/../%s%n\"'\\";
    static const char value[] =
        "\r\n+OK\r\n\0-ERR :1 \xc3\xa9\xe2\x82\xac\xff";
    static const char payload[] =
        "\0\0\r\n\r\n{\"a\":\"\\u0000\"} \xf0\x9f\x98";
    chat_fact_t fact;

    fact.field = chat_str(field, sizeof(field) - 1);
    fact.value = chat_str(value, sizeof(value) - 1);
    fact.payload = chat_str(payload, sizeof(payload) - 1);
    fact.has_payload = 1;
    law_there_and_back(law, step, &fact);
}


static void
law_long_strings(ngx_chat_law_t *law, ngx_uint_t step)
{
    u_char     *bytes = law_bytes(2 * LAW_LONG, 3);
    chat_fact_t fact;

    ngx_memzero(&fact, sizeof(fact));
    fact.field = chat_str(bytes, LAW_LONG);
    fact.value = chat_str(bytes + LAW_LONG, LAW_LONG);
    law_there_and_back(law, step, &fact);
    ngx_free(bytes);
}


static void
law_long_payload(ngx_chat_law_t *law, ngx_uint_t step)
{
    u_char     *bytes = law_bytes(LAW_PAYLOAD, 5);
    chat_fact_t fact;

    fact.field = chat_cstr("result/x");
    fact.value = chat_cstr("o");
    fact.payload = chat_str(bytes, LAW_PAYLOAD);
    fact.has_payload = 1;
    law_there_and_back(law, step, &fact);
    ngx_free(bytes);
}


static void
law_empty_strings(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_fact_t fact;

    ngx_memzero(&fact, sizeof(fact));
    fact.field = chat_cstr("seal");
    fact.has_payload = 1;
    law_there_and_back(law, step, &fact);
}


/* One is a prefix of another, or differs in its last byte. */
static void
law_like_fields(ngx_chat_law_t *law, ngx_uint_t step)
{
    static const chat_fact_t facts[] = {
        { CHAT_STR("a"), CHAT_STR("1"), CHAT_STR("p"), 1 },
        { CHAT_STR("a\0"), CHAT_STR("2"), CHAT_STR("q"), 1 },
        { CHAT_STR("a\0b"), CHAT_STR("3"), CHAT_STR("r"), 1 },
        { CHAT_STR("a\0c"), CHAT_STR("4"), CHAT_STR("s"), 1 },
        { CHAT_STR("A"), CHAT_STR("5"), CHAT_STR("t"), 1 },
        { CHAT_STR(" a"), CHAT_STR("6"), CHAT_STR("u"), 1 },
    };
    const size_t n = sizeof(facts) / sizeof(facts[0]);
    size_t       i;

    switch (step) {
    case 0:
        ngx_chat_law_join_facts(law, 0, 0, facts, n);
        break;
    case 1:
        for (i = 0; i < n; i++) {
            law_expect_back(law, &facts[i], 0);
        }
        ngx_chat_law_payloads_of(law, 0, 0, facts, n);
        break;
    default:
        for (i = 0; i < n; i++) {
            law_expect_back(law, &facts[i], 1);
        }
        ngx_chat_law_check(law, law->ops[0].n == n, "there are other facts");
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_bytes[] = {
    { "every-byte-in-field-value-and-payload", law_any_bytes, 0 },
    { "bytes-that-mean-something-to-protocols", law_awkward_bytes, 0 },
    { "fields-and-values-of-64-kb", law_long_strings, 0 },
    { "a-payload-of-1-mb", law_long_payload, 0 },
    { "an-empty-value-and-an-empty-payload", law_empty_strings, 0 },
    { "fields-that-are-alike-are-not-the-same", law_like_fields, 0 },
    { NULL, NULL, 0 }
};
