/*
 * chat_dialect_openai_chat.h: what the files of this dialect share.
 *
 * chat_dialect_openai_chat.c has the table and what the module says itself,
 * _body.c reads requests, _splice.c completes them, _stream.c and _calls.c
 * read answers and _edit.c takes calls out of them. Nobody else includes this.
 */

#ifndef CHAT_DIALECT_OPENAI_CHAT_H
#define CHAT_DIALECT_OPENAI_CHAT_H

#include "dialect/chat_dialect.h"

/* The slot of a call is (choice << 16) | index; higher ones are skipped. */
#define CHAT_COMPLETIONS_CHOICES 128
#define CHAT_COMPLETIONS_INDEXES 0xffff
#define CHAT_COMPLETIONS_LEGACY 0xffff /* the older function_call */

typedef struct {
    uint32_t    slot;
    chat_kind_e kind;
    chat_str_t  id;
    chat_str_t  name;
    uint32_t    depth;       /* of the arguments so far */
    unsigned    string : 1;  /* they are within a string */
    unsigned    escaped : 1; /* and behind a backslash there */
    unsigned    whole : 1;   /* they are a value to its end */
    unsigned    ready : 1;
} chat_completions_call_t;

/* The calls of a choice, but for the older function_call. */
typedef struct {
    chat_table_t ids;    /* number: the newest call of this id, from 1 on */
    size_t       newest; /* call, from 1 on */
    uint32_t     next;   /* slot behind all of them */
} chat_completions_calls_t;

/* A choice of the stream, by what it has shown so far. */
typedef enum {
    CHAT_CHOICE_UNSEEN, /* awaits its first chunk, then OPEN */
    CHAT_CHOICE_OPEN,   /* awaits its finish_reason, then DONE */
    CHAT_CHOICE_DONE    /* nothing more is awaited */
} chat_choice_e;

typedef struct {
    chat_arena_t             *arena;  /* of the stream */
    chat_events_t            *events; /* of the frame */
    chat_json_doc_t          *doc;
    chat_completions_call_t  *calls;
    size_t                    count;
    size_t                    size;
    size_t                    opened;
    chat_completions_calls_t *of[CHAT_COMPLETIONS_CHOICES]; /* or NULL */
    unsigned char             choices[CHAT_COMPLETIONS_CHOICES];
    unsigned                  open : 1; /* a chunk was seen */
    unsigned                  cut : 1;  /* by a limit or a filter */
    int                       ended;    /* an end was told */
} chat_completions_stream_t;

/* The events of the calls in one choice of a chunk. */
chat_rc_e chat_openai_chat_delta(chat_completions_stream_t *state,
                                 uint32_t choice, const chat_json_t *delta);

/* CALL_READY of all open calls of the choice: it has come to its end. */
chat_rc_e chat_openai_chat_ready(chat_completions_stream_t *state,
                                 uint32_t                   choice);

/* Members of the table; chat_dialect.h says what they promise. */
chat_rc_e chat_openai_chat_request(chat_json_doc_t *doc, chat_arena_t *arena,
                                   chat_request_t *rq);
chat_rc_e chat_openai_chat_splice(chat_json_doc_t      *doc,
                                  const chat_request_t *rq,
                                  const chat_result_t *results, size_t n,
                                  chat_edits_t *edits);
void     *chat_openai_chat_open(chat_arena_t *arena, const chat_request_t *rq);
int       chat_openai_chat_boring(void *data, const chat_frame_t *frame);
int       chat_openai_chat_idle(const chat_frame_t *frame);
chat_rc_e chat_openai_chat_read(void *data, chat_arena_t *arena,
                                const chat_frame_t *frame,
                                chat_json_doc_t *doc, chat_events_t *events);
chat_edit_rc_e chat_openai_chat_edit(chat_json_doc_t     *doc,
                                     const chat_events_t *events,
                                     const chat_slots_t  *slots,
                                     chat_edits_t        *edits);

/*
 * The kind of a tool call by its type: only what is known to be answered by a
 * tool message is the client's.
 */
chat_kind_e chat_openai_chat_kind(chat_json_doc_t   *doc,
                                  const chat_json_t *call);

/* The object in a tool call that has its name and arguments. */
const chat_json_t *chat_openai_chat_function(chat_json_doc_t   *doc,
                                             const chat_json_t *call);

/* The arguments in it as text; empty if there are none. */
chat_str_t chat_openai_chat_arguments(chat_json_doc_t   *doc,
                                      const chat_json_t *function);

/*
 * The number of a choice of a chunk, 0 where it has none; -1: it is skipped,
 * by the reader and by the editor alike.
 */
int32_t chat_openai_chat_choice(chat_json_doc_t   *doc,
                                const chat_json_t *choice);

/* 1 if an entry of tool_calls is a call to both, 0: it is skipped. */
int chat_openai_chat_entry(chat_json_doc_t *doc, const chat_json_t *entry);

#endif /* CHAT_DIALECT_OPENAI_CHAT_H */
