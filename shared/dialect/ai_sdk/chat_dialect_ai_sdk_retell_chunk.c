/*
 * chat_dialect_ai_sdk_retell_chunk.c: which members of a part go into which
 * chunk of a stream.
 *
 * Promises: each member of a chunk is as versions 5 to 7 demand it; one that
 * is not is left out, or with it the chunk where it cannot be missed.
 * Must not know: what is told, and why.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk_retell.h"


/* What a member must be, for a client to take it. */
typedef enum {
    CHAT_CHUNK_STRING,
    CHAT_CHUNK_FLAG,
    CHAT_CHUNK_LIST,
    CHAT_CHUNK_OBJECT,
    CHAT_CHUNK_METADATA, /* an object of objects */
    CHAT_CHUNK_ANY
} chat_chunk_kind_e;

/* Members: from is the part's key, to the chunk's. */
static const struct {
    const char       *from;
    const char       *to;
    chat_chunk_kind_e kind;
    unsigned          chunks;
    unsigned          must; /* chunks that are not made without it */
} chat_chunk_members[] = {
    { "id", "approvalId", CHAT_CHUNK_STRING, CHAT_CHUNK_ASK, CHAT_CHUNK_ASK },
    { "descriptor", "approvalDescriptor", CHAT_CHUNK_ANY, CHAT_CHUNK_ASK, 0 },
    { "inputSchemaInput", "inputSchemaInput", CHAT_CHUNK_ANY, CHAT_CHUNK_ASK,
      0 },
    { "requestReason", "reason", CHAT_CHUNK_STRING, CHAT_CHUNK_ASK, 0 },
    { "isAutomatic", "isAutomatic", CHAT_CHUNK_FLAG, CHAT_CHUNK_ASK, 0 },
    { "signature", "signature", CHAT_CHUNK_STRING, CHAT_CHUNK_ASK, 0 },
    { "input", "input", CHAT_CHUNK_ANY, CHAT_CHUNK_READY, 0 },
    { "rawInput", "input", CHAT_CHUNK_ANY, CHAT_CHUNK_WRONG,
      CHAT_CHUNK_WRONG },
    { "output", "output", CHAT_CHUNK_ANY, CHAT_CHUNK_OK, 0 },
    { "errorText", "errorText", CHAT_CHUNK_STRING,
      CHAT_CHUNK_WRONG | CHAT_CHUNK_ERROR,
      CHAT_CHUNK_WRONG | CHAT_CHUNK_ERROR },
    { "preliminary", "preliminary", CHAT_CHUNK_FLAG, CHAT_CHUNK_OK, 0 },
    { "providerExecuted", "providerExecuted", CHAT_CHUNK_FLAG,
      CHAT_CHUNK_CALL | CHAT_CHUNK_RESULT, 0 },
    { "toolMetadata", "toolMetadata", CHAT_CHUNK_OBJECT, CHAT_CHUNK_CALL, 0 },
    { "callProviderMetadata", "providerMetadata", CHAT_CHUNK_METADATA,
      CHAT_CHUNK_START | CHAT_CHUNK_READY, 0 },
    { "resultProviderMetadata", "providerMetadata", CHAT_CHUNK_METADATA,
      CHAT_CHUNK_RESULT, 0 },
    { "text", "delta", CHAT_CHUNK_STRING, CHAT_CHUNK_DELTA, CHAT_CHUNK_DELTA },
    { "citations", "citations", CHAT_CHUNK_LIST, CHAT_CHUNK_END, 0 },
    { "sourceId", "sourceId", CHAT_CHUNK_STRING,
      CHAT_CHUNK_URL | CHAT_CHUNK_DOCUMENT,
      CHAT_CHUNK_URL | CHAT_CHUNK_DOCUMENT },
    { "url", "url", CHAT_CHUNK_STRING, CHAT_CHUNK_FILE | CHAT_CHUNK_URL,
      CHAT_CHUNK_FILE | CHAT_CHUNK_URL },
    { "mediaType", "mediaType", CHAT_CHUNK_STRING,
      CHAT_CHUNK_FILE | CHAT_CHUNK_DOCUMENT,
      CHAT_CHUNK_FILE | CHAT_CHUNK_DOCUMENT },
    { "title", "title", CHAT_CHUNK_STRING,
      CHAT_CHUNK_CALL | CHAT_CHUNK_URL | CHAT_CHUNK_DOCUMENT,
      CHAT_CHUNK_DOCUMENT },
    { "filename", "filename", CHAT_CHUNK_STRING, CHAT_CHUNK_DOCUMENT, 0 },
    { "kind", "kind", CHAT_CHUNK_STRING, CHAT_CHUNK_CUSTOM,
      CHAT_CHUNK_CUSTOM },
    { "id", "id", CHAT_CHUNK_STRING, CHAT_CHUNK_STEERING | CHAT_CHUNK_DATA,
      CHAT_CHUNK_STEERING },
    { "parts", "parts", CHAT_CHUNK_LIST, CHAT_CHUNK_STEERING,
      CHAT_CHUNK_STEERING },
    { "data", "data", CHAT_CHUNK_ANY, CHAT_CHUNK_DATA, 0 },
    { "providerMetadata", "providerMetadata", CHAT_CHUNK_METADATA,
      CHAT_CHUNK_AGAIN | CHAT_CHUNK_BEGIN | CHAT_CHUNK_FILE | CHAT_CHUNK_URL
          | CHAT_CHUNK_DOCUMENT | CHAT_CHUNK_CUSTOM,
      0 },
};


