/*
 * known_calls.h: the calls of a stream that its client must answer, read in a
 * simple way from the whole text, independently of the module.
 *
 * No dialect's reader is used: for Responses the list in the last frame, for
 * the others the calls that a client assembles from the pieces.
 */

#ifndef KNOWN_CALLS_H
#define KNOWN_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/chat_event.h"
#include "json/chat_json.h"

#define KNOWN_MAX 64

typedef struct {
    char       id[256];
    char       name[256];
    chat_buf_t args;
    int        approval;
    int64_t    key; /* key of its pieces; -1: complete */
} known_call_t;

typedef struct {
    known_call_t calls[KNOWN_MAX];
    size_t       count;
} known_calls_t;


static inline known_call_t *
known_add(known_calls_t *known, int64_t key)
{
    known_call_t *call = &known->calls[known->count++];

    assert_true(known->count <= KNOWN_MAX);
    memset(call, 0, sizeof(*call));
    call->key = key;
    return call;
}


static inline void
known_free(known_calls_t *known)
{
    while (known->count > 0) {
        chat_buf_free(&known->calls[--known->count].args);
    }
}


/* The member key of a node, as text; a string without its quotes. */
static inline chat_str_t
known_text(chat_json_doc_t *doc, const chat_json_t *node, const char *key)
{
    const chat_json_t *member = chat_json_get(doc, node, key);

    return member != NULL && member->type == CHAT_JSON_STRING
               ? chat_json_string(doc, member)
               : chat_json_raw(doc, member);
}


static inline void
known_copy(char *to, size_t room, chat_str_t text)
{
    assert_true(text.len < room);
    if (text.len != 0) {
        memcpy(to, text.data, text.len);
    }
    to[text.len] = '\0';
}


static inline void
known_responses(known_calls_t *known, chat_json_doc_t *doc)
{
    size_t             i;
    known_call_t      *call;
    const chat_json_t *item, *args;

    static const struct {
        const char *type;
        const char *id;
        const char *args;
        const char *core;
    } types[] = {
        { "function_call", "call_id", "arguments", NULL },
        { "custom_tool_call", "call_id", "input", NULL },
        { "local_shell_call", "call_id", "action", "command" },
        { "shell_call", "call_id", "action", "commands" },
        { "apply_patch_call", "call_id", "operation", NULL },
        { "computer_call", "call_id", "action", NULL },
        { "tool_search_call", "call_id", "arguments", NULL },
        { "mcp_approval_request", "id", "arguments", NULL },
    };

    if (!chat_str_is(known_text(doc, doc->root, "type"), "response.completed"))
    {
        return;
    }

    item = chat_json_get(doc, chat_json_get(doc, doc->root, "response"),
                         "output");

    for (item = item ? item->child : NULL; item != NULL; item = item->next) {
        for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            if (!chat_str_is(known_text(doc, item, "type"), types[i].type)
                || chat_json_get(doc, chat_json_get(doc, item, "environment"),
                                 "container_id")
                || chat_str_is(known_text(doc, item, "execution"), "server"))
            {
                continue;
            }

            call = known_add(known, -1);
            call->approval = types[i].id[0] == 'i';
            known_copy(call->id, sizeof(call->id),
                       known_text(doc, item, types[i].id));
            known_copy(call->name, sizeof(call->name),
                       chat_json_get(doc, item, "name")
                           ? known_text(doc, item, "name")
                           : chat_cstr(types[i].type));
            args =
                types[i].core ? chat_json_get(doc, item, types[i].args) : item;
            chat_buf_add(
                &call->args,
                known_text(doc, args,
                           types[i].core ? types[i].core : types[i].args));
        }
    }
}


/* The call that pieces with this key belong to, or NULL. */
static inline known_call_t *
known_find(known_calls_t *known, int64_t key)
{
    size_t i;

    for (i = known->count; i > 0; i--) {
        if (known->calls[i - 1].key == key) {
            return &known->calls[i - 1];
        }
    }

    return NULL;
}


static inline void
known_chat(known_calls_t *known, chat_json_doc_t *doc)
{
    int64_t            key;
    chat_str_t         id;
    known_call_t      *call;
    const chat_json_t *choice, *entry, *function;

    choice = chat_json_get(doc, doc->root, "choices");

    for (choice = choice ? choice->child : NULL; choice != NULL;
         choice = choice->next)
    {
        entry = chat_json_get(doc, chat_json_get(doc, choice, "delta"),
                              "tool_calls");

        for (entry = entry ? entry->child : NULL; entry != NULL;
             entry = entry->next) {
            key = chat_json_index(doc, chat_json_get(doc, entry, "index"));
            function = chat_json_get(doc, entry, "function");
            id = known_text(doc, entry, "id");
            call = known_find(known, key);

            if (call == NULL) {
                call = known_add(known, key);
                known_copy(call->id, sizeof(call->id), id);
                known_copy(call->name, sizeof(call->name),
                           known_text(doc, function, "name"));
            }
            chat_buf_add(&call->args, known_text(doc, function, "arguments"));
        }
    }
}


