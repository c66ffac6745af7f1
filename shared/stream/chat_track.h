/*
 * chat_track.h: follows a stream for what the store is to know of it.
 *
 * It is told the events of a stream in their order, each with its final
 * verdict, and makes facts of them: each step's members and its seal, and the
 * results that came with the stream.
 * Promises: a call that was dropped leaves no trace; memory is bounded by the
 * calls of one step and by what the owner has not taken.
 * Must not know: bytes, stores, time.
 */

#ifndef CHAT_TRACK_H
#define CHAT_TRACK_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "model/chat_event.h"
#include "stream/chat_outbox.h"
#include "stream/chat_stream.h"
#include "bytes/chat_table.h"
#include "stream/chat_track_step.h"

typedef struct {
    const chat_stream_conf_t *conf;
    chat_stream_info_t       *info;
    chat_arena_t             *arena; /* lives as the stream */
    chat_outbox_t             outbox;
    chat_track_step_t         step;
    uint32_t                  steps;   /* STEP_OPEN so far */
    chat_table_t              earlier; /* number: the request's last call of
                                          this id, from 1 on */
    int                       turn_open;
} chat_track_t;

/*
 * All three must outlive the track; info's id, end, reason, calls and settled
 * are kept by it. After CHAT_ERROR it may only be freed.
 */
chat_rc_e chat_track_init(chat_track_t *track, const chat_stream_conf_t *conf,
                          chat_stream_info_t *info, chat_arena_t *arena);
void      chat_track_free(chat_track_t *track);

/* The next event; event->verdict is FORWARD or DROP. */
void chat_track_event(chat_track_t *track, const chat_event_t *event);

/* The stream is over. */
void chat_track_end(chat_track_t *track);

#endif /* CHAT_TRACK_H */