static int
chat_chunk_fits(const chat_json_t *node, chat_chunk_kind_e kind)
{
    const chat_json_t *member;

    switch (kind) {
    case CHAT_CHUNK_STRING:
        return node->type == CHAT_JSON_STRING;
    case CHAT_CHUNK_FLAG:
        return node->type == CHAT_JSON_TRUE || node->type == CHAT_JSON_FALSE;
    case CHAT_CHUNK_LIST:
        return node->type == CHAT_JSON_ARRAY;
    case CHAT_CHUNK_METADATA:
        for (member = node->child; member != NULL; member = member->next) {
            if (member->type != CHAT_JSON_OBJECT) {
                return 0;
            }
        }
        /* fall through */
    case CHAT_CHUNK_OBJECT:
        return node->type == CHAT_JSON_OBJECT;
    default:
        return 1;
    }
}


int
chat_ai_sdk_chunk_has(chat_json_doc_t *doc, const chat_json_t *part,
                      unsigned chunk)
{
    size_t             i;
    const chat_json_t *node;

    for (i = 0; i < sizeof(chat_chunk_members) / sizeof(chat_chunk_members[0]);
         i++)
    {
        if (chat_chunk_members[i].must & chunk) {
            node = chat_json_get(doc, part, chat_chunk_members[i].from);

            if (node == NULL
                || !chat_chunk_fits(node, chat_chunk_members[i].kind)) {
                return 0;
            }
        }
    }

    return 1;
}


void
chat_ai_sdk_chunk_begin(const char *type, chat_buf_t *out)
{
    chat_buf_printf(out, "data: {\"type\":\"%s\"", type);
}


void
chat_ai_sdk_chunk_end(chat_json_doc_t *doc, const chat_json_t *part,
                      unsigned chunk, chat_buf_t *out)
{
    size_t             i;
    const chat_json_t *node;

    for (i = 0; i < sizeof(chat_chunk_members) / sizeof(chat_chunk_members[0]);
         i++)
    {
        if ((chat_chunk_members[i].chunks & chunk) == 0) {
            continue;
        }

        node = chat_json_get(doc, part, chat_chunk_members[i].from);

        if (node != NULL && chat_chunk_fits(node, chat_chunk_members[i].kind))
        {
            chat_buf_printf(out, ",\"%s\":", chat_chunk_members[i].to);
            chat_buf_one_line(out, chat_json_raw(doc, node));
        }
    }

    chat_buf_puts(out, "}\n\n");
}
