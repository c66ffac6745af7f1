/*
 * chat_replay.h: the replay filter's verdict on each event.
 *
 * It knows the calls that the client already has, sees the events of one
 * stream in order, and says of each call: forward, drop, or wait until its
 * arguments are complete. A call with the id, name and arguments of a known
 * one is a replay. The verdict on an opening, once it is not WAIT,
 * never changes. In doubt an event is forwarded.
 */

#ifndef CHAT_REPLAY_H
#define CHAT_REPLAY_H

#include "bytes/chat_str.h"
#include "dialect/chat_calls.h"
#include "model/chat_event.h"

typedef struct {
    uint32_t opened;  /* calls opened in this stream */
    uint32_t replays; /* calls dropped, and doubled openings */
    uint32_t reused;  /* known ids that were new calls */
    uint32_t results; /* results, denials and approval requests dropped */
} chat_replay_count_t;

typedef struct {
    chat_calls_t       *calls;       /* of the stream */
    int                 on;          /* 0: nothing is a replay */
    int                 strong_only; /* the model may use a weak id again: only
                                        a call with a strong one (see
                                        chat_id_is_strong()) is a replay */
    uint32_t            step;  /* of the stream; 0: continues the client's */
    int                 fresh; /* no event since the last STEP_RESET */
    chat_replay_count_t count;
} chat_replay_t;

/*
 * Sets verdict and opening of the next event of the stream. WAIT, which only
 * OPEN, ARGS and READY may get, becomes the verdict of the opening. Without
 * memory calls->failed is set.
 */
void chat_replay_judge(chat_replay_t *replay, chat_event_t *event);

/*
 * Decides all that waits: forward (the quarantine is full) or drop (the
 * stream is over).
 */
void chat_replay_decide(chat_replay_t *replay, chat_replay_verdict_e verdict);

#endif /* CHAT_REPLAY_H */
