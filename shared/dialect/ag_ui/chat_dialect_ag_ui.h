/*
 * chat_dialect_ag_ui.h: what the files of the AG-UI dialect share.
 *
 * chat_dialect_ag_ui.c reads and completes requests, writes what the module
 * says itself, and has the table; _stream.c reads frames, _calls.c and
 * _snapshot.c what they say of calls.
 */

#ifndef CHAT_DIALECT_AG_UI_H
#define CHAT_DIALECT_AG_UI_H

#include "dialect/chat_dialect.h"

/* Members of chat_dialect_ag_ui; chat_dialect.h says what they promise. */
void     *chat_ag_ui_open(chat_arena_t *arena, const chat_request_t *rq);
chat_rc_e chat_ag_ui_read(void *reader, const chat_frame_t *frame);


/* What of a body only this dialect asks for: chat_request_t's own. */
typedef struct {
    chat_str_t  run;    /* runId */
    chat_str_t *tools;  /* names of the client's tools, sorted */
    size_t      ntools; /* 0: the body does not say */
} chat_ag_ui_own_t;

/* The side that answers calls of this tool; own may be NULL. */
chat_kind_e chat_ag_ui_kind(const chat_ag_ui_own_t *own, chat_str_t name);


/* ASIDE: reasoning, activity, developer and others, between messages. */
chat_role_e chat_ag_ui_role(chat_json_doc_t *doc, const chat_json_t *message);


/* The name, the arguments as text and the result of a call in a body. */
chat_str_t chat_ag_ui_call_name(chat_json_doc_t *doc, const chat_json_t *call);
chat_str_t chat_ag_ui_call_args(chat_json_doc_t *doc, const chat_json_t *call);

/* What a tool message says: outcome, and digest of content and error. */
chat_rc_e chat_ag_ui_tool_result(chat_json_doc_t   *doc,
                                 const chat_json_t *message,
                                 chat_outcome_e    *outcome,
                                 chat_digest_t     *digest);


#define CHAT_AG_UI_INTERRUPTS_MAX 4096
#define CHAT_AG_UI_INTERRUPT 0x80000000u /* places of interrupts, from here */

typedef struct chat_ag_ui_live_s chat_ag_ui_live_t;

/* A call of the stream. */
struct chat_ag_ui_live_s {
    chat_stream_call_t  call;
    chat_table_entry_t *lane; /* in which it is written in chunks, or NULL */
    chat_ag_ui_live_t  *next; /* of those that are */
    chat_ag_ui_live_t  *prev;
    unsigned            had : 1;      /* the request has a call of this id */
    unsigned            answered : 1; /* its result has come */
};

typedef struct {
    chat_reader_t           reader;
    const chat_ag_ui_own_t *own;     /* of the request, or NULL */
    chat_table_t            lanes;   /* of the parent and of each subagent;
                                        item: the call written in chunks */
    chat_table_t            parents; /* messages; number: their newest call's
                                        place, from 1 on */
    chat_ag_ui_live_t *chunked;  /* calls written in chunks, newest first */
    uint32_t           first;    /* place of the present step */
    chat_str_t         run;      /* runId */
    int                answered; /* a result came in this step */
} chat_ag_ui_reader_t;

/* How a type of frame is read; each adds its events. */
void chat_ag_ui_call_start(chat_ag_ui_reader_t *r);
void chat_ag_ui_call_more(chat_ag_ui_reader_t *r);
void chat_ag_ui_call_end(chat_ag_ui_reader_t *r);
void chat_ag_ui_call_chunk(chat_ag_ui_reader_t *r);
void chat_ag_ui_call_result(chat_ag_ui_reader_t *r);
void chat_ag_ui_snapshot(chat_ag_ui_reader_t *r);
void chat_ag_ui_interrupts(chat_ag_ui_reader_t *r);

/* Ends the chunked calls of a lane, and those of all lanes. */
void chat_ag_ui_close_lane(chat_ag_ui_reader_t *r, chat_str_t lane);
void chat_ag_ui_close_all(chat_ag_ui_reader_t *r);

/*
 * Opens a call of the message `parent`, or opens it again: CALL_OPEN, and
 * STEP_OPEN before it where a step begins. NULL: past a bound.
 */
chat_ag_ui_live_t *chat_ag_ui_call_open(chat_ag_ui_reader_t *r, chat_str_t id,
                                        chat_str_t name, chat_str_t parent,
                                        int implied);

#endif /* CHAT_DIALECT_AG_UI_H */