static inline void
known_anthropic(known_calls_t *known, chat_json_doc_t *doc)
{
    int64_t            key;
    known_call_t      *call;
    const chat_json_t *block;

    key = chat_json_index(doc, chat_json_get(doc, doc->root, "index"));
    block = chat_json_get(doc, doc->root, "content_block");

    if (block != NULL
        && chat_str_is(known_text(doc, block, "type"), "tool_use")) {
        call = known_add(known, key);
        known_copy(call->id, sizeof(call->id), known_text(doc, block, "id"));
        known_copy(call->name, sizeof(call->name),
                   known_text(doc, block, "name"));
        return;
    }

    /* another kind of block, or another message, may use the number again */
    if (block != NULL) {
        call = known_find(known, key);
        if (call != NULL) {
            call->key = -1;
        }
        return;
    }

    block = chat_json_get(doc, doc->root, "delta");
    call = known_find(known, key);
    if (key >= 0 && call != NULL) {
        chat_buf_add(&call->args, known_text(doc, block, "partial_json"));
    }
}


/* Without ids, by position; pieces: the arguments stay open. */
static inline void
known_gemini(known_calls_t *known, chat_json_doc_t *doc)
{
    chat_str_t         path;
    known_call_t      *call;
    const chat_json_t *part, *function, *piece;

    part = chat_json_get(doc, doc->root, "candidates");
    part = chat_json_get(doc, part ? part->child : NULL, "content");
    part = chat_json_get(doc, part, "parts");

    for (part = part ? part->child : NULL; part != NULL; part = part->next) {
        function = chat_json_get(doc, part, "functionCall");

        if (chat_json_get(doc, function, "name") != NULL) {
            call = known_add(known, 0);
            (void) snprintf(call->id, sizeof(call->id), "part:0.%u",
                            (unsigned) known->count - 1);
            known_copy(call->name, sizeof(call->name),
                       known_text(doc, function, "name"));
            chat_buf_add(&call->args, known_text(doc, function, "args"));
        }

        /* the recordings have one argument, a string */
        piece = chat_json_get(doc, function, "partialArgs");
        call = known_find(known, 0);
        if (piece == NULL || call == NULL) {
            continue;
        }

        piece = piece->child;
        call->args.len -= call->args.len ? 2 : 0;
        if (call->args.len == 0) {
            chat_buf_puts(&call->args, "{\"");
            path = known_text(doc, piece, "jsonPath");
            chat_buf_add(&call->args, chat_str(path.data + 2, path.len - 2));
            chat_buf_puts(&call->args, "\":\"");
        }
        chat_buf_add(&call->args, known_text(doc, piece, "stringValue"));
        chat_buf_puts(&call->args, "\"}");
    }
}


/* Reads the calls of a whole stream. */
static inline void
known_read(known_calls_t *known, const char *dialect, chat_str_t text)
{
    size_t               i, len;
    chat_arena_t        *arena = chat_arena_create(0);
    const unsigned char *line = text.data, *end;
    chat_json_doc_t      doc;

    static const struct {
        const char *dialect;
        void (*read)(known_calls_t *known, chat_json_doc_t *doc);
    } readers[] = {
        { "openai_chat", known_chat },
        { "openai_responses", known_responses },
        { "anthropic", known_anthropic },
        { "gemini", known_gemini },
    };

    for (i = 0; strcmp(readers[i].dialect, dialect) != 0; i++) {
        assert_true(i + 1 < sizeof(readers) / sizeof(readers[0]));
    }

    memset(known, 0, sizeof(*known));

    for (/* void */; line < text.data + text.len; line = end + 1) {
        len = text.len - (size_t) (line - text.data);
        end = memchr(line, '\n', len);
        end = end ? end : text.data + text.len;
        len = (size_t) (end - line);

        if (len < 5 || memcmp(line, "data:", 5) != 0) {
            continue;
        }

        chat_arena_reset(arena);
        if (chat_json_parse(&doc, arena, chat_str(line + 5, len - 5))
            != CHAT_OK) {
            continue;
        }

        readers[i].read(known, &doc);
    }

    chat_arena_destroy(arena);
}


#endif /* KNOWN_CALLS_H */
