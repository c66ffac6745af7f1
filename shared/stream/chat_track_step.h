/*
 * chat_track_step.h: one step of a stream, and what is written down of it.
 *
 * A step has up to two names: that of its first call, and that of the
 * response where a client can chain to it. They are known once the first call
 * has its id; what came before is then written in one go.
 * Promises: a step that was opened in the store ends with a seal or broken.
 * Must not know: where a step begins, what was dropped.
 */

#ifndef CHAT_TRACK_STEP_H
#define CHAT_TRACK_STEP_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "facts/chat_conversation.h"
#include "facts/chat_batch.h"
#include "model/chat_event.h"
#include "stream/chat_outbox.h"
#include "stream/chat_stream.h"

enum {
    CHAT_NAME_CALL,
    CHAT_NAME_CHAIN,
    CHAT_NAMES = CHAT_NAMES_MAX
};

/* A call of the step. */
typedef struct {
    chat_str_t    id;
    uint32_t      slot;
    uint32_t      position;
    chat_kind_e   kind;
    chat_digest_t fingerprint; /* all zero: not known */
    unsigned      named : 1;   /* its opening gave its tool's name */
    unsigned      ready : 1;
    unsigned      settled : 1;
} chat_tracked_t;

typedef struct {
    const chat_stream_conf_t *conf;
    chat_outbox_t            *outbox;
    chat_arena_t             *arena; /* emptied with each step */
    chat_tracked_t           *calls;
    size_t                    ncalls;
    size_t                    size;
    size_t                    members;
    chat_str_t                turn;    /* id of the response */
    chat_str_t                chain;   /* what names it, and nothing else does;
                                          empty: turn may */
    uint32_t                  ordinal; /* among the stream's steps */
    chat_key_t                keys[CHAT_NAMES];
    int                       has_key[CHAT_NAMES];
    unsigned                  named : 1;     /* keys are known */
    unsigned                  opened : 1;    /* open was written */
    unsigned                  sealed : 1;    /* no more calls are of it */
    unsigned                  untracked : 1; /* past a bound */
} chat_track_step_t;

/* The next step; the one before it is over. */
void chat_track_step_begin(chat_track_step_t *step, chat_str_t turn,
                           uint32_t ordinal);

/* The step just begun is known by this alone; empty: as others are. */
void chat_track_step_chain(chat_track_step_t *step, chat_str_t chain);

/* A new call. */
void chat_track_step_open(chat_track_step_t *step, const chat_event_t *event);

/* The call's arguments are complete. */
void chat_track_step_ready(chat_track_step_t *step, chat_tracked_t *call,
                           const chat_event_t *event);

/* The client is asked to approve the call. */
void chat_track_step_ask(chat_track_step_t *step, chat_tracked_t *call);

/* The call has its result. */
void chat_track_step_result(chat_track_step_t *step, chat_tracked_t *call,
                            const chat_event_t *event);

/* No more calls can come. */
void chat_track_step_seal(chat_track_step_t *step);

/* The stream went on or ended without a seal. */
void chat_track_step_break(chat_track_step_t *step);

/* The newest call of the slot that is not ready, or NULL. */
chat_tracked_t *chat_track_step_slot(const chat_track_step_t *step,
                                     uint32_t                 slot);

/* The newest call with this id, or NULL. */
chat_tracked_t *chat_track_step_call(const chat_track_step_t *step,
                                     chat_str_t               id);

/* Writes a result down under the batch that list is of. */
void chat_track_put_result(chat_outbox_t *outbox, chat_facts_t *list,
                           const chat_event_t  *event,
                           const chat_digest_t *fingerprint);

#endif /* CHAT_TRACK_STEP_H */
