/*
 * fuzz_status.c: any counters and any id in the status of a node.
 *
 * The last bytes of the input are an id as a client may choose it, the others
 * are counters. The output is JSON, and the Prometheus text has no byte that
 * ends a line early.
 */

#include "json/chat_json.h"
#include "report/chat_status.h"
#include "fuzz.h"

#define FUZZ_ID 20
#define FUZZ_SIZE 16384


static void
fuzz_lines(chat_str_t text)
{
    size_t i, start = 0;

    for (i = 0; i < text.len; i++) {
        if (text.data[i] == '\n') {
            NEED(i - start > 10);
            NEED(memcmp(text.data + start, "# HELP nginx_chat_", 10) == 0
                 || memcmp(text.data + start, "# TYPE nginx_chat_", 10) == 0
                 || memcmp(text.data + start, "nginx_chat_", 10) == 0);
            start = i + 1;
        }
    }

    NEED(start == text.len);
}


static void
fuzz_write(const chat_metrics_t *metrics, chat_str_t id)
{
    chat_buf_t          out = { 0 }, text = { 0 };
    chat_status_batch_t batch;
    chat_arena_t       *arena = chat_arena_create(0);
    chat_status_t       status;
    chat_json_doc_t     doc;
    chat_log_event_t    event;

    memset(&status, 0, sizeof(status));
    memset(&batch, 0, sizeof(batch));
    memset(&event, 0, sizeof(event));
    status.version = status.nginx = status.node = id;
    status.store = "redis";
    status.metrics = *metrics;
    status.batches = &batch;
    status.events = &event;
    status.nbatches = status.nevents = 1;

    chat_short(&batch.conversation, id);
    NEED(batch.conversation.len <= CHAT_SHORT);
    batch.members[0].id = event.conversation = batch.conversation;
    batch.nmembers = (uint32_t) id.len;
    batch.state = batch.dialect = event.what = event.dialect =
        id.len ? id.data[0] : 0;
    memset(event.detail, id.len ? id.data[0] : 0, sizeof(event.detail) - 1);

    chat_status_json(&status, &out);
    NEED(chat_json_parse(&doc, arena, chat_buf_str(&out)) == CHAT_OK);

    chat_status_prometheus(&status, &text);
    fuzz_lines(chat_buf_str(&text));

    chat_buf_free(&out);
    chat_buf_free(&text);
    chat_arena_destroy(arena);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t         len = size > FUZZ_ID ? FUZZ_ID : size;
    chat_metrics_t metrics;
    unsigned char *id;

    if (size > FUZZ_SIZE) {
        return 0;
    }

    memset(&metrics, 0, sizeof(metrics));
    id = malloc(len + 1);
    NEED(id != NULL);

    if (len != 0) {
        memcpy(id, data + size - len, len);
        memcpy(&metrics, data,
               size - len < sizeof(metrics) ? size - len : sizeof(metrics));
    }

    fuzz_write(&metrics, chat_str(id, len));
    free(id);

    return 0;
}
