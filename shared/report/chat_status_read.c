/*
 * chat_status_read.c: the numbers in another node's JSON.
 *
 * The other node may run another version: what is missing counts as 0, what
 * is not known is passed over. Must not know: where the text came from.
 */

#include "report/chat_status.h"
#include "json/chat_json.h"


typedef struct {
    chat_json_doc_t doc;
    chat_json_t    *at; /* the object that is being read */
} chat_status_reader_t;


/* A number above 0 in units of 1/scale, as far as it has so many digits. */
static uint64_t
chat_status_number(chat_status_reader_t *reader, const char *key,
                   unsigned scale)
{
    size_t       i;
    uint64_t     n = 0;
    chat_str_t   text;
    chat_json_t *node = chat_json_get(&reader->doc, reader->at, key);

    if (node == NULL || node->type != CHAT_JSON_NUMBER) {
        return 0;
    }

    text = chat_json_raw(&reader->doc, node);

    for (i = 0; i < text.len && text.data[i] != '.'; i++) {
        if (text.data[i] < '0' || text.data[i] > '9'
            || n > UINT64_MAX / 100 / scale) {
            return 0;
        }
        n = 10 * n + (text.data[i] - '0');
    }

    for (i++, n *= scale; i < text.len && scale > 1; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return 0;
        }
        scale /= 10;
        n += (uint64_t) (text.data[i] - '0') * scale;
    }

    return n;
}


/* The reader at a member of where it is. */
static chat_status_reader_t
chat_status_at(const chat_status_reader_t *reader, const char *key)
{
    chat_status_reader_t inner = *reader;

    inner.at = chat_json_get(&inner.doc, reader->at, key);
    return inner;
}


static void
chat_status_read_counters(const chat_status_reader_t *reader,
                          chat_metrics_t             *m)
{
    size_t               i, k;
    const char          *name;
    chat_status_reader_t requests, turns, cuts, counts, one;

    counts = chat_status_at(reader, "counters");
    requests = chat_status_at(&counts, "requests");
    turns = chat_status_at(&counts, "turns");
    cuts = chat_status_at(&counts, "interruptions");

    for (i = 0; i <= chat_metrics_dialects(); i++) {
        name = chat_metrics_dialect_name(i);
        one = chat_status_at(&requests, name);

        for (k = 0; k < CHAT_METRICS_VERDICTS; k++) {
            m->requests[i][k] =
                chat_status_number(&one, chat_verdict_names[k], 1);
        }

        one = chat_status_at(&turns, name);

        for (k = 0; k < CHAT_METRICS_ENDS; k++) {
            m->turns[i][k] = chat_status_number(
                &one, chat_end_name((chat_end_e) (k + 1)), 1);
        }
    }

    for (k = 0; k < CHAT_CUTS; k++) {
        m->cuts[k] = chat_status_number(&cuts, chat_cut_names[k], 1);
    }

    for (k = 0; k < CHAT_COUNTS; k++) {
        m->counts[k] = chat_status_number(&counts, chat_count_names[k], 1);
    }
}


/* Buckets of another version may have other bounds: then the sum alone. */
static void
chat_status_read_timing(chat_status_reader_t *reader, chat_timing_t *timing)
{
    size_t       i;
    uint64_t     n, before = 0, count;
    chat_str_t   text;
    chat_json_t *node;

    count = chat_status_number(reader, "count", 1);
    timing->sum = chat_status_number(reader, "sum", 1000000);
    node = chat_json_get(&reader->doc, reader->at, "counts");

    if (node == NULL || node->type != CHAT_JSON_ARRAY
        || chat_json_count(node) != CHAT_METRICS_BUCKETS)
    {
        timing->buckets[CHAT_METRICS_BUCKETS] = count;
        return;
    }

    for (i = 0, node = node->child; node != NULL; i++, node = node->next) {
        text = chat_json_raw(&reader->doc, node);

        for (n = 0; text.len != 0 && text.data[0] >= '0' && text.data[0] <= '9'
                    && n < UINT64_MAX / 100;
             text = chat_str(text.data + 1, text.len - 1))
        {
            n = 10 * n + (text.data[0] - '0');
        }

        timing->buckets[i] = n > before ? n - before : 0;
        before = n > before ? n : before;
    }

    timing->buckets[CHAT_METRICS_BUCKETS] =
        count > before ? count - before : 0;
}


static void
chat_status_read_node(chat_status_reader_t *reader, chat_metrics_t *m,
                      chat_node_t *node)
{
    size_t               i;
    chat_str_t           text;
    chat_status_reader_t store;

    text = chat_json_string(&reader->doc,
                            chat_json_get(&reader->doc, reader->at, "node"));
    text.len = text.len < CHAT_STATUS_NODE ? text.len : CHAT_STATUS_NODE;
    node->len = (unsigned char) text.len;

    if (text.len != 0) {
        memcpy(node->name, text.data, text.len);
    }

    store = chat_status_at(reader, "store");
    text = chat_json_string(&store.doc,
                            chat_json_get(&store.doc, store.at, "state"));

    for (i = 0; i < 2 && !chat_str_is(text, chat_store_state_names[i]); i++) {
        /* void */
    }

    m->workers = chat_status_number(reader, "workers", 1);
    m->stores[i] = m->workers;
    node->state = (unsigned char) i;
    node->workers = (uint32_t) m->workers;
    node->holds = m->holds;
}


chat_rc_e
chat_status_read(chat_str_t text, chat_arena_t *arena, chat_metrics_t *m,
                 chat_node_t *node)
{
    size_t               i;
    chat_rc_e            rc;
    chat_status_reader_t reader, holds, records, timings, one;

    memset(m, 0, sizeof(*m));
    memset(node, 0, sizeof(*node));
    memset(&reader, 0, sizeof(reader));

    rc = chat_json_parse(&reader.doc, arena, text);
    if (rc != CHAT_OK) {
        return rc;
    }

    reader.at = reader.doc.root;
    if (reader.at->type != CHAT_JSON_OBJECT) {
        return CHAT_BAD;
    }

    holds = chat_status_at(&reader, "holds");
    m->holds = chat_status_number(&holds, "now", 1);
    node->oldest = chat_status_number(&holds, "oldest_ms", 1);
    records = chat_status_at(&reader, "records");
    m->streams = chat_status_number(&records, "streams", 1);
    m->bytes = chat_status_number(&records, "bytes", 1);
    m->followers = chat_status_number(&records, "followers", 1);

    chat_status_read_node(&reader, m, node);
    chat_status_read_counters(&reader, m);
    timings = chat_status_at(&reader, "histograms");

    for (i = 0; i < CHAT_TIMINGS; i++) {
        one = chat_status_at(&timings, chat_timing_names[i]);
        chat_status_read_timing(&one, &m->timings[i]);
    }

    return CHAT_OK;
}
