/*
 * chat_dialect_anthropic.h: what the files of this dialect share.
 *
 * chat_dialect_anthropic.c has the table and what the module says itself,
 * _body.c and _step.c read requests, _splice.c completes them, _stream.c reads
 * and edits answers. Nobody else includes this file.
 */

#ifndef CHAT_DIALECT_ANTHROPIC_H
#define CHAT_DIALECT_ANTHROPIC_H

#include "dialect/chat_dialect.h"

#define CHAT_ANTHROPIC_CALLS 1024 /* of one step; bounds the matching */

/* A call of the message that is being read. */
typedef struct {
    chat_call_t        call;
    const chat_json_t *block;
    const chat_json_t *result; /* its tool_result, or NULL */
} chat_anthropic_call_t;

typedef struct {
    chat_json_doc_t       *doc;
    chat_arena_t          *arena;
    chat_request_t        *rq;
    const chat_json_t     *messages;
    const chat_json_t     *fresh;    /* the last message with new content */
    const chat_json_t     *last;     /* the last assistant message */
    const chat_json_t     *answered; /* the one that the body answers */
    chat_turn_t            turn;
    chat_anthropic_call_t *calls;
    size_t                 count;
    size_t                 size;
    chat_twins_t           ids;         /* of the members of those calls */
    unsigned               current : 1; /* in the current turn */
} chat_anthropic_body_t;

/* An assistant message: a step, if it has calls and they are of interest. */
chat_rc_e chat_anthropic_step(chat_anthropic_body_t *r,
                              const chat_json_t     *message);

/* What a tool_result says: outcome, payload and digest. */
chat_rc_e chat_anthropic_result(chat_anthropic_body_t *r,
                                const chat_json_t *result, chat_call_t *call);

/* Members of the table; chat_dialect.h says what they promise. */
chat_rc_e chat_anthropic_request(chat_json_doc_t *doc, chat_arena_t *arena,
                                 chat_request_t *rq);
chat_rc_e chat_anthropic_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                                const chat_result_t *results, size_t n,
                                chat_edits_t *edits);
void     *chat_anthropic_open(chat_arena_t *arena, const chat_request_t *rq);
int       chat_anthropic_boring(void *data, const chat_frame_t *frame);
int       chat_anthropic_idle(const chat_frame_t *frame);
chat_rc_e chat_anthropic_read(void *reader, const chat_frame_t *frame);

/*
 * 1 if a content block is a call: tool_use is the client's to answer, all
 * other types that end in _tool_use are executed on the server side.
 */
int chat_anthropic_call(chat_json_doc_t *doc, const chat_json_t *block,
                        chat_kind_e *kind);

/* The first block of a message's content; NULL where it is no array. */
const chat_json_t *chat_anthropic_blocks(chat_json_doc_t   *doc,
                                         const chat_json_t *message);

/* 1 if this is a message of the role, or a block of the type. */
int chat_anthropic_role(chat_json_doc_t *doc, const chat_json_t *message,
                        const char *role);
int chat_anthropic_type(chat_json_doc_t *doc, const chat_json_t *block,
                        const char *type);

#endif /* CHAT_DIALECT_ANTHROPIC_H */
