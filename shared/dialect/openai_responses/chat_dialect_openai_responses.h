/*
 * chat_dialect_openai_responses.h: what only the files of this dialect
 * include: the types of items, and how a call item is read, in a
 * stream and in a body alike, so that both give the same fingerprint.
 *
 * Promises: a type that is not known is nothing, never a call to wait for.
 */

#ifndef CHAT_DIALECT_OPENAI_RESPONSES_H
#define CHAT_DIALECT_OPENAI_RESPONSES_H

#include "dialect/chat_dialect.h"

/*
 * What a bare value, as a service gives it, becomes in an answering item: the
 * members behind the id. %v is the value as text, NULL: it cannot be said.
 */
typedef struct {
    chat_json_type_e raw;   /* a value of this type goes in as it is, */
    const char      *value; /* in this form */
    const char      *text;  /* any other value */
    const char      *error;
    const char      *unknown; /* there is no result: what was asked for may
                                 still go on; NULL: as an error */
    int              wraps;   /* an error is {"error": value} */
} chat_responses_form_t;

/* A type of call, and the item that answers it. */
typedef struct {
    chat_str_t  call;    /* type of the call item */
    const char *args;    /* its member with the arguments */
    const char *core;    /* that one's member that clients bring
                                      back as it was; NULL: all of it */
    chat_str_t  answer;  /* type of the answering item, or empty */
    const char *key;     /* that item's member that names the call;
                                      a call_id goes before it */
    const char *says[2]; /* that item's members that are the result; of
                                      an approval none */
    chat_kind_e kind;
    const chat_responses_form_t *form; /* NULL: it takes no value */
} chat_responses_type_t;

/* A call item as it stands. */
typedef struct {
    const chat_responses_type_t *type;
    chat_kind_e                  kind;
    chat_str_t                   id;      /* of the call, or empty */
    chat_str_t                   item;    /* of the item, or empty */
    chat_str_t                   name;    /* of the tool, or the item's type */
    int                          cut_off; /* its arguments broke off */
} chat_responses_call_t;

/* 1 and *call if the item is a call of any kind. */
int chat_responses_call(chat_json_doc_t *doc, const chat_json_t *item,
                        chat_responses_call_t *call);

/* The call's arguments, or a string with them; NULL: there are none. */
const chat_json_t *chat_responses_args(chat_json_doc_t             *doc,
                                       const chat_json_t           *item,
                                       const chat_responses_type_t *type);

/* An output item that is a call. */
typedef struct {
    chat_stream_call_t call;
    chat_str_t         item;    /* id of the item */
    unsigned           cut : 1; /* its arguments broke off */
} chat_responses_live_t;

typedef struct {
    chat_reader_t reader;
    uint32_t      base;       /* place of output_index 0 */
    unsigned      opened : 1; /* TURN_OPEN was given */
    unsigned      lost : 1;   /* a call past a bound */
} chat_responses_reader_t;

/* chat_dialect_openai_responses_stream.c */
chat_rc_e chat_responses_read(void *reader, const chat_frame_t *frame);

#endif /* CHAT_DIALECT_OPENAI_RESPONSES_H */
