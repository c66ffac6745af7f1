/*
 * chat_dialect_ag_ui.h: what the files of the AG-UI dialect share.
 *
 * chat_dialect_ag_ui.c reads and completes requests, writes what the module
 * says itself, and has the row; _stream.c reads streams.
 */

#ifndef CHAT_DIALECT_AG_UI_H
#define CHAT_DIALECT_AG_UI_H

#include "dialect/chat_dialect.h"

typedef struct chat_ag_ui_live_s chat_ag_ui_live_t;

/* A call of the stream. */
struct chat_ag_ui_live_s {
    chat_stream_call_t  call;
    chat_table_entry_t *lane; /* in which it is written in chunks, or NULL */
    chat_ag_ui_live_t  *next; /* of those that are */
    chat_ag_ui_live_t  *prev;
    int                 answered; /* its result has come */
};

typedef struct {
    chat_reader_t      reader;
    chat_table_t       lanes;    /* of the parent and of each subagent;
                                        item: the call written in chunks */
    chat_table_t       parents;  /* messages; number: their newest call's
                                        place, from 1 on */
    chat_ag_ui_live_t *chunked;  /* calls written in chunks, newest first */
    uint32_t           first;    /* place of the present step */
    chat_str_t         run;      /* runId */
    int                answered; /* a result came in this step */
} chat_ag_ui_reader_t;


/* A member of chat_dialect_ag_ui; chat_dialect.h says what it promises. */
chat_rc_e chat_ag_ui_read(void *reader, const chat_frame_t *frame);


/* The side that answers calls of this tool; rq may be NULL. */
chat_kind_e chat_ag_ui_kind(const chat_request_t *rq, chat_str_t name);

/* ASIDE: reasoning, activity, developer and others, between messages. */
chat_role_e chat_ag_ui_role(chat_json_doc_t *doc, const chat_json_t *message,
                            const chat_json_t **calls, const chat_json_t **id);

/* What a tool message says: its error, or else its content; or NULL. */
const chat_json_t *chat_ag_ui_tool_said(chat_json_doc_t   *doc,
                                        const chat_json_t *message,
                                        chat_outcome_e    *outcome);

#define CHAT_AG_UI_NO_CONTENT "\"\"" /* what an absent content counts as */

#endif /* CHAT_DIALECT_AG_UI_H */
